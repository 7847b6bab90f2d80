"""The part of a plan that is about a world of ranks, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pellucid.cli.sizes import in_words
from pellucid.language import so_many

if TYPE_CHECKING:
    from pellucid.plan.ranks import Ranks

Row = Callable[..., str]  # a name, a value, and a share that is drawn
Said = Callable[[str], str]


def world_lines(ranks: Ranks, row: Row, said: Said, titled: Said) -> Iterator[str]:
    """What was predicted, what was measured for it, and what is assumed."""
    engine = "DDP" if ranks.shard == 1 else f"FSDP2 over {ranks.shard}"
    yield titled(f"A world of {ranks.asked.size:,} ranks ({engine}, {ranks.asked.per_host} a host)")
    yield from _predicted(ranks, row)
    yield row("micro-batches an update, of a rank", f"{ranks.accumulate // ranks.asked.size:,}")
    yield row("waiting for the dearest, as dealt", f"{100 * ranks.idle:.1f} %")
    yield row("sent by a rank, an update", in_words(ranks.traffic.bytes))
    yield row("collectives, an update", f"{ranks.traffic.collectives:,}")
    yield row("memory of a rank", in_words(ranks.memory))
    for holder, size in sorted(ranks.holdings.items(), key=lambda item: -item[1]):
        yield row(f"  {holder}", in_words(size), size / ranks.memory)
    yield from _measured(ranks, row, titled)
    yield "\nAssumed of the world"
    yield from map(said, ranks.assumed)


def _predicted(ranks: Ranks, row: Row) -> Iterator[str]:
    update = ranks.update
    if update is None or ranks.strong is None or ranks.weak is None:
        return
    yield row("tokens a second", f"{ranks.tokens_per_second:,.0f}")
    yield row("an update", f"{update.seconds:.3g} s")
    waiting = update.slowest - update.mean
    for name, part in (("computing", update.mean), ("waiting for the last", waiting),
                       ("exchanging", update.exchange), ("optimizer", update.step)):
        yield row(f"  {name}", f"{part:.3g} s", part / update.seconds)
    yield row("strong efficiency", f"{100 * ranks.strong:.0f} %")
    yield row("weak efficiency", f"{100 * ranks.weak:.0f} %")


def _measured(ranks: Ranks, row: Row, titled: Said) -> Iterator[str]:
    """What is true of this machine."""
    pace = ranks.pace
    if pace is None or not pace.ranks:
        return
    yield titled(f"Measured here, {so_many(pace.ranks, 'rank')} of one thread at once")
    mean = pace.batch + pace.place * ranks.tokens / ranks.accumulate
    yield row("a micro-batch", f"{mean:.3g} s")
    yield row("an optimizer's step", f"{pace.step:.3g} s")
    if pace.byte:
        yield row("sent within a host", f"{1e-9 / pace.byte:.3g} GB/s")
        yield row("waiting for the last, at equal work", f"{100 * pace.late:.0f} %")
        yield row("a collective of five numbers", f"{1000 * pace.collective:.3g} ms")
    if pace.others is not None:
        yield row("taken by other processes", f"{100 * pace.others:.0f} %")
