"""Whether two texts say the same, judged from the data alone: which word of one side goes with which of the other.

Counts, as in the first step of IBM model 1 (Brown et al. 1993), tell for every frequent source word the target word
that stands near it most above chance. "Near" is up to REACH lines before or after, so that what is learned favours no
alignment: data whose sides have slipped teaches it too. Rare words and numbers stand for themselves. The score of a
pair is then a log-likelihood ratio, in nats: how much likelier these words are side by side in a pair than in two
lines drawn apart,

    score = Σ over source words f:  log p₁(f) / p₀(f)  if its partner is there,  else  log (1 - p₁(f)) / (1 - p₀(f))

with p₁ counted in pairs and p₀ in lines far apart; a term for the lengths joins them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pellucid.doctor.words import Bags, Hashes

REACH = 4  # lines: how far a slip can be told
FREQUENT = 3000  # words a side that get a partner
_NUMBERS, _RARE = 256, 1024  # buckets for the rest, the same on both sides
SIZE = FREQUENT + _NUMBERS + _RARE  # of the id space of either side
_FAR = 97  # lines apart, for pairs that do not belong together
_LEAST = 4  # lines a frequent word stands in
_BOUND = 15.0  # nats: no single line says more
_LENGTHS = 4.0  # nats: no lengths speak more against a pair
_SURE = 6.0  # standard errors: of the correlation of lengths, to be believed
_KEYS_AT_ONCE = 8_000_000

Ids = NDArray[np.int32]
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Vocabulary:
    """Word → id: the frequent ones by rank, any other word by its bucket.

    Attributes:
        words: the frequent ones' hashes, in ascending order.
        ranks: theirs.
    """

    words: Hashes
    ranks: Ids

    def ids(self, lines: Bags) -> Bags:
        """Lines of hashes as lines of ids."""
        rest = lines.ids >> np.uint64(1)
        ids = FREQUENT + np.where(lines.ids & np.uint64(1), rest % _NUMBERS, _NUMBERS + rest % _RARE).astype(np.int32)
        if len(self.words):
            place = np.minimum(np.searchsorted(self.words, lines.ids), len(self.words) - 1)
            ids = np.where(self.words[place] == lines.ids, self.ranks[place], ids)
        return Bags(ids, lines.starts)


def vocabulary(chunks: Sequence[Bags]) -> Vocabulary:
    """The frequent words of lines of hashes."""
    words, counts = np.unique(np.concatenate([lines.ids for lines in chunks]), return_counts=True)
    listed = np.flatnonzero(counts >= _LEAST)
    frequent = np.sort(listed[np.argsort(-counts[listed], kind="stable")][:FREQUENT])
    ranks = np.empty(len(frequent), dtype=np.int32)
    ranks[np.argsort(-counts[frequent], kind="stable")] = np.arange(len(frequent), dtype=np.int32)
    return Vocabulary(words[frequent], ranks)


@dataclass(frozen=True)
class Association:
    """What goes with what.

    Attributes:
        source_ids, target_ids: the words that were learned about.
        partner: for each source id, the target id that goes with it.
        hit, miss: what it adds to the score when its partner is there, and when not, in nats.
        ratio: mean, standard deviation and standard deviation far apart of log (target words / source words).
        power: how often a pair scores above the same source with a target from far away, 0.5 to 1.
    """

    source_ids: Vocabulary
    target_ids: Vocabulary
    partner: Ids
    hit: Scores
    miss: Scores
    ratio: tuple[float, float, float]
    power: float

    def scores(self, source: Bags, target: Bags, offsets: Sequence[int]) -> Scores:
        """Of each source line with the target line `offset` further on: [lines, offsets], in nats; 0 where there is no
        such line or one of the two has no words."""
        count = min(len(source), len(target))
        present = present_in(target)
        lines, wanted = source.lines, self.partner[source.ids]
        base = np.bincount(lines, self.miss[source.ids], len(source))
        gain = (self.hit - self.miss)[source.ids]
        found = np.zeros((len(source), len(offsets)), dtype=np.float32)
        for column, offset in enumerate(offsets):
            other = lines + offset
            inside = (other >= 0) & (other < count)
            there = present[np.where(inside, other, 0), wanted] & inside
            found[:, column] = base + np.bincount(lines, np.where(there, gain, 0), len(source))
            found[:, column] += self._of_lengths(source.sizes, target.sizes, offset)
            partner = np.arange(len(source)) + offset
            whole = (partner >= 0) & (partner < count) & (source.sizes > 0)
            whole[whole] &= target.sizes[partner[whole]] > 0
            found[~whole, column] = 0
        return np.clip(found, -_BOUND, _BOUND)

    def _of_lengths(self, source: NDArray[np.int64], target: NDArray[np.int64], offset: int) -> NDArray[np.float64]:
        mean, near, far = self.ratio
        place = np.clip(np.arange(len(source)) + offset, 0, len(target) - 1)
        from_mean = np.log((target[place] + 1) / (source + 1)) - mean
        return np.asarray(np.maximum(np.log(far / near) - from_mean**2 * (1 / near**2 - 1 / far**2) / 2, -_LENGTHS))


def present_in(target: Bags) -> NDArray[np.bool_]:
    """[lines, SIZE]: whether a word is in a line."""
    present = np.zeros((len(target), SIZE), dtype=np.bool_)
    present[target.lines, target.ids] = True
    return present


Chunk = tuple[Bags, Bags]  # consecutive lines of both sides, their words as hashes


def learn(chunks: Sequence[Chunk]) -> Association:
    """The association of source and target words. Its power is that of half of every chunk over the other half."""
    halves: list[list[Chunk]] = [[], []]
    for source, target in chunks:
        middle = len(source) // 2
        halves[0].append((source.part(0, middle), target.part(0, middle)))
        halves[1].append((source.part(middle, len(source)), target.part(middle, len(target))))
    return replace(_learned(chunks), power=_power(_learned(halves[0]), halves[1]))


def aligned(chunk: Chunk) -> Chunk:
    """The part of both sides that goes together as far as lengths tell: it may have slipped by up to half the chunk,
    where words alone are learned from up to REACH lines away. Lengths of true pairs go together, so their correlation
    stands out at the true offset."""
    count = min(map(len, chunk))
    a, b = (np.log1p(side.sizes[:count]) for side in chunk)
    a, b = ((side - side.mean()) / (side.std() + 1e-9) for side in (a, b))
    offsets = np.arange(-(count // 2), count // 2 + 1)
    if count < 32:
        return chunk
    sums = np.correlate(b, a, "full")[count - 1 + offsets]  # Σ a(i) b(i + offset)
    sure = sums / np.sqrt(count - np.abs(offsets))
    best, usual = int(offsets[sure.argmax()]), sure[count // 2]
    if abs(best) <= REACH or sure.max() < _SURE or sure.max() < 2 * usual:
        return chunk
    return chunk[0].part(max(0, -best), count - max(0, best)), chunk[1].part(max(0, best), count - max(0, -best))


def _learned(chunks: Sequence[Chunk]) -> Association:
    chunks = [aligned(chunk) for chunk in chunks]
    source_ids, target_ids = (vocabulary([chunk[side] for chunk in chunks]) for side in (0, 1))
    pairs = [(source_ids.ids(source), target_ids.ids(target)) for source, target in chunks]
    partner = _partners(pairs, (len(source_ids.words), len(target_ids.words)))
    offsets = [_best_offset(source, target, partner) for source, target in pairs]
    near = _rates(pairs, partner, offsets)
    far = _rates(pairs, partner, [_far(source) for source, _ in pairs])
    hit = np.log(near / far).astype(np.float32)
    miss = np.log((1 - near) / (1 - far)).astype(np.float32)
    return Association(source_ids, target_ids, partner, hit, miss, _ratio(pairs, offsets), 0.5)


def _far(lines: Bags) -> int:
    return min(_FAR, len(lines) // 2)


def _partners(pairs: Sequence[tuple[Bags, Bags]], words: tuple[int, int]) -> Ids:
    """For each source id the target id that is near it most above chance; a bucket's is itself.

    Args:
        words: frequent ones of the source and of the target, whose ids are below.
    """
    height, width = words[0], min(words[1] + 1, FREQUENT)  # one more, which is near nothing: as likely as chance
    together = np.zeros(height * width, dtype=np.int32)
    in_source, in_target, total = np.zeros(height), np.zeros(width), 0
    waiting: list[NDArray[np.int32]] = []
    for number, (source, target) in enumerate(pairs, start=1):
        waiting += [_keys_together(source, target, offset, width) for offset in range(-REACH, REACH + 1)]
        if number == len(pairs) or sum(map(len, waiting)) > _KEYS_AT_ONCE:
            together += np.bincount(np.concatenate(waiting), minlength=len(together)).astype(np.int32)
            waiting = []
        in_source += np.bincount(source.ids[source.ids < FREQUENT], minlength=height)
        in_target += np.bincount(target.ids[target.ids < FREQUENT], minlength=width)
        total += len(source)
    counts = together.reshape(height, width)
    partner = np.where(np.arange(SIZE) < FREQUENT, 0, np.arange(SIZE)).astype(np.int32)
    for start in range(0, height, 500):  # by rows, which bounds memory
        rows = slice(start, start + 500)
        expected = np.outer(in_source[rows], in_target) * ((2 * REACH + 1) / max(total, 1))
        partner[:height][rows] = ((counts[rows] - expected) / np.sqrt(expected + 1)).argmax(1)
    return partner


def _keys_together(source: Bags, target: Bags, offset: int, width: int) -> NDArray[np.int32]:
    """f · width + e for each frequent source word f of a line i and target word e of line i + offset."""
    first, last = max(0, -offset), max(0, -offset, min(len(source), len(target) - offset))
    part = slice(source.starts[first], source.starts[last])
    ids, lines = source.ids[part], source.lines[part]
    ids, lines = ids[ids < FREQUENT], lines[ids < FREQUENT]
    sizes = target.sizes[lines + offset]  # each source word meets every word of its target line
    ends = np.cumsum(sizes)
    inner = np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes)
    met = target.ids[np.repeat(target.starts[lines + offset], sizes) + inner]
    return np.asarray((np.repeat(ids, sizes) * width + met)[met < FREQUENT])


def _hits(source: Bags, target: Bags, partner: Ids, offset: int) -> tuple[Ids, NDArray[np.bool_]]:
    """The source ids whose line has one `offset` further on, and whether their partner is in that."""
    other = source.lines + offset
    inside = (other >= 0) & (other < len(target))
    ids = source.ids[inside]
    return ids, present_in(target)[other[inside], partner[ids]]


def _best_offset(source: Bags, target: Bags, partner: Ids) -> int:
    def share(offset: int) -> float:
        ids, there = _hits(source, target, partner, offset)
        return float(there.mean()) if len(ids) else 0.0

    return max(sorted(range(-REACH, REACH + 1), key=abs), key=share)


def _rates(pairs: Sequence[tuple[Bags, Bags]], partner: Ids, offsets: Sequence[int]) -> NDArray[np.float64]:
    """How often a source id's partner is in the target line: [SIZE]. Rare ids share what is counted, by their kind,
    and frequent ones lean towards what all of them have."""
    seen, hits = np.zeros(SIZE), np.zeros(SIZE)
    for (source, target), offset in zip(pairs, offsets, strict=True):
        ids, there = _hits(source, target, partner, offset)
        seen += np.bincount(ids, minlength=SIZE)
        hits += np.bincount(ids[there], minlength=SIZE)
    rates = np.zeros(SIZE)
    for low, high in ((FREQUENT, FREQUENT + _NUMBERS), (FREQUENT + _NUMBERS, SIZE)):
        rates[low:high] = (hits[low:high].sum() + 0.5) / (seen[low:high].sum() + 10)
    rates[:FREQUENT] = (hits[:FREQUENT] + 0.5) / (seen[:FREQUENT] + 5)
    return np.clip(rates, 0.002, 0.98)


def _ratio(pairs: Sequence[tuple[Bags, Bags]], offsets: Sequence[int]) -> tuple[float, float, float]:
    near: list[NDArray[np.float64]] = []
    far: list[NDArray[np.float64]] = []
    for (source, target), offset in zip(pairs, offsets, strict=True):
        for found, shift in ((near, offset), (far, _far(source))):
            count = min(len(source), len(target)) - abs(shift)
            a, b = source.sizes[max(0, -shift) :][:count], target.sizes[max(0, shift) :][:count]
            both = (a > 0) & (b > 0)
            found.append(np.log((b[both] + 1) / (a[both] + 1)))
    a, b = np.concatenate(near), np.concatenate(far)
    if not len(a) or not len(b):
        return 0.0, 1.0, 1.0
    deviation = max(float(a.std()), 0.15)
    return float(a.mean()), deviation, max(float(b.std()), deviation)


def _power(association: Association, chunks: Sequence[Chunk]) -> float:
    above = []
    for chunk in map(aligned, chunks):
        source, target = association.source_ids.ids(chunk[0]), association.target_ids.ids(chunk[1])
        offset = _best_offset(source, target, association.partner)
        both = association.scores(source, target, (offset, _far(source)))
        above.append((both[:, 0] > both[:, 1]) + 0.5 * (both[:, 0] == both[:, 1]))
    return float(np.concatenate(above).mean())
