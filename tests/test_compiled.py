"""Tests of kernels skip where there are none; so there must be some wherever they can be made."""

from __future__ import annotations

import shutil

import pytest
import torch

from pellucid.compiled import use_kernels


def test_where_there_is_a_compiler_the_kernels_compile() -> None:
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    try:
        assert use_kernels(torch.device("cpu")) == "compiled"
    finally:
        use_kernels(torch.device("cpu"), False)
