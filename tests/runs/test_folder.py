"""What a run that has begun may still be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.config.mapping import from_mapping
from pellucid.errors import ConfigError
from pellucid.runs.folder import claim_config, has_begun, read_config, write_config


def test_a_run_that_has_begun_can_be_told_its_languages_and_no_other_data(tmp_path: Path) -> None:
    begun = {"train": "a.tsv"}
    write_config(from_mapping({"data": begun}), tmp_path)
    (tmp_path / "checkpoints" / "step-00000001").mkdir(parents=True)
    assert has_begun(tmp_path)
    told = from_mapping({"data": {**begun, "source_language": "en", "target_language": "fr"}})
    assert claim_config(told, tmp_path) is None
    assert read_config(tmp_path) == told
    with pytest.raises(ConfigError, match="another configuration"):
        claim_config(from_mapping({"data": {"train": "b.tsv"}}), tmp_path)
