"""All that can be said about the data of a configuration, in two passes over each file."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pellucid.config import RunConfig, TrainConfig
from pellucid.data.examples import check_tokenizers
from pellucid.data.sample import sample_corpus
from pellucid.data.shards import shard_and_line, shards_of
from pellucid.data.splits import Pairs
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.doctor import labels, tokens
from pellucid.doctor.advice import ADVICE
from pellucid.doctor.draft import Draft, finish
from pellucid.doctor.duplicates import leaks
from pellucid.doctor.finding import Finding, Severity, Tally
from pellucid.doctor.first_pass import FirstPass
from pellucid.doctor.pairs import Normal, PairCheck
from pellucid.doctor.reading import Progress, Reading, Window, parts_of
from pellucid.doctor.shift import LOST, Stretch
from pellucid.errors import UserError
from pellucid.train.journal import how_far

_FEW_UNKNOWN, _MANY_UNKNOWN = 0.001, 0.03  # shares of the tokens: a note, a warning
_FREE = 0.002  # of pairs are free translations, as a rule: fewer misaligned ones are not told


@dataclass(frozen=True)
class DataReport:
    """What was found, and what the data is like."""

    findings: list[Finding]
    facts: dict[str, Any]


def examine(config: RunConfig, splits: dict[str, Pairs], load: Callable[[], Tokenizers | None],
            progress: Progress) -> DataReport:
    """Reads the splits twice and says what is wrong with them.

    Args:
        load: gives the tokenizers there are already; None to try some on a sample.
        progress: told now and then how far it is.
    """
    firsts = [FirstPass(part, config.task) for part in parts_of(splits)]
    drafts: list[Draft] = []
    for first in firsts:
        first.run(progress)
        drafts += _of_reading(first)
    drafts += _of_duplicates(firsts)
    if config.task == "classification":
        drafts += labels.drafts([(first.part, first.labels) for first in firsts])
    findings = [Finding.of_error("unreadable", "broken", first.part.name, first.reading.stop, "training stops there")
                for first in firsts if first.reading.stop is not None] + finish(drafts)
    findings += [Finding.of_nothing(share) for first in firsts for share in first.part.shares
                 if first.reading.stop is None and not first.reading.columns.count and not first.records[share.name]]
    facts: dict[str, Any] = {name: {"records": count} for first in firsts for name, count in first.records.items()}
    train = firsts[0]
    if train.reading.records == 0:
        return DataReport(findings, facts)
    progress("learning what is normal")
    is_alone = config.task == "classification" or train.part.whole.fields.are_one
    normal = Normal.learn(train.sample, is_alone)
    if normal.copies:
        findings += finish([Draft("copying", train.part, train.reading.records, train.reading.records)])
    try:
        pairs, of_train = train.sampled("train").pairs, train.labels["train"].counts
        tokenizers = load() or tokens.sample_tokenizers(config, pairs, of_train)
        check_tokenizers(config, tokenizers)
    except UserError as error:
        tokenizers = None
        findings.append(Finding.of_error("tokenizer", "broken", "tokenizer", error, "training stops"))
    for first in firsts:
        lengths = None if tokenizers is None else tokens.LengthCheck(config, tokenizers)
        findings += finish(_judged(first, PairCheck(normal, is_alone), lengths, progress))
    if tokenizers is not None:
        more, facts["tokens"] = token_findings(config, firsts, tokenizers)
        findings += more
    facts["words_tell"] = normal.words is not None
    return DataReport(findings, facts)


def _of_reading(first: FirstPass) -> list[Draft]:
    part, reading = first.part, first.reading
    drafts = []
    if reading.lengths is not None:
        source, target, shard = reading.lengths
        which = f" ({' and '.join(shard.files)})" if len(shards_of(part.whole.split)) > 1 else ""
        drafts.append(Draft("line_counts", part, abs(source - target), max(source, target),
                            say=f"the source has {source:,} lines and the target {target:,}{which}"))
    if reading.columns.count:
        drafts.append(Draft.of("columns", part, reading.columns, reading.records + reading.columns.count))
    for side, lines in enumerate(reading.texts):
        drafts += [Draft.of(kind, part, tally, lines.count, side) for kind, tally in lines.faults.items()]
    for side, tallies in enumerate(first.characters):
        drafts += [Draft.of(kind, part, tally, reading.records, side) for kind, tally in tallies.items()]
    return drafts


def _of_duplicates(firsts: Sequence[FirstPass]) -> list[Draft]:
    drafts = []
    seen = {name: (first.part, first.seen[name]) for first in firsts for name in first.seen}
    for name, (part, rows) in seen.items():
        exact, normal, rate = rows.repeated()
        total = int(rows.rows.shape[1] / rate)
        for kind, numbers in (("duplicates", exact), ("duplicates_normalised", normal)):
            drafts.append(_estimated(Draft.of(kind, part, Tally.of(numbers), total, where=name), rate))
    for held_out, training in (("validation", "train"), ("test", "train"), ("test", "validation")):
        if held_out in seen and training in seen:
            part, rows = seen[held_out]
            found = leaks(rows, seen[training][1])
            total = int(rows.rows.shape[1] / rows.rate)
            where = f"{held_out} in {training}"
            for kind, numbers in (("leak", found.exact), ("leak_normalised", found.normalised),
                                  ("leak_source", found.source)):
                drafts.append(_estimated(Draft.of(kind, part, Tally.of(numbers), total, where=where), found.rate))
    return [draft for draft in drafts if draft.count]


def _estimated(draft: Draft, rate: float) -> Draft:
    return replace(draft, count=int(draft.count / rate))


def _judged(first: FirstPass, pairs: PairCheck, lengths: tokens.LengthCheck | None, progress: Progress) -> list[Draft]:
    """The second pass over a part: pairs by what is normal, lengths by the tokenizer."""
    part, records, begun = first.part, first.reading.records, time.monotonic()
    reading = Reading(part.whole)
    for window in reading.windows():
        pairs.add(window)
        if lengths is not None:
            lengths.add(window)
        progress(f"{part.name}: {how_far(reading.records, records, 'records judged', begun)}")
    drafts = [Draft.of(kind, part, tally, records) for kind, tally in pairs.tallies.items() if tally.count]
    for i, draft in enumerate(drafts):
        if draft.kind == "foreign_script":
            drafts[i] = replace(draft, say=f"{ADVICE[draft.kind].what} ({', '.join(sorted(pairs.scripts))})")
        elif draft.kind == "swapped" and draft.count * 2 > records:
            drafts[i] = replace(draft, say="source and target are swapped in this split, beside the training data")
    if slipped := pairs.slipped():
        drafts.append(Draft("shifted", part, sum(s.last - s.first for s in slipped), records,
                            tuple(s.first for s in slipped[:3]), texts=tuple(map(_told, slipped[:3]))))
    tally = pairs.misaligned()
    if tally.block or tally.count > _FREE * records:
        drafts.append(Draft.of("misaligned", part, tally, records))
    if lengths is not None:
        drafts += [Draft.of("too_long", part, tally, records, side)
                   for side, tally in enumerate((lengths.source, lengths.target)) if tally.count]
    return drafts


def _told(part: Stretch) -> str:
    lines = f"up to line {shard_and_line(part.last)[1] - 1:,}"
    if part.offset == LOST:
        return f"{lines}, no line of the target near by fits its source"
    return f"{lines}, line n of the source belongs to line n{part.offset:+,} of the target"


def token_findings(config: RunConfig, firsts: Sequence[FirstPass],
                   tokenizers: Tokenizers) -> tuple[list[Finding], dict[str, Any]]:
    """Unknown tokens in each split's sample; and the training data in tokens."""
    findings, facts, missed = [], {}, False
    for first, split in [(part, share.name) for part in firsts for share in part.part.shares]:
        sampled = first.sampled(split)
        encoded = tokens.encode(sampled.pairs, tokenizers, config)
        missed = missed or (split == "train" and encoded.unknown > 0)
        if encoded.unknown >= _FEW_UNKNOWN:
            severity: Severity = "warning" if encoded.unknown >= _MANY_UNKNOWN else "note"
            findings.append(Finding(
                "unknown_tokens", severity, split,
                f"{100 * encoded.unknown:.2f} % of the tokens are unknown to the vocabulary of "
                f"{tokenizers.source.size:,}",
                cost="the model cannot read them"
                     + (", and writes ⁇ for them" if config.task != "classification" else ""),
                do=against_unknown(config, tokenizers, missed)))
        if split == "train" and len(encoded.lengths[0]):
            scale = first.filled["train"] / len(encoded.lengths[0])
            weights = [shard.weight for shard in shards_of(first.part.whole.split)]
            corpus = sample_corpus(_weighted(sampled, weights), tokenizers, config)
            facts = {"vocabulary": tokenizers.source.size, "unknown": round(encoded.unknown, 5),
                     "well_seen": round(tokens.well_seen(encoded, scale), 3), "lengths": tokens.length_facts(encoded),
                     **tokens.batch_facts(corpus, tokenizers, config, scale)}
            if tokenizers.config.kind == "sentencepiece":
                size = tokens.suited_vocabulary(config, sampled.pairs, first.labels[split].counts, facts["well_seen"],
                                                scale)
                facts |= {"suited_vocabulary": size} if size is not None else {}
    return findings + of_sizes(facts, config.train), facts


def _weighted(sampled: Window, weights: Sequence[float]) -> list[tuple[str, str]]:
    """The pairs that have two sides, each as often as the weight of its source says, on average."""
    random = Random(0)
    return [pair for number, pair in zip(sampled.numbers, sampled.pairs, strict=True)
            if pair[0].strip() and pair[1].strip()
            for _ in range(int(weights[shard_and_line(number)[0]] + random.random()))]


def against_unknown(config: RunConfig, tokenizers: Tokenizers, missed: bool) -> str:
    """What makes fewer tokens unknown, with this tokenizer.

    Args:
        missed: whether it does not know all that is in its training data.
    """
    options = tokenizers.config
    if config.tokenizer.path is not None:
        return "train a tokenizer on this data: leave tokenizer.path out"
    if options.kind == "sentencepiece":
        return ("set tokenizer.character_coverage 1.0, and tokenizer.vocab_size above the number of characters"
                if missed and options.character_coverage != 1 else
                "nothing, where training never sees these characters; else train on data that has them")
    full = max(tokenizers.source.size, tokenizers.target.size) >= options.vocab_size
    ways = [*(["raise tokenizer.vocab_size"] if full else []),
            *(["lower tokenizer.min_frequency"] if options.min_frequency > 1 else [])]
    return ", or ".join([*ways, "use tokenizer.kind sentencepiece" if options.kind != "character" else
                         "train on data that has these characters"])


def of_sizes(facts: dict[str, Any], train: TrainConfig) -> list[Finding]:
    """Sizes of the vocabulary and of batches that suit the data better, of the facts that name some."""
    found = []
    if "suited_vocabulary" in facts:
        found.append(Finding(
            "vocabulary_size", "note", "train",
            f"{100 * facts['well_seen']:.0f} % of the {facts['vocabulary']:,} pieces are seen a hundred times in "
            "training",
            cost="the rest is hardly learned; 95 % is a good rule",
            do=f"try tokenizer.vocab_size {facts['suited_vocabulary']}, where it holds, beside the one you have"))
    if "suited_batch_tokens" in facts:
        found.append(Finding(
            "batch_size", "note", "train", f"batches in an epoch: {facts['batches_per_epoch']:,}",
            cost="too few updates, or more than an epoch needs",
            do=f"try --train.batch_tokens {facts['suited_batch_tokens']}"
               + (" (in a file, in place of batch_sentences)" if train.batch_sentences is not None else "")))
    return found
