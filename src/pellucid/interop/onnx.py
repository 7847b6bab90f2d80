"""A folder in optimum's layout that onnxruntime runs, and transformers.js in a browser or node: any option of ours.

The graphs hold the model, whatever it is; the Marian or the BERT of config.json only says how they are to be called.
"""

from pathlib import Path
from typing import Any

from pellucid.config import RunConfig
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.files import write_json, write_text
from pellucid.interop import holding
from pellucid.interop.card import model_card
from pellucid.interop.folder import Written, new_folder, sizes
from pellucid.interop.huggingface import classifier_json, config_json, generation_config, positions_of
from pellucid.interop.tokenizer_json import tokenizer_config, tokenizer_json
from pellucid.runs.run import Run, load

TARGET = "--to onnx"
FOLDER = "onnx"  # of the graphs, where transformers.js looks for them
_USE = '''```js
import { pipeline } from "@huggingface/transformers";

const pipe = await pipeline("TASK", "this folder", { dtype: "fp32" });
console.log(await pipe(text));
```'''
_USE_OF_IDS = "`onnx/` holds the graphs. They take ids, the places of the pieces in the vocabularies beside them."
_NAMED = ("spacy", "imported")  # kinds of tokenizers that have no tokenizer.json of our ids


def export(folder: Path, out: Path) -> Written:
    """Writes the run in `folder` to `out`, whole or not at all.

    Raises:
        ConfigError: a part of one's own; there is something at `out`; onnx is not installed.
        CheckpointError: no run, or a file of it that is damaged.
        OutputError: disk full, no permission.
    """
    from pellucid.interop import onnx_model

    run = load(folder)
    check(run.config)
    model: Any = run.model.cpu()
    config, rows, is_classifier = run.config, positions_of(run.config), run.config.task == "classification"
    notes = notes_of(config, run.tokenizers, rows)
    with new_folder(out) as place:
        (place / FOLDER).mkdir()
        if is_classifier:
            onnx_model.classifier(model, config.model, rows).write(place / FOLDER / "model.onnx")
            write_json(place / "config.json", classifier_json(run, len(model.source_embedding.weight), rows))
        else:
            onnx_model.encoder(model, config.model, rows).write(place / FOLDER / "encoder_model.onnx")
            onnx_model.decoder(model, config.model, rows).write(place / FOLDER / "decoder_model_merged.onnx")
            write_json(place / "config.json", config_json("marian", model, config, rows))
            write_json(place / "generation_config.json", generation_config(config) | _forced(run.tokenizers))
        _write_tokenizer(run, place)
        write_text(place / "README.md", model_card(run, folder, "graphs of ONNX", notes, _use(run)))
        files = sizes(place)
    return Written("ONNX float32", files, notes)


def check(config: RunConfig) -> None:
    """Refuses what the graphs cannot be made of; errors as in `export`."""
    holding.refuse_passages(config, TARGET)
    if config.task not in ("seq2seq", "classification"):
        raise holding.refusal(TARGET, f"task {config.task} is not known there", "the graphs translate or classify")
    found = holding.misfits(config.model, holding.ONNX)
    if found:
        raise holding.refusal(TARGET, f"no graph is known for {', '.join(found)}", "it is a part of your own")


def notes_of(config: RunConfig, tokenizers: Tokenizers, rows: int) -> tuple[str, ...]:
    """What is otherwise there than here, a sentence each."""
    notes = []
    if config.model.position in ("sinusoidal", "rotary", "transformer_xl", "learned"):
        notes.append(f"positions are a table of {rows}: nothing longer goes through the graphs")
    if config.task == "seq2seq":
        notes.append("transformers.js searches greedily or samples, whatever num_beams says")
    if tokenizers.target.forced:
        ids = ", ".join(map(str, tokenizers.target.forced))
        notes.append(f"every output begins with the ids {ids}, which is for the caller to see to")
    if not _has_tokenizer_json(config, tokenizers):
        notes.append("there is no tokenizer.json: the graphs take ids of the vocabularies beside them")
    elif config.tokenizer.lowercase:
        notes.append("a capital sigma at the end of a word becomes σ in lower case, not ς")
    return (*notes, *holding.undivided(config.decode))


def _forced(tokenizers: Tokenizers) -> dict[str, int]:
    """What outputs begin with: a token of their language."""
    return {"forced_bos_token_id": tokenizers.target.forced[0]} if tokenizers.target.forced else {}


def _has_tokenizer_json(config: RunConfig, tokenizers: Tokenizers) -> bool:
    return config.tokenizer.kind not in _NAMED and (tokenizers.shared or config.task == "classification")


def _write_tokenizer(run: Run, place: Path) -> None:
    """tokenizer.json; or, where there can be none, the pieces of each side in the order of their ids."""
    is_classifier = run.config.task == "classification"
    if _has_tokenizer_json(run.config, run.tokenizers):
        write_json(place / "tokenizer.json", tokenizer_json(run.tokenizers, is_classifier))
        write_json(place / "tokenizer_config.json", tokenizer_config(run.config.model.max_length))
        return
    for side, tokenizer in (("source", run.tokenizers.source), ("target", run.tokenizers.target)):
        if side == "source" or not is_classifier:
            write_json(place / f"{side}_vocabulary.json", tokenizer.pieces(range(tokenizer.size)))


def _use(run: Run) -> str:
    """How the folder is opened."""
    if not _has_tokenizer_json(run.config, run.tokenizers):
        return _USE_OF_IDS
    return _USE.replace("TASK", "text-classification" if run.config.task == "classification" else "translation")
