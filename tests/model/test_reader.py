"""A reader: windows are read apart, padding and neighbours change nothing, marks are those computed by hand."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid.config import ModelConfig
from pellucid.model.build import build_reader
from pellucid.model.reader import LONGEST_RUN, Reader, marks_of, unfold
from pellucid.nn.attention_pattern import full

CONFIG = ModelConfig(d_model=16, n_heads=2, d_ff=32, encoder_layers=2, dropout=0.0, position="rotary", max_length=32)
BOS, SEP, UNK = 2, 3, 1


def model() -> Reader:
    return build_reader(CONFIG, 30, separator=SEP, unknown=UNK).double().eval()


def test_marks_of_a_window_by_hand() -> None:
    tokens = torch.tensor([[BOS, 5, 6, 7, SEP, 5, 9, 6, 7, 8, 0]])
    numbers = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1, 1, -1]])
    assert marks_of(tokens, numbers).tolist() == [[0, 1, 2, 2, 5, 6, 5, 7, 7, 5, 0]]
    unknown = torch.tensor([[BOS, -1, 5, SEP, -1, 5]])
    assert marks_of(unknown, torch.tensor([[0, 0, 0, 1, 1, 1]])).tolist() == [[0, 0, 1, 5, 5, 6]]
    nothing = torch.tensor([[BOS, SEP, 5]])
    assert marks_of(nothing, torch.tensor([[0, 1, 1]])).tolist() == [[0, 5, 5]]


@given(st.lists(st.integers(-1, 3), max_size=12), st.lists(st.integers(-1, 3), max_size=12), st.integers(0, 3))
def test_a_mark_is_the_length_of_the_longest_run_that_both_have(asked: list[int], window: list[int], more: int) -> None:
    def longest(here: list[int], place: int, there: list[int]) -> int:
        runs = [end - begin for begin in range(place + 1) for end in range(place + 1, len(here) + 1)
                if -1 not in here[begin:end]
                and any(here[begin:end] == there[at : at + end - begin] for at in range(len(there)))]
        return min(LONGEST_RUN, max(runs, default=0))

    marks = [0, *(longest(asked, place, window) for place in range(len(asked))), LONGEST_RUN + 1]
    marks += [LONGEST_RUN + 1 + longest(window, place, asked) for place in range(len(window))]
    tokens = torch.tensor([[BOS + 9, *asked, SEP + 9, *window] + [0] * more])
    numbers = torch.tensor([[0] * (1 + len(asked)) + [1] * (1 + len(window)) + [-1] * more])
    assert marks_of(tokens, numbers).tolist() == [marks + [0] * more]


def test_what_is_unknown_is_like_no_other_not_even_itself() -> None:
    reader, seen = model(), list[torch.Tensor]()
    reader.mark_embedding.register_forward_hook(lambda _, given, made: seen.append(given[0]))
    reader(torch.tensor([[BOS, UNK, 5, SEP, UNK, 5]]))
    assert seen[0].tolist() == [[0, 0, 1, LONGEST_RUN + 1, LONGEST_RUN + 1, LONGEST_RUN + 2]]


def test_scores_are_those_of_tokens_and_marks_together() -> None:
    reader = model()
    source, marks, positions = torch.tensor([[BOS, 5, SEP, 6, 5]]), torch.tensor([[0, 1, 5, 5, 6]]), torch.arange(5)
    memory = reader.encoder(reader.source_embedding(source) + reader.mark_embedding(marks), full(positions, positions))
    expected = (memory @ reader.head.weight.T + reader.head.bias).float()
    torch.testing.assert_close(reader(source)[0, [0, 3, 4]], expected[0, [0, 3, 4]])


@pytest.mark.parametrize(("attention", "seen"), [("window", [6, 7, 8]), ("full", list(range(9)))])
def test_the_window_bounds_what_the_last_token_sees(attention: str, seen: list[int]) -> None:
    """One token a layer and two layers: it sees two to its left."""
    config = replace(CONFIG, attention=attention, window=1)
    reader = build_reader(config, 30, separator=SEP, unknown=UNK).eval()
    embedded: list[torch.Tensor] = []
    reader.source_embedding.register_forward_hook(lambda _, given, made: embedded.append(made))
    scores = reader(torch.tensor([[BOS, 10, 11, 12, SEP, 13, 14, 15, 16]]))
    (gradient,) = torch.autograd.grad(scores[0, 8].sum(), embedded)
    assert gradient[0].abs().sum(-1).nonzero()[:, 0].tolist() == seen


def test_rows_unfold_to_windows_with_their_question() -> None:
    rows, places = unfold(torch.tensor([[0, 0, 1, 1, 2, 2, 2], [0, 1, 1, -1, -1, -1, -1]]))
    assert rows.tolist() == [0, 0, 1]
    assert places.tolist() == [[0, 1, 2, 3, -1], [0, 1, 4, 5, 6], [0, 1, 2, -1, -1]]


def test_windows_of_one_row_score_as_those_of_several() -> None:
    reader = model()
    together = reader(torch.tensor([[BOS, 5, 6, SEP, 7, 8, 9, SEP, 10, 5]]))
    first, second = reader(torch.tensor([[BOS, 5, 6, SEP, 7, 8, 9]])), reader(torch.tensor([[BOS, 5, 6, SEP, 10, 5]]))
    torch.testing.assert_close(together[0, 4:7], first[0, 4:])
    torch.testing.assert_close(together[0, 8:], second[0, 4:])
    torch.testing.assert_close(together[0, 0], (first[0, 0] + second[0, 0]) / 2)
    assert together[0, [1, 2, 3, 7]].isneginf().all()


def test_a_batch_and_its_padding_change_nothing() -> None:
    reader = model()
    short, long = [BOS, 5, SEP, 6, 5], [BOS, 5, 6, SEP, 7, 8, 9, SEP, 10, 5]
    source = torch.tensor([short + [0] * 5, long])
    both = reader(source, torch.tensor([[True] * 5 + [False] * 5, [True] * 10]))
    torch.testing.assert_close(both[0, :5], reader(torch.tensor([short]))[0])
    torch.testing.assert_close(both[1], reader(torch.tensor([long]))[0])
    assert both[0, 5:].isneginf().all()


def test_a_window_of_nothing_can_only_have_no_answer() -> None:
    scores = model()(torch.tensor([[BOS, 5, SEP]]))
    assert scores[0, 1:].isneginf().all()
    assert scores[0, 0].isfinite().all()
