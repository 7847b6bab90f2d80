"""What can a run be told? Frozen dataclasses of numbers, strings and lists that name no code; one choice, one field.

Beside them: how a mapping becomes one of them (mapping.py, reader.py), and what is checked of its values (checks.py).
Imports neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Task = Literal["seq2seq", "classification", "reading"]
MAX_WEIGHT = 1000  # of a source


@dataclass(frozen=True)
class Source:
    """Where examples of one kind lie: tables or a hub data set (`path`), or text files (`source`, `target`). A folder
    or a glob names several files."""

    path: str | None = None
    source: str | None = None
    target: str | None = None
    weight: float = 1.0  # how many times an epoch has each of its examples

    def __post_init__(self) -> None:
        _check_files(self.path, self.source, self.target)
        if not 0 < self.weight <= MAX_WEIGHT:
            raise ValueError(f"a weight of {self.weight:g} is out of range: choose above 0 and at most {MAX_WEIGHT}")

    @property
    def paths(self) -> list[str]:
        """Its paths, as they were given."""
        return [path for path in (self.path, self.source, self.target) if path is not None]

    def renamed(self, rename: Callable[[str], str]) -> Source:
        """The same, with each path as `rename` has it."""
        path, source, target = (p if p is None else rename(p) for p in (self.path, self.source, self.target))
        return Source(path, source, target, self.weight)


@dataclass(frozen=True)
class Split:
    """Where one part of the data lies: in one place, as a `Source` says, or in several (`mixture`)."""

    path: str | None = None
    source: str | None = None
    target: str | None = None
    mixture: tuple[Source, ...] | None = None

    def __post_init__(self) -> None:
        if not self.mixture:
            _check_files(self.path, self.source, self.target)
        elif (self.path, self.source, self.target) != (None, None, None):
            raise ValueError("a split is either one path, or {source, target}, or a list of these")

    @property
    def sources(self) -> tuple[Source, ...]:
        """The places it lies in."""
        return self.mixture or (Source(self.path, self.source, self.target),)

    @property
    def paths(self) -> list[str]:
        """The paths of all of them, as they were given."""
        return [path for source in self.sources for path in source.paths]

    def renamed(self, rename: Callable[[str], str]) -> Split:
        """The same, with each path as `rename` has it."""
        if self.mixture:
            return Split(mixture=tuple(source.renamed(rename) for source in self.mixture))
        only = self.sources[0].renamed(rename)
        return Split(only.path, only.source, only.target)


def _check_files(path: str | None, source: str | None, target: str | None) -> None:
    if (path is None) == (source is None and target is None):
        raise ValueError("a split is either one path, or {source, target}")
    if path is None and (source is None or target is None):
        raise ValueError("a split of two text files needs both source and target")


@dataclass(frozen=True)
class Generated:
    """A task whose data is made, not read: one of data.tasks.TASKS, written out as text like any other."""

    task: str = "copy"
    train: int = 3000
    validation: int = 1000
    test: int = 1000
    symbols: int = 10  # distinct symbols; the vocabulary has the special tokens besides
    min_length: int = 10
    max_length: int = 10


@dataclass(frozen=True)
class DataConfig:
    """What is learned from, and how lines become examples."""

    train: Split | None = None
    validation: Split | None = None
    test: Split | None = None
    generated: Generated | None = None
    objective: Literal["supervised", "span_corruption"] = "supervised"  # to write the target, or what was left out
    source_field: str | int | None = None  # None: "source" for seq2seq, "text" for classification
    target_field: str | int = "target"
    label_field: str | int = "label"
    source_language: str | None = None  # a tag of BCP 47, as en or zh-Hans: for those who are offered the run
    target_language: str | None = None
    validation_share: float = 0.05  # set aside by a hash of the source text when `validation` is absent
    test_share: float = 0.0
    too_long: Literal["drop", "cut"] = "drop"  # what happens to training text longer than model.max_length


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes ids. Which keys count depends on `kind`; data/tokenizers says how."""

    kind: Literal["sentencepiece", "word", "character", "spacy", "imported"] = "sentencepiece"
    algorithm: Literal["bpe", "unigram"] = "bpe"
    vocab_size: int = 8000
    shared: bool = True
    lowercase: bool = False
    strip_punctuation: bool = False
    min_frequency: int = 1
    character_coverage: float | None = None  # the share of characters that SentencePiece knows; null: by need
    split_digits: bool = False
    user_defined_symbols: tuple[str, ...] = ()
    sentinels: int = 0  # pieces that stand for what was left out, for data.objective span_corruption
    sampling: float = 0.0  # of training text: the dropout of BPE-dropout, or the α of unigram sampling; 0 is off
    symbols: tuple[str, ...] = ()  # whole categories of them: data.tokenizers.symbols.CATEGORIES
    sample_lines: int = 1_000_000  # trains on a sample of so many lines a side …
    sample_characters: int = 100_000_000  # … and of so many characters, which bounds memory where no space divides text
    source_language: str = "en"  # for spacy
    target_language: str = "de"
    path: str | None = None  # a trained tokenizer's folder, used instead of training one


@dataclass(frozen=True)
class ModelConfig:
    """The architecture: one choice, one field. model/build.py turns the strings into parts."""

    d_model: int = 256
    n_heads: int = 4
    d_key: int | None = None  # d_k, the width of a head's queries and keys; null: that of its values
    d_head: int | None = None  # the width of a head's values, and of its queries and keys; null: d_model / n_heads
    d_ff: int = 1024
    encoder_layers: int = 3
    decoder_layers: int = 3
    dropout: float = 0.1  # on each sub-layer's output and on the embeddings (section 5.4)
    attention_dropout: float = 0.0  # on the attention weights
    feed_forward_dropout: float = 0.0  # inside the feed-forward layer
    position: str = "sinusoidal"
    norm: str = "layernorm"
    norm_epsilon: float | None = None  # ε of the norms; null: that of their class
    embedding_norm: bool = False  # whether the sum of embeddings and positions is normalised, as BERT has it
    residual: str = "pre"
    feed_forward: str = "relu"
    biases: bool = True  # of the projections in the layers; T5 has none
    attention: str = "full"
    window: int = 64  # how far attention: window looks, in positions to either side
    tie_embeddings: bool = True
    output_bias: bool = False  # a number for each word, added to its logit, as Marian has it
    pooling: str = "mean"  # classifiers only
    head_activation: str = "tanh"  # between the layers of a classifier's head
    max_length: int = 512

    @property
    def key_width(self) -> int:
        """d_k, the width of a head's queries and keys."""
        return self.value_width if self.d_key is None else self.d_key

    @property
    def value_width(self) -> int:
        """The width of a head's values."""
        return self.d_model // self.n_heads if self.d_head is None else self.d_head


@dataclass(frozen=True)
class TrainConfig:
    """How the weights are found."""

    initialize_from: str | None = None  # a run folder, whose best weights and tokenizer this run starts with
    steps: int = 8000
    epochs: int | None = None  # stands in for steps
    batch_tokens: int = 4096  # target tokens a batch (source tokens where no text is written), padding not counted
    batch_sentences: int | None = None  # stands in for batch_tokens
    optimizer: Literal["adamw", "adam", "muon"] = "adamw"  # muon: for the matrices of the layers, adamw for the rest
    learning_rate: float | None = 0.001  # the peak; null gives the paper's, (d_model * warmup_steps) ** -0.5
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    warmup_steps: int = 2000
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    label_smoothing: float = 0.1
    r_drop: float = 0.0  # α of R-Drop: how far two passes through dropout are held together; 0 makes one pass
    r_drop_after: int = 0  # updates that are made with one pass before it begins
    sampled_words: int = 0  # of the vocabulary, which an update's softmax is over; 0: all
    clip_norm: float | None = 1.0
    accumulate: int = 1
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    kernels: Literal["auto", "plain"] = "auto"  # auto: C++ on a CPU, Triton on a GPU; plain: torch alone
    workers: int | None = None  # processes that share an update on a CPU; null: as many as torch would take threads
    shard: int = 1  # under torchrun: how many ranks divide weights, gradients and moments; 1: each has all of them
    timeout: float = 600.0  # under torchrun: seconds until a rank that does not answer is taken for gone
    average_last: int = 1  # the weights of the last so many validations, averaged at the end
    ema_decay: float = 0.0  # exponential moving average of the weights; 0 is off
    monitor: Literal["loss", "bleu", "exact", "accuracy", "macro_f1", "em", "f1"] = "loss"
    patience: int | None = None  # validations without improvement before stopping
    validate_every: int | None = 500  # None: once an epoch
    show_samples: int = 0  # validation sources whose outputs are told at each validation, sampled and searched
    log_every: int = 50
    track: tuple[str, ...] = ()  # who is told of it besides metrics.jsonl: names of train.trackers.TRACKERS


@dataclass(frozen=True)
class DecodeConfig:
    """How text is found; each key can be overridden when generating."""

    beam_size: int = 4  # hypotheses kept at each step, and n_best at least (see `width`)
    length_penalty: float = 0.6
    min_length: int = 0
    max_length: int = 256
    n_best: int = 1
    no_repeat_ngram: int = 0
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    batch_tokens: int = 4096  # source tokens decoded together at most, padding counted
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto"
    exact: bool = False
    split_sentences: bool = False  # each text is divided at the ends of sentences, and none is cut
    from_passages: bool = False  # each output is a piece of a passage that is read beside its source

    @property
    def width(self) -> int:
        """How many hypotheses a search keeps at each step: a beam holds all that are told. What is out of range stays
        so, for the search to refuse."""
        both = self.beam_size, self.n_best
        return max(both) if all(isinstance(n, int) and n > 0 for n in both) else self.beam_size


@dataclass(frozen=True)
class RetrievalConfig:
    """Passages that are looked for and read beside each source (fusion in the decoder, model/fusion.py)."""

    index: str | None = None  # the folder of an index; null: the training pairs themselves
    k: int = 0  # passages beside each source; 0: the plain model
    from_: Literal["none", "random", "bm25"] = "bm25"  # `from` in a file: a word of Python's own

    @property
    def is_on(self) -> bool:
        """Whether there are any."""
        return self.k > 0 and self.from_ != "none"


@dataclass(frozen=True)
class RunConfig:
    """Everything a run is made from; written resolved into the run folder."""

    task: Task = "seq2seq"
    seed: int = 42
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
