"""Compiles nn/kernels/ for this processor, once, and loads it; where that cannot be, the plain equations serve."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from pellucid.files import cache_folder
from pellucid.nn import kernels

# Sums may be reordered, so that they fill vectors; infinities and NaN keep their meaning.
_FLAGS = ["-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti", "-fno-math-errno",
          "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"]


def use_kernels(device: torch.device, wanted: bool = True) -> str:
    """Loads the kernels for work on the CPU, compiling them first if this machine has not yet (three seconds).

    Returns:
        "compiled", or "plain" and why: what the run notes in environment.json.
    """
    kernels.load(None)
    if not wanted:
        return "plain: as configured"
    if device.type != "cpu":
        return f"plain: the device is {device.type}"
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not sys.platform.startswith("linux") or compiler is None:
        return "plain: no C++ compiler" if compiler is None else f"plain: not tried on {sys.platform}"
    try:
        kernels.load(_library(compiler))
    except (OSError, subprocess.SubprocessError) as error:
        return f"plain: {str(error).strip().splitlines()[-1][:200]}"
    return "compiled"


def _library(compiler: str) -> Path:
    """The compiled file in the cache, named by all that it depends on; torch's own threads run it."""
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=60).stdout
    threads = sorted(map(str, (Path(torch.__file__).parent / "lib").glob("libgomp*")))
    code = [path.read_bytes() for path in (*kernels.SOURCES, *kernels.HEADERS)]
    parts = [*code, version, _processor(), *map(str.encode, (*_FLAGS, *threads))]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()
    path = cache_folder("kernels") / f"{key[:32]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            fresh = Path(folder) / "kernels.so"
            subprocess.run([compiler, *_FLAGS, *map(str, kernels.SOURCES), *threads, "-o", str(fresh)],
                           capture_output=True, check=True, timeout=300)
            fresh.replace(path)
    return path


def _processor() -> bytes:
    """The processor's abilities, as the system lists them."""
    lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    return next((line for line in lines if line.startswith((b"flags", b"Features"))), b"")
