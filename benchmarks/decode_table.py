"""The rows of `benchmarks.decode` as the tables of docs/performance.md: a row a search, a column a system."""

from __future__ import annotations

from typing import Any

COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {  # name → the system, and how its settings begin: the best counts
    "pellucid int8": ("pellucid", ("int8",)), "bf16": ("pellucid", ("bf16",)), "fp32": ("pellucid", ("fp32",)),
    "plain equations": ("pellucid", ("plain fp32",)), "CTranslate2, best int8": ("ctranslate2", ("int8",)),
    "best float32": ("ctranslate2", ("float32",)), "transformers": ("transformers", ("fp32", "bf16")),
    "JoeyNMT": ("joeynmt", ("fp32",))}
RATIOS = ("ours × its best", "int8 × plain")
ONE_BY_ONE = ", one by one"


def tables(rows: list[dict[str, Any]]) -> str:
    """Both tables as Markdown, one of tokens a second and one of milliseconds; what has no rows is left out.

    "ours × its best" is pellucid in int8 over CTranslate2 in the setting that is best for it, maps of the vocabulary
    aside; "int8 × plain" over our plain equations.
    """
    whole = [row for row in rows if not row["workload"].endswith(ONE_BY_ONE)]
    single = [row for row in rows if row["workload"].endswith(ONE_BY_ONE)]
    return "\n\n".join("\n".join(lines) for lines in (_whole(whole), _single(single)) if lines)


def _whole(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for model, workload in dict.fromkeys((row["model"], row["workload"]) for row in rows):
        here = [row for row in rows if (row["model"], row["workload"]) == (model, workload)]
        rates = {name: max((row["tokens_per_second"] for row in _of(here, name)), default=0.0) for name in COLUMNS}
        theirs = {"ours × its best": max(rates["CTranslate2, best int8"], rates["best float32"]),
                  "int8 × plain": rates["plain equations"]}
        cells = [f"{rates[name]:,.0f}" if rates[name] else "" for name in COLUMNS]
        cells += [f"{rates['pellucid int8'] / theirs[name]:.2f}" if theirs[name] and rates["pellucid int8"] else ""
                  for name in RATIOS]
        lines.append(_row([model, workload, *cells]))
    return [*_head(["model and text", "search", *COLUMNS, *RATIOS]), *lines] if lines else []


def _single(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for model, workload in dict.fromkeys((row["model"], row["workload"]) for row in rows):
        here = [row for row in rows if (row["model"], row["workload"]) == (model, workload)]
        best = [min(_of(here, name), key=lambda row: row["p50_seconds"], default=None) for name in COLUMNS]
        cells = [f"{1e3 * row['p50_seconds']:.1f}, {1e3 * row['p95_seconds']:.1f}" if row else "" for row in best]
        lines.append(_row([f"{model}, {workload.removesuffix(ONE_BY_ONE)}", *cells]))
    return [*_head(["one by one: p50, p95 in ms", *COLUMNS]), *lines] if lines else []


def _of(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    system, beginnings = COLUMNS[name]
    return [row for row in rows if row["system"] == system and row["setting"].startswith(beginnings)
            and "vmap" not in row["setting"]]


def _head(names: list[str]) -> list[str]:
    return [_row(names), "|" + "---|" * len(names)]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
