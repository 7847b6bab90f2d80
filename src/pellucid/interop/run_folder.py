"""A run folder of weights that were trained elsewhere: an ordinary run, but for what only training could tell."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from pellucid.config import RunConfig
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.files import write_json, write_text
from pellucid.interop.folder import new_folder
from pellucid.runs.checkpoint import write_checkpoint
from pellucid.runs.folder import ENDED, write_config, write_environment
from pellucid.runs.format import WEIGHTS

CHECKPOINT = "step-00000000"
ORIGIN = "imported.json"


def write_run(config: RunConfig, tokenizers: Tokenizers, weights: Mapping[str, Tensor], origin: dict[str, Any],
              out: Path, more: Callable[[Path], None] = lambda place: None) -> None:
    """Writes the folder whole, or not at all.

    Args:
        weights: every parameter of the model, by name.
        origin: what it was made of, for imported.json.  more: writes what else there is to keep into the folder.

    Raises:
        ConfigError: there is something at `out`.
        OutputError: disk full, no permission.
    """
    with new_folder(out) as place:
        write_config(config, place)
        write_environment(place, config, {})
        tokenizers.save(place / "tokenizer")
        write_checkpoint(place / "checkpoints" / CHECKPOINT, {WEIGHTS: weights}, {"step": 0})
        write_json(place / "best.json", {"checkpoint": CHECKPOINT, "step": 0})
        write_json(place / ENDED, {"ended": "imported", "why": f"its weights were trained as {origin['what']}",
                                   "step": 0})
        write_json(place / ORIGIN, origin)
        more(place)
        write_text(place / "README.md", _card(config, origin, out.name))


def _card(config: RunConfig, origin: dict[str, Any], name: str) -> str:
    verb = "classify" if config.task == "classification" else "generate"
    return f"""---
library_name: pellucid
---

# {name}

A Transformer for {config.task}, imported from `{origin["from"]}`: {origin["what"]}. Every weight is in `checkpoints/`,
every choice in `config.yaml`, and the digest of what was read in `{ORIGIN}`.

```
pellucid {verb} {name} < input.txt
pellucid train CONFIG --train.initialize_from {name} --out NEW
```
"""
