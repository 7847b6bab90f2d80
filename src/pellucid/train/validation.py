"""Scores of the weights in training, on data that they are not trained on."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

import torch
from torch import nn

from pellucid.config import RunConfig
from pellucid.data.batching import Batch, Batches
from pellucid.data.corpus import Corpus
from pellucid.data.examples import validation_examples
from pellucid.data.splits import Pairs
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.errors import ConfigError
from pellucid.evaluate.classification import classification_statistics
from pellucid.evaluate.significance import corpus_score
from pellucid.evaluate.translation import translation_statistics
from pellucid.model.classifier import Classifier
from pellucid.model.stepper import evaluating
from pellucid.model.transformer import Transformer
from pellucid.precision import products_in
from pellucid.runs.checkpoint import fill
from pellucid.runs.generate import generate
from pellucid.train.averaging import MovingAverage
from pellucid.train.parts import as_tensors
from pellucid.train.update import Learner, plain_loss
from pellucid.train.workers import Workers, on_threads

_SHOWN = 160  # characters of a sample
Validation = Callable[[MovingAverage | None], dict[str, float]]


def make_validation(learner: Learner, tokenizers: Tokenizers, splits: dict[str, Pairs], corpora: dict[str, Corpus],
                    say: Callable[[str], None]) -> Validation:
    """A function that scores the weights of the moving average it is given, or else the model's: loss and perplexity;
    accuracy and macro-F1 of a classifier; BLEU and exact matches by greedy decoding when one of them is monitored. It
    says `show_samples` outputs, too.

    Raises:
        ConfigError: there is no validation data.
    """
    config, model, threads = learner.config, learner.model, torch.get_num_threads()
    if "validation" not in corpora:
        raise ConfigError("there is no validation data", where="data.validation",
                          fix="give data.validation, or a data.validation_share above 0")
    corpus = validation_examples(corpora["validation"], config)

    def validate(average: MovingAverage | None) -> dict[str, float]:
        with using(average, model):
            loss = mean_loss(model, corpus, config, learner.precision, learner.workers)
            scores = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
            if isinstance(model, Classifier):
                scores |= classifier_scores(model, corpus, config, tokenizers, learner.precision)
                return scores
            with on_threads(threads):  # decoding has threads of its own, and the workers rest
                if config.train.monitor in ("bleu", "exact"):
                    scores |= decoded_scores(model, list(splits["validation"]), config, tokenizers)
                if config.train.show_samples:
                    for line in sample_lines(model, splits["validation"], config, tokenizers):
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


def _batches(model: nn.Module, corpus: Corpus, config: RunConfig) -> Iterator[Batch]:
    """All of the corpus, once, where the model is."""
    batches = Batches(corpus, config.train.batch_tokens, config.train.batch_sentences, seed=0)
    device = next(model.parameters()).device
    return (batches[number].to(device) for number in range(batches.per_epoch))


def mean_loss(model: Transformer | Classifier, corpus: Corpus, config: RunConfig, precision: str,
              workers: Workers) -> float:
    """The mean cross-entropy of real targets, without smoothing, in nats: each worker takes the next batch, and their
    losses are added in the order of the batches."""
    total, count, batches = 0.0, 0, _batches(model, corpus, config)
    while group := list(islice(batches, workers.count)):
        with workers.asked("losses", [as_tensors({0: batch}) for batch in group[1:]]) as answers:
            total += plain_loss(model, group[0], precision)
        total += sum(loss for answer in answers for loss in answer)
        count += sum(batch.target_tokens for batch in group)
    return total / count


@torch.inference_mode()
def classifier_scores(model: Classifier, corpus: Corpus, config: RunConfig, tokenizers: Tokenizers,
                      precision: str) -> dict[str, float]:
    """Accuracy and macro-F1, in percent."""
    predicted, true = [], []
    for batch in _batches(model, corpus, config):
        with products_in(precision, batch.source.device):
            predicted += model(batch.source, batch.real_source).argmax(-1).tolist()
        true += batch.target[:, 0].tolist()
    names = tokenizers.labels
    statistics = classification_statistics([names[i] for i in predicted], [names[i] for i in true], names)
    return {name: corpus_score(metric) for name, metric in statistics.items()}


def decoded_scores(model: Transformer, pairs: list[tuple[str, str]], config: RunConfig,
                   tokenizers: Tokenizers) -> dict[str, float]:
    """BLEU and exact matches of greedy decoding, in percent."""
    greedy = replace(config.decode, beam_size=1, n_best=1, sample=False)
    outputs = generate(model, tokenizers, [a for a, _ in pairs], greedy, config.model.max_length)
    names = ("bleu", "exact")
    statistics = translation_statistics([output.text for output in outputs], [b for _, b in pairs], names)
    return {name: corpus_score(metric) for name, metric in statistics.items()}


def sample_lines(model: Transformer, pairs: Iterable[tuple[str, str]], config: RunConfig,
                 tokenizers: Tokenizers) -> list[str]:
    """The first sources, each with an output that is drawn and one that is searched for, as lines to be told."""
    filled = (source for source, _ in pairs if source.strip())
    sources = list(islice(filled, config.train.show_samples))
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
