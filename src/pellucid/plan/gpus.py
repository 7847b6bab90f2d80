"""What makers say of their GPUs: dense products a second, memory, and how fast both are read and joined."""

from typing import NamedTuple

from pellucid.errors import ConfigError


class GPU(NamedTuple):
    """One GPU, by its data sheet.

    Attributes:
        flops: of dense bf16 products, a second.  fp32_flops: of fp32 products.
        memory: bytes.  bandwidth: of it, bytes a second.
        link: bytes a second that it sends to the others of its host, one way: NVLink, or PCIe where there is none.
    """

    flops: float
    fp32_flops: float
    memory: int
    bandwidth: float
    link: float


GPUS = {
    "A100": GPU(312e12, 19.5e12, 80 * 10**9, 2.04e12, 300e9),
    "H100": GPU(989e12, 67e12, 80 * 10**9, 3.35e12, 450e9),
    "H200": GPU(989e12, 67e12, 141 * 10**9, 4.8e12, 450e9),
    "B200": GPU(2250e12, 75e12, 180 * 10**9, 7.7e12, 900e9),
    "L4": GPU(121e12, 30.3e12, 24 * 10**9, 0.3e12, 32e9),
    "L40S": GPU(362e12, 91.6e12, 48 * 10**9, 0.864e12, 32e9),
    "RTX4090": GPU(165e12, 82.6e12, 24 * 10**9, 1.008e12, 32e9),
}


def find_gpu(name: str) -> GPU:
    """The GPU of this name, however it is spelt.

    Raises:
        ConfigError: it is not known; with those that are.
    """
    if spelt(name) not in GPUS:
        raise ConfigError(f"no figures of a GPU {name!r}", where="--gpu", fix=f"one of {', '.join(GPUS)}")
    return GPUS[spelt(name)]


def spelt(name: str) -> str:
    """As the table spells it."""
    return "".join(letter for letter in name.upper() if letter.isalnum())
