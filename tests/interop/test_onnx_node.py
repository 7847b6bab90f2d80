"""transformers.js opens what is exported and says the same, in node, from files alone.

It is found where node looks for packages from the root of this project, or below PELLUCID_NODE_MODULES; where it is not
installed (npm install @huggingface/transformers), this is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.conftest import sentences

import pellucid

pytest.importorskip("onnx")
from pellucid.interop.onnx import export

ROOT = Path(__file__).resolve().parents[2]
MODULES = Path(os.environ.get("PELLUCID_NODE_MODULES", ROOT / "node_modules"))
MODULE = MODULES / "@huggingface" / "transformers" / "dist" / "transformers.node.mjs"
SCRIPT = Path(__file__).with_name("onnx_generate.mjs")
pytestmark = [pytest.mark.skipif(shutil.which("node") is None, reason="there is no node"),
              pytest.mark.skipif("PELLUCID_NODE_MODULES" not in os.environ and not MODULE.exists(),
                                 reason=f"there is no {MODULE}")]


def in_node(folder: Path, texts: list[str]) -> Any:
    """The answers of transformers.js."""
    done = subprocess.run(["node", SCRIPT, MODULE.as_uri(), folder], input=json.dumps(texts), text=True, timeout=300,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("keys", [
    {"residual": "post"}, {"position": "rotary", "norm": "rmsnorm", "feed_forward": "swiglu"},
    {"position": "alibi", "residual": "deepnorm", "d_key": 6}, {"attention": "window", "window": 3},
    {"tokenizer": {"algorithm": "unigram", "vocab_size": 60}}], ids=str)
def test_sentences_come_out_the_same(keys: dict[str, Any], random_run: Any) -> None:
    run, texts = random_run(**keys), sentences(50, 4)
    export(run, run.parent / "node")
    assert in_node(run.parent / "node", texts) == [
        one.text for one in pellucid.load(run).generate(texts, beam_size=1)]


def test_a_classifier_is_the_same(random_run: Any) -> None:
    run, texts = random_run("classification", position="alibi", pooling="max"), sentences(30, 4)
    export(run, run.parent / "node")
    found = torch.tensor(in_node(run.parent / "node", texts)).softmax(-1)
    for one, row in zip(pellucid.load(run).classify(texts), found, strict=True):
        torch.testing.assert_close(torch.tensor(list(one.probabilities.values())), row, rtol=0, atol=2e-6)
