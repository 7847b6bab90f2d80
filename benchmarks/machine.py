"""What a result was measured on."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pellucid.kernels.allocator import in_use

PACKAGES = ("torch", "numpy", "transformers", "x-transformers", "ctranslate2", "sentencepiece")


def describe() -> dict[str, Any]:
    """Machine, versions and date, for the head of a results file."""
    return {"machine": {"processor": _processor(), "cores": os.cpu_count(), "threads": torch.get_num_threads(),
                        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
                        "system": platform.system(), "allocator": in_use()},
            "versions": {"python": platform.python_version(), **_versions()},
            "date": datetime.date.today().isoformat()}


def write(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A results file."""
    path.write_text(json.dumps({**describe(), "rows": rows}, indent=1) + "\n", encoding="utf-8")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor()
    fields = dict(line.split(":", 1) for line in info.read_text().split("\n\n")[0].splitlines() if ":" in line)
    clean = {key.strip(): value.strip() for key, value in fields.items()}
    return f"{clean.get('model name', 'unknown')} (family {clean.get('cpu family')}, model {clean.get('model')})"


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
