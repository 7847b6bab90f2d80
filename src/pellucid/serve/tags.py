"""Where the tags of a sentence go in its translation, given which words became which.

An element goes around the words that its words became. Its parts may change places, but none is cut in two, and none
is lost: one whose words became nothing goes around the word as far along, or around none.
"""

from __future__ import annotations

import html
from collections import Counter
from dataclasses import dataclass, field

from pellucid.serve.alignment import Links, words

_BRIDGED = 1  # words of the element around that one may go around, one behind the other


@dataclass
class Loose:
    """What stands between two words of a sentence, and covers none.

    Attributes:
        offset: its place in the text.
        behind: so many words of the sentence.
        raw: how it stands in the document.
        before, after: whether a space stands there.
        is_tag: it belongs to an element that begins or ends in another sentence; these keep their order.
        is_seen: something is shown there, as of an image and not of a comment.
    """

    offset: int
    behind: int
    raw: str
    before: bool = False
    after: bool = False
    is_tag: bool = False
    is_seen: bool = True


@dataclass
class Node:
    """An element in a sentence, or the whole sentence.

    Attributes:
        begin, end: of its words, by number; no two parts of a node share one.
        start, stop: its tags.
        parts: what it holds besides words, in their order.
    """

    begin: int
    end: int
    start: str = ""
    stop: str = ""
    parts: list[Node | Loose] = field(default_factory=list)

    def add_element(self, begin: int, end: int, start: str, stop: str) -> Node:
        """A new element at its end; a word that the one before has, too, stays with that one."""
        begin = max(begin, next((part.end for part in reversed(self.parts) if isinstance(part, Node)), self.begin))
        node = Node(begin, max(begin, min(end, self.end)), start, stop)
        self.parts.append(node)
        return node

    def add_loose(self, loose: Loose) -> None:
        """Something at its end; what stands at one place stays together."""
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Loose) and last.offset == loose.offset:
            last.raw += loose.raw
            last.is_tag |= loose.is_tag
            last.is_seen |= loose.is_seen
        else:
            self.parts.append(loose)

    def raw(self) -> str:
        """Its tags, and all that is in it but words."""
        return "".join([self.start, *(part.raw() if isinstance(part, Node) else part.raw for part in self.parts),
                        self.stop])


def put_tags(sentence: Node, translation: str, links: Links) -> str:
    """The translation of a sentence as HTML, with the tags of the sentence."""
    return _Placing(translation, links).render(sentence, 0, len(words(translation)))


class _Placing:
    def __init__(self, translation: str, links: Links) -> None:
        self.text, self.spans = translation, words(translation)
        self.sources: list[list[int]] = [[] for _ in self.spans]
        self.targets: dict[int, list[int]] = {}
        for source, target in sorted(links):
            self.sources[target].append(source)
            self.targets.setdefault(source, []).append(target)

    def render(self, node: Node, low: int, high: int) -> str:
        """What is in a node, with the words of the translation from `low` to `high`."""
        extents = self._extents(node, low, high)
        loose: dict[int, list[Loose]] = {}
        floor = low
        for number, part in enumerate(node.parts):
            if number not in extents:
                lone = part if isinstance(part, Loose) else Loose(-1, part.begin, part.raw())
                place = self._place(lone, node, low, high)
                if lone.is_tag:
                    place = max(place, floor)
                for other, (begin, end) in extents.items():
                    if begin < place < end:
                        place = begin if other > number and begin >= floor else end
                floor = place if lone.is_tag else floor
                loose.setdefault(place, []).append(lone)
        starts = {begin: (end, part) for number, (begin, end) in extents.items()
                  if isinstance(part := node.parts[number], Node)}
        whole, place = "", low
        while True:
            gap = self.text[self.spans[place - 1][1] : self.spans[place][0]] if low < place < high else ""
            whole += _with_loose(gap, loose.get(place, []), place > low, place < high)
            if place == high:
                return whole
            if place in starts:
                end, inner = starts[place]
                whole += inner.start + self.render(inner, place, end) + inner.stop
                place = end
            else:
                whole += html.escape(self.text[slice(*self.spans[place])], quote=False)
                place += 1

    def _extents(self, node: Node, low: int, high: int) -> dict[int, tuple[int, int]]:
        """Which words of the translation the elements in a node go around, by their number among its parts; no two
        have one in common."""
        elements = {number: part for number, part in enumerate(node.parts)
                    if isinstance(part, Node) and part.begin < part.end}
        part_of = {word: number for number, part in elements.items() for word in range(part.begin, part.end)}
        owners = []  # of each word: the number of an element, -1 for the node itself, None for nobody
        for word in range(low, high):
            votes = Counter(part_of.get(source, -1) for source in self.sources[word]
                            if node.begin <= source < node.end)
            owners.append(max(votes, key=lambda owner: (votes[owner], owner)) if votes else None)
        found: dict[int, tuple[int, int]] = {}
        for number, part in elements.items():
            if (part.begin, part.end) == (node.begin, node.end) and low < high:
                return {number: (low, high)}
            extent = _extent(owners, number)
            if extent is not None:
                found[number] = low + extent[0], low + extent[1]
        for number, part in elements.items():
            if number not in found and low < high:
                along = (part.begin + part.end - 2 * node.begin) / (2 * (node.end - node.begin))
                word = low + int(along * (high - low))
                if not any(begin <= word < end for begin, end in found.values()):
                    found[number] = word, word + 1
        return found

    def _place(self, loose: Loose, node: Node, low: int, high: int) -> int:
        """Before which word something goes: behind what the last word before it became; or, if it stands at the
        beginning of a word, before what that became."""
        def became(word: int) -> list[int]:
            return [target for target in self.targets.get(word, ()) if low <= target < high]

        if loose.before and not loose.after:
            return next((min(found) for word in range(loose.behind, node.end) if (found := became(word))), high)
        return next((max(found) + 1 for word in range(loose.behind - 1, node.begin - 1, -1)
                     if (found := became(word))), low)


def _extent(owners: list[int | None], number: int) -> tuple[int, int] | None:
    """The words from the first to the last one of an element, where no other element's and not many of the node's own
    are between; else the part that has most of its words."""
    best: tuple[int, int] | None = None
    most = count = others = 0
    begin = -1
    for word, owner in enumerate(owners):
        if owner == number:
            begin, count = (word, 1) if begin < 0 else (begin, count + 1)
            others = 0
            if count > most:
                best, most = (begin, word + 1), count
        elif owner is not None:
            others += 1
            if owner >= 0 or others > _BRIDGED:
                begin = -1
    return best


def _with_loose(gap: str, loose: list[Loose], has_before: bool, has_after: bool) -> str:
    """What stands between two words: `gap`, or nothing where there are not both. What is seen and had a space on either
    side has one, but for a mark that stands at once behind a word."""
    whole = ""
    is_spaced = bool(gap) or not (has_before and has_after)
    for one in loose:
        is_apart = one.is_seen and not one.is_tag
        if one.before or not one.after:
            whole, gap = whole + gap, ""
            if one.before and has_before and is_apart and not whole.endswith(" "):
                whole += " "
        whole += one.raw
        if one.before and one.after and has_after and is_spaced and is_apart:
            whole += " "
    return whole + gap
