"""Promise 08: a kept engine that was damaged or forged is refused, or decodes; it never ends the process.

    python tests/promises/08_kept_engine.py [--count 1000] [--seed 1]

Small engines in each precision are kept; each case damages a copy of one. A damaged copy has its old digests: it must
be refused, with a warning. A forged one has digests that fit what it says: it may be refused, or decode, and then into
tokens that there are. The cases run in processes of their own, so that one that crashes, hangs, or asks for more than
`MEMORY` is seen, named, and can be repeated: `--first N --count 1`.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import hashlib
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.engine.frozen import Refusal, read
from pellucid.engine.layout import Buffer, Operation
from pellucid.errors import PellucidWarning
from pellucid.kernels.compiled import find_library
from pellucid.search.options import SearchOptions, Specials

V, LONGEST = 40, 24
SPECIALS = Specials(bos=2, eos=3, pad=0)
SEARCHES = [SearchOptions(beam_size=1, max_length=9), SearchOptions(beam_size=3, n_best=2, max_length=9)]
SOURCES = [[5, 6, 7, 8, 3], [9, 3], [11, 4, 39, 3]]
PARTS: list[dict[str, Any]] = [
    {}, {"position": "learned", "residual": "post", "feed_forward": "swiglu"}, {"norm": "stdnorm", "residual": "none"},
    {"position": "rotary", "d_key": 18, "attention": "window", "window": 3}, {"position": "t5", "d_key": 48},
    {"position": "transformer_xl", "n_heads": 4}]
PRECISIONS = ("fp32", "bf16", "int8")
FILES = ("about.json", "encoder", "decoder", "weights")
SECONDS, MEMORY = 60, 16 * 2**30  # that a case may take
EXTREMES = [0, 1, -1, 2, 3, 15, 16, 63, 64, 65, 2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -2**31, -2**63]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e38, -1e38, 1e-45, math.inf, -math.inf, math.nan]
INTEGERS = [name for name, kind in Operation._fields_ if kind is ctypes.c_int64]


def keep_engines(folder: Path) -> None:
    """One of each precision and each of `PARTS`, kept in a folder named by its number."""
    import torch

    from pellucid.config import ModelConfig
    from pellucid.engine.engine import Engine
    from pellucid.engine.frozen import save
    from pellucid.kernels.compiled import use_kernels
    from pellucid.model.build import build

    use_kernels(torch.device("cpu"))
    torch.manual_seed(1)
    for number, (precision, parts) in enumerate((each, parts) for each in PRECISIONS for parts in PARTS):
        sizes = {"d_model": 64, "n_heads": 2, "d_ff": 96, "encoder_layers": 1, "decoder_layers": 2}
        config = ModelConfig(**{**sizes, "max_length": LONGEST, **parts})
        engine = Engine(build(config, V, V, shared=True).eval(), precision)
        save(engine.frozen(LONGEST, LONGEST), folder / str(number))


# ---- damage: the digests stay what they were ------------------------------------------------------------------------


def flip(folder: Path, draw: random.Random) -> str:
    file, bits = folder / draw.choice([*FILES, "manifest.json"]), draw.randint(1, 8)
    content = bytearray(file.read_bytes())
    for bit in draw.sample(range(8 * len(content)), bits):
        content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    return f"{bits} bits of {file.name} flipped"


def cut(folder: Path, draw: random.Random) -> str:
    file = folder / draw.choice([*FILES, "manifest.json"])
    content = file.read_bytes()
    rest = draw.choice([0, 1, len(content) - 2, draw.randrange(len(content) - 1)])  # the last byte may be a newline
    file.write_bytes(content[:rest])
    return f"{file.name} cut to {rest} bytes"


def lengthen(folder: Path, draw: random.Random) -> str:
    file, more = folder / draw.choice(FILES), draw.randint(1, 1000)
    file.write_bytes(file.read_bytes() + draw.randbytes(more))
    return f"{file.name} longer by {more} bytes"


def replace(folder: Path, draw: random.Random) -> str:
    file, how = folder / draw.choice([*FILES, "manifest.json"]), draw.choice(["nothing", "link", "folder", "pipe"])
    aside = folder.with_name("aside")
    shutil.copy(file, aside)
    file.unlink()
    if how == "link":
        file.symlink_to(aside)
    elif how == "folder":
        file.mkdir()
    elif how == "pipe" and hasattr(os, "mkfifo"):
        os.mkfifo(file)
    return f"{file.name} replaced by {how}"


# ---- forgery: the digests are made to fit ---------------------------------------------------------------------------


def operations_of(file: Path) -> ctypes.Array[Operation]:
    """What the file of a stack holds."""
    return (Operation * (file.stat().st_size // ctypes.sizeof(Operation))).from_buffer_copy(file.read_bytes())


def forge_fields(folder: Path, draw: random.Random) -> str:
    """Numbers of an operation become extreme, or those of its neighbours, or a multiple."""
    file = folder / draw.choice(["encoder", "decoder"])
    operations = operations_of(file)
    place, done = draw.randrange(len(operations)), []
    for name in draw.sample([name for name, _ in Operation._fields_], draw.choice([1, 1, 1, 2, 3])):
        old = getattr(operations[place], name) or 0
        values: list[Any] = [*EXTREMES, old + 1, old - 1, 2 * old, 16 * old, old // 2, old + 16, old + 64,
                             getattr(draw.choice(operations), name), draw.randrange(100)]
        if name in Operation.POINTERS:
            values = [abs(int(value or 0)) for value in values]
        value = draw.choice([each for each in (FLOATS if isinstance(old, float) else values) if each != old])
        if not isinstance(old, float) and value is not None:
            value = (value + 2**63) % 2**64 - 2**63
        setattr(operations[place], name, value)
        done.append(f"{name} {old} → {value}")
    file.write_bytes(operations)
    return f"operation {place} of the {file.name}: {', '.join(done)}"


def forge_together(folder: Path, draw: random.Random) -> str:
    """Every number of a kind that equals one, in all operations, becomes another: they still agree."""
    programs = {folder / name: operations_of(folder / name) for name in ("encoder", "decoder")}
    common = draw.choice([o for operations in programs.values() for o in operations])
    first = draw.choice([name for name in INTEGERS if getattr(common, name)])
    old, new = getattr(common, first), draw.choice([1, 2, 16, 32, 48, 80, 128, 1024, 2**20, 2**40])
    names = [first, *draw.sample(INTEGERS, draw.randint(0, 4))]
    for file, operations in programs.items():
        for operation in operations:
            for field in names:
                if getattr(operation, field) == old:
                    setattr(operation, field, new)
        file.write_bytes(operations)
    return f"{', '.join(names)}: {old} → {new} wherever it is"


def forge_order(folder: Path, draw: random.Random) -> str:
    """Operations left out, doubled, exchanged, or those of the other stack."""
    file, other = folder / "decoder", folder / "encoder"
    if draw.random() < 0.5:
        file, other = other, file
    size = ctypes.sizeof(Operation)
    content = file.read_bytes()
    parts = [content[start : start + size] for start in range(0, len(content), size)]
    how = draw.choice(["left out", "doubled", "moved", "none", "shuffled", "the other's"])
    place = draw.randrange(len(parts))
    if how == "left out":
        del parts[place]
    elif how == "doubled":
        parts.insert(draw.randrange(len(parts)), parts[place])
    elif how == "moved":
        parts.insert(draw.randrange(len(parts)), parts.pop(place))
    elif how == "none":
        parts.clear()
    elif how == "shuffled":
        draw.shuffle(parts)
    else:
        parts = [other.read_bytes()]
    file.write_bytes(b"".join(parts))
    return f"operation {place} of the {file.name} {how}"


def forge_about(folder: Path, draw: random.Random) -> str:
    file = folder / "about.json"
    about = json.loads(file.read_text())
    name = draw.choice(list(about))
    values = [*EXTREMES, 10**30, 1.5, True, None, "64", "float32", "bfloat16", "float64", [], [64], {}, [[]]]
    how = draw.choice(["value", "value", "block", "block", "moved", "gone", "more"])
    if how == "value":
        about[name] = draw.choice(values)
    elif how == "gone":
        del about[name]
    elif how == "more":
        about["more"] = 1
    else:
        blocks = about["blocks"]
        a, b = draw.sample(range(len(blocks)), 2)
        if how == "block":
            blocks[a] = draw.choice([*values, 2 * blocks[a], blocks[a] + 64])
        else:  # the sum stays
            blocks[a], blocks[b] = blocks[a] + 64, blocks[b] - 64
    file.write_text(json.dumps(about))
    return f"about.json: {how} {name}: {str(about.get(name))[:60]}"


def forge_weights(folder: Path, draw: random.Random) -> str:
    """Numbers among the weights and the places become anything: NaN and infinity are among them."""
    file = folder / "weights"
    content = bytearray(file.read_bytes())
    start, size = draw.randrange(len(content)), draw.choice([1, 4, 64, 4096, len(content)])
    size = min(size, len(content) - start)
    content[start : start + size] = draw.choice([draw.randbytes(size), b"\xff" * size, bytes(size),
                                                 (b"\x00\x00\x80\x7f" * size)[:size]])
    file.write_bytes(content)
    return f"{size} bytes of the weights from {start} on"


def forge_manifest(folder: Path, draw: random.Random) -> str:
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    name = draw.choice(FILES)
    entry = manifest["files"].pop(name)
    how = draw.choice(["gone", "../" + name, "", "\0", "/dev/zero", "bytes", "sha256", "format", "files", "[[["])
    if how in ("bytes", "sha256"):
        manifest["files"][name] = entry | {how: draw.choice([*EXTREMES, None, "x", [], 1e300])}
    elif how in ("format", "files"):
        manifest[how] = draw.choice([*EXTREMES, None, "x", [], {}])
    elif how != "gone":
        manifest["files"][how] = entry
    file.write_text(json.dumps(manifest) if how != "[[[" else "[" * 100_000)
    return f"manifest.json: {name} {how!r}"


Change = Callable[[Path, random.Random], str]
DAMAGES: list[Change] = [flip, cut, lengthen, replace, forge_manifest]
FORGERIES: list[Change] = [forge_fields, forge_fields, forge_fields, forge_together, forge_order, forge_about,
                           forge_weights]


def sign(folder: Path) -> None:
    """Writes the manifest that fits the files."""
    entries = {name: {"bytes": (folder / name).stat().st_size,
                      "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()} for name in FILES}
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "files": entries}))


# ---- the cases ------------------------------------------------------------------------------------------------------


def outcome(folder: Path, is_forged: bool, call: Callable[..., None]) -> str:
    """What becomes of a changed folder: "refused" or "decoded"; all else is wrong."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        frozen = read(folder, call)
    if frozen is None:
        assert [each.category for each in told] == [PellucidWarning], f"told {[str(each.message) for each in told]}"
        return "refused"
    assert is_forged, "damage was not noticed"
    assert not told, f"told {[str(each.message) for each in told]}"
    lengths = np.array([len(ids) for ids in SOURCES])
    for options in SEARCHES:
        try:
            found = frozen.search(np.concatenate(SOURCES).astype(np.int64), lengths, options, SPECIALS)
        except (Refusal, IndexError):
            continue
        widest = frozen.decoder.widths[Buffer.LOGITS]
        assert all(0 <= token < widest for one in found for h in one for token in h.tokens), "no such token"
        assert all(len(h.tokens) <= options.max_length for one in found for h in one), "too long"
    return "decoded"


def run_cases(engines: Path, first: int, end: int, seed: int) -> None:
    """The cases from `first` to `end` - 1, a line before each and a line behind."""
    if sys.platform.startswith("linux") and not os.environ.get("LD_PRELOAD"):  # of a sanitizer, which wants terabytes
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable()
    library = find_library()
    assert not isinstance(library, str), library
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(first, end):
            draw, folder = random.Random(f"{seed} {number}"), Path(scratch) / str(number)
            shutil.copytree(engines / str(draw.randrange(len(PRECISIONS) * len(PARTS))), folder)
            is_forged = draw.random() < 0.75
            what = draw.choice(FORGERIES if is_forged else DAMAGES)(folder, draw)
            if is_forged:
                sign(folder)
            print(f"{number} {what}", flush=True)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            try:
                print(outcome(folder, is_forged, library.call), flush=True)
            except Exception as error:
                print(f"FAILED {type(error).__name__}: {error}", flush=True)
            faulthandler.cancel_dump_traceback_later()
            shutil.rmtree(folder)


def main() -> int:
    """Runs the cases, tells of each that fails, and closes with the promise's line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--engines", type=Path, help=argparse.SUPPRESS)  # given to the processes that run the cases
    arguments = parser.parse_args()
    first, end = arguments.first, arguments.first + arguments.count
    if arguments.engines:
        run_cases(arguments.engines, first, end, arguments.seed)
        return 0
    counts, failures = {"refused": 0, "decoded": 0}, []
    with tempfile.TemporaryDirectory() as folder:
        keep_engines(Path(folder))
        while first < end:
            child = subprocess.run([sys.executable, __file__, "--engines", folder, "--first", str(first), "--count",
                                    str(end - first), "--seed", str(arguments.seed)], capture_output=True, text=True)
            lines = child.stdout.splitlines()
            for case, result in zip(lines[::2], [*lines[1::2], "FAILED: the process ended"][:(len(lines) + 1) // 2],
                                    strict=True):
                first = int(case.split()[0]) + 1
                if result in counts:
                    counts[result] += 1
                else:
                    failures.append(f"case {case}: {result}")
                    print(failures[-1], flush=True)
            if child.returncode:
                print(f"exit {child.returncode}: {child.stderr[-2000:]}", flush=True)
                if not len(lines) % 2:  # between two cases, which is nobody's fault but ours
                    return 1
    passed = sum(counts.values())
    print(f"{counts['refused']} refused, {counts['decoded']} decoded")
    if arguments.json:
        arguments.json.write_text(json.dumps({"counts": counts, "failures": failures}, indent=1) + "\n")
    print(f"promise 08: {passed} of {arguments.count}")
    return 0 if passed == arguments.count else 1


if __name__ == "__main__":
    raise SystemExit(main())
