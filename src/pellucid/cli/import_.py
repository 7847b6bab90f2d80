"""pellucid import DIR|hub:owner/name --out RUN"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional


@dataclass
class Import:
    """A run of a model that was trained elsewhere.

    Reads a folder as transformers writes it: Marian (OPUS-MT), BART, mBART, M2M100, NLLB, Blenderbot, T5, mT5 and
    UMT5, and classifiers of BERT, RoBERTa and DistilBERT. Only safetensors are opened, never a pickle, and no code is
    run because a file names it. The run translates, classifies, is looked into, scored and fine-tuned like any other.

    A model of the Hugging Face Hub is downloaded into the hub's cache where it is not there yet: no more than its
    configuration, tokenizer and safetensors. Interrupted and run again, it goes on.
    """

    folder: Positional[Path]
    """a folder with config.json, model.safetensors and a tokenizer; or hub:owner/name, with @revision if need be"""
    out: Path
    """the run folder to write, which must not be there yet"""
    languages: str | None = None
    """from which language into which, such as en-fr: of a model of many, one pair; those that it names if left out"""
    json: bool = False
    """print what was done as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Writes the run, and says what it was and what is otherwise here."""
    arguments = parse(Import, program, words)
    from pellucid.data.hub import is_address
    from pellucid.interop.folder import refuse_existing
    from pellucid.interop.hub import snapshot
    from pellucid.interop.importing import import_run

    refuse_existing(arguments.out)
    named = arguments.folder.as_posix()
    folder, origin = arguments.folder, None
    if is_address(named):
        folder = snapshot(named)
        origin = f"{named.partition('@')[0]}@{folder.name}"  # the commit, whatever it was asked for by
    done = import_run(folder, arguments.out, arguments.languages, origin)
    if arguments.json:
        print(json.dumps({"out": str(arguments.out), **asdict(done)}, ensure_ascii=False))
        return 0
    print(f"{arguments.out}: {done.what}, {done.parameters:,} parameters")
    for note in done.notes:
        print(f"note: {note}")
    return 0
