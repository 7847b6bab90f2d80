"""Twins are counted once a group, and a group is divided where its texts are."""

from __future__ import annotations

from benchmarks.twins import count


def test_twins_by_hand() -> None:
    texts = ["Help me!", "help me !", "help me !", "HELP ME", "Go.", "go", "alone"]
    found = count(texts, 0.0)
    assert found == {"texts": 6, "forms": 3, "groups": 2, "divided": {1: 0, 2: 0}}
    many = [f"{mark}sentence {i}" for i in range(2000) for mark in ("", "!")]
    divided = count(many, 0.05)["divided"]
    assert divided[2] == 0
    assert 300 < divided[1] < 430  # 1 − 0.9² − 2 · 0.05² of 2,000 is 370
