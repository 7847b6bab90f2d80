"""README.md of an exported folder: what it holds, how it scored as a run, how it is used there."""

from collections.abc import Sequence
from pathlib import Path

from pellucid.interop.run_folder import ORIGIN
from pellucid.runs.run import Run
from pellucid.runs.scored import scores_in_use

_SCORES = ("bleu", "chrf", "ter", "meteor", "perplexity", "exact", "accuracy", "macro_f1", "em", "f1")


def model_card(run: Run, folder: Path, what: str, notes: Sequence[str], use: str) -> str:
    """The text of the card; `use` is how it is opened, in Markdown."""
    m, is_classifier = run.config.model, run.config.task == "classification"
    how = "imported into" if (folder / ORIGIN).is_file() else "trained with"
    tag = "text-classification" if is_classifier else "translation"
    depth = f"{m.encoder_layers} encoder" + ("" if is_classifier else f" and {m.decoder_layers} decoder")
    scores = list(_scores(folder))
    table = ["| split | score | value | 95 % interval |", "|---|---|---|---|", *scores] if scores else [
        "The run was not scored before it was exported: `pellucid evaluate` does that."]
    told = ["", "What is otherwise here than in the run:", "", *(f"- {note}." for note in notes)] if notes else []
    return "\n".join(["---", f"pipeline_tag: {tag}", "---", "", f"# {folder.resolve().name}", "",
                      f"A Transformer {how} pellucid, as {what}: width {m.d_model}, {depth} layers, "
                      f"{m.n_heads} heads, feed-forward width {m.d_ff}, position {m.position}, norm {m.norm}, "
                      f"residual {m.residual}.", "", *table, *told, "", use, ""])


def _scores(folder: Path) -> list[str]:
    """A row of the table for each score that was measured of these weights."""
    rows = []
    for split in ("test", "train", "validation"):
        report = scores_in_use(folder, split) or {}
        interval = report.get("interval")
        for name in _SCORES:
            value, bounds = report.get(name), interval.get(name) if isinstance(interval, dict) else None
            if isinstance(value, int | float):
                span = "–"
                if isinstance(bounds, list) and len(bounds) == 2 and None not in bounds:
                    span = f"{bounds[0]:.2f} to {bounds[1]:.2f}"
                rows.append(f"| {split} | {name} | {value:.2f} | {span} |")
    return rows
