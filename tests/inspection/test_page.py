"""The page is whole, valid, and asks nothing of anyone; pictures are drawn of whatever there is."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch

from pellucid.inspection import style
from pellucid.inspection.curves import flow, training_curves, training_points
from pellucid.inspection.examples import Example
from pellucid.inspection.figures import attention_maps, confusion, head_table
from pellucid.inspection.html import attention_map, picture, table, text
from pellucid.inspection.measures import HeadTable
from pellucid.inspection.page import Section, page
from pellucid.inspection.position_figures import bias_curves, bias_matrices
from pellucid.inspection.sections import attention
from pellucid.inspection.weight_figures import sizes
from pellucid.inspection.weights import Matrices

ODD = '<script>alert("1")</script> & \x00 \ud800 $x_ 猫'


def test_any_text_is_only_text(check_page: Callable[[str], set[str]]) -> None:
    body = table([text("a")], [[text(ODD)], ["=" + text("sum")]]) + attention_map(torch.eye(2), [ODD, "b"],
                                                                                 ["c", ODD], ODD)
    html = page(ODD, [("run", ODD)], [Section("one", ODD, ODD, body)], "en")
    assert "<script" not in html
    assert "猫" in html
    assert check_page(html) == {"one"}
    html.encode("utf-8")


def test_what_is_written_on_a_colour_stands_out() -> None:
    assert [style.ink((c, c, c)) for c in (0.0, 0.4, 0.5, 1.0)] == ["white", "white", "black", "black"]
    assert style.ink((1.0, 1.0, 0.0)) == "black"  # yellow
    assert style.ink((0.0, 0.0, 1.0)) == "white"  # blue


@pytest.mark.parametrize(("labels", "expected"), [
    (["a", "10", "春"], ["flat", "flat", "flat"]), (["a", "cat", "▁a"], ["slanted"] * 3),
    (["春", "不觉晓", "2026", "▁闻啼", "10"], ["flat", "stacked", "turned", "stacked", "flat"]), ([], [])])
def test_labels_lie_so_that_they_can_be_read(labels: list[str], expected: list[str]) -> None:
    assert style.lie_of(labels) == expected


def labels_drawn(monkeypatch: pytest.MonkeyPatch, tokens: list[str]) -> list[tuple[str, float]]:
    """The labels below the columns of a picture of attention, and by how many degrees they are turned."""
    sheets: list[Any] = []
    monkeypatch.setattr("pellucid.inspection.figures.as_sheet_png", sheets.append)
    attention_maps([torch.eye(len(tokens))], tokens, tokens, ["head 1"], "title")
    texts = sheets[0].texts
    first = next(i for i, label in enumerate(texts) if label.get_text() == "while writing") + 1
    return [(label.get_text(), label.get_rotation()) for label in texts[first: first + len(tokens)]]


def test_chinese_words_are_written_from_top_to_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    assert labels_drawn(monkeypatch, ["春眠", "不觉晓", "，"]) == [("春\n眠", 0), ("不\n觉\n晓", 0), ("，", 0)]
    svg = attention_map(torch.eye(2), ["春眠", "闻"], ["春眠", "闻"], "head 1")
    assert "rotate" not in svg
    assert ">春</text>" in svg


def test_long_words_slant(monkeypatch: pytest.MonkeyPatch) -> None:
    assert labels_drawn(monkeypatch, ["cat", "a"]) == [("cat", 45), ("a", 45)]
    assert "rotate(-45" in attention_map(torch.eye(1), ["cat"], ["cat"], "head 1")


@pytest.mark.parametrize(("name", "when"), [
    ("encoder.layers.0.self_attention", "while reading"), ("decoder.layers.0.self_attention", "while writing"),
    ("decoder.layers.0.cross_attention", "while writing")])
def test_rows_are_read_in_the_encoder_alone_also_where_what_is_written_is_what_was_read(
        monkeypatch: pytest.MonkeyPatch, name: str, when: str) -> None:
    sheets: list[Any] = []
    monkeypatch.setattr("pellucid.inspection.figures.as_sheet_png", lambda sheet: sheets.append(sheet) or b"")
    tokens = ("1", "2")
    copied = Example("1 2", "1 2", None, tokens, tokens, tokens, {name: torch.eye(2)[None]}, {})
    attention([copied], "", lambda name, png, points: png)
    said = [label.get_text() for label in sheets[0].texts]
    assert [one for one in said if one.startswith("while")] == [when]


@pytest.mark.parametrize(("read", "written", "expected"), [
    (48, 48, "Decoder layer 1, cross-attention"),
    (50, 20, "Decoder layer 1, cross-attention: the first 20 of 20 rows, the first 48 of 50 columns")])
def test_a_map_that_is_cut_says_so_where_it_is_drawn(read: int, written: int, expected: str,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    sheets: list[Any] = []
    monkeypatch.setattr("pellucid.inspection.figures.as_sheet_png", lambda sheet: sheets.append(sheet) or b"")
    tokens = [tuple(map(str, range(count))) for count in (read, written)]
    weights = {"decoder.layers.0.cross_attention": torch.zeros(1, written, read)}
    attention([Example("", "", None, tokens[0], tokens[1], tokens[1], weights, {})], "", lambda name, png, points: png)
    assert expected in [label.get_text() for label in sheets[0].texts]


def test_what_is_cut_is_told_as_it_is_of_either_side() -> None:
    tokens = [tuple(map(str, range(count))) for count in (9, 80)]
    body = attention([Example("", "", None, tokens[0], tokens[1], tokens[1], {}, {})], "",
                     lambda name, png, points: png).body
    assert "<dd>the first 9 of 9 tokens read and 48 of 80 written</dd>" in body


@pytest.mark.parametrize(("text", "written", "degrees"), [
    ("步长", "步\n长", 0), ("‖g‖₂，对数刻度", "‖g‖₂\n对\n数\n刻\n度", 0), ("step size", "step size", 90)])
def test_no_axis_has_chinese_on_its_side(text: str, written: str, degrees: float) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    axes.set_ylabel(text)
    with style.drawing():
        style.as_png(figure)
    assert (axes.yaxis.label.get_text(), axes.yaxis.label.get_rotation()) == (written, degrees)


def test_no_two_lines_of_a_picture_are_alike() -> None:
    assert len({style.line_of(i) for i in range(64)}) == 64


@pytest.mark.parametrize(("heads", "marked"), [(7, True), (8, False)])
def test_points_are_marked_where_no_dash_would_be_hidden(heads: int, marked: bool,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Any] = []
    monkeypatch.setattr("pellucid.inspection.position_figures.as_png", figures.append)
    bias_curves([torch.zeros(heads, 9, 9)], ["encoder layer 1"], "title")
    assert {line.get_marker() for line in figures[0].axes[0].get_lines()} == {"o" if marked else ""}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("heads", "layers"), [(1, 1), (8, 12), (12, 4), (32, 2)])
def test_maps_of_biases_are_large_enough_and_no_label_lies_upon_another(
        heads: int, layers: int, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_LANG", language)
    sheets: list[Any] = []
    monkeypatch.setattr("pellucid.inspection.position_figures.as_sheet_png", sheets.append)
    names = [style.drawn_name(f"encoder layer {i + 1}") for i in range(layers)]
    bias_matrices([torch.zeros(heads, 64, 64)] * layers, names, "title")
    maps = [image.get_extent() for image in sheets[0].images[:-1]]  # the last one is the scale
    assert len(maps) == heads * layers
    assert min(right - left for left, right, _, _ in maps) > 0.89  # inches
    boxes = [label.get_window_extent() for label in sheets[0].texts]
    assert max(box.x1 for box in boxes) - min(box.x0 for box in boxes) < 11 * sheets[0].figure.dpi
    assert [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)] == []


@pytest.mark.parametrize("values", [[1.0], [1.1, 1.9], [0.04, 4.0], [1e-7, 3.0], [2.0, 2000.0]])
def test_a_logarithmic_scale_can_be_read(values: list[float]) -> None:
    low, high, locator = style.log_scale(values)
    assert low < min(values)
    assert max(values) < high
    assert 2 <= sum(low <= tick <= high for tick in locator.tick_values(low, high)) <= 12


def test_the_numbers_below_a_logarithmic_axis_do_not_lie_upon_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Any] = []
    monkeypatch.setattr("pellucid.inspection.weight_figures.as_png", figures.append)
    parts = {f"encoder.layers.{i}": f"encoder layer {i + 1}" for i in range(2)}
    matrices = [Matrices(part, "attention", 0.1, torch.zeros(120)) for part in parts]
    sizes(matrices, {"encoder.layers.0": (0.0018, 0.2, 1.7)}, parts)
    figures[0].draw_without_rendering()
    for axes in figures[0].axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        low, high = axes.get_xlim()
        shown = [box for box, tick in zip(boxes, axes.get_xticks(), strict=True) if low <= tick <= high]
        assert len(shown) >= 2
        assert [a for a, b in pairwise(shown) if a.overlaps(b)] == []


def is_png(data: bytes) -> bool:
    return data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) > 3000


@pytest.mark.parametrize("tokens", [["a"], ["$x_", "^"], ["春", "眠", "不"], ["\ue000", "b"]])
def test_attention_of_any_tokens(tokens: list[str]) -> None:
    size = len(tokens)
    drawn = attention_maps([torch.eye(size)] * 5, tokens, tokens, list("12345"), "title $ \\frac")
    assert is_png(drawn)
    assert "data:image/png" in picture(drawn, "a")


@pytest.mark.parametrize("label", ["W", "W" * 30, "▁" + "m" * 24, "春眠不觉晓处处闻啼鸟", "iiii"])
@pytest.mark.parametrize(("rows", "columns", "maps"), [(1, 1, 1), (2, 9, 6), (30, 3, 2)])
def test_nothing_of_a_picture_is_cut(label: str, rows: int, columns: int, maps: int) -> None:
    from matplotlib.image import imread

    drawn = attention_maps([torch.eye(rows, columns)] * maps, [label] * rows, [label] * columns, ["head 1"] * maps,
                           "W" * 60)
    pixels = imread(io.BytesIO(drawn))[..., :3]
    for edge in (pixels[:5], pixels[-5:], pixels[:, :5], pixels[:, -5:]):
        assert (edge == 1).all()


def test_glyphs_that_no_font_has_are_named() -> None:
    assert style.missing_glyphs(["abc", "é", " \n"]) == ""
    assert style.missing_glyphs(["a\U0010fffdb", "\U0010fffd"]) == "\U0010fffd"


def test_without_a_chinese_font_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "families", lambda: ("DejaVu Sans",))
    assert style.missing_glyphs(["春 a"]) == "春"
    assert is_png(attention_maps([torch.eye(1)], ["春"], ["春"], ["head 1"], "title"))


def test_heads_and_confusion() -> None:
    values = torch.tensor([[0.1, -0.2], [0.0, 3.0]])
    rows = ("encoder.layers.0.self_attention", "encoder.layers.1.self_attention")
    assert is_png(head_table(HeadTable(rows, values, values.abs() / 4), "title", "nats", signed=True))
    assert is_png(head_table(HeadTable(rows, torch.zeros(2, 2)), "title", "bits"))
    assert is_png(confusion([[3, 0], [0, 0]], ["是", "$no$"], "title"))


def event(step: int, **more: object) -> dict[str, object]:
    return {"event": "train", "step": step, "loss": 1.0, "learning_rate": 0.1, "gradient_norm": 1.0, **more}


@pytest.mark.parametrize("steps", [[5], [5, 10, 12]])
def test_training_with_and_without_the_flow(steps: list[int]) -> None:
    norms = {"source_embedding": 1.0, "encoder.layers.0": 0.5}
    with_flow = [event(step, gradient_norms=norms) for step in steps]
    assert is_png(training_curves(with_flow, "nats"))
    drawn = flow(with_flow, "gradient_norms", "title", "norm", {})
    assert drawn is not None
    assert is_png(drawn)
    assert flow([event(step) for step in steps], "gradient_norms", "title", "norm", {}) is None
    assert flow([event(1, gradient_norms={"a": 0.0})], "gradient_norms", "title", "norm", {}) is None
    assert flow([event(1), *with_flow], "gradient_norms", "title", "norm", {}) is not None  # recorded from some step on


def test_scores_of_validations_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss, and each score whatever its name: accuracy, BLEU, exact matches. Equal ones do not hide each other."""
    figures: list[Any] = []
    monkeypatch.setattr("pellucid.inspection.curves.as_png", figures.append)
    scores = [{"accuracy": 50.0, "macro_f1": 40.0}, {"accuracy": 75.0, "macro_f1": 60.0}]
    validations = [{"event": "validation", "step": step, "loss": 1.0, "perplexity": 2.7, **one}
                   for step, one in enumerate(scores, start=1)]
    training_curves([event(1), event(2, loss=0.5), *validations], "nats")
    drawn = {line.get_label(): line.get_ydata().tolist() for axes in figures[0].axes for line in axes.get_lines()}
    assert drawn["training, as minimised"] == [1.0, 0.5]
    assert drawn["validation, plain cross-entropy"] == [1.0, 1.0]
    assert {row[1]: row[3] for row in training_points(validations).rows} == {  # at last, in the file beside the picture
        "loss": 1.0, "perplexity": 2.7, "accuracy": 75.0, "macro_f1": 60.0}
    assert drawn["accuracy"] == [50.0, 75.0]
    assert drawn["macro-F1"] == [40.0, 60.0]
    below, above = figures[0].axes[1].get_lines()
    assert below.get_linewidth() > above.get_linewidth() == figures[0].axes[0].get_lines()[0].get_linewidth()
    assert below.get_markersize() > above.get_markersize()
    training_curves([event(1), event(2)], "nats")
    assert len(figures[1].axes) == len(figures[0].axes) - 1


@pytest.mark.parametrize(("score", "steps"), [(0.0, (1, 2)), (100.0, (7,)), (120.0, (1, 2))])
def test_no_share_below_0_or_above_100_and_no_half_of_an_update_is_on_an_axis(
        monkeypatch: pytest.MonkeyPatch, score: float, steps: tuple[int, ...]) -> None:
    figures: list[Any] = []
    monkeypatch.setattr("pellucid.inspection.curves.as_png", figures.append)
    validation = {"event": "validation", "step": steps[-1], "loss": 1.0, "bleu": score}
    training_curves([*map(event, steps), validation], "nats")
    flow([event(step, gradient_norms={"a": 1.0}) for step in steps], "gradient_norms", "title", "norm", {})
    shares = figures[0].axes[1].get_yticks().tolist()
    assert score in shares
    assert min(shares) >= 0
    assert max(shares) <= max(100, score)
    for axes in (figures[0].axes[-1], figures[1].axes[0]):
        assert all(tick == int(tick) for tick in axes.get_xticks())
        assert steps[-1] in axes.get_xticks()


def test_metrics_of_any_kind_are_drawn_as_far_as_they_are_numbers() -> None:
    odd = [event(1, loss="a", gradient_norm=float("nan"), gradient_norms=[1], update_ratios={"a": "b"}),
           event(2, learning_rate=None), {"event": "validation", "step": 2, "loss": [], "x": {}}]
    assert is_png(training_curves(odd, "nats"))
    assert list(training_points(odd).rows) == [
        ("train", "loss", 2, 1.0), ("train", "learning_rate", 1, 0.1), ("train", "gradient_norm", 2, 1.0)]
    assert flow(odd, "gradient_norms", "title", "norm", {}) is None
    assert flow(odd, "update_ratios", "title", "norm", {}) is None
