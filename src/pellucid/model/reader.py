"""A reader: an encoder over a question and a passage, and of each token how well an answer starts and ends there.

A row is ``bos question eos window eos window …`` (data/reading.py). Each window is encoded with the question and apart
from the others; the scores stand in one row again, so that they are normalised together. Place 0, bos, is "no answer".
Devlin et al. (2019), section 4.2, has the two scores; Chen et al. (2017), "Reading Wikipedia to Answer Open-Domain
Questions", has a mark on tokens of the passage that stand in the question too. Here both sides have one, which says how
many neighbours match as well: of characters, one alone says little.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from pellucid.model.encoder import Encoder
from pellucid.nn.attention_pattern import padding, positions_of, window
from pellucid.nn.embeddings import Embedding

LONGEST_RUN = 4  # of tokens that question and window share; longer ones count as this long
MARKS = 2 * (LONGEST_RUN + 1)  # of the question, by the length of the run that a token is in, from 0; of the window


class Reader(nn.Module):
    """Rows of ids → the scores of each place as the start and as the end of the answer.

    Args:
        encoder: the stack.  embedding: of the tokens.  marks: the embedding of what `marks_of` says of each token.
        separator: the id that stands before each window.  unknown: the id that is like no other, not even itself.
        window_size: how far self-attention looks, or None.
    """

    def __init__(self, encoder: Encoder, embedding: Embedding, marks: Embedding, separator: int, unknown: int,
                 window_size: int | None) -> None:
        super().__init__()
        self.source_embedding = embedding
        self.mark_embedding = marks
        self.encoder = encoder
        self.head = nn.Linear(embedding.weight.shape[1], 2)
        self.separator, self.unknown = separator, unknown
        self.window_size = window_size

    def forward(self, source: Tensor, real_source: Tensor | None = None) -> Tensor:
        """Rows [B, S] (real_source: false at padding) → scores [B, S, 2], −∞ where no answer may start or end."""
        rows, places = unfold(self.windows(source, real_source))
        real = places >= 0
        tokens = source[rows[:, None], places.clamp(min=0)]  # [N, L]
        numbers = self.windows(tokens, real)
        positions = positions_of(real, tokens)
        pattern = padding(positions, positions, None if bool(real.all()) else real)
        pattern = pattern & window(positions, positions, self.window_size)
        marks = marks_of(tokens.masked_fill(tokens == self.unknown, -1), numbers)
        memory = self.encoder(self.source_embedding(tokens) + self.mark_embedding(marks), pattern)
        scores = self.head(memory).float()  # [N, L, 2]
        allowed = (numbers > 0) & (tokens != self.separator)
        out: Tensor = scores.new_full((*source.shape, 2), -torch.inf)
        out[rows[:, None].expand_as(places)[allowed], places[allowed]] = scores[allowed]
        out[:, 0] = _means(scores[:, 0], rows, len(source))
        return out

    def windows(self, source: Tensor, real_source: Tensor | None = None) -> Tensor:
        """Rows [B, S] → the number of each token's window, from 1, the separator before it in it; 0 for bos and the
        question, −1 for padding."""
        numbers = (source == self.separator).cumsum(1)
        return numbers if real_source is None else numbers.masked_fill(~real_source, -1)


def unfold(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers of windows [B, S] → of each of the N windows, with bos and the question before it, its row [N] and its
    places there [N, L], −1 at padding."""
    rows, places = [], []
    for row, of_row in enumerate(numbers):
        asked = (of_row == 0).nonzero()[:, 0]
        for number in range(1, int(of_row.max()) + 1):
            rows.append(row)
            places.append(torch.cat([asked, (of_row == number).nonzero()[:, 0]]))
    return torch.tensor(rows, device=numbers.device), pad_sequence(places, batch_first=True, padding_value=-1)


def marks_of(tokens: Tensor, numbers: Tensor) -> Tensor:
    """Of each token which of the MARKS it has: tokens [N, L], −1 for one that is like no other, and the numbers of
    their windows [N, L] → [N, L]."""
    behind = max(2, int((numbers == 0).sum(1).max()))  # the longest question, with bos
    asked = tokens.masked_fill((numbers != 0) | (tokens < 0), -2)[:, 1:behind]  # [N, Q]
    same = ((tokens[:, :, None] == asked[:, None, :]) & (numbers > 0)[:, :, None]).to(torch.int8)  # [N, L, Q]
    until, since = same, same  # the run of neighbours that ends at each pair of equal tokens, and that begins there
    for _ in range(LONGEST_RUN - 1):
        until = same * (1 + pad(until[:, :-1, :-1], (1, 0, 1, 0)))
        since = same * (1 + pad(since[:, 1:, 1:], (0, 1, 0, 1)))
    runs = (until + since - same).clamp(max=LONGEST_RUN)
    marks = torch.where(numbers > 0, LONGEST_RUN + 1 + runs.amax(2).long(), 0)
    marks[:, 1:behind] += runs.amax(1).long()
    return marks


def _means(values: Tensor, rows: Tensor, count: int) -> Tensor:
    """Values [N, 2] of windows of these rows [N] → their mean by row [count, 2]."""
    sums = values.new_zeros(count, 2).index_add(0, rows, values)
    return sums / torch.bincount(rows, minlength=count)[:, None]
