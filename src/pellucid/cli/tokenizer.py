"""pellucid tokenizer train|show"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pellucid.cli.arguments import parse, parse_with_overrides, read_config
from pellucid.cli.chinese import told
from pellucid.cli.fields import Positional
from pellucid.errors import ConfigError


@dataclass
class TrainTokenizer:
    """Train a tokenizer alone, from a configuration's data; use it in a run with --tokenizer.path DIR."""

    config: Positional[str]
    """a recipe's name or a YAML file; any key can be given as --section.key value"""
    out: Path
    """the folder to write"""


@dataclass
class ShowTokenizer:
    """How a tokenizer cuts text: each line of --text or standard input as pieces and ids, and back again."""

    folder: Positional[Path]
    """a tokenizer's folder, or a run's"""
    text: str | None = None
    """one line of text; standard input if left out"""
    target: bool = False
    """the target side's tokenizer"""
    json: bool = False
    """one JSON object a line: text, pieces, ids, decoded"""


def main(program: str, words: Sequence[str]) -> int:
    """Dispatches to the two."""
    if not words or words[0] not in ("train", "show"):
        if words and words[0] in ("--help", "-h"):
            print(told("usage: {}").format("pellucid tokenizer train CONFIG --out DIR\n"
                                           "       pellucid tokenizer show DIR|RUN [--text TEXT]"))
            return 0
        raise ConfigError("say `tokenizer train` or `tokenizer show`", where=program)
    return {"train": _train, "show": _show}[words[0]](f"{program} {words[0]}", words[1:])


def _train(program: str, words: Sequence[str]) -> int:
    arguments, overrides = parse_with_overrides(TrainTokenizer, program, words)
    config = read_config(arguments.config, overrides)
    from pellucid.data.reading import texts_of
    from pellucid.data.splits import open_splits
    from pellucid.data.tokenizers.build import train_tokenizers
    from pellucid.runs.folder import Counted, tokenizer_options
    from pellucid.train.journal import Reporter, telling_lines

    if arguments.out.exists():
        raise ConfigError("the folder exists", where=str(arguments.out), fix="give another --out")
    with tempfile.TemporaryDirectory() as folder:  # for generated data
        pairs = open_splits(config, Path(folder))["train"]
        with Reporter() as reporter:
            texts = Counted(pairs, partial(telling_lines, pairs.split, "tokenizer", reporter))
            tokenizers = train_tokenizers(tokenizer_options(config), texts_of(texts, config), config.task, reporter.say)
    tokenizers.save(arguments.out)
    print(f"{arguments.out}: {tokenizers.source.size:,} source and {tokenizers.target.size:,} target tokens"
          f"{', shared' if tokenizers.shared else ''}")
    return 0


def _show(program: str, words: Sequence[str]) -> int:
    arguments = parse(ShowTokenizer, program, words)
    from pellucid.cli.lines import blocks_of_lines, checked
    from pellucid.data.tokenizers.build import load_tokenizers

    inside = arguments.folder / "tokenizer"
    tokenizers = load_tokenizers(inside if inside.is_dir() else arguments.folder)
    tokenizer = tokenizers.target if arguments.target else tokenizers.source
    for block in blocks_of_lines(None) if arguments.text is None else [[checked(arguments.text, "--text")]]:
        for text in block:
            ids = tokenizer.encode(text)
            pieces, decoded = tokenizer.pieces(ids), tokenizer.decode(ids)
            if arguments.json:
                print(json.dumps({"text": text, "pieces": pieces, "ids": ids, "decoded": decoded}, ensure_ascii=False))
            else:
                print(f"pieces   {' '.join(pieces)}\nids      {' '.join(map(str, ids))}\ndecoded  {decoded}")
    return 0
