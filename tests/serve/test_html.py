"""HTML in pieces: tags go where their words went, and nothing is lost, whatever the document and the translation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pellucid.serve.alignment import Links, words
from pellucid.serve.html import cut_html
from pellucid.serve.markup import read_markup

FRAGMENTS = [
    "<p>", "</p>", "<b>", "</b>", "<i class='x y'>", "</i>", "<a href=\"?a=1&amp;b=2>\">", "</a>", "<br>", "<br/>",
    "<s/>", "<img src=x>", "<code>", "</code>", "a < b", "&amp;", "&nbsp;", "&eacute;", "&bogus;", "&#65;", "AT&T",
    "&notes", "&#1;", "<!-- c -->", "<!-- ", "-->", "<", ">", "</", "<x", "one", "Two", "three", ".", "! ", " ", "\n",
    "  ", "é", "我好。", "\u2028", "<span translate=no>", "</span>", "<script>", "</script>", "<![", "<?p", "<td>",
    "</td>", "<script>if (a<b) {}</script>", "https://a.b/c", '"', "'", "=", "/", "<div class=notranslate>", "</div>"]
documents = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(FRAGMENTS), max_size=24).map("".join))
BALANCED = st.recursive(st.sampled_from(["one ", "Two. ", " ", "x, ", "! Ok ", "<br>"]), lambda inside: st.builds(
    lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>", st.sampled_from(["b", "i", "p", "u"]),
    st.lists(inside, max_size=4)), max_leaves=20)  # no tag inside of a word

PARTS = st.recursive(st.sampled_from(["a ", "b ", "c", "<!-- -->", "<img>", "<u>", "</s>"]), lambda inside: st.builds(
    lambda tag, parts: f"<{tag}>a {''.join(parts)}</{tag}>", st.sampled_from(["b", "i"]), st.lists(inside, min_size=1)))
SENTENCES = st.lists(PARTS, min_size=2).map("".join)
WORDS = st.lists(st.sampled_from(["a", "b ", " ", "<", "&", ", ", ". ", "我"]), max_size=9).map("".join)


def yes(piece: str) -> bool:
    return True


def tags(document: str) -> list[str]:
    """Tags and all else that is no text, by our own reader."""
    markup = read_markup(document)
    return [mark.raw for mark in markup.marks] + [
        raw for text, raw in zip(markup.text, markup.raw, strict=True) if text == "\n"]


def said(document: str) -> str:
    """The text without spaces."""
    return "".join("".join(read_markup(document).text).split())


def is_balanced(document: str) -> bool:
    open_: list[str] = []
    for tag in re.findall("<[^>]*>", document):
        if tag.startswith("</"):
            if not open_ or open_.pop() != tag[2:-1]:
                return False
        elif tag != "<br>":
            open_.append(tag[1:-1])
    return not open_


def same_order(pairs: Sequence[tuple[str, str]]) -> list[Links]:
    return [[(i, i) for i in range(len(words(target)))] for _, target in pairs]


def shouted(pieces: Sequence[str]) -> list[str]:
    """The same words in another form, letter by letter, so that each stands where it stood."""
    return [piece.replace("o", "0").replace("e", "3") for piece in pieces]


@settings(max_examples=600, deadline=None)
@given(document=documents)
@example(document="&A &notes &nbspx")
def test_the_pieces_themselves_give_the_document_back(document: str) -> None:
    passage = cut_html(document, yes)
    assert passage.put(passage.pieces) == document
    assert all(piece.strip() == piece != "" for piece in passage.pieces)


@settings(max_examples=400, deadline=None)
@given(document=BALANCED)
def test_words_that_keep_their_places_keep_their_tags(document: str) -> None:
    passage = cut_html(document, yes)
    wanted = "".join(part if part.startswith("<") else shouted([part])[0] for part in re.split("(<[^>]*>)", document))
    assert "".join(passage.put(shouted(passage.pieces), same_order).split()) == "".join(wanted.split())


def put_anyhow(document: str, data: st.DataObject) -> tuple[list[str], str]:
    """Translations of its pieces, and the document with them, whatever became of the words."""
    passage = cut_html(document, yes)
    translations = [data.draw(WORDS, label="translation") for _ in passage.pieces]

    def align(pairs: Sequence[tuple[str, str]]) -> list[Links]:
        sizes = [(len(words(source)), len(words(target))) for source, target in pairs]
        drawn = [data.draw(st.lists(st.integers(-1, max(1, a - 1)), max_size=9), label="links") for a, _ in sizes]
        return [[(source, place) for place, source in enumerate(each[:b]) if 0 <= source < a]
                for each, (a, b) in zip(drawn, sizes, strict=True)]

    return translations, passage.put(translations, align)


@settings(max_examples=300, deadline=None)
@given(document=st.one_of(BALANCED, documents, SENTENCES), data=st.data())
def test_nothing_is_lost_whatever_becomes_of_the_words(document: str, data: st.DataObject) -> None:
    translations, put = put_anyhow(document, data)
    assert Counter(tags(put)) == Counter(tags(document))
    assert said(put) == "".join("".join(translations).split())


@settings(max_examples=150, deadline=None)
@given(document=SENTENCES, data=st.data())
def test_tags_and_comments_bring_no_space(document: str, data: st.DataObject) -> None:
    translations, put = put_anyhow(document.replace("<img>", ""), data)
    assert "".join(read_markup(put).text).split() == " ".join(translations).split()


@settings(max_examples=150, deadline=None)
@given(document=st.one_of(BALANCED, SENTENCES.map(lambda one: re.sub("<(?:u|/s|img|!-- --)>", "", one))),
       data=st.data())
def test_elements_stay_inside_of_each_other(document: str, data: st.DataObject) -> None:
    assert is_balanced(document)
    assert is_balanced(put_anyhow(document, data)[1])


def crossed(pairs: Sequence[tuple[str, str]]) -> list[Links]:
    """The links that the letters say: equal words are each other's, without case."""
    found = []
    for source, target in pairs:
        sides = [[text[begin:end].lower() for begin, end in words(text)] for text in (source, target)]
        found.append([(i, j) for i, a in enumerate(sides[0]) for j, b in enumerate(sides[1]) if a == b])
    return found


@pytest.mark.parametrize(("document", "translation", "put"), [
    ("The <b>white</b> <i>house</i>.", "HOUSE WHITE.", "<i>HOUSE</i> <b>WHITE</b>."),
    ("<p>See <a href='/x'>the big cat</a> now.</p>", "NOW the CAT big see.",
     "<p>NOW <a href='/x'>the CAT big</a> see.</p>"),
    ("not <b>ever</b>", "EVER x y", "<b>EVER</b> x y"),
    ("<b>do not</b> go", "NOT go DO", "<b>NOT go DO</b>"),
    ("<b>do not</b> go on", "NOT go on DO", "<b>NOT</b> go on DO"),
    ("<i>a b c</i> d", "A x B C D", "<i>A x B C</i> D"),
    ("Run <code>make &lt;x></code> now.", "NOW run.", "NOW run <code>make &lt;x></code>."),
    ("one<br>two", "ONE|TWO", "ONE<br>TWO"), ("a &lt; b &amp; c", "A & <b>", "A &amp; &lt;b&gt;"),
    ("<td>one</td><td>two</td>", "ONE|TWO", "<td>ONE</td><td>TWO</td>"),
    ("<b>One. Two.</b> Three", "1|2|3", "<b>1 2</b> 3"),
    ("One <b>two. Three</b> four.", "TWO ONE.|FOUR THREE.", "<b>TWO ONE. FOUR THREE</b>."),
    ("<p>one\n   two</p>", "1 2", "<p>1 2</p>"), ("&nbsp;one&nbsp;", "1", "&nbsp;1&nbsp;"),
    ("one <!-- c --> two", "TWO ONE", "TWO ONE<!-- c -->"), ("one <!-- c --> two.", "TWO ONE.", "TWO ONE<!-- c -->."),
    ("oh, <!-- -->5<!-- --> one.", "我，5个。", "我，<!-- -->5<!-- -->个。"),  # as React writes it
    ("see <img> two.", "TWO SEE.", "TWO SEE <img>."), ("<i></i>one", "1", "<i></i>1"),
    ("one <img src='a>b'> two", "ONE TWO", "ONE <img src='a>b'> TWO"),
    ("<p translate='no'>one</p>two", "2", "<p translate='no'>one</p>2"),
    ("a <span class='x notranslate'>b</span> c", "A C", "A <span class='x notranslate'>b</span> C"),
    ("<p>see <a href='h'><span hidden>https://</span>a.b/c</a>!</p>", "SEE!",
     "<p>SEE <a href='h'><span hidden>https://</span>a.b/c</a>!</p>"),
    ("<b>the</b> cat", "chat", "<b>chat</b>"), ("<b>one", "1", "<b>1"), ("one</b> two", "ONE TWO", "ONE</b> TWO"),
    ("one <b>two. Three.</b>", "TWO ONE.|THREE.", "<b>TWO ONE. THREE.</b>"),
    ("<b>One. Two</b> three.", "ONE.|THREE TWO.", "<b>ONE. THREE TWO</b>."),
    ("<b>One. Two</b> x <i>three. Four</i>.", "ONE.|THREE x TWO.|FOUR.", "<b>ONE. THREE x TWO</b><i>. FOUR</i>."),
    ("<i>one <b>two</i> three", "TWO ONE THREE", "<i><b>TWO ONE</i> THREE"),
    ("a <img> <b>c d</b> e", "C A D E", "<img> <b>C A D</b> E"),
    ("<b>a d</b><img> c", "D x A C", "<b>D x A</b><img> C"), ('a "b" <i>c</i>', 'A "B" C', 'A "B" <i>C</i>'),
    ("我好。你好。", "A.|B.", "A. B."), ("<p>A one. <b>B two.</b></p>", "我。|你。", "<p>我。<b>你。</b></p>"),
    ("<b>one <i>two</b> three</i>", "ONE TWO THREE", "<b>ONE <i>TWO</b> THREE</i>"),
])
def test_by_hand(document: str, translation: str, put: str) -> None:
    assert cut_html(document, yes).put(translation.split("|"), crossed) == put


@pytest.mark.parametrize(("document", "pieces"), [
    ("<!-->one", "one"), ("<!--->one", "one"), ("<!-- a --!>one", "one"), ("<!-- -- > a -->one", "one"),
    ("<!--one", ""), ("<![CDATA[a>b]]>", "b]]>"), ("<?a b>one", "one"), ("<!doctype html>one", "one"),
    ("</ a>one", "one"), ("</\na>one", "one"), ("</>one", "one"), ("</", "</"), ("one <1 a", "one <1 a"),
    ("<a href='>one", ""), ("<a b='>' c = \">\" d=e>one</a>", "one"), ("<b \"x>one", "one"), ("one</b x='>", "one"),
    ("</b title='>'>one", "one"), ("<script>a</scripty>b</script c='>'>one", "one"), ("<script>one", ""),
    ("<SCRIPT>a</Script\n>one", "one"), ("<script>a</\u017fcript>b</script>one", "one"), ("<xmp>a</xmp", ""),
    ("<style><b></style>one", "one"), ("<p>one<script>'<p>two'</script>three</p>", "onethree"),
    ("<i translate=no>a</i>one", "one"), ('<i TRANSLATE="No">a</i>one', "one"), ("<i translate='no'/>one</i>", "one"),
    ("&notit; &amp &#x41; &#65z &bogus; &#1;", "¬it; & A Az &bogus;"), ("<code>a<code>b</code>c</code>one", "one"),
])
def test_what_is_text_is_what_a_browser_shows(document: str, pieces: str) -> None:
    assert "|".join(cut_html(document, yes).pieces) == pieces


@pytest.mark.parametrize(("document", "translations", "put"), [
    ("<2", "<|b", "&lt;b"), ("&lt2", "<|; b", "&lt;; b"), ("<<i>2</i>", "<|b", "&lt;<i>b</i>"), ("<2", "<|2", "<2"),
    ("&2", "a|2", "a2"), ("< 2", "<|b", "< b")])
def test_a_piece_that_stays_makes_no_tag_of_the_next_one(document: str, translations: str, put: str) -> None:
    passage = cut_html(document, lambda piece: len(piece) < 2)
    assert len(passage.pieces) == 2
    assert passage.put(translations.split("|")) == put


def test_links_of_many_addresses_take_no_longer() -> None:
    document = "<a>" * 32 + "://" * 20_000 + " b" + "</a>" * 32
    passage = cut_html(document, lambda piece: len(piece) < 200)
    assert passage.put(passage.pieces) == document


@pytest.mark.parametrize("text", ["h://x", "://x", "h://", "h:// x", "h ://x", "://://x", "a b://c", "", "h://\u2003x"])
def test_an_address_is_one_word(text: str) -> None:
    is_one = re.fullmatch(r"\S+://\S+", text) is not None
    assert list(cut_html(f"<a>{text}</a>", yes).pieces) == ([] if is_one or not text.strip() else [text])


@pytest.mark.parametrize("part", ["<", "<a ", "<!--", "</", "<a b='", "&", "&a", "<![", "<!", "<?", "<a =", "<script>",
                                  "<b>", "</b>", "<b></b>", "<b>x ", "<i>x</i>", "<code>", "&#9999999999", "<a b=\"'",
                                  "<b><!-- --> x</b> ", "\n", "x ", "<br>", "<a>h://x</a>", "]]>", "a<b ", "<p>x"])
def test_a_document_that_was_made_to_take_long(part: str) -> None:
    document = part * (60_000 // len(part))
    passage = cut_html(document, lambda piece: len(piece) < 200)
    assert passage.put(passage.pieces) == document
    assert Counter(tags(passage.put(shouted(passage.pieces)))) == Counter(tags(document))
