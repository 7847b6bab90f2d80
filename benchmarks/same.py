"""Whether two checkouts compute the same bits: `python -m benchmarks.same BEFORE [AFTER] --data DIR [--work DIR]`.

Each checkout trains the same recipes, and a small model with every choice of the architecture, and the SHA-256 of the
weights are compared; then each decodes the same lines with the runs of the first, greedily and with a beam of 4, in
every precision, once with weights packed anew and once with those kept, and the SHA-256 of the outputs are compared.
On one machine, with the same packages and threads. Exits with 1 where something differs. DIR holds multi30k/ and trec/.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LINES = 1000
UPDATES = ["--train.steps", "200", "--train.epochs", "null", "--train.validate_every", "200"]
SMALL = ["--train.steps", "60", "--train.epochs", "null", "--train.validate_every", "60", "--train.precision", "bf16",
         "--model.dropout", "0.1"]
CHOICES = {"position": ["none", "learned", "rotary", "alibi", "t5", "quadratic", "transformer_xl"],
           "norm": ["rmsnorm", "stdnorm", "none"], "residual": ["post", "deepnorm", "none"],
           "feed_forward": ["gelu", "swiglu", "geglu"], "attention": ["window", "linear"],
           "tie_embeddings": ["false"], "attention_dropout": ["0.1"]}


def trainings(data: Path) -> Iterator[tuple[str, list[str]]]:
    """Each run by its name, and the words that train it."""
    flickr, questions = data / "multi30k", data / "trec"
    splits = (("train", "train"), ("validation", "validation"), ("test", "test2016"))
    yield "copy", ["copy"]
    yield "demo", ["demo"]
    yield "multi30k", ["multi30k-en-de", *UPDATES, *(word for split, file in splits for side, language in
                       (("source", "en"), ("target", "de"))
                       for word in (f"--data.{split}.{side}", str(flickr / f"{file}.{language}")))]
    yield "trec", ["trec", *UPDATES, *(word for split in ("train", "test")
                                       for word in (f"--data.{split}", str(questions / f"{split}.tsv")))]
    for key, values in CHOICES.items():
        for value in values:
            yield f"{key}-{value}", ["copy", *SMALL, f"--model.{key}", value]
    yield "plain", ["copy", *SMALL, "--train.kernels", "plain", "--model.dropout", "0.0"]


def pellucid(checkout: Path, cache: Path, words: list[str]) -> bytes:
    """What `pellucid` of a checkout prints."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PELLUCID_CACHE": str(cache)}
    return subprocess.run([sys.executable, "-m", "pellucid", *words], env=environment, check=True, cwd=cache.parent,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def weights_of(run: Path) -> str:
    """The SHA-256 of all its checkpoints' weights."""
    digest = hashlib.sha256()
    for path in sorted((run / "checkpoints").glob("*/model.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def train(checkout: Path, work: Path, data: Path) -> dict[str, str]:
    """The weights of each training."""
    found = {}
    for name, words in trainings(data):
        pellucid(checkout, work / "cache", ["train", *words, "--out", str(work / name)])
        found[f"train {name}"] = weights_of(work / name)
        say(f"{checkout}: train {name} {found[f'train {name}'][:16]}")
    return found


def decode(checkout: Path, work: Path, runs: Path, lines: dict[str, Path]) -> dict[str, str]:
    """The outputs of each search with the runs of one checkout."""
    found = {}
    for name, path in lines.items():
        for beam in (["--beam-size", "1"], ["--beam-size", "4", "--n-best", "4"]):
            for precision in ("fp32", "bf16", "int8"):
                for weights in ("packed", "kept"):
                    key = f"decode {name} beam {beam[1]} {precision} {weights}"
                    out = pellucid(checkout, work / "cache", ["generate", str(runs / name), "--input", str(path), *beam,
                                                              "--decode.precision", precision])
                    found[key] = hashlib.sha256(out).hexdigest()
        say(f"{checkout}: decode {name}")
    return found


def inputs(work: Path, data: Path, runs: Path) -> dict[str, Path]:
    """The lines that each run decodes."""
    def generated(name: str) -> list[str]:
        rows = (runs / name / "data" / "test.tsv").read_text(encoding="utf-8").splitlines()
        return [row.split("\t")[0] for row in rows]

    sources = {"multi30k": (data / "multi30k" / "test2016.en").read_text(encoding="utf-8").splitlines(),
               "demo": generated("demo")}
    sources |= {name: generated("copy")[:200] for name in
                ("position-rotary", "position-t5", "attention-linear", "norm-none", "residual-none")}
    for name, source in sources.items():
        (work / f"{name}.in").write_text("".join(f"{line}\n" for line in source[:LINES]), encoding="utf-8")
    return {name: work / f"{name}.in" for name in sources}


def say(line: str) -> None:
    """To standard error, at once."""
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=Path(__file__).resolve().parents[1])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="kept, and what is there already is not made again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work, data = (arguments.work or Path(temporary)).resolve(), arguments.data.resolve()
        results = []
        for side, checkout in (("before", arguments.before.resolve()), ("after", arguments.after.resolve())):
            place, known = work / side, work / f"{side}.json"
            place.mkdir(parents=True, exist_ok=True)
            if not known.exists():
                found = train(checkout, place, data)
                lines = inputs(place, data, work / "before")
                known.write_text(json.dumps(found | decode(checkout, place, work / "before", lines), indent=1))
            results.append(json.loads(known.read_text()))
    before, after = results
    differing = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    for key in sorted(before):
        print(f"{'DIFFERS' if key in differing else 'same':<8} {before[key][:16]}  {key}")
    print(f"{len(before) - len(differing)} of {len(before)} the same")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
