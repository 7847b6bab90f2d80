"""`pellucid inspect`: everything there is to see of a run, as PNG files, their numbers as CSV, and one page."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from pellucid.config.checks import refuse_readers
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import make_folder, read_json, remove_leftovers, write_bytes, write_text
from pellucid.inspection import sections
from pellucid.inspection.chinese import told
from pellucid.inspection.curves import Events
from pellucid.inspection.examples import Example, as_validated, choose, encode, first_pairs, look_at
from pellucid.inspection.meanwhile import meanwhile
from pellucid.inspection.measures import HeadMeasures, entropy_and_distance, importance
from pellucid.inspection.page import Save, Section, page
from pellucid.inspection.points import Points, as_csv
from pellucid.inspection.position_section import positions
from pellucid.inspection.shapes import shapes
from pellucid.inspection.style import missing_glyphs
from pellucid.inspection.weight_section import weights
from pellucid.inspection.weights import as_points
from pellucid.language import language
from pellucid.runs.folder import refuse_foreign
from pellucid.runs.run import Run
from pellucid.train.journal import read_metrics

_SENTENCES = 3
_LOOKED_THROUGH = 200  # pairs of the test split, for sentences of a readable length
_LEFT = 3600.0  # seconds; what is younger may be of another that is at work
_FOR_LOOKING = 50  # of the measured pairs, for entropy and distance
PAGE, PARAMETERS = "index.html", "parameters.csv"


@dataclass(frozen=True)
class Inspection:
    """What was written: the page, the names of the pictures beside it, and the characters that no font here could draw
    in them."""

    page: Path
    pictures: tuple[str, ...]
    missing: str


def inspect(run: Run, texts: Sequence[str], pairs: int, out: Path, say: Callable[[str], None]) -> Inspection:
    """Writes the figures of a run, the numbers of each, and the page into the folder `out`; older ones are
    replaced.

    Args:
        texts: sentences to look at; a few of the test (else validation) data if there are none.
        pairs: how many validation (else test) pairs the heads are measured on; 0 measures nothing.
        say: told how far it is.

    Raises:
        ConfigError: an empty text; neither texts nor readable data; a folder that holds something else.
        OutputError: the folder cannot be written.
    """
    if any(not text.strip() for text in texts):
        raise ConfigError("a text to look at is empty", where="--text")
    if pairs < 0:
        raise ConfigError("a number of pairs is at least 0", where="--pairs")
    refuse_readers(run.config, "inspect", str(run.folder))
    refuse_foreign(out, "inspection", (PARAMETERS,))
    make_folder(out)
    remove_leftovers(out, _LEFT)
    if not (out / PARAMETERS).exists():
        write_text(out / PARAMETERS, "")  # the folder is known for what it is, though this be stopped
    examples, origin = _examples(run, texts, say)
    labels = [token for one in examples for token in (*one.source_tokens, *one.written)]
    missing = missing_glyphs([*labels, *run.tokenizers.labels])
    note = origin if not missing else f"{origin} " + told(
        "No font on the machine that drew the PNG files has {characters}, so they are boxes there; on this page they "
        "are text, in the fonts of its reader.").format(characters=" ".join(missing[:40]))
    events, damage = _events(run)

    def attention() -> list[str]:  # which takes about as long as all else together
        maps: list[str] = []
        return [*astuple(sections.attention(examples, note, _saving(out, maps, say))), *maps]

    with meanwhile(attention) as awaited:
        names: list[str] = []
        save = _saving(out, names, say)
        heads = _heads(run, pairs, say, save)
        weighed, each = weights(run, events, save)
        write_text(out / PARAMETERS, as_csv(as_points(each)))
        steps = shapes(run, *encode(run, [(examples[0].source, examples[0].output)])[0])
        found: list[Section | None] = [
            heads, positions(run, save), sections.training(run, events, damage, save), weighed,
            sections.parameters(run), sections.shapes(steps, run), sections.confusion(run, save)]
        anchor, title, lead, body, *maps = awaited()
    found.insert(0, Section(anchor, title, lead, body))
    html = page(told("Inside {run}").format(run=run.folder.name or run.folder.resolve().name), _facts(run),
                [section for section in found if section is not None], language())
    write_text(out / PAGE, html)
    for old in (*out.glob("attention-*"), *out.glob("head-*")):  # of other sentences, or of heads measured before
        if old.suffix in (".png", ".csv") and f"{old.stem}.png" not in (*maps, *names):
            old.unlink(missing_ok=True)
    return Inspection(out / PAGE, (*maps, *names), missing)


def _saving(out: Path, names: list[str], say: Callable[[str], None]) -> Save:
    """Writes pictures and their numbers into a folder, and adds to the names."""
    def save(name: str, png: bytes, points: Points) -> bytes:
        write_bytes(out / f"{name}.png", png)
        write_text(out / f"{name}.csv", as_csv(points))
        names.append(f"{name}.png")
        say(f"{name}.png")
        return png

    return save


def _events(run: Run) -> tuple[Events, str]:
    """What metrics.jsonl tells, or what is wrong with it."""
    try:
        return read_metrics(run.folder / "metrics.jsonl"), ""
    except CheckpointError as error:
        return [], error.what


def _examples(run: Run, texts: Sequence[str], say: Callable[[str], None]) -> tuple[list[Example], str]:
    """The sentences, and where they are from."""
    if texts:
        wanted: list[tuple[str, str | None]] = [(one, None) for one in texts]
        origin = ""
    else:
        sample = first_pairs(run, ("test", "validation"), _LOOKED_THROUGH)
        if not sample.pairs:
            raise ConfigError("there is no sentence to look at", where=str(run.folder), why=sample.reason,
                              fix="give one or more: --text 'a sentence'")
        wanted = list(choose(run, sample.pairs, _SENTENCES))
        if run.config.data.objective == "span_corruption":  # as training has them
            wanted = [(run.tokenizers.source.decode(left.tolist()), None)
                      for left, _ in as_validated(run, [(source, source) for source, _ in wanted])]
        origin = told("The sentences are from the {split} data.").format(split=told(sample.split))
    examples = []
    for first, (source, reference) in enumerate(wanted):
        say(told("sentence {number} of {count}").format(number=first + 1, count=len(wanted)))
        examples.append(look_at(run, source, reference, first))
    return examples, origin


def _heads(run: Run, count: int, say: Callable[[str], None], save: Save) -> Section:
    unit = sections.unit_of(run)
    if count == 0:
        return sections.heads(None, told("The heads were not measured: --pairs 0 asked for none."), unit, save)
    sample = first_pairs(run, ("validation", "test"), count)
    if not sample.pairs:
        about = told("The heads could not be measured: {reason}.").format(reason=sample.reason)
        return sections.heads(None, about, unit, save)
    pairs = as_validated(run, sample.pairs)
    split, seen = told(sample.split), pairs[:_FOR_LOOKING]
    say(told("heads on {pairs:,} {split} pairs").format(pairs=len(pairs), split=split))
    about = told("Measured on the first {pairs:,} texts of the {split} data, of which spans are lost as in training, "
                 "entropy and distance on the first {seen:,}." if run.config.data.objective == "span_corruption" else
                 "Measured on the first {pairs:,} pairs of the {split} data with their given targets, entropy and "
                 "distance on the first {seen:,}.").format(pairs=len(pairs), split=split, seen=len(seen))
    measured = HeadMeasures(*entropy_and_distance(run, seen), *importance(run, pairs, say))
    return sections.heads(measured, about, unit, save)


def _facts(run: Run) -> list[tuple[str, str]]:
    config, model = run.config, run.config.model
    layers = told("{encoder} encoder layers" if config.task == "classification" else
                  "{encoder} encoder + {decoder} decoder layers")
    parts = told("D = {d_model}, {n_heads} heads, positions {position}, norm {norm}, residual {residual}, attention "
                 "{attention}").format_map(vars(model))
    if model.attention == "window":
        parts += told(", window {window}").format(window=model.window)
    if config.task == "classification":
        parts += told(", pooling {pooling}").format(pooling=model.pooling)
    facts = [(told("run"), str(run.folder)), (told("task"), config.task),
             (told("model"), layers.format(encoder=model.encoder_layers, decoder=model.decoder_layers) + told(", ")
              + parts), (told("parameters"), f"{sum(p.numel() for p in run.model.parameters()):,}")]
    try:
        best = read_json(run.folder / "best.json")
        facts.append((told("checkpoint"), told("{checkpoint}, validation {monitor} {score:.4f}").format(
            checkpoint=best["checkpoint"], monitor=best["monitor"], score=best["score"])))
    except (CheckpointError, KeyError, TypeError, ValueError):
        pass
    return facts
