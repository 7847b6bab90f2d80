"""What this machine offers a run, and what it lacks: processor, threads, precision, compiler, disk."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from pellucid.config import RunConfig
from pellucid.doctor.busy import BUSY
from pellucid.doctor.finding import Finding
from pellucid.files import free_bytes
from pellucid.kernels.allocator import better, in_use
from pellucid.kernels.compiled import offer
from pellucid.kernels.levels import cores
from pellucid.precision import resolve
from pellucid.runs.folder import environment
from pellucid.train.dry_run import parameters_of

_FLAGS = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "AVX-512 BF16", "amx_bf16": "AMX BF16"}
_WHERE = "environment"
_VERY_BUSY = 0.4  # a share of the processors that others have


def look_around(config: RunConfig, out: Path, vocabulary: int,
                others: float | None) -> tuple[list[Finding], dict[str, Any]]:
    """What stands in the way of the run that `config` describes, and the facts.

    Args:
        out: where the run is, or will be, written.
        vocabulary: tokens of either side.
        others: the share of the processors that other processes have; None where nobody tells.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    facts = environment() | {
        "device": str(device), "features": processor_features(), "cores": cores(),
        "kernels": offer(device, config.train.kernels == "auto"),
        "allocator": "tcmalloc" if better() else in_use(),
        "precision": resolve(config.train.precision, device),
        "parameters": parameters_of(config, vocabulary, vocabulary, shared=config.tokenizer.shared),
        "free_disk_bytes": free_bytes(out), "others": others}
    return findings_from(facts, config), facts


def findings_from(facts: dict[str, Any], config: RunConfig) -> list[Finding]:
    """What the facts mean for the run."""
    found = []
    on_cpu, threads, cores = facts["device"] == "cpu", facts["threads"], facts["cores"]
    if on_cpu and config.train.kernels == "auto" and facts["kernels"] != "compiled":
        found.append(Finding("kernels", "warning", _WHERE, f"the C++ kernels are not used ({facts['kernels']})",
                             cost="training and decoding are slower; the results are the same",
                             do="install g++, or name a compiler in CXX"))
    if on_cpu and facts["precision"] == "fp32" and config.train.precision == "auto":
        found.append(Finding("precision", "note", _WHERE, "the processor multiplies bf16 no sooner: fp32 is used",
                             cost="matrix products take about twice as long as on one with AVX-512 BF16 or AMX",
                             do="nothing; or train on another machine"))
    if on_cpu and facts["precision"] == "bf16" and facts["allocator"] == "glibc":
        found.append(Finding("allocator", "note", _WHERE, "memory is found by glibc's allocator, which is slow at it",
                             cost="training of small models takes up to an eighth longer; the results are the same",
                             do="install tcmalloc (Debian, Ubuntu: libtcmalloc-minimal4; Fedora: gperftools-libs); "
                                "training begins with it by itself"))
    if on_cpu:
        found += _of_cores(threads, cores, facts["others"] or 0.0)
    checkpoint = facts["parameters"] * 12  # bytes: weights and two moments, fp32
    disk = checkpoint * (config.train.average_last + 2)
    if facts["free_disk_bytes"] < disk:
        found.append(Finding("disk", "broken", _WHERE,
                             f"{size(facts['free_disk_bytes'])} of disk are free, and checkpoints take {size(disk)}",
                             cost="the run stops when the disk is full", do="free some space, or give another --out"))
    return found


def _of_cores(threads: int, cores: int, others: float) -> Iterator[Finding]:
    """What is said of threads, and of other processes that have a share of the cores."""
    left = max(1, round(cores * (1 - others)))
    if others >= BUSY:
        yield Finding("busy", "warning" if others >= _VERY_BUSY else "note", _WHERE,
                      f"other processes take {100 * others:.0f} % of the cores ({cores * others:.1f} of {cores})",
                      cost=f"while they run, training and decoding take about {1 + others:.1f} times as long, and what "
                           "is timed now is the speed of a busy machine",
                      do=f"wait for them, or end them (`top` names them); OMP_NUM_THREADS={left} leaves them their "
                         "cores, and is the faster where threads share each operation (inspect, train.workers 1)")
    if threads > cores or (threads < cores and not (others >= BUSY and threads == left)):
        given = f" (OMP_NUM_THREADS is {os.environ['OMP_NUM_THREADS']})" if "OMP_NUM_THREADS" in os.environ else ""
        yield Finding("threads", "warning" if threads > cores else "note", _WHERE,
                      f"cores: {cores}, threads of torch: {threads}{given}",
                      cost="threads that wait for each other" if threads > cores else "cores stand idle",
                      do=f"set OMP_NUM_THREADS={cores}, or leave it unset")


def processor_features() -> list[str]:
    """Which of those that matter the processor has."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), [])
    return [name for flag, name in _FLAGS.items() if flag in flags]


def size(count: float) -> str:
    """1610612736 → "1.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
