"""An .argosmodel, the package of argos-translate and LibreTranslate: a zip with a CTranslate2 model, and one model of
SentencePiece for both sides."""

import json
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

from pellucid.config import RunConfig
from pellucid.config.checks import refuse_readers
from pellucid.errors import ConfigError
from pellucid.files import writing
from pellucid.interop import ctranslate2, holding
from pellucid.interop.folder import Written, refuse_existing
from pellucid.interop.pieces import models
from pellucid.runs.folder import read_config
from pellucid.runs.run import load

TARGET = "--to argos"
_VERSION = "1.0"
_ARGOS = "1.9"  # the argos-translate that the package is for, or a later one


def export(folder: Path, out: Path) -> Written:
    """Writes the run in `folder` to the file `out`, whole or not at all.

    Raises:
        ConfigError: as --to ctranslate2; two tokenizers; languages that the run does not name; a file at `out`.
        CheckpointError: no run, or a file of it that is damaged.
        OutputError: disk full, no permission.
    """
    config = read_config(folder)
    refuse_readers(config, "export", str(folder))
    ctranslate2.check(config)
    if config.tokenizer.kind != "sentencepiece" or not config.tokenizer.shared:
        raise holding.refusal(TARGET, f"tokenizer.kind {config.tokenizer.kind}, tokenizer.shared "
                              f"{str(config.tokenizer.shared).lower()}",
                              "a package has one SentencePiece model for both sides")
    source, target = languages(config)
    if out.suffix != ".argosmodel":
        raise ConfigError("the file must end in .argosmodel", where=str(out), fix=f"--out {out}.argosmodel")
    refuse_existing(out)
    about = {"package_version": _VERSION, "argos_version": _ARGOS, "from_code": source, "from_name": source,
             "to_code": target, "to_name": target, "type": "translate", "made_by": f"pellucid {version('pellucid')}"}
    name = f"translate-{source}_{target}-{_VERSION.replace('.', '_')}"
    with tempfile.TemporaryDirectory() as temporary:
        model = Path(temporary) / "model"
        done = ctranslate2.export(folder, model)
        with writing(out) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr(f"{name}/metadata.json", json.dumps(about, ensure_ascii=False, indent=2))
            packed.writestr(f"{name}/sentencepiece.model", models(load(folder).tokenizers)[0])
            packed.write(model / "README.md", f"{name}/README.md")
            for path in sorted(model.iterdir()):
                if path.suffix in (".bin", ".json"):
                    packed.write(path, f"{name}/model/{path.name}")
            files = {entry.filename: entry.file_size for entry in packed.infolist()}
    return Written("an Argos package", files, (*done.notes, *notes_of(config)))


def languages(config: RunConfig) -> tuple[str, str]:
    """The codes of both languages.

    Raises:
        ConfigError: the run does not say.
    """
    source, target = config.data.source_language, config.data.target_language
    if source is None or target is None:
        raise ConfigError("the run does not say which languages it translates", where="data.source_language",
                          fix="set data.source_language and data.target_language in its config.yaml: en, fr")
    return source, target


def notes_of(config: RunConfig) -> tuple[str, ...]:
    """What is otherwise there than with CTranslate2 alone, a sentence each."""
    longest = config.model.max_length
    what = "fails on" if config.model.position == "learned" else "reads whole"
    return ("argos-translate divides a text into sentences, turns _ into a space and replaces unknown words",
            f"it {what} a sentence of more than {longest:,} tokens, which the run cuts")
