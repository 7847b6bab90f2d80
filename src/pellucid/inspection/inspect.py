"""`pellucid inspect`: everything there is to see of a run, as PNG files and one page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import make_folder, read_json, write_bytes, write_text
from pellucid.inspection import sections
from pellucid.inspection.examples import Example, choose, encode, first_pairs, look_at
from pellucid.inspection.measures import HeadMeasures, entropy_and_distance, importance
from pellucid.inspection.page import Save, Section, page
from pellucid.inspection.position_section import positions
from pellucid.inspection.shapes import shapes
from pellucid.inspection.style import missing_glyphs
from pellucid.runs.run import Run

_SENTENCES = 3
_LOOKED_THROUGH = 200  # pairs of the test split, for sentences of a readable length
_FOR_LOOKING = 50  # of the measured pairs, for entropy and distance
PAGE = "index.html"


@dataclass(frozen=True)
class Inspection:
    """What was written: the page, the names of the pictures beside it, and the characters that no font here could draw
    in them."""

    page: Path
    pictures: tuple[str, ...]
    missing: str


def inspect(run: Run, texts: Sequence[str], pairs: int, out: Path, say: Callable[[str], None]) -> Inspection:
    """Writes the figures and the page of a run into the folder `out`; older ones of the same names are replaced.

    Args:
        texts: sentences to look at; a few of the test (else validation) data if there are none.
        pairs: how many validation (else test) pairs the heads are measured on; 0 measures nothing.
        say: told how far it is.

    Raises:
        ConfigError: an empty text; neither texts nor readable data.
        OutputError: the folder cannot be written.
    """
    if any(not text.strip() for text in texts):
        raise ConfigError("a text to look at is empty", where="--text")
    if pairs < 0:
        raise ConfigError("a number of pairs is at least 0", where="--pairs")
    make_folder(out)
    names: list[str] = []

    def save(name: str, png: bytes) -> bytes:
        write_bytes(out / f"{name}.png", png)
        names.append(f"{name}.png")
        say(f"{name}.png")
        return png

    examples, origin = _examples(run, texts, say)
    labels = [token for one in examples for token in (*one.source_tokens, *one.written)]
    missing = missing_glyphs([*labels, *run.tokenizers.labels])
    note = origin if not missing else (
        f"{origin} No font on the machine that drew the PNG files has {' '.join(missing[:40])}, so they are boxes "
        "there; on this page they are text, in the fonts of its reader.")
    steps = shapes(run, *encode(run, [(examples[0].source, examples[0].output)])[0])
    found: list[Section | None] = [
        sections.attention(examples, note, save), _heads(run, pairs, say, save), positions(run, save),
        sections.training(run, save), sections.parameters(run), sections.shapes(steps, run),
        sections.confusion(run, save)]
    html = page(f"Inside {run.folder.name or run.folder.resolve().name}", _facts(run),
                [section for section in found if section is not None])
    write_text(out / PAGE, html)
    return Inspection(out / PAGE, tuple(names), missing)


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
        origin = f"The sentences are from the {sample.split} data."
    examples = []
    for number, (source, reference) in enumerate(wanted, start=1):
        say(f"sentence {number} of {len(wanted)}")
        examples.append(look_at(run, source, reference))
    return examples, origin


def _heads(run: Run, count: int, say: Callable[[str], None], save: Save) -> Section:
    unit = sections.unit_of(run)
    if count == 0:
        return sections.heads(None, "The heads were not measured: --pairs 0 asked for none.", unit, save)
    sample = first_pairs(run, ("validation", "test"), count)
    if not sample.pairs:
        return sections.heads(None, f"The heads could not be measured: {sample.reason}.", unit, save)
    pairs = encode(run, sample.pairs)
    say(f"heads on {len(pairs):,} {sample.split} pairs")
    seen = pairs[:_FOR_LOOKING]
    about = (f"Measured on the first {len(pairs):,} pairs of the {sample.split} data with their given targets, entropy "
             f"and distance on the first {len(seen):,}.")
    measured = HeadMeasures(*entropy_and_distance(run, seen), *importance(run, pairs, say))
    return sections.heads(measured, about, unit, save)


def _facts(run: Run) -> list[tuple[str, str]]:
    config, model = run.config, run.config.model
    layers = f"{model.encoder_layers} encoder"
    layers += "" if config.task == "classification" else f" + {model.decoder_layers} decoder"
    facts = [("run", str(run.folder)), ("task", config.task),
             ("model", f"{layers} layers, D = {model.d_model}, {model.n_heads} heads, positions {model.position}, norm "
                       f"{model.norm}, residual {model.residual}, attention {model.attention}"),
             ("parameters", f"{sum(p.numel() for p in run.model.parameters()):,}")]
    try:
        best = read_json(run.folder / "best.json")
        facts.append(("checkpoint", f"{best['checkpoint']}, validation {best['monitor']} {best['score']:.4f}"))
    except (CheckpointError, KeyError, TypeError, ValueError):
        pass
    return facts
