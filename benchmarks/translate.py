"""A file translated from the command line, beside CTranslate2: `python -m benchmarks.translate RUN --source F`.

The whole job, each time in a process of its own: start, load, read the lines, tokenise, decode, write. Ours is
`pellucid translate`; theirs a short program with CTranslate2's Python interface and SentencePiece, on what `pellucid
export --to ctranslate2` makes of the run, which must have a vocabulary of SentencePiece. The jobs take turns; seconds
are medians. A first translation of ours, which packs the weights, goes before, as their export does.

Needs ctranslate2 4.8.5 (`pip install ctranslate2==4.8.5`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.arguments import new_file, positive, run_folder, text_file
from pellucid.errors import UserError
from pellucid.interop.ctranslate2 import export
from pellucid.runs.run import load

PENALTY = "0.6"
ROOT = Path(__file__).parents[1]
THEIRS = """
import sys, ctranslate2, sentencepiece
folder, pieces, lowercase, source, output, precision, beam, penalty = sys.argv[1:]
processor = sentencepiece.SentencePieceProcessor(model_file=pieces)
translator = ctranslate2.Translator(folder, compute_type=precision, inter_threads=2, intra_threads=1)
with open(source, encoding="utf-8") as file:
    lines = [line.rstrip("\\n") for line in file]
if lowercase == "True":
    lines = [line.lower() for line in lines]
rows = processor.encode(lines, out_type=str)
found = translator.translate_batch(rows, beam_size=int(beam), length_penalty=float(penalty), max_batch_size=1024,
                                   batch_type="tokens", max_decoding_length=100)
with open(output, "w", encoding="utf-8") as file:
    file.writelines(line + "\\n" for line in processor.decode([one.hypotheses[0] for one in found]))
"""


def prepare(run: Path, folder: Path) -> list[str]:
    """Exports the run for CTranslate2; what their program is told of it.

    Raises:
        SystemExit: they have no such model, or no such vocabulary.
    """
    tokenizers = load(run).tokenizers
    if tokenizers.config.kind != "sentencepiece" or not tokenizers.shared:
        raise SystemExit(f"{run} has {'one vocabulary' if tokenizers.shared else 'two vocabularies'} of the kind "
                         f"{tokenizers.config.kind}, and their program reads one of SentencePiece: give a run that was "
                         "trained with tokenizer.kind sentencepiece and tokenizer.shared true")
    try:
        export(run, folder / "ctranslate2")
    except UserError as error:
        raise SystemExit(str(error)) from error
    return [str(folder / "ctranslate2"), str(folder / "ctranslate2" / "source.spm"), str(tokenizers.config.lowercase)]


def jobs_of(run: Path, source: str, folder: Path) -> dict[str, tuple[list[str], Path]]:
    """The commands, each with the file that it writes."""
    theirs, jobs = prepare(run, folder), {}
    for beam in ("1", "4"):
        for precision in ("int8", "bf16"):
            output = folder / f"pellucid.{precision}.{beam}"
            jobs[f"pellucid {precision}, beam {beam}"] = (
                [sys.executable, "-m", "pellucid", "translate", str(run), "--input", source, "--output", str(output),
                 "--beam-size", beam, "--decode.precision", precision, "--decode.length_penalty", PENALTY,
                 "--decode.max_length", "100"], output)
        for precision in ("int8", "float32"):
            output = folder / f"ctranslate2.{precision}.{beam}"
            jobs[f"ctranslate2 {precision}, beam {beam}"] = (
                [sys.executable, "-c", THEIRS, *theirs, source, str(output), precision, beam, PENALTY], output)
    one = folder / "one"
    one.write_text(Path(source).read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    command, _ = jobs["pellucid int8, beam 1"]
    output = folder / "pellucid.one"
    jobs["pellucid int8, one line"] = ([{source: str(one), str(folder / "pellucid.int8.1"): str(output)}.get(word, word)
                                        for word in command], output)
    return jobs


def seconds_of(command: list[str], cache: Path) -> float:
    """From start to end."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}", "PELLUCID_CACHE": str(cache)}
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True)
    return time.perf_counter() - began


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown: seconds, with the least and the most."""
    by_job = {row["job"]: f"{row['seconds']:.2f} ({row['low']:.2f}–{row['high']:.2f})" for row in rows}
    systems = ("pellucid int8", "pellucid bf16", "ctranslate2 int8", "ctranslate2 float32")
    lines = ["| seconds | pellucid int8 | bf16 | CTranslate2 int8 | float32 |", "|---|---|---|---|---|"]
    for name, job in (("greedy", "beam 1"), ("beam 4", "beam 4"), ("one line", "one line")):
        cells = [by_job.get(f"{system}, {job}", "") for system in systems]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Runs the jobs in turn, prints the table, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=run_folder, help="a run folder")
    parser.add_argument("--source", type=text_file, required=True, help="a file of lines to translate")
    parser.add_argument("--repeat", type=positive, default=5, help="repetitions")
    parser.add_argument("--json", type=new_file, help="where to write the results")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = jobs_of(args.run.resolve(), str(args.source.resolve()), folder)
        first = {job: seconds_of(command, folder / "cache") for job, (command, _) in jobs.items()}
        taken: dict[str, list[float]] = {job: [] for job in jobs}
        for _ in range(args.repeat):
            for job, (command, _) in jobs.items():
                taken[job].append(seconds_of(command, folder / "cache"))
        lines = {job: len(output.read_text(encoding="utf-8").splitlines()) for job, (_, output) in jobs.items()}
    rows: list[dict[str, Any]] = [
        {"job": job, "lines": lines[job], "seconds": statistics.median(times), "low": min(times), "high": max(times),
         "first": first[job]} for job, times in taken.items()]
    print(table(rows))
    if args.json:
        machine.write(rows, args.json)


if __name__ == "__main__":
    main()
