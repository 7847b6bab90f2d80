"""pellucid demo [answers]"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.cli.arguments import parse_with_overrides, read_config


@dataclass
class Demo:
    """Train English→French on the bundled grammar, score it on unseen sentences, show what it does and where it looks.

    The data is made by a grammar of our own: nothing is downloaded. Keys can be given as --section.key value. The other
    demo, pellucid demo answers, answers questions from documents.
    """

    out: Path = Path("runs/demo")
    """the run folder"""
    json: bool = False
    """print the scores as JSON at the end"""


@dataclass
class DemoAnswers:
    """Train a reader on documents that the bundled grammar writes, index others, and answer questions from them.

    Each answer stands with its document and its place there. Nothing is downloaded. Keys can be given as --section.key
    value.
    """

    out: Path = Path("runs/answers-demo")
    """the run folder; the documents and their index are put into it"""
    json: bool = False
    """print the scores as JSON at the end"""


def main(program: str, words: Sequence[str]) -> int:
    """Dispatches to the two."""
    if words[:1] == ["answers"]:
        return _answers(f"{program} answers", words[1:])
    return _translations(program, words)


def _answers(program: str, words: Sequence[str]) -> int:
    arguments, overrides = parse_with_overrides(DemoAnswers, program, words)
    config = read_config("answers-demo", overrides)
    from pellucid.cli.demo_answers import demonstrate

    return demonstrate(config, arguments.out, arguments.json)


def _translations(program: str, words: Sequence[str]) -> int:
    """Trains, evaluates, prints examples, draws, and says what to do next."""
    arguments, overrides = parse_with_overrides(Demo, program, words)
    config = read_config("demo", overrides)
    from pellucid.evaluate.evaluate import evaluate_runs, pairs_of
    from pellucid.inspection.figures import draw_cross_attention
    from pellucid.runs.run import load
    from pellucid.train.journal import Reporter, duration
    from pellucid.train.train import train

    began = time.monotonic()
    with Reporter() as reporter:
        summary = train(config, arguments.out, reporter)
        report = evaluate_runs([arguments.out], "test", None, reporter.progress)
    run, scores = load(arguments.out), report["runs"][0]
    pairs = pairs_of(run, "test", None)
    hypotheses = (arguments.out / "evaluation" / "test.hyp").read_text(encoding="utf-8").split("\n")[:-1]
    picture = arguments.out / "figures" / "attention.png"
    shown = next((i for i, (source, _) in enumerate(pairs) if 8 <= len(source.split()) <= 10), 0)
    draw_cross_attention(run, pairs[shown][0], hypotheses[shown], picture)
    if arguments.json:
        print(json.dumps({**summary, "test": scores, "total_seconds": round(time.monotonic() - began, 1)}))
        return 0
    right = [i for i, (_, target) in enumerate(pairs) if hypotheses[i] == target]
    wrong = [i for i in range(len(pairs)) if i not in set(right)]
    print(f"\nTen of the {len(right):,} translations that are exactly right, of {len(pairs):,} unseen sentences:\n")
    for i in right[:: max(1, len(right) // 10)][:10]:
        print(f"  {pairs[i][0]}\n    → {hypotheses[i]}")
    print("\nTwo that are wrong:\n" if wrong else "\nNone is wrong.")
    for i in wrong[:2]:
        print(f"  {pairs[i][0]}\n    → {hypotheses[i]}\n    ≠ {pairs[i][1]}")
    (exact_low, exact_high), (bleu_low, bleu_high) = scores["interval"]["exact"], scores["interval"]["bleu"]
    print(f"""
exactly right   {scores['exact']:.1f} %  (95 % interval {exact_low:.1f} to {exact_high:.1f})
BLEU            {scores['bleu']:.1f}    (95 % interval {bleu_low:.1f} to {bleu_high:.1f}; {scores['signature']})
training        {duration(summary['seconds'])}, {summary['parameters']:,} parameters
all of it       {duration(time.monotonic() - began)}

run folder      {arguments.out}
loss curve      {arguments.out / 'figures' / 'loss.png'}
attention       {picture}

Next: echo "the cat sleeps ." | pellucid translate {arguments.out}
      pellucid evaluate {arguments.out}
      pellucid inspect {arguments.out}
      pellucid train --help            your own two text files""")
    sys.stdout.flush()
    return 0
