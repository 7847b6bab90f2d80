"""What the house tests share: a cache of their own, and trainings so small that every option can have one."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.config.mapping import from_mapping
from pellucid.config.reader import merge, nest
from pellucid.data.generated.grammar import splits
from pellucid.data.reading import Question, Reference
from pellucid.data.squad import squad_of

TINY: dict[str, Any] = {
    "data": {"generated": {"task": "copy", "train": 60, "validation": 10, "test": 10, "symbols": 6, "min_length": 3,
                           "max_length": 6}},
    "tokenizer": {"kind": "word"},
    "model": {"d_model": 16, "n_heads": 2, "d_ff": 24, "encoder_layers": 1, "decoder_layers": 1, "max_length": 32},
    "train": {"steps": 3, "batch_sentences": 20, "warmup_steps": 1, "validate_every": 3, "log_every": 1,
              "precision": "fp32"},
    "decode": {"beam_size": 2, "max_length": 8},
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
               new_cache: Callable[[Path], str]) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", new_cache(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def tiny() -> Callable[..., dict[str, Any]]:
    """A function: a tiny configuration, with dotted keys laid over it."""

    def make(over: dict[str, Any] | None = None) -> dict[str, Any]:
        mapping = TINY
        for key, value in (over or {}).items():
            mapping = merge(mapping, nest(key, value))
        return mapping

    return make


@pytest.fixture
def train_tiny(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """A function: trains a configuration by the path that the command line takes; gives the run folder."""
    from pellucid.train.journal import Reporter
    from pellucid.train.train import train

    def run(mapping: dict[str, Any]) -> Path:
        train(from_mapping(mapping), tmp_path / "run", Reporter(io.StringIO()))
        return tmp_path / "run"

    return run


SPLITS = ("train", "validation", "test")
CHARACTERS = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜"


def chinese(draw: random.Random, length: int) -> str:
    """Text of that many characters without a space, a mark after every seventh."""
    return "".join("，" if i % 8 == 7 else draw.choice(CHARACTERS) for i in range(length))


def lines_of(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.fixture
def stand_ins() -> Callable[[Path], None]:
    """A function: writes into a folder, under the paths that the recipes name, a few lines of the shape of the data
    that each of them wants; a folder named as a data set of the Hub stands for it."""

    def write(folder: Path) -> None:
        made = splits(train=200, validation=10, test=10, seed=1)
        draw = random.Random(1)
        for name in SPLITS:
            pairs = getattr(made, name)
            multi30k = folder / "data" / "multi30k" / (name if name != "test" else "test2016")
            for side, language in enumerate(("en", "de")):
                lines_of(multi30k.with_suffix(f".{language}"), [pair[side] for pair in pairs])
            lines_of(folder / f"data/tatoeba-en-fr/{name}.tsv", ["\t".join(pair) for pair in pairs])
            lines_of(folder / f"IWSLT/iwslt2017/data/{name}.jsonl",
                     [json.dumps({"translation": {"de": b, "en": a}}) for a, b in pairs])
            for task, labels in (("trec", ["abbreviation", "entity", "number"]), ("sst2", ["negative", "positive"])):
                rows = [f"{labels[len(a) % len(labels)]}\t{a}" for a, _ in pairs]
                lines_of(folder / f"data/{task}/{name}.tsv", ["label\ttext", *rows])
            lines_of(folder / f"data/tang-poems/{name}.jsonl.gz",
                     [json.dumps({"title": chinese(draw, 4), "text": f"{chinese(draw, 7)}。\n{chinese(draw, 7)}。",
                                  "author": "不詳"}, ensure_ascii=False) for _ in pairs])
        for name, count in (("cmrc2018_train", 60), ("drcd_dev", 20), ("cmrc2018_dev", 10)):
            asked = [(text, Question(str(i), chinese(draw, 5), (Reference(text[3:6], 3),)).as_json())
                     for i, text in enumerate(chinese(draw, 30) for _ in range(count))]
            lines_of(folder / f"data/reading/{name}.json.gz", squad_of(asked).splitlines())
        (folder / "data/trec/validation.tsv").unlink()
        files = "".join(f"  - {{split: {name}, path: data/{name}.jsonl}}\n" for name in SPLITS)
        lines_of(folder / "IWSLT/iwslt2017/README.md",
                 ["---", "configs:", f"- config_name: iwslt2017-en-de\n  data_files:\n{files}---"])
        lines_of(folder / "fjcanyue/wikipedia-zh-cn/wikipedia-zh-cn-20250901.json",
                 [json.dumps({"id": str(i), "title": f"{chinese(draw, 5)}{i}", "tags": "文化,历史",
                              "text": chinese(draw, 40)}, ensure_ascii=False) for i in range(150)])

    return write
