"""The page of an inspection: one HTML file that asks nothing of anyone. Pictures are data inside of it, its style is in
its head, it has no script, and its policy forbids the browser to fetch anything."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pellucid.inspection.html import text
from pellucid.inspection.points import Points

_STYLE = """
:root { color-scheme: light; --ink: #1b1b1f; --soft: #5b5b66; --line: #d9d9e0; --mark: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1.25rem 4rem; max-width: 70rem; color: var(--ink); background: #fff;
  font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei",
  "WenQuanYi Micro Hei", sans-serif; }
h1 { font-size: 1.7rem; margin: .5rem 0 0; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 2.8rem 0 .4rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.08rem; margin: 1.8rem 0 .3rem; }
p { max-width: 46rem; margin: .4rem 0 .8rem; overflow-wrap: anywhere; }
.lead, figcaption { color: var(--soft); }
nav { margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; }
a { color: var(--mark); }
figure { margin: 1rem 0; overflow-x: auto; }
figcaption { font-size: .9rem; max-width: 46rem; }
figure > img { max-width: max(100%, 36rem); height: auto; }
.maps { display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; }
.map { margin: .4rem 0; overflow-x: auto; max-width: 100%; }
.map figcaption { text-align: center; }
.map image { image-rendering: pixelated; }
.map svg { display: block; font-size: 12px; }
.map text { fill: var(--ink); }
.map rect { fill: none; stroke: var(--line); }
.scale { color: var(--soft); font-size: .9rem; white-space: nowrap; }
.scale img { vertical-align: middle; image-rendering: pixelated; }
details { margin: .3rem 0; border: 1px solid var(--line); border-radius: .4rem; padding: .3rem .8rem; }
summary { cursor: pointer; font-weight: 600; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .22rem .9rem .22rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
.n { text-align: right; }
.sum td { font-weight: 600; border-top: 2px solid var(--ink); }
.bar { display: inline-block; height: .7rem; background: var(--mark); vertical-align: baseline; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .6rem 0 1rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.note { border-left: 4px solid #e69f00; padding: .3rem .8rem; background: #fdf6e7; }
@media print { /* paper cannot be scrolled: what is wide becomes smaller */
  * { print-color-adjust: exact; }
  nav { display: none; }
  h2, h3, h4, .lead, summary { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  figure, .wide { overflow: visible; }
  figure img, .map svg { max-width: 100%; height: auto; }
  table { font-size: .6rem; width: 100%; }
  th, td { padding-right: .4rem; white-space: normal; }
  td:not(.n) { overflow-wrap: anywhere; }
}
"""


Save = Callable[[str, bytes, Points], bytes]  # keeps a picture and its numbers under a name, and gives it back


@dataclass(frozen=True)
class Section:
    """A part of the page: its anchor, its title, one sentence on how to read it, and its HTML."""

    anchor: str
    title: str
    lead: str
    body: str


def page(title: str, facts: Sequence[tuple[str, str]], sections: Sequence[Section], language: str) -> str:
    """The whole document.

    Args:
        title: plain text.  facts: names and values, plain text.  language: that it is in, as HTML has it.
    """
    links = "\n".join(f'<a href="#{section.anchor}">{text(section.title)}</a>' for section in sections)
    told = "\n".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in facts)
    body = "\n".join(f'<section id="{section.anchor}">\n<h2>{text(section.title)}</h2>\n'
                     f'<p class="lead">{text(section.lead)}</p>\n{section.body}\n</section>' for section in sections)
    return f"""<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<link rel="icon" href="data:,">
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{text(title)}</h1>
<dl>
{told}
</dl>
<nav>
{links}
</nav>
</header>
<main>
{body}
</main>
</body>
</html>
"""
