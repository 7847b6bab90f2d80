"""What models of others say, and the runs that are made of them: the second table of `benchmarks.interop`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from tests.interop import test_importing as one_pair
from tests.interop import test_languages as many
from tests.interop.conftest import sentences

from pellucid.config import DecodeConfig
from pellucid.data.tokenizers.interface import BOS, EOS, PAD
from pellucid.interop.importing import import_run
from pellucid.nn.embeddings import SILENT
from pellucid.runs.run import Run, load

BEAMS, LONGEST = (1, 4), 12
NAMES = ("Marian, swish", "Marian, unscaled", "BART", "BART, scaled", "T5", "T5 v1.1", "mT5", "UMT5", "BERT", "RoBERTa",
         "XLM-RoBERTa", "DistilBERT")  # of what the tests import
Row = tuple[str, float, list[int]]  # the class, the largest difference, and how many outputs are the same


def rows(place: Path, count: int) -> Iterator[Row]:
    """Each class, with random weights: the largest difference of a log-probability, or of a classifier's probability;
    how many outputs, or labels, are the same."""
    texts = sentences(count, 2)
    torch.manual_seed(1)
    for name, (kind, configuration, keys) in zip(NAMES, one_pair.SEQ2SEQ + one_pair.CLASSIFIERS, strict=True):
        folder = place / name
        folder.mkdir()
        theirs = one_pair.write_foreign(folder, kind, configuration, keys)
        run, tokenizer = _imported(folder), transformers.AutoTokenizer.from_pretrained(folder)
        if "Classification" in kind:
            yield name, *_classified(run, tokenizer, theirs, texts)
            continue
        start, end = theirs.config.decoder_start_token_id, theirs.config.eos_token_id
        pad, suppressed = theirs.config.pad_token_id, {start, theirs.config.pad_token_id} - {end}
        options = {"forced_bos_token_id": None, "suppress_tokens": sorted(suppressed)}
        yield name, *_translated(run, tokenizer, theirs, texts, _their_ids(run, tokenizer, (pad, start, end)), options)
    for kind in many.KINDS:
        folder = place / kind
        folder.mkdir()
        tokenizer, theirs = many.write_foreign(folder, kind)
        run = _imported(folder)
        language, there = many.language(tokenizer), many.by_their_ids(run, tokenizer, theirs)
        options = {"decoder_start_token_id": int(there[BOS]), "suppress_tokens": [1]}
        if kind == "mBART-cc25":
            options["suppress_tokens"] += [language]
        else:
            options |= {"forced_bos_token_id": language}
        yield kind, *_translated(run, tokenizer, theirs, texts, there, options)


def _imported(folder: Path) -> Run:
    out = folder.with_name(f"{folder.name} imported")
    import_run(folder, out)
    return load(out)


def _their_ids(run: Run, tokenizer: Any, specials: tuple[int, int, int]) -> torch.Tensor:
    """Of each id of ours, theirs; −1 where there is none."""
    side, (pad, start, end) = run.tokenizers.target, specials
    known = tokenizer.get_vocab()
    found = [known.get(piece, -1) for piece in side.pieces(range(side.size))]
    found[PAD], found[BOS], found[EOS] = pad, start, end
    return torch.tensor(found)


def _translated(run: Run, tokenizer: Any, theirs: Any, texts: list[str], there: torch.Tensor,
                options: dict[str, Any]) -> tuple[float, list[int]]:
    batch = tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
    same, far = [], 0.0
    pieces = run.tokenizers.target.pieces(range(len(there)))
    ours = {piece: i for i, piece in enumerate(pieces)}
    for beam in BEAMS:
        generated = theirs.generate(**batch, num_beams=beam, max_new_tokens=LONGEST, do_sample=False, length_penalty=0,
                                    early_stopping="never" if beam > 1 else False, forced_eos_token_id=None,
                                    no_repeat_ngram_size=0, min_length=0, **options)
        wanted = [_until(row[1:].tolist(), theirs.config.eos_token_id) for row in generated]
        decode = DecodeConfig(beam_size=beam, max_length=LONGEST, length_penalty=0.0, precision="fp32")
        said = [[ours[piece] for piece in one.tokens] for one in run.generate(texts, options=decode)]
        same.append(sum(there[ids].tolist() == row for ids, row in zip(said, wanted, strict=True)))
        far = max(far, _far(run, theirs, texts, batch, said, there))
    return far, same


def _far(run: Run, theirs: Any, texts: list[str], batch: Any, said: list[list[int]], there: torch.Tensor) -> float:
    """The largest difference of a log-probability of what is said, among all tokens that may be."""
    model: Any = run.model
    bias = getattr(model.output_bias, "bias", torch.zeros(len(there)))
    kept = [i for i in range(len(there)) if there[i] >= 0 and i not in (PAD, BOS) and bias[i] > 0.1 * SILENT]
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor([BOS, *row]) for row in said], batch_first=True)
    sources = torch.nn.utils.rnn.pad_sequence([torch.tensor([*run.tokenizers.source.encode(text), EOS])
                                               for text in texts], batch_first=True)
    with torch.no_grad():
        wanted = theirs(**batch, decoder_input_ids=there[ids].clamp(min=0)).logits[..., there[kept]].log_softmax(-1)
        found = model(sources, ids, sources != PAD)[..., kept].log_softmax(-1)
    real = torch.tensor([[place <= len(row) for place in range(ids.shape[1])] for row in said])
    return float((wanted - found)[real].abs().max())


def _until(ids: list[int], end: int) -> list[int]:
    """Ids before the end."""
    return ids[:ids.index(end)] if end in ids else ids


def _classified(run: Run, tokenizer: Any, theirs: Any, texts: list[str]) -> tuple[float, list[int]]:
    with torch.no_grad():
        wanted = torch.cat([theirs(**tokenizer(text, return_tensors="pt", return_token_type_ids=False)).logits
                            for text in texts]).softmax(-1)
    found = torch.tensor([list(one.probabilities.values()) for one in run.classify(texts)])
    return float((wanted - found).abs().max()), [int((wanted.argmax(-1) == found.argmax(-1)).sum())] * 2
