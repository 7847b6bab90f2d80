"""What differs between two runs: configuration, data, environment, weights part by part, losses.

The distance of two parts with the weights a and b is ‖a − b‖ / √(‖a‖² + ‖b‖²): 0 of equal ones, 1 of such as are
orthogonal, which those of two unrelated trainings nearly are.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.config.mapping import differing
from pellucid.errors import CheckpointError
from pellucid.files import checked_sha256, read_json, sha256
from pellucid.runs.folder import read_config
from pellucid.runs.format import ENVIRONMENT, WEIGHTS
from pellucid.train.journal import read_metrics

_OF_DATA = ("sha256", "records", "kept", "empty", "too_long", "source_tokens", "target_tokens", "fields", "division")

Row = dict[str, Any]


def difference(a: Path, b: Path) -> dict[str, Any]:
    """Two runs beside each other, as plain data.

    Returns:
        {"a", "b", "same": whether nothing differs,
        "configuration", "data", "environment": [{"key", "a", "b"}] of what differs,
        "weights": {"a", "b": the checkpoints used, or None, "distance": of the whole, or None,
        "parts": [{"part", "parameters", "distance"}], "unlike": [{"tensor", "a", "b"}] (shapes, or None)},
        "curves": [{"key", "a", "b", "same"}]}.

    Raises:
        CheckpointError: no run folder, or something in it is damaged.
    """
    configs = [read_config(folder) for folder in (a, b)]
    rows = {"configuration": [{"key": key, "a": values[0], "b": values[1]} for key, values in differing(configs)],
            "data": _rows(_data(a), _data(b)), "environment": _rows(_environment(a), _environment(b))}
    weights, curves = _weights(a, b), _curves(a, b)
    is_same = (not any(rows.values()) and not weights["unlike"] and weights["distance"] in (0.0, None)
               and (weights["a"] is None) == (weights["b"] is None) and all(row["same"] for row in curves))
    return {"a": str(a), "b": str(b), "same": is_same, **rows, "weights": weights, "curves": curves}


def _rows(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Row]:
    """What differs of two flat mappings."""
    return [{"key": key, "a": a.get(key), "b": b.get(key)} for key in dict.fromkeys([*a, *b])
            if a.get(key) != b.get(key)]


def _mapping(path: Path) -> dict[str, Any]:
    """The object in a JSON file; nothing where there is no file yet."""
    found = read_json(path) if path.exists() else {}
    if not isinstance(found, dict):
        raise CheckpointError(f"{path.name} is damaged", where=str(path))
    return found


def _data(folder: Path) -> dict[str, Any]:
    """What was read, split by split, and the files of the tokenizers; not where they lie."""
    told = {f"{split}.{key}": value[key] for split, value in _mapping(folder / "data.json").items()
            if isinstance(value, dict) for key in _OF_DATA if key in value}
    files = sorted((folder / "tokenizer").rglob("*")) if (folder / "tokenizer").is_dir() else []
    return told | {str(path.relative_to(folder)): sha256(path) for path in files if path.is_file()}


def _environment(folder: Path) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in _mapping(folder / ENVIRONMENT).items():
        flat |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _checkpoint(folder: Path) -> Path | None:
    """The checkpoint that is used; None where nothing is trained yet."""
    name = _mapping(folder / "best.json").get("checkpoint")
    if name is not None and Path(str(name)).name != name:
        raise CheckpointError("best.json is damaged", where=str(folder / "best.json"))
    return None if name is None else folder / "checkpoints" / str(name)


def _weights(a: Path, b: Path) -> dict[str, Any]:
    """Part by part, a module each; of what both have in one shape."""
    from pellucid.runs.tensors import read_tensors

    places = _checkpoint(a), _checkpoint(b)
    told: dict[str, Any] = {"a": places[0] and places[0].name, "b": places[1] and places[1].name, "distance": None,
                            "parts": [], "unlike": []}
    if places[0] is None or places[1] is None:
        return told
    for place in (places[0], places[1]):
        checked_sha256(place, WEIGHTS)
    of_a, of_b = read_tensors(places[0] / WEIGHTS), read_tensors(places[1] / WEIGHTS)
    parts: dict[str, list[float]] = {}
    for name in dict.fromkeys([*of_a, *of_b]):
        shapes = [list(side[name].shape) if name in side else None for side in (of_a, of_b)]
        if shapes[0] != shapes[1]:
            told["unlike"].append({"tensor": name, "a": shapes[0], "b": shapes[1]})
            continue
        one, other = of_a[name].double(), of_b[name].double()
        sums = parts.setdefault(_part(name), [0.0, 0.0, 0.0])
        for i, value in enumerate((one.numel(), float(((one - other) ** 2).sum()), float((one**2 + other**2).sum()))):
            sums[i] += value
    told["parts"] = [{"part": part, "parameters": int(count), "distance": _distance(apart, size)}
                     for part, (count, apart, size) in parts.items()]
    if parts:
        told["distance"] = _distance(*(sum(sums[i] for sums in parts.values()) for i in (1, 2)))
    return told


def _part(tensor: str) -> str:
    """``encoder.layers.0.self_attention`` of ``encoder.layers.0.self_attention.key.weight``: a layer's sub-layer, or a
    module of the model."""
    words = tensor.split(".")
    return ".".join(words[:4] if "layers" in words[:2] else words[:1])


def _distance(apart: float, size: float) -> float:
    return math.sqrt(apart / size) if size else 0.0


def _curves(a: Path, b: Path) -> list[Row]:
    """The last and the best losses; with the update where they were met."""
    sides = [_losses(folder) for folder in (a, b)]
    return [{"key": key, "a": sides[0].get(key), "b": sides[1].get(key),
             "same": sides[0].get(key) == sides[1].get(key)} for key in dict.fromkeys([*sides[0], *sides[1]])]


def _losses(folder: Path) -> dict[str, dict[str, float]]:
    events = read_metrics(folder / "metrics.jsonl")
    found: dict[str, dict[str, float]] = {}
    for kind, name in (("validation", "validation loss"), ("train", "training loss")):
        losses = [(event["loss"], event["step"]) for event in events
                  if event["event"] == kind and isinstance(event.get("loss"), int | float)]
        if losses:
            found[f"{name}, best"] = dict(zip(("loss", "step"), min(losses), strict=True))
            found[f"{name}, last"] = dict(zip(("loss", "step"), losses[-1], strict=True))
    return found
