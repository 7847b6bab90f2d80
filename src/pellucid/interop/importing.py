"""A folder of transformers becomes a run: read as data, checked against the model that it describes, and written whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from pellucid.config import DataConfig, RunConfig, TrainConfig
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import sha256
from pellucid.interop import returning
from pellucid.interop.families import FAMILIES, Family, family_of, other_class
from pellucid.interop.foreign_tokenizer import Foreign, read_tokenizer
from pellucid.interop.incoming import has_head, has_positions, to_ours, with_embedding
from pellucid.interop.languages import Pair, around, pair_of
from pellucid.interop.reading import INDEX, Fields, read_config, read_weights, weight_files
from pellucid.interop.run_folder import write_run
from pellucid.interop.searching import decode_of, left_out
from pellucid.interop.vocabulary import Rows, rows_of
from pellucid.runs.checkpoint import check_weights
from pellucid.runs.format import IMPORTED, WEIGHTS
from pellucid.runs.run import build_model
from pellucid.runs.tensors import shapes_of


@dataclass(frozen=True)
class Imported:
    """What became a run.

    Attributes:
        what: the class that it was.  parameters: how many numbers it has.
        notes: what is otherwise here than there, a sentence each.
    """

    what: str
    parameters: int
    notes: tuple[str, ...]


def import_run(folder: Path, out: Path, languages: str | None = None, named: str | None = None) -> Imported:
    """Writes a run with the weights, the tokenizer and the search of the model in `folder`.

    Args:
        languages: from which into which, as "en-fr": for a model of many, one of its pairs; None for what it names.
        named: what imported.json and the card say it is from; None for the name of the folder.

    Raises:
        ConfigError: there is something at `out`; a package is not installed; no such languages, or a classifier's.
        CheckpointError: what lies there is damaged, or cannot be imported; it is named.
        OutputError: disk full, no permission.
    """
    fields = Fields(read_config(folder), folder / "config.json")
    kind, family = family_of(fields)
    found, foreign = read_weights(folder), read_tokenizer(folder, kind)
    theirs = with_embedding(found, kind)
    model = family.model(fields)
    model = replace(model, tie_embeddings=model.tie_embeddings and not has_head(theirs))
    if kind == "marian" and has_positions(theirs, model):
        model = replace(model, position="learned")
    labels = _labels(fields) if family.is_classifier else ()
    if labels and languages is not None:
        raise ConfigError("a classifier translates from no language into another", where="--languages",
                          fix="leave it out")
    pair = None if labels else pair_of(fields, foreign, languages)
    model, foreign = model if pair is None else pair.of_model(model), foreign if labels else around(
        fields, foreign, pair)
    rows = _rows(fields, family, foreign, _size(theirs), pair)
    tokenizers = foreign.tokenizers(rows, labels)
    told = {} if labels else fields.search
    config = RunConfig(task="classification" if labels else "seq2seq", data=_data(pair), tokenizer=tokenizers.config,
                       model=model, train=TrainConfig(), decode=decode_of(told, model))
    try:
        weights = to_ours(fields, theirs, model, rows)
        weights = weights if pair is None else pair.weights(weights, rows)
        if model.output_bias and not weights["output_bias.bias"].any():  # nothing is added, and nothing is silent
            weights = weights.but("output_bias.bias")
            config = replace(config, model=replace(model, output_bias=False))
        with torch.device("meta"):  # names and shapes alone
            built = build_model(config, tokenizers, seed=0)
        check_weights(shapes_of(weights), built, folder)
    except CheckpointError as error:
        error.fix = error.fix or other_class(fields, family)
        raise
    except ConfigError as error:
        raise CheckpointError(error.what, where=str(fields.where)) from error
    except (IndexError, KeyError, RuntimeError) as error:  # of tensors that are missing or have other shapes
        raise CheckpointError("the tensors are not those that config.json describes", where=str(folder),
                              why=str(error)[:200]) from error
    origin = {"what": fields.architecture, "from": named or folder.resolve().name, "files": _files(folder)}
    way = returning.way_of(config.model, rows, None if pair is None else pair.language(rows))
    write_run(config, tokenizers, weights, origin, out,
              lambda place: returning.keep(folder, place / IMPORTED, found, weights, way))
    return Imported(fields.architecture, sum(p.numel() for p in built.parameters()),
                    _notes(kind, pair, told, rows, foreign))


def _files(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file that was read, by its name: a repository may hold the weights in other forms, too."""
    weights = [path.name for path in weight_files(folder)]
    index = [] if weights == [WEIGHTS] else [INDEX]
    return {name: sha256(folder / name) for name in sorted([*weights, *index, *returning.FILES])
            if (folder / name).is_file()}


def _data(pair: Pair | None) -> DataConfig:
    return DataConfig() if pair is None else DataConfig(source_language=pair.codes[0], target_language=pair.codes[1])


def _size(theirs: Mapping[str, Any]) -> int:
    """Rows of their embedding."""
    sizes = [len(tensor) for name, tensor in theirs.items()
             if name.endswith(("shared.weight", "word_embeddings.weight")) and tensor.dim() == 2]
    if not sizes:
        raise CheckpointError("a tensor is missing", why="there is no embedding of words")
    return sizes[0]


def _rows(fields: Fields, family: Family, foreign: Foreign, size: int, pair: Pair | None) -> Rows:
    """Where our special ids lie in their vocabulary."""
    if len(foreign.pieces) > size:
        raise CheckpointError(f"the tokenizer has {len(foreign.pieces):,} pieces, and the embedding {size:,} rows",
                              where=str(fields.where))
    pad = fields.token("pad_token_id", family.pad, size)
    if family.is_classifier:
        if len(foreign.before) != 1 or len(foreign.after) > 1:
            raise CheckpointError("the tokenizer does not put one token before a text and one or none behind it",
                                  where=str(fields.where.with_name("tokenizer.json")))
        return rows_of(size, pad, foreign.unknown, foreign.before[0], next(iter(foreign.after), None))
    end = fields.token("eos_token_id", family.end, size)
    if foreign.after[-1:] != [end]:
        raise CheckpointError("the tokenizer does not end a text with eos_token_id", where=str(fields.where))
    start = (pair.tokens[1] if pair is not None and pair.tokens is not None and pair.is_start else
             Fields(fields.values | fields.search, fields.where).token("decoder_start_token_id", family.start, size))
    if not {pad, start, end}.isdisjoint(foreign.first or ()):
        raise CheckpointError("outputs begin with a token that is a start or an end", where=str(fields.where))
    return rows_of(size, pad, foreign.unknown, start, end)


def _labels(fields: Fields) -> tuple[str, ...]:
    """The names of the classes, by their numbers."""
    if fields.values.get("problem_type") not in (None, "single_label_classification"):
        raise fields.wrong("problem_type", "single_label_classification: one class of several")
    named = fields.values.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    count = fields.number("num_labels", len(named) if isinstance(named, dict) else None)
    labels = [named.get(str(i)) for i in range(count)] if isinstance(named, dict) else []
    if not all(isinstance(label, str) for label in labels) or len(set(labels)) != len(labels) or len(labels) < 2:
        raise fields.wrong("id2label", "two names or more, all different")
    return tuple(str(label) for label in labels)


def _notes(kind: str, pair: Pair | None, told: Mapping[str, Any], rows: Rows,
           foreign: Foreign) -> tuple[str, ...]:
    notes = []
    if other := left_out(told, rows):
        notes.append(f"its search asks for {', '.join(other)}, which is otherwise here, and left out")
    if pair is not None and pair.tokens is not None:
        notes.append(f"the run translates from {pair.codes[0]} into {pair.codes[1]}; for another pair import it again")
        if pair.is_behind:
            notes.append("sources read the two tokens at their end otherwise than outputs: the embedding is there "
                         "twice, and a third time as the output projection")
    if kind == "marian":
        notes.append("punctuation is not normalised before a text is split, as it is where sacremoses is installed")
    unused = ("[MASK]", "<mask>") if FAMILIES[kind].is_classifier else ()  # to label a text, nobody masks any of it
    marks = [mark for mark in foreign.marks(rows) if mark not in unused]
    if marks and (pair is None or pair.tokens is None):  # where it chooses languages, most of them are that
        spelled = " ".join(marks[:2]).encode("unicode_escape").decode()[:80]
        more = f" and {len(marks) - 2:,} more" if len(marks) > 2 else ""
        notes.append(f"a text that spells a special token has none, and is plain text: {spelled}{more}")
    if kind in ("bert", "roberta", "xlm-roberta"):
        notes.append("a text is one segment")
    return tuple(notes)


