"""One system in a process of its own: reads a workload, then trains for one repetition each time it is told to.

Speaks JSON lines on standard output: first what it is, then seconds, tokens and memory for each "run" it reads.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "65536")  # for everyone: no kernel is made twice

import torch

from benchmarks.processes import answers, peak_memory

PAD = 0
MOST = 3000  # updates to a loss
WORKERS = contextlib.ExitStack()  # of pellucid; they end with this process
Update = Callable[[int], float]
System = tuple[torch.nn.Module, Update, Update]  # the model, an update on a batch, the loss of a batch without one


def read(path: str) -> tuple[dict[str, Any], list[tuple[np.ndarray, np.ndarray]]]:
    """The model's sizes, and the padded ids of each update."""
    data = np.load(path)
    model = {key[6:]: data[key].item() for key in data.files if key.startswith("model.")}
    count = sum(key.startswith("source") for key in data.files)
    return model, [(data[f"source{i}"], data[f"target{i}"]) for i in range(count)]


def peer_updates(system: str, setting: str, model: dict[str, Any], batches: list[Any],
                 device: torch.device) -> System:
    """A peer's module, one update on the batch of a number, and the loss of one without dropout."""
    if system == "textbook":
        from benchmarks.textbook import Textbook

        module: torch.nn.Module = Textbook(model)
    else:
        from benchmarks.peers import build

        module = build(system, model)
    module.to(device).train()
    kind = torch.optim.Adam if system == "textbook" else torch.optim.AdamW
    optimizer = kind(module.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, fused=system != "textbook")
    if kind is torch.optim.AdamW:
        optimizer.param_groups[0]["weight_decay"] = 0.0
    tensors = []
    for source, target in batches:
        ids = torch.from_numpy(source).to(device), torch.from_numpy(target).to(device)
        padding = ids[0] == PAD
        tensors.append((*ids, padding if bool(padding.any()) else None))
    forward = torch.compile(module, dynamic=True) if "compile" in setting else module

    def update(number: int) -> float:
        with torch.autocast(device.type, torch.bfloat16, enabled="bf16" in setting):
            loss = forward(*tensors[number])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def evaluate(number: int) -> float:
        module.eval()
        with torch.no_grad():
            loss = module(*tensors[number]).item()
        module.train()
        return loss

    return module, update, evaluate


def our_updates(setting: str, model: dict[str, Any], batches: list[Any],
                device: torch.device) -> System:
    """pellucid's own training loop, one update at a time, at the defaults of `pellucid train`; its workers are there
    from here on."""
    from benchmarks.ours import learner_of
    from pellucid.train.objective import batch_loss
    from pellucid.train.update import at_work
    from pellucid.train.update import update as update_learner

    learner = learner_of(model, batches, device, setting)
    WORKERS.enter_context(at_work(learner))

    def update(number: int) -> float:
        learner.progress.step = number
        learner.progress.loss_sum, learner.progress.loss_tokens = 0.0, 0
        update_learner(learner)
        return learner.progress.loss_sum / learner.progress.loss_tokens

    def evaluate(number: int) -> float:
        learner.model.eval()
        batch = learner.batches[number].to(device)
        with torch.no_grad():
            loss = batch_loss(learner.model, batch, learner.config.train.label_smoothing).item() / batch.target_tokens
        learner.model.train()
        return loss

    return learner.model, update, evaluate


def peak_of(device: torch.device) -> int:
    """Bytes: of the device, or this process's peak resident set."""
    return torch.cuda.max_memory_allocated() if device.type == "cuda" else peak_memory()


def train_until(target: float, update: Update, evaluate: Update, batches: int) -> tuple[int, float]:
    """Updates until the loss of the last batch, which is not trained on, is at most `target`: updates and loss.

    Raises:
        SystemExit: it did not come to that in MOST updates, or is not a number any more.
    """
    done, loss = 0, float("inf")
    while not loss <= target:
        if done >= MOST or math.isnan(loss):
            raise SystemExit(f"the loss is {loss:.3f} after {done} updates, and not {target:g}")
        for _ in range(10):
            update(done % (batches - 1))
            done += 1
        loss = evaluate(batches - 1)
    return done, loss


def main() -> None:
    """`python -m benchmarks.worker SYSTEM SETTING WORKLOAD [LOSS]`: repetitions as they are asked for or, with a loss,
    one training from the first second of the process to that validation loss."""
    begun = time.perf_counter()
    system, setting, path = sys.argv[1:4]
    output = answers()
    torch.manual_seed(1)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    model, batches = read(path)
    make = our_updates if system == "pellucid" else lambda *a: peer_updates(system, *a)
    module, update, evaluate = make(setting, model, batches, device)
    parameters = sum(p.numel() for p in module.parameters() if p.requires_grad)  # fixed positions are not learned
    if len(sys.argv) > 4:
        updates, loss = train_until(float(sys.argv[4]), update, evaluate, len(batches))
        output.write(json.dumps({"seconds": time.perf_counter() - begun, "updates": updates, "loss": loss}) + "\n")
        return
    started = time.perf_counter()
    for number in range(1 if system == "textbook" else len(batches)):  # it knows one shape alone
        first_loss = update(number)
    warm_up = time.perf_counter() - started
    for number in range(0 if system == "textbook" else len(batches)):
        update(number)
    output.write(json.dumps({"parameters": parameters, "warm_up_seconds": warm_up, "device": str(device),
                              "torch": torch.__version__, "first_loss": first_loss}) + "\n")
    for _ in sys.stdin:
        if system != "textbook":
            update(0)  # memory that the system took back while others ran comes again, outside of the timer
        synchronize()
        started = time.perf_counter()
        losses = [update(number) for number in range(len(batches))]
        synchronize()
        output.write(json.dumps({"seconds": time.perf_counter() - started, "loss": float(np.mean(losses)),
                                  "peak_memory_bytes": peak_of(device)}) + "\n")


if __name__ == "__main__":
    main()
