"""Tests of kernels skip where there are none; so there must be some wherever they can be made."""

from __future__ import annotations

import os
import shutil
import sys

import torch

from pellucid.kernels import calls
from pellucid.kernels.compiled import NAMES, Library, find_library, use_kernels


def test_where_there_is_a_compiler_the_kernels_compile() -> None:
    has_compiler = any(map(shutil.which, [os.environ.get("CXX", "g++"), "g++", "c++"]))
    try:
        assert (use_kernels(torch.device("cpu")) == "compiled") == (has_compiler and sys.platform == "linux")
    finally:
        use_kernels(torch.device("cpu"), False)


def test_the_library_is_the_same_wherever_it_is_asked_for() -> None:
    library = find_library()
    assert find_library() is library or isinstance(library, str)
    if isinstance(library, Library):
        assert set(library.functions) == set(NAMES)
        assert library.most_threads >= 1
    assert not calls.serve(torch.zeros(1))  # looking for it loads nothing
