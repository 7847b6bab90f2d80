"""The convolutional network that classifiers are set beside."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.cnn import MAX_NORM, ConvolutionalClassifier, accuracy, encode, train

SENTENCES = [("how far is it", "number"), ("who was he", "human"), ("how many are there", "number"),
             ("who is she", "human")]


def test_padding_changes_no_logit() -> None:
    torch.manual_seed(0)
    model = ConvolutionalClassifier(words=20, labels=3).eval()
    ids = torch.tensor([[2, 3, 4], [5, 6, 0]])
    torch.testing.assert_close(model(F.pad(ids, (0, 7))), model(ids))
    torch.testing.assert_close(model(ids[1:, :2]), model(ids)[1:])


def test_rows_of_the_last_layer_stay_within_their_norm() -> None:
    model = ConvolutionalClassifier(words=5, labels=2)
    with torch.no_grad():
        model.output.weight[0] = 1.0
        model.output.weight[1] = 0.01
    model.constrain()
    assert abs(model.output.weight[0].norm().item() - MAX_NORM) < 1e-4
    assert (model.output.weight[1] == 0.01).all()


def test_words_that_training_never_saw_are_one_word() -> None:
    splits, words, labels = encode({"train": SENTENCES, "test": [("where is it", "human")]})
    assert (words, labels) == (11 + 2, 2)
    where, is_, it = splits["test"][0][0].tolist()
    assert where == 1
    assert is_ in splits["train"][3][0]
    assert it == splits["train"][0][0][3]


def test_it_learns_what_the_first_word_says() -> None:
    splits, words, labels = encode(dict.fromkeys(("train", "validation", "test"), SENTENCES))
    assert train(splits, words, labels, seed=1) == (100.0, 100.0)


def test_accuracy_is_the_percentage_of_right_labels() -> None:
    splits, words, labels = encode({"train": SENTENCES})
    model = ConvolutionalClassifier(words, labels)
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.copy_(torch.tensor([1.0, 0.0]))
    assert accuracy(model, splits["train"]) == 50.0
