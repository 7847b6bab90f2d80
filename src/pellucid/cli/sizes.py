"""Sizes and rates, as people write and read them."""

import re

from pellucid.errors import ConfigError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def read_bytes(text: str) -> int:
    """8GiB → 8 · 2³⁰; 600MB → 600 · 10⁶.

    Raises:
        ConfigError: it is no size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text.lower())
    size = round(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
    if size < 1:
        raise ConfigError(f"{text!r} is no size of a memory", where="--memory", fix="write 8GiB, or 600MB")
    return size


def read_rate(text: str) -> float:
    """40GB/s → 40 · 10⁹ bytes a second; 100Gbit/s, 100Gb/s or 100Gbps → 12.5 · 10⁹.

    Raises:
        ConfigError: it is no rate.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]i?)?(B|b|bit)(?:/s|ps)\s*", text)
    rate = float(match[1]) * _UNITS[(match[2] or "").lower()] / (1 if match[3] == "B" else 8) if match else 0.0
    if rate <= 0:
        raise ConfigError(f"{text!r} is no rate of a network", where="--network", fix="write 40GB/s, or 100Gbit/s")
    return rate


def in_words(size: float) -> str:
    """Of memory: 1610612736 → "1.50 GiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if round(size) < 1000:  # of which three digits are no power of ten
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def on_disk(size: float) -> str:
    """Of files: 1536000 → "1.5 MB"."""
    for unit in ("bytes", "KB", "MB"):
        if round(size) < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
