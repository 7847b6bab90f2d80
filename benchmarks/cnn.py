"""A convolutional network on the data of a classifier's run: `python -m benchmarks.cnn RUN [--seeds 5] [--json FILE]`.

CNN-rand of Kim (2014, "Convolutional Neural Networks for Sentence Classification", sections 2 and 3) with the settings
published there: words as they stand, in vectors of 300 drawn at random; 100 filters of each of the widths 3, 4 and 5;
the maximum over positions; dropout 0.5 before the last layer, whose rows are kept within a norm of 3; Adadelta with 50
sentences a batch, 25 epochs. It learns from the run's training split. Its accuracy on the test split is told twice: of
the epoch that is best on the validation split, and of the last one.
"""

from __future__ import annotations

import argparse
import random
from statistics import mean

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from benchmarks import machine
from benchmarks.arguments import new_file, positive, run_folder
from pellucid.data.splits import open_splits
from pellucid.runs.run import load

D_WORD, FILTERS, WIDTHS, DROPOUT, MAX_NORM = 300, 100, (3, 4, 5), 0.5, 3.0
BATCH, EPOCHS = 50, 25
_PADDING, _UNKNOWN = 0, 1

Sentence = tuple[Tensor, int]  # ids (n,), label


class ConvolutionalClassifier(nn.Module):
    """Words, filters, the maximum over positions, a linear layer.

    Args:
        words: the size of the vocabulary.
        labels: the number of classes.
    """

    def __init__(self, words: int, labels: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, D_WORD, padding_idx=_PADDING)
        nn.init.uniform_(self.embedding.weight[1:], -0.25, 0.25)
        edge = max(WIDTHS)  # so wide that every sentence has windows of padding alone: a longer batch changes nothing
        self.filters = nn.ModuleList(nn.Conv1d(D_WORD, FILTERS, width, padding=edge) for width in WIDTHS)
        self.dropout = nn.Dropout(DROPOUT)
        self.output = nn.Linear(FILTERS * len(WIDTHS), labels)

    def forward(self, ids: Tensor) -> Tensor:
        """(batch, n) → logits (batch, labels)."""
        x = self.embedding(ids).transpose(1, 2)
        maxima = [convolve(x).relu().amax(dim=2) for convolve in self.filters]
        return self.output(self.dropout(torch.cat(maxima, dim=1)))

    @torch.no_grad()
    def constrain(self) -> None:
        """Scales each row of the last layer back to a norm of 3 at most."""
        self.output.weight.copy_(torch.renorm(self.output.weight, p=2, dim=0, maxnorm=MAX_NORM))


def batches(sentences: list[Sentence]) -> list[tuple[Tensor, Tensor]]:
    """(ids (batch, n), labels (batch,)) in order, padded to the longest of each batch."""
    groups = [sentences[i:i + BATCH] for i in range(0, len(sentences), BATCH)]
    return [(pad_sequence([ids for ids, _ in group], batch_first=True, padding_value=_PADDING),
             torch.tensor([label for _, label in group])) for group in groups]


@torch.no_grad()
def accuracy(model: ConvolutionalClassifier, sentences: list[Sentence]) -> float:
    """Per cent."""
    model.eval()
    right = sum(int((model(ids).argmax(dim=1) == labels).sum()) for ids, labels in batches(sentences))
    return 100 * right / len(sentences)


def train(splits: dict[str, list[Sentence]], words: int, labels: int, seed: int) -> tuple[float, float]:
    """Test accuracies in per cent: of the epoch best on validation, of the last epoch."""
    torch.manual_seed(seed)
    shuffle = random.Random(seed).shuffle
    model, sentences = ConvolutionalClassifier(words, labels), list(splits["train"])
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-6)
    chosen, last, best = 0.0, 0.0, -1.0
    for _ in range(EPOCHS):
        shuffle(sentences)
        model.train()
        for ids, wanted in batches(sentences):
            optimizer.zero_grad()
            F.cross_entropy(model(ids), wanted).backward()
            optimizer.step()
            model.constrain()
        validated, last = accuracy(model, splits["validation"]), accuracy(model, splits["test"])
        if validated > best:
            chosen, best = last, validated
    return chosen, last


def encode(texts: dict[str, list[tuple[str, str]]]) -> tuple[dict[str, list[Sentence]], int, int]:
    """The splits as ids, the number of words and that of labels; the vocabulary is that of the training split."""
    words = {word for text, _ in texts["train"] for word in text.split()}
    ids = {word: i for i, word in enumerate(sorted(words), start=_UNKNOWN + 1)}
    labels = {label: i for i, label in enumerate(sorted({label for _, label in texts["train"]}))}
    splits = {name: [(torch.tensor([ids.get(word, _UNKNOWN) for word in text.split()]), labels[label])
                     for text, label in pairs] for name, pairs in texts.items()}
    return splits, len(ids) + _UNKNOWN + 1, len(labels)


def main() -> None:
    """Parses, trains, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=run_folder, help="a run folder of the task classification")
    parser.add_argument("--seeds", type=positive, default=5, help="so many networks, with the seeds 1, 2, ...")
    parser.add_argument("--json", type=new_file, help="where to write the results")
    args = parser.parse_args()
    run = load(args.run)
    splits, words, labels = encode({name: list(pairs) for name, pairs in open_splits(run.config, run.folder).items()})
    rows = []
    for seed in range(1, args.seeds + 1):
        chosen, last = train(splits, words, labels, seed)
        rows.append({"seed": seed, "test_accuracy_best_epoch": chosen, "test_accuracy_last_epoch": last})
        print(f"seed {seed}  best on validation {chosen:5.1f} %  last epoch {last:5.1f} %", flush=True)
    means = [mean(row[key] for row in rows) for key in ("test_accuracy_best_epoch", "test_accuracy_last_epoch")]
    print(f"mean    best on validation {means[0]:5.1f} %  last epoch {means[1]:5.1f} %")
    if args.json:
        machine.write(rows, args.json)


if __name__ == "__main__":
    main()
