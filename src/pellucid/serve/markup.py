"""HTML, read as a text with tags at places in it; whatever it is, nothing raises, and nothing is lost.

Reading takes time linear in the text, also where the text was made to take more: html.parser, of the standard library,
takes minutes for 60 kB of "<a " and stops at "<![", so that tags are found by one expression here. What ends inside of
a tag or comment is that to its end, as for browsers, and is kept as it is.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_S = r"[ \t\n\f\r]"  # the spaces of HTML
_NAME = r"[a-zA-Z][^ \t\n\f\r/>]*+"
_VALUE = rf"""{_S}*+={_S}*+(?>"[^"]*+"|'[^']*+'|[^ \t\n\f\r>"'][^ \t\n\f\r>]*+|(?=>))"""
_TAG = re.compile(rf"<(/?)({_NAME})((?>{_S}*+/|{_S}++|[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+(?>{_VALUE}|(?!{_S}*+=)))*+)>")
_COMMENT = re.compile(r"(?s)<!--(?>-?>|.*?--!?>|.*)|<(?>[!?]|/(?=[^a-zA-Z]))[^>]*+>?+")
_BEGUN = re.compile("</?[a-zA-Z]")
_ATTRIBUTE = re.compile(rf"""([^ \t\n\f\r/>=]++){_S}*+={_S}*+(?>"([^"]*+)"|'([^']*+)'|([^ \t\n\f\r>]*+))""")
_CLOSED = re.compile(rf"""(?:^|{_S}|["'])/$""")
_CHARACTERS = re.compile(r"(?s)&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,8}|[a-zA-Z][a-zA-Z0-9]{0,31});?|.")
_DEEPEST = 32  # elements inside of each other; those within are not told apart

_BLOCKS = frozenset(
    "address article aside audio blockquote body br button canvas caption center col colgroup dd details dialog dir "
    "div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html "
    "iframe legend li link main menu meta nav noembed noframes noscript object ol optgroup option p pre search section "
    "select summary table tbody td tfoot th thead title tr ul video xmp".split())
_VOID = frozenset("area base br col embed frame hr img input link meta source track wbr".split())
_NO_TAGS = frozenset("iframe noembed noframes script style textarea xmp".split())  # whose content has no tags
_KEPT = frozenset("code kbd math pre samp svg template var".split())  # whose content is no sentence


class Token(NamedTuple):
    """A part of the document, from `begin` to `end`; `kind` is text, start, end, or other, such as a comment."""

    kind: str
    begin: int
    end: int
    name: str = ""
    attributes: str = ""


class Mark(NamedTuple):
    """What stands at a place in the text and is none of it; `is_tag`: the start or the end of an element."""

    offset: int
    raw: str
    is_tag: bool


@dataclass
class Markup:
    """A document as text.

    Attributes:
        text: the characters that are read. Each tag that divides text is a line break, "\\n"; none else is one.
        raw: for each of them, how it stands in the document.
        marks: in their order.
        elements: the number of a start tag's mark → that of its end tag's; two lie inside of each other, or apart.
    """

    text: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    elements: dict[int, int] = field(default_factory=dict)

    def add_text(self, source: str) -> None:
        """Text of the document; entities are read as what they stand for."""
        for part in _CHARACTERS.findall(source):
            meant = html.unescape(part) if len(part) > 1 else part
            if not meant:  # what stands for no character
                self.add_mark(part, False)
            self.text += [" " if character in "\t\n\f\r" else character for character in meant]
            rest = meant[1:] if part.endswith(meant[1:]) else ""  # "&notes": what stands behind an entity without ";"
            self.raw += [part[: len(part) - len(rest)], *(rest or [""] * (len(meant) - 1))] if meant else []

    def add_break(self, raw: str) -> None:
        """What divides text."""
        self.text.append("\n")
        self.raw.append(raw)

    def add_mark(self, raw: str, is_tag: bool) -> None:
        """What stands between the characters."""
        self.marks.append(Mark(len(self.text), raw, is_tag))

    def close(self, start: int, raw: str, is_link: bool) -> None:
        """The last mark ends the element that began with the mark `start`, and stands in the document as `raw`. A link
        whose text is an address is no text."""
        offset = self.marks[start].offset
        if not (is_link and _is_address("".join(self.text[offset:]))):
            self.elements[start] = len(self.marks) - 1
            return
        for inside in range(start + 1, len(self.marks)):
            self.elements.pop(inside, None)
        del self.text[offset:], self.raw[offset:], self.marks[start:]
        self.add_mark(raw, False)


def _is_address(text: str) -> bool:
    """Whether it is one word with "://" inside."""
    return 0 < text.find("://", 1) < len(text) - 3 and not any(map(str.isspace, text))


def read_markup(document: str) -> Markup:
    """The text of a document, and what stands in it."""
    tokens, markup = list(_tokens(document)), Markup()
    ends = _ends(tokens)
    open_: list[tuple[Token, int]] = []  # with the number of the mark
    names: Counter[str] = Counter()  # of those
    last = -1
    for number, token in enumerate(tokens):
        if number <= last:
            continue
        last = ends[number] if number in ends and _is_kept(token) else number
        raw = document[token.begin : tokens[last].end]
        is_tag = token.kind in ("start", "end") and last == number and not _is_empty(token)
        if token.kind == "text":
            markup.add_text(raw)
        elif token.name in _BLOCKS:
            markup.add_break(raw)
        else:
            markup.add_mark(raw, is_tag)
        if not is_tag or token.name in _BLOCKS:
            continue
        if token.kind == "start" and len(open_) < _DEEPEST:
            open_.append((token, len(markup.marks) - 1))
            names[token.name] += 1
        elif token.kind == "end" and names[token.name]:
            while True:  # those inside that have no end of their own have none any more
                start, mark = open_.pop()
                names[start.name] -= 1
                if start.name == token.name:
                    break
            markup.close(mark, document[start.begin : token.end], token.name == "a")
    return markup


def text_of(document: str) -> str:
    """What is read in a document, without what is not to be translated."""
    return "".join(read_markup(document).text)


def _tokens(document: str) -> Iterator[Token]:
    """The parts of a document; one behind the other, they are the document."""
    begin = place = 0  # of text that has not been told yet; of what has not been looked at
    while (place := document.find("<", place)) >= 0:
        token = _token(document, place)
        if token is None:
            place += 1
            continue
        if begin < place:
            yield Token("text", begin, place)
        yield token
        begin = place = token.end
    if begin < len(document):
        yield Token("text", begin, len(document))


def _token(document: str, place: int) -> Token | None:
    """What begins with the "<" at a place; None where it is text."""
    comment = _COMMENT.match(document, place)
    if comment is not None:
        return Token("other", place, comment.end())
    tag = _TAG.match(document, place)
    if tag is None:
        return Token("other", place, len(document)) if _BEGUN.match(document, place) else None
    name, end = tag[2].lower(), tag.end()
    if tag[1]:
        return Token("end", place, end, name)
    if name not in _NO_TAGS:
        return Token("start", place, end, name, tag[3])
    closing = re.compile(rf"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE | re.ASCII).search(document, end)
    behind = None if closing is None else _TAG.match(document, closing.start())
    return Token("other", place, len(document) if behind is None else behind.end(), name)


def _ends(tokens: list[Token]) -> dict[int, int]:
    """The number of each start tag that has an end tag → that of the end tag; elements of one name lie inside of each
    other."""
    ends, starts = dict[int, int](), dict[str, list[int]]()
    for number, token in enumerate(tokens):
        if token.kind == "start" and not _is_empty(token):
            starts.setdefault(token.name, []).append(number)
        elif token.kind == "end" and starts.get(token.name):
            ends[starts[token.name].pop()] = number
    return ends


def _is_empty(token: Token) -> bool:
    """Whether a start tag is an element of its own: it has no content, or says so, as in XML."""
    return token.name in _VOID or _CLOSED.search(token.attributes) is not None


def _is_kept(token: Token) -> bool:
    """Whether nothing in the element of this start tag is translated."""
    if token.name in _KEPT:
        return True
    values = {name.lower(): a or b or c for name, a, b, c in _ATTRIBUTE.findall(token.attributes)}
    return values.get("translate", "").lower() == "no" or "notranslate" in values.get("class", "").split()
