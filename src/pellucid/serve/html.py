"""HTML cut into pieces that a model translates, and put together with its tags where their words went.

Tags that divide text divide it here; those inside of a sentence are no part of what the model reads, and are put around
the words of the translation that their words became. Comments, attributes, entities outside of sentences, and what is
not to be translated stay to the byte, and so does a sentence that comes back as it was.
"""

from __future__ import annotations

import html
import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pellucid.serve.alignment import Aligner, proportional, words
from pellucid.serve.markup import Markup, read_markup
from pellucid.serve.passages import between, cut
from pellucid.serve.tags import Loose, Node, put_tags

_UNSEEN = re.compile(r"(?i)&|<[!?/]|<(?:script|style|template|wbr)\b")  # of what stands between words
_Marks = tuple[tuple[int, ...], ...]  # their numbers, of each of several places


@dataclass(frozen=True)
class HtmlPassage:
    """A document in pieces.

    Attributes:
        pieces: what is translated: text, without tags and entities, and with single spaces.
    """

    pieces: tuple[str, ...]
    _markup: Markup
    _bounds: tuple[tuple[int, int], ...]  # of each piece, in the text
    _inside: _Marks  # of each piece, the marks that go where its words go
    _around: _Marks  # the marks before each piece and behind the last, as the document has them

    @property
    def has_tags(self) -> bool:
        """Whether some are inside of a sentence."""
        return any(self._inside)

    def put(self, translations: Sequence[str], align: Aligner = proportional) -> str:
        """The document with a translation in the place of each piece; with the pieces themselves, it is as it was.

        Args:
            align: is asked for the links of all sentences with tags inside at once, if there are any.
        """
        pairs = [(piece, translation.strip()) for piece, translation in zip(self.pieces, translations, strict=True)]
        changed = dict.fromkeys(number for number, (piece, translation) in enumerate(pairs) if piece != translation)
        tagged = [number for number in changed if self._inside[number]]
        links = dict(zip(tagged, align([pairs[number] for number in tagged]), strict=True)) if tagged else {}
        moved = {mark for number in tagged for mark in self._inside[number]}
        whole = []
        for number, (_, translation) in enumerate(pairs):
            begin, end = self._bounds[number]
            whole.append(self._gap(number, pairs, moved))
            if number not in changed:
                inside = [mark for mark in self._inside[number] if begin < self._markup.marks[mark].offset < end]
                is_cut = number + 1 in changed and self._bounds[number + 1][0] == end
                whole.append(self._verbatim(begin, end, inside, is_cut))
            elif number in links:
                whole.append(put_tags(self._tree(number), translation, links[number]))
            else:
                whole.append(html.escape(translation, quote=False))
        return "".join([*whole, self._gap(len(pairs), pairs, moved)])

    def _gap(self, number: int, pairs: Sequence[tuple[str, str]], moved: set[int]) -> str:
        """What stands before a piece, or behind the last one."""
        begin = self._bounds[number - 1][1] if number else 0
        end = self._bounds[number][0] if number < len(pairs) else len(self._markup.text)
        marks = [mark for mark in self._around[number] if mark not in moved]
        if 0 < number < len(pairs):
            was = "".join(self._markup.text[begin:end])
            now = between(*pairs[number - 1], was)
            if now != was:
                return now + self._verbatim(end, end, marks)
        return self._verbatim(begin, end, marks)

    def _verbatim(self, begin: int, end: int, marks: Sequence[int], is_cut: bool = False) -> str:
        """A part of the text as it stands in the document, with these marks; `is_cut`: other text follows at once, of
        which a "<" or "&" here would make a tag or an entity."""
        text, raw = self._markup.text[begin:end], self._markup.raw[begin:end]
        raw = [html.escape(character, quote=False) for character in text] if is_cut else raw
        parts, place = [], begin
        for number in marks:
            mark = self._markup.marks[number]
            parts += [*raw[place - begin : mark.offset - begin], mark.raw]
            place = max(place, mark.offset)
        return "".join([*parts, *raw[place - begin :]])

    def _tree(self, number: int) -> Node:
        """A sentence, its elements and what else is in it."""
        markup, (begin, end) = self._markup, self._bounds[number]
        spans = [(begin + a, begin + b) for a, b in words("".join(markup.text[begin:end]))]
        begins, ends = [a for a, _ in spans], [b for _, b in spans]
        inside = set(self._inside[number])
        open_ = [Node(0, len(spans))]
        stops = set[int]()  # of the elements that are open
        for each in self._inside[number]:
            mark, stop = markup.marks[each], markup.elements.get(each, -1)
            if each in stops:
                open_.pop()
            elif stop in inside and markup.marks[stop].offset > mark.offset:
                stops.add(stop)
                covered = bisect_left(ends, mark.offset + 1), bisect_left(begins, markup.marks[stop].offset)
                open_.append(open_[-1].add_element(*covered, mark.raw, markup.marks[stop].raw))
            else:
                before, after = (_is_space(markup.text[place : place + 1]) for place in (mark.offset - 1, mark.offset))
                open_[-1].add_loose(Loose(mark.offset, bisect_left(begins, mark.offset), mark.raw, before, after,
                                          mark.is_tag, _UNSEEN.match(mark.raw) is None))
        return open_[0]


def _is_space(around: Sequence[str]) -> bool:
    return bool(around) and around[0].isspace()


def cut_html(document: str, fits: Callable[[str], bool]) -> HtmlPassage:
    """A document in pieces; nothing raises, whatever it is.

    Args:
        fits: as of `cut`.
    """
    markup = read_markup(document)
    passage = cut("".join(markup.text), fits)
    bounds, place = [], 0
    for gap, piece in zip(passage.gaps, passage.pieces, strict=False):
        bounds.append((place + len(gap), place + len(gap) + len(piece)))
        place = bounds[-1][1]
    pieces = tuple(re.sub(" +", " ", piece) for piece in passage.pieces)
    return HtmlPassage(pieces, markup, tuple(bounds), *_places(markup, bounds))


def _places(markup: Markup, bounds: Sequence[tuple[int, int]]) -> tuple[_Marks, _Marks]:
    """The marks whose places follow from the words of each piece, and those before each and behind the last. A tag
    before or behind a piece is among both if its element has its other tag within."""
    around: list[list[int]] = [[] for _ in (*bounds, None)]
    inside: list[set[int]] = [set() for _ in bounds]
    places = []  # of each mark: the piece that it is in, or else the gap, and whether it is in a piece
    for number, mark in enumerate(markup.marks):
        piece = bisect_left(bounds, mark.offset, key=lambda bound: bound[1])
        begin, end = bounds[piece] if piece < len(bounds) else (mark.offset, -1)
        places.append((piece + (mark.offset == end), begin < mark.offset < end))
        if begin < mark.offset < end:
            inside[piece].add(number)
        else:
            around[piece + (mark.offset == end)].append(number)
    lines = [0, *itertools.accumulate(character == "\n" for character in markup.text)]  # before each place
    for start, stop in markup.elements.items():
        (first, starts_inside), (last, stops_inside) = places[start], places[stop]
        is_on_line = lines[markup.marks[start].offset] == lines[markup.marks[stop].offset]
        if starts_inside and not stops_inside and first == last - 1 and is_on_line:
            inside[first].update(mark for mark in around[last] if mark <= stop)
        elif stops_inside and not starts_inside and first == last and is_on_line:
            inside[last].update(mark for mark in around[first] if mark >= start)
    return tuple(tuple(sorted(marks)) for marks in inside), tuple(map(tuple, around))
