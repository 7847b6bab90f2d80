"""An imported run goes back to the class that it came from: the same files, and the same bytes of every tensor.

What came with the weights is kept in the run's folder `imported`: configuration, tokenizer, tensors that a model of
ours has no place for, and what rounding has taken where vectors are scaled, in units of the last place.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import write_json, write_text
from pellucid.interop import holding
from pellucid.interop.card import model_card
from pellucid.interop.folder import Written, new_folder, sizes
from pellucid.interop.incoming import to_ours, with_embedding
from pellucid.interop.languages import swapped
from pellucid.interop.outgoing import to_theirs, unplaced
from pellucid.interop.reading import Fields, read_config, read_mapping
from pellucid.interop.run_folder import CHECKPOINT
from pellucid.interop.searching import decode_of
from pellucid.interop.vocabulary import Rows, rows_with
from pellucid.runs.checkpoint import weights_of
from pellucid.runs.folder import chosen_checkpoint
from pellucid.runs.format import IMPORTED, WEIGHTS
from pellucid.runs.run import Run
from pellucid.runs.tensors import Lazily, tensors_in, write_tensors

Weights = Mapping[str, Tensor]
_WAY, _KEPT, _ROUNDING = "way.json", "kept.safetensors", "rounding.safetensors"
FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
         "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "source.spm", "target.spm", "spiece.model",
         "tokenizer.model", "sentencepiece.bpe.model")
_FREE = {"dropout", "attention_dropout", "feed_forward_dropout", "max_length"}  # their file has no weight of these
_SEARCH = ("beam_size", "length_penalty", "min_length", "max_length", "no_repeat_ngram", "sample", "temperature",
           "top_k", "top_p")
_SPOKEN = ("source_embedding.weight", "target_embedding.weight", "output.weight", "output_bias.bias")
_LEAST = -1e6  # a bias below it silences, however far below


def keep(folder: Path, place: Path, theirs: Weights, ours: Weights, way: dict[str, Any]) -> None:
    """Keeps in `place` what the way back from `ours` to `theirs`, read from `folder`, needs besides.

    Args:
        way: what `way_of` gave.
    """
    place.mkdir()
    for name in FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, place / name)
    config, rows = ModelConfig(**way["model"]), rows_with(way["size"], way["specials"])
    their = Fields(read_config(folder), folder / "config.json")
    kept = unplaced(their, theirs, ours, config, rows)
    made = to_theirs(their, ours, config, rows, kept, list(theirs))
    rounded = [name for name in theirs if not _is_same(theirs[name], made[name])]
    write_json(place / _WAY, way | {"tensors": list(theirs)})
    write_tensors(place / _KEPT, kept)
    write_tensors(place / _ROUNDING, Lazily(rounded, lambda name: _lost(theirs[name], made[name])))


def way_of(config: ModelConfig, rows: Rows, language: int | None) -> dict[str, Any]:
    """What the way back has to know, as JSON.

    Args:
        language: the row of ours whose vector has changed places with the end's in sources; None where none has.
    """
    return {"model": asdict(config), "size": 1 + max(row for row in rows.order if row is not None),
            "specials": list(rows.order[:4]), "language": language}


def export(run: Run, folder: Path, out: Path) -> Written:
    """Writes the imported run in `folder` to `out`, whole or not at all.

    Raises:
        ConfigError: it has learned what its class has no place for; there is something at `out`.
        CheckpointError: what the way back needs is missing or damaged.
    """
    origin = folder / IMPORTED
    about, their = read_mapping(origin / _WAY), Fields(read_config(origin), origin / "config.json")
    kept, rounding = tensors_in(origin / _KEPT)[0], {}
    if chosen_checkpoint(folder).name == CHECKPOINT:  # the weights that were imported, and no other ones
        rounding = dict(tensors_in(origin / _ROUNDING)[0])
    ours: Weights = weights_of(run.model.cpu())
    try:
        rows, model = _rows(about, len(ours["source_embedding.weight"])), run.config.model
        _check_model(model, ModelConfig(**about["model"]))
        theirs = to_theirs(their, ours, model, rows, kept, about["tensors"])
        again = to_ours(their, with_embedding(theirs, their.values["model_type"]), model, rows)
        _check(ours, swapped(again, about["language"]), rows)
        names, what = about["tensors"], their.architecture
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError("what the way back needs is damaged", where=str(origin), why=str(error)[:200]) from error
    notes = _notes(run, their)
    exact = Lazily(names, lambda name: _found(theirs[name], rounding[name]) if name in rounding else theirs[name])
    with new_folder(out) as place:
        for name in FILES:
            if (origin / name).is_file():
                shutil.copyfile(origin / name, place / name)
        write_json(place / "config.json", _in_single(their.values))
        write_tensors(place / WEIGHTS, exact)
        use = f"Its tokenizer is the one that it came with: `{folder.resolve().name}` was imported."
        write_text(place / "README.md", model_card(run, folder, f"`{what}` of transformers, which it was before", notes,
                                                   use))
        files = sizes(place)
    return Written(what, files, notes)


def _notes(run: Run, their: Fields) -> tuple[str, ...]:
    """Where a run that has learned more reads or searches otherwise than the files that go back say."""
    if run.config.task == "classification":
        return ()
    most, longest = their.number("max_position_embeddings", 1024), run.config.model.max_length
    is_longer = run.config.model.position == "sinusoidal" and longest > most  # no table of the run has an end
    bound = (f"texts have up to {most:,} tokens there, not the {longest:,} of model.max_length",)
    before, now = decode_of(their.search, run.config.model), run.config.decode
    changed = [f"decode.{key} {getattr(now, key)}" for key in _SEARCH if getattr(now, key) != getattr(before, key)]
    told = (f"outputs are searched for as before it was imported: {', '.join(changed)} of the run is not there",)
    return (*(told if changed else ()), *(bound if is_longer else ()), *holding.undivided(now))


def _rows(way: Mapping[str, Any], most: int) -> Rows:
    """As many as the run has at most: else a number could ask for any amount of memory."""
    if way["size"] > most:
        raise IndexError(f"{way['size']} rows are more than the {most} of the run")
    return rows_with(way["size"], way["specials"])


def _in_single(config: dict[str, Any]) -> dict[str, Any]:
    """Of weights in float32, whatever they were before."""
    return {key: "float32" if key in ("dtype", "torch_dtype") else value for key, value in config.items()}


def _check_model(config: ModelConfig, before: ModelConfig) -> None:
    """A run that began with an imported one may have other dropout, and no other model."""
    changed = [field.name for field in fields(config) if field.name not in _FREE
               and getattr(config, field.name) != getattr(before, field.name)]
    if changed:
        raise ConfigError(f"model.{changed[0]} is another one than that of the class it was imported from",
                          where="--to huggingface", fix="try another target: --to onnx and --to run hold every option")


def _check(ours: Weights, again: Weights, rows: Rows) -> None:
    """What is imported again is what the run has; rows that nothing of theirs stands for are never read or said."""
    real = torch.tensor([row is not None for row in rows.order])
    for name in ours:
        one, other = (tensor[real].clamp(min=_LEAST) if name in _SPOKEN else tensor
                      for tensor in (ours[name], again[name]))
        tolerance = 1e-6 * max(1.0, float(one.abs().max())) if one.numel() else 0.0
        if one.shape != other.shape or not torch.allclose(one, other, rtol=1e-5, atol=tolerance):
            raise ConfigError(f"{name} has learned what the class it was imported from has no place for",
                              where="--to huggingface", why="there it is the same as another one, or always 0",
                              fix="try another target: --to ctranslate2, --to onnx or --to run")


def _is_same(one: Tensor, other: Tensor) -> bool:
    """To the last bit."""
    return one.shape == other.shape and torch.equal(_bits(one), _bits(other))


def _lost(wanted: Tensor, found: Tensor) -> Tensor:
    """What makes `wanted` of `found`: units of the last place, as int8; itself where they are too many."""
    if wanted.shape == found.shape:
        units = _bits(wanted).long() - _bits(found).long()
        if int(units.abs().max()) < 128:
            return units.to(torch.int8)
    return wanted


def _found(found: Tensor, lost: Tensor) -> Tensor:
    """The way back of `_lost`."""
    if lost.dtype is torch.int8 and lost.shape != found.shape:
        raise CheckpointError("what the way back needs is damaged", where=f"{IMPORTED}/{_ROUNDING}")
    return (_bits(found) + lost).view(torch.float32) if lost.dtype is torch.int8 else lost


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(torch.int32)
