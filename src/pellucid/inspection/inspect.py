"""`pellucid inspect`: everything there is to see of a run, as PNG files and one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import make_folder, read_json, write_bytes, write_text
from pellucid.inspection import sections
from pellucid.inspection.examples import Example, choose, encode, first_pairs, look_at
from pellucid.inspection.measures import importance, looking
from pellucid.inspection.page import Section, page
from pellucid.inspection.shapes import shapes
from pellucid.inspection.style import missing_glyphs
from pellucid.run import Run

_SENTENCES = 3
_LOOKED_THROUGH = 200  # pairs of the test split, for sentences of a readable length
_FOR_LOOKING = 50  # of the measured pairs, for entropy and distance
PAGE = "index.html"


@dataclass(frozen=True)
class Inspection:
    """What was written: the page, and the names of the pictures beside it."""

    page: Path
    pictures: tuple[str, ...]


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
        f"{origin} No font on this machine draws {' '.join(missing[:40])}: they are boxes in the PNG files; this page "
        "has them as text, in the fonts of its reader. A font with Chinese, such as Noto Sans CJK, mends the files.")
    steps = shapes(run, *encode(run, [(examples[0].source, examples[0].output)])[0])
    found: list[Section | None] = [
        sections.attention(examples, note, save), _heads(run, pairs, say, save), sections.positions(run, save),
        sections.training(run, save), sections.parameters(run), sections.shapes(steps, run),
        sections.confusion(run, save)]
    html = page(f"Inside {run.folder.name or run.folder.resolve().name}", _facts(run),
                [section for section in found if section is not None])
    write_text(out / PAGE, html)
    return Inspection(out / PAGE, tuple(names))


def _examples(run: Run, texts: Sequence[str], say: Callable[[str], None]) -> tuple[list[Example], str]:
    """The sentences, and where they are from."""
    if texts:
        wanted: list[tuple[str, str | None]] = [(one, None) for one in texts]
        origin = ""
    else:
        some = first_pairs(run, ("test", "validation"), _LOOKED_THROUGH)
        if not some.pairs:
            raise ConfigError("there is no sentence to look at", where=str(run.folder), why=some.reason,
                              fix="give one or more: --text 'a sentence'")
        wanted = list(choose(run, some.pairs, _SENTENCES))
        origin = f"The sentences are from the {some.split} data."
    examples = []
    for number, (source, reference) in enumerate(wanted, start=1):
        say(f"sentence {number} of {len(wanted)}")
        examples.append(look_at(run, source, reference))
    return examples, origin


def _heads(run: Run, count: int, say: Callable[[str], None], save: sections.Save) -> Section:
    unit = sections.unit_of(run)
    if count == 0:
        return sections.heads(None, None, "The heads were not measured: --pairs 0 asked for none.", unit, save)
    some = first_pairs(run, ("validation", "test"), count)
    if not some.pairs:
        return sections.heads(None, None, f"The heads could not be measured: {some.reason}.", unit,
                              save)
    pairs = encode(run, some.pairs)
    say(f"heads on {len(pairs):,} {some.split} pairs")
    seen = pairs[:_FOR_LOOKING]
    about = (f"Measured on the first {len(pairs):,} pairs of the {some.split} data with their given targets, entropy "
             f"and distance on the first {len(seen):,}.")
    return sections.heads(looking(run, seen), importance(run, pairs, say), about, unit, save)


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
