"""`pellucid prepare`: the tokenizer and the ids of a run, made by as many processes as are started in its folder.

The first makes the tokenizer, and the others wait for it. Each shard is encoded by who claims it (data/claims.py), and
who comes last joins them to what one process would have written. In RUN/prepared, a folder a split:

    parts/000007     the ids of a shard, until they are joined; meanwhile read-000007 says how many bytes are read
    claims/000007    who encodes it
    ids              all of them, which `open_corpus` finds; there when it is done
"""

import contextlib
import fcntl
import functools
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pellucid.cache import is_scratch, remove
from pellucid.config import RunConfig
from pellucid.data.claims import awaited, claimed, share_out
from pellucid.data.corpus import changed_meanwhile, is_whole, key_of, open_corpus, prepared_folder
from pellucid.data.encoding import dtype_of, join_parts, write_part
from pellucid.data.examples import check_tokenizers
from pellucid.data.shards import shards_of
from pellucid.data.splits import Pairs, check_beginnings, splits_to_train
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.errors import CheckpointError
from pellucid.files import check_folder, make_folder, remove_leftovers, write_folder
from pellucid.model.build import check
from pellucid.runs.folder import (
    has_begun,
    held,
    missing_places,
    prepare_tokenizers,
    read_config,
    refuse_foreign,
    refuse_other_data,
    taken_back,
    write_config,
)
from pellucid.runs.passages import with_passages
from pellucid.runs.slim import refuse_slim
from pellucid.train.initialize import source_of
from pellucid.train.journal import Reporter, duration, telling_lines
from pellucid.train.unseen import check_unseen


def prepare(config: RunConfig, out: Path, reporter: Reporter) -> dict[str, Any]:
    """Makes what `train` would make of the data, together with all other processes that do so in the folder `out`.

    Returns:
        When all is there: of each split, what became of its lines, and how many shards this process encoded.

    Raises:
        UserError: with the exit code of its kind.
    """
    check(config.model)
    refuse_slim(out)
    refuse_foreign(out)
    made = missing_places(out)
    make_folder(out)
    with held(out, fcntl.LOCK_SH, "a process is training in this folder"):
        with awaited(out / ".preparing", lambda who: reporter.progress(f"waiting for {who}, who begins")):
            splits, tokenizers = _begin(config, out, made, reporter)
        report = {}
        for name in (name for name in splits if name != "test"):
            work = Preparation(splits[name], tokenizers, config, reporter)
            work.run()
            found = open_corpus(splits[name], tokenizers, config).report
            reporter.say(f"{name}: {found}; {work.did:,} of {len(work.names):,} shards encoded by this process")
            report[name] = {**asdict(found), "shards": len(work.names), "encoded_here": work.did}
            work.forget_others()
    return report


def _begin(config: RunConfig, out: Path, made: Sequence[Path],
           reporter: Reporter) -> tuple[dict[str, Pairs], Tokenizers]:
    """The splits and the tokenizers; who comes first makes them, and leaves nothing behind if that fails."""
    is_first = not (out / "config.yaml").exists()
    with taken_back(out, made) if is_first else contextlib.nullcontext():
        if is_first:
            source_of(config)
            write_config(config, out)
        refuse_other_data(read_config(out), config, out)
        splits = splits_to_train(config, out)
        if not has_begun(out):
            check_beginnings(splits)
            check_unseen(config, splits)
        telling = functools.partial(telling_lines, splits["train"].split, "tokenizer", reporter)
        tokenizers = prepare_tokenizers(config, splits["train"], out, reporter.say, telling)
        check_tokenizers(config, tokenizers)
        splits = with_passages(splits, config, out, reporter.progress)
    return splits, tokenizers


class Preparation:
    """The ids of one split, as far as this process makes them.

    Attributes:
        names: of the shards.
        did: how many of them this process encoded.
    """

    def __init__(self, pairs: Pairs, tokenizers: Tokenizers, config: RunConfig, reporter: Reporter) -> None:
        pairs.check()
        self.pairs, self.tokenizers, self.config, self.reporter = pairs, tokenizers, config, reporter
        folder = prepared_folder(pairs, key_of(pairs, tokenizers, config))
        assert folder is not None
        self.folder, self.parts, self.claims = folder, folder.parent / "parts", folder.parent / "claims"
        self.shards = {f"{i:06}": shard for i, shard in enumerate(shards_of(pairs.split))}
        self.sizes = {name: sum(Path(file).stat().st_size for file in shard.files)
                      for name, shard in self.shards.items()}
        self.names = list(self.sizes)
        self.did, self._begun, self._there = 0, time.monotonic(), self._state()[1]  # since then, the speed of all

    def run(self) -> None:
        """Encodes what nobody else does, until all is there."""
        dtype = dtype_of(self.tokenizers, self.config.task)
        with self._claim("join"):
            if self.folder.exists() and not is_whole(self.folder, dtype):
                shutil.rmtree(self.folder)
        while busy := share_out(self.names, self.claims, self._is_done, self._encode):
            with self._claim(busy[0]):
                pass  # it is done, or free
        with self._claim("join"):
            if not self.folder.exists():
                for name in filter(self._is_damaged, self.names):
                    self._encode(name)
                self.reporter.say(f"{self.pairs.name}: joining {len(self.names):,} shards")
                parts = [self.parts / name for name in self.names]
                if prepared_folder(self.pairs, key_of(self.pairs, self.tokenizers, self.config)) != self.folder:
                    shutil.rmtree(self.parts)
                    raise changed_meanwhile(self.pairs)
                write_folder(self.folder, lambda place: join_parts(self.pairs, parts, place, dtype))
            shutil.rmtree(self.parts, ignore_errors=True)
            remove_leftovers(self.folder.parent)

    def forget_others(self) -> None:
        """Removes what was prepared of this split when its data or its tokenizer was another. What a process is at work
        on stays, and a folder that holds anything else."""
        for other in self.folder.parent.parent.glob(f"{self.pairs.name}-{'[0-9a-f]' * 16}"):
            if other == self.folder.parent or other.is_symlink() or not other.is_dir():
                continue
            if any(path.name not in ("ids", "parts", "claims") and not is_scratch(path) for path in other.iterdir()):
                continue
            with contextlib.ExitStack() as stack:
                pieces = (other / "claims").glob("*")
                if all(stack.enter_context(claimed(path)) for path in pieces):
                    remove(other)

    def _claim(self, name: str) -> contextlib.AbstractContextManager[None]:
        path = self.claims / name
        return awaited(path, lambda who: self.reporter.progress(f"{self._how_far()}; waiting for {who}"))

    def _is_done(self, name: str) -> bool:
        return (self.parts / name).exists() or self.folder.exists()

    def _is_damaged(self, name: str) -> bool:
        try:
            check_folder(self.parts / name)
        except CheckpointError:
            return True
        return False

    def _encode(self, name: str) -> None:
        lines = self.shards[name].lines()

        def told(read: int) -> None:
            if lines:
                self._note(name, self.sizes[name] * min(read, lines) // lines)
            of_all = f" of {max(lines, read):,}" if lines else ""
            self.reporter.progress(f"{self._how_far()}; shard {int(name) + 1:,}: {read:,}{of_all} lines")

        def fill(place: Path) -> None:
            self._there -= self._read_of(name)  # by one that was killed
            self._note(name, 0)
            write_part(self.pairs, (int(name), self.shards[name]), self.tokenizers, self.config, place, told)

        write_folder(self.parts / name, fill)
        self.did += 1

    def _how_far(self) -> str:
        """How many shards are encoded, by whomever, and how long the others will take."""
        done, read = self._state()
        left, speed = sum(self.sizes.values()) - read, (read - self._there) / max(time.monotonic() - self._begun, 1e-9)
        words = f"{self.pairs.name}: {done:,} of {len(self.names):,} shards encoded"
        return words + (f", about {duration(left / speed)} left" if speed > 0 and left else "")

    def _state(self) -> tuple[int, int]:
        """How many shards are done and how many bytes are read, by whomever: one look into the folder, as there may be
        thousands of shards."""
        try:
            there = {path.name for path in self.parts.iterdir()}
        except FileNotFoundError:
            there = set(self.names) if self.folder.exists() else set()
        done = self.sizes.keys() & there
        begun = [name for name in self.sizes if f"read-{name}" in there and name not in done]
        return len(done), sum(self.sizes[name] for name in done) + sum(map(self._read_of, begun))

    def _note(self, name: str, read: int) -> None:
        """For all processes: how many bytes of a shard that is not done are read."""
        with contextlib.suppress(OSError):  # the disk is full: the ids tell
            (self.parts / f"read-{name}").write_text(str(read), encoding="utf-8")

    def _read_of(self, name: str) -> int:
        try:
            return int((self.parts / f"read-{name}").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # nobody has begun it, or it is just being written
            return 0
