"""pellucid demo answers: documents, an index of them, a reader, and what it answers."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.cli.passages import marked_lines
from pellucid.cli.search import listed
from pellucid.config import RunConfig
from pellucid.data.reading import Question, question_of
from pellucid.evaluate.evaluate import evaluate_runs, pairs_of
from pellucid.files import make_folder, write_text
from pellucid.retrieve.index import build_index, open_index
from pellucid.runs.answers import Answer, answers
from pellucid.runs.run import Run, load
from pellucid.train.journal import Reporter, duration
from pellucid.train.train import train

_DOCUMENTS = 20  # of those that the reader never saw
_K = 5  # passages that are read for a question


def demonstrate(config: RunConfig, out: Path, as_json: bool) -> int:
    """Trains the reader, scores it, indexes documents that it never saw, answers questions on them, and says what to
    do next."""
    began = time.monotonic()
    with Reporter() as reporter:
        summary = train(config, out, reporter)
        scores = evaluate_runs([out], "test", None, reporter.progress)["runs"][0]
        run = load(out)
        texts, asked = _documents(run)
        names = {text: f"{number:02}.txt" for number, text in enumerate(texts, start=1)}
        documents, place = out / "documents", str(out / "index")
        make_folder(documents)
        for text, name in names.items():
            write_text(documents / name, f"{text}\n")
        built = build_index([str(documents)], place)
        index = open_index(place)
        given = answers(run, index, [question.text for _, question in asked], _K)
    rows = [_Row(names[text], question, answer) for (text, question), answer in zip(asked, given, strict=True)]
    searched = {"documents": built["documents"], "asked": len(rows), "right": sum(row.is_right for row in rows),
                "found": sum(any(one.passage.document == row.meant for one in row.answer.passages) for row in rows)}
    if as_json:
        print(json.dumps({**summary, "test": scores, "search": searched,
                          "total_seconds": round(time.monotonic() - began, 1)}))
        return 0
    if not rows:
        print(_told(summary, scores, searched, out, time.monotonic() - began))
        return 0
    shown, wrong = _of_each_kind(rows), [row for row in rows if not row.is_right][:2]
    first = (shown or rows)[0].question.text
    print(f"\n{built['documents']} documents that it never read are in {documents}, their index in {place}.\n"
          f"What a search for “{first}” finds, with the words that match:\n")
    print("\n".join(listed(first, index.search(first, 2))))
    print(f"\nAnswers that are right, each marked where it stands in one of the {_K} passages that fit best:\n")
    print("\n".join(line for row in shown for line in row.lines()))
    print("\nTwo that are not what the document says that was meant; another may say so:\n" if wrong
          else "\nNone is wrong.")
    print("\n".join(line for row in wrong for line in row.lines()))
    print(_told(summary, scores, searched, out, time.monotonic() - began))
    print(f"""
Next: pellucid answer {out} --index {place} "{first}"
      pellucid index FOLDER --out idx       your own documents, to search in with pellucid search
      pellucid train --help                 your own questions, in SQuAD's layout: this reader has a
                                            vocabulary of {run.tokenizers.source.size:,} tokens, and no other words
      pellucid recipes                      reading-zh reads Chinese""")
    return 0


class _Row(NamedTuple):
    """A question, the document that was meant, and what it was answered with."""

    meant: str
    question: Question
    answer: Answer

    @property
    def is_right(self) -> bool:
        """Whether it is what that document says, wherever it was found."""
        return self.answer.found.text in {one.text for one in self.question.answers}

    def lines(self) -> Iterator[str]:
        """For people: the answer with its place, marked in its passage."""
        found, place = self.answer.found, self.answer.place
        yield f"  {self.question.text}"
        if found.passage is None or place is None:
            yield "    → no answer in the passages"
        else:
            yield f"    → {found.text}  {place[0]}[{place[1]}:{place[2]}]  {found.score:.4f}"
        if not self.is_right:
            yield f"    ≠ {self.question.answers[0].text}  {self.meant}"
        if found.passage is not None:
            yield from marked_lines(self.answer.passages[found.passage].passage.text, [(found.start, found.end)])


def _documents(run: Run) -> tuple[list[str], list[tuple[str, Question]]]:
    """The first documents of the test data, and their questions that have an answer."""
    pairs = pairs_of(run, "test", None)
    texts = list(dict.fromkeys(text for text, _ in pairs))[:_DOCUMENTS]
    asked = [(text, question_of(line)) for text, line in pairs if text in texts]
    return texts, [(text, question) for text, question in asked if question.answers]


def _of_each_kind(rows: Sequence[_Row]) -> list[_Row]:
    """Of those that are right two that begin with each word: who, what and where."""
    return [row for word in ("Who", "What", "Where")
            for row in [row for row in rows if row.is_right and row.question.text.startswith(f"{word} ")][:2]]


def _told(summary: dict[str, Any], scores: dict[str, Any], searched: dict[str, int], out: Path, seconds: float) -> str:
    (em_low, em_high), (f1_low, f1_high) = scores["interval"]["em"], scores["interval"]["f1"]
    return f"""
exact matches   {scores['em']:.1f} %  (95 % interval {em_low:.1f} to {em_high:.1f}) of {scores['n']:,} unseen questions,
                each with the document that it is about
F1              {scores['f1']:.1f} %  (95 % interval {f1_low:.1f} to {f1_high:.1f}; {scores['signature']})
with a search   {searched['right']} of {searched['asked']} exact; the document meant was found {searched['found']} times
training        {duration(summary['seconds'])}, {summary['parameters']:,} parameters
all of it       {duration(seconds)}

run folder      {out}
loss curve      {out / 'figures' / 'loss.png'}"""
