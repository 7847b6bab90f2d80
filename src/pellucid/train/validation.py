"""Scores of the weights in training, on data that they are not trained on."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from torch import nn

from pellucid.config import RunConfig
from pellucid.data.batching import Batch, Batches
from pellucid.data.corpus import Corpus
from pellucid.data.examples import validation_examples
from pellucid.data.reading import question_of
from pellucid.data.splits import Pairs
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.evaluate.classification import classification_statistics
from pellucid.evaluate.reading import answer_statistics
from pellucid.evaluate.significance import corpus_score
from pellucid.evaluate.translation import translation_statistics
from pellucid.model.classifier import Classifier
from pellucid.model.reader import Reader
from pellucid.model.stepper import evaluating
from pellucid.model.transformer import Transformer
from pellucid.runs.checkpoint import fill
from pellucid.runs.generate import generate
from pellucid.runs.reading import judge
from pellucid.train.averaging import MovingAverage
from pellucid.train.objective import Model
from pellucid.train.parallel import unsharded
from pellucid.train.parts import as_tensors
from pellucid.train.update import Learner, assess
from pellucid.train.workers import Workers, on_threads
from pellucid.train.world import ALONE, World

_SHOWN = 160  # characters of a sample
Validation = Callable[[MovingAverage | None], dict[str, float]]


def make_validation(learner: Learner, tokenizers: Tokenizers, splits: dict[str, Pairs], corpora: dict[str, Corpus],
                    say: Callable[[str], None]) -> Validation:
    """A function that scores the weights of the moving average it is given, or else the model's: loss and perplexity;
    accuracy and macro-F1 of a classifier; exact matches and F1 of a reader; BLEU and exact matches by greedy decoding
    when one of them is monitored. It says `show_samples` outputs, too.
    """
    config, model, threads = learner.config, learner.model, torch.get_num_threads()
    corpus = validation_examples(corpora["validation"], config)

    def validate(average: MovingAverage | None) -> dict[str, float]:
        with using(average, model), unsharded(learner.objective):
            if isinstance(model, Reader):
                with on_threads(threads):
                    return reader_scores(learner, list(splits["validation"]), tokenizers)
            if isinstance(model, Classifier):
                return classifier_scores(learner, corpus, tokenizers)
            scores = of_loss(mean_loss(model, corpus, config, learner.precision, learner.workers, learner.world))
            with on_threads(threads):  # decoding has threads of its own, and the workers rest
                if config.train.monitor in ("bleu", "exact"):
                    scores |= decoded_scores(learner, list(splits["validation"]), tokenizers)
                if config.train.show_samples and learner.world.is_first:
                    sources = _first_sources(splits["validation"], corpus, config, tokenizers)
                    for line in sample_lines(model, sources, config, tokenizers):
                        say(line)
        return scores

    return validate


@contextlib.contextmanager
def using(average: MovingAverage | None, model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, with the average's weights, for as long as this lasts."""
    kept = {name: p.detach().clone() for name, p in model.named_parameters()} if average else {}
    fill(model, average.weights if average else {})
    try:
        with evaluating(model):
            yield
    finally:
        fill(model, kept)


def _assessed(model: Model, corpus: Corpus, config: RunConfig, precision: str,
              workers: Workers, world: World) -> Iterator[tuple[Batch, list[float]]]:
    """Each batch of this rank's share, every so-manieth of the corpus, and what `assess` says of it, in order; each
    worker takes the next."""
    batches = Batches(corpus, config.train.batch_tokens, config.train.batch_sentences, seed=0)
    device = next(model.parameters()).device
    mine = (batches[number].to(device) for number in range(world.rank, batches.per_epoch, world.size))
    while group := list(islice(mine, workers.count)):
        with workers.asked("assess", [as_tensors({0: batch}) for batch in group[1:]]) as answers:
            first = assess(model, group[0], precision)
        yield from zip(group, [first, *answers], strict=True)


def of_loss(loss: float) -> dict[str, float]:
    """A mean loss, and the perplexity that it is."""
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}


def mean_loss(model: Model, corpus: Corpus, config: RunConfig, precision: str,
              workers: Workers, world: World = ALONE) -> float:
    """The mean cross-entropy of real targets, without smoothing, in nats."""
    total, count = 0.0, 0
    for batch, (loss, *_) in _assessed(model, corpus, config, precision, workers, world):
        total += loss
        count += batch.target_tokens
    total, tokens = world.sum(total, count)
    return total / tokens


def classifier_scores(learner: Learner, corpus: Corpus, tokenizers: Tokenizers) -> dict[str, float]:
    """The mean loss, and accuracy and macro-F1 in percent."""
    names, total = tokenizers.labels, 0.0
    counts = np.zeros((len(names), len(names)))  # of [predicted, true]
    for batch, (loss, *predicted) in _assessed(learner.model, corpus, learner.config, learner.precision,
                                               learner.workers, learner.world):
        total += loss
        np.add.at(counts, (np.asarray(predicted, dtype=int), batch.target[:, 0].cpu().numpy()), 1)
    total, *cells = learner.world.sum(total, *counts.ravel().tolist())
    pairs = [(names[place // len(names)], names[place % len(names)])
             for place, count in enumerate(cells) for _ in range(int(count))]
    statistics = classification_statistics([a for a, _ in pairs], [b for _, b in pairs], names)
    return of_loss(total / len(pairs)) | {name: corpus_score(metric) for name, metric in statistics.items()}


def reader_scores(learner: Learner, pairs: list[tuple[str, str]], tokenizers: Tokenizers) -> dict[str, float]:
    """The mean loss, of the questions that can be learned from, and exact matches and F1 of the answers, in percent;
    each rank reads its share."""
    config, world, model = learner.config, learner.world, learner.model
    assert isinstance(model, Reader)
    asked, passages = [question_of(line) for _, line in pairs], [passage for passage, _ in pairs]
    mine = slice(world.rank, None, world.size)
    judged = judge(model, tokenizers, config, asked[mine], passages[mine], learner.precision)
    loss, count = world.sum(judged.loss, judged.learned)
    texts = _of_all(world, [one.text for one in judged.found])
    statistics, _ = answer_statistics(texts, asked, passages, config.data.source_language)
    return of_loss(loss / count) | {name: corpus_score(metric) for name, metric in statistics.items()}


def decoded_scores(learner: Learner, pairs: list[tuple[str, str]], tokenizers: Tokenizers) -> dict[str, float]:
    """BLEU and exact matches of greedy decoding, in percent; each rank decodes its share."""
    config, world, model = learner.config, learner.world, learner.model
    assert isinstance(model, Transformer)
    greedy = replace(config.decode, beam_size=1, n_best=1, sample=False)
    sources = [source for source, _ in pairs[world.rank :: world.size]]
    outputs = generate(model, tokenizers, sources, greedy, config.model.max_length)
    texts = _of_all(world, [output.text for output in outputs])
    statistics = translation_statistics(texts, [target for _, target in pairs], ("bleu", "exact"))
    return {name: corpus_score(metric) for name, metric in statistics.items()}


def _of_all(world: World, mine: list[str]) -> list[str]:
    """What all ranks have found, in order, where each has had every so-manieth."""
    found = world.gather(mine)
    texts = [""] * sum(map(len, found))
    for rank, some in enumerate(found):
        texts[rank :: world.size] = some
    return texts


def _first_sources(pairs: Pairs, corpus: Corpus, config: RunConfig, tokenizers: Tokenizers) -> list[str]:
    """As many as are to be shown, as the model is to read them: under span corruption they have lost their spans."""
    texts: Iterable[str] = (source for source, _ in pairs)
    if config.data.objective == "span_corruption":
        texts = (tokenizers.source.decode(corpus.source[i].tolist()) for i in range(len(corpus.source)))
    return list(islice(filter(str.strip, texts), config.train.show_samples))


def sample_lines(model: Transformer, sources: list[str], config: RunConfig, tokenizers: Tokenizers) -> list[str]:
    """Each source with an output that is drawn and one that is searched for, as lines to be told."""
    search = f"beam {config.decode.beam_size}" if config.decode.beam_size > 1 else "greedy"
    lines = [f"  source   {_one_line(source)}" for source in sources]
    for name, sample in (("sampled", True), (search, False)):
        options = replace(config.decode, sample=sample, n_best=1)
        outputs = generate(model, tokenizers, sources, options, config.model.max_length)
        lines = [f"{line}\n  {name:<8} {_one_line(output.text)}" for line, output in zip(lines, outputs, strict=True)]
    return lines


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
