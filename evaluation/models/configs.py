"""Typed configurations of training and prediction, from which ``parapet train`` and ``predict`` make flags.

See ``parapet/pipelines/config_flags.py``: annotated fields become flags, and the docstring has their help. The program
sets the other fields. This module is imported before any help is printed, so it imports neither torch nor Beam.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from parapet.schemas.errors import InputError

PLATEAU = 3  # evaluations of dev without an improvement, after which the learning rate is halved
LARGEST = 1024  # largest size of an embedding of tiny_dst
MOST_ATTENDED = 64  # dialogues: a chunk of a prediction
SGP_MODULES = ("intents", "combine", "copy_slot", "cross_copy")
SPLITS = ("train", "dev", "test")

Task = Literal["intent", "ood"]
Schedule = Literal["constant", "linear", "plateau"]


def _flag(**options: Any) -> Meta:
    """Declares a flag with its range (``ge``, ``gt``, ``le``, ``lt``) and further settings."""
    limits = {name: options.pop(name) for name in ("ge", "gt", "le", "lt") if name in options}
    return Meta(extra=options, **limits)


def _rare(**options: Any) -> Meta:
    """Declares a flag that only ``--help-all`` shows."""
    return _flag(rare=True, **options)


def _input(metavar: str, **options: Any) -> Meta:
    """Declares a flag for files or folders that must exist."""
    return _flag(**{"group": "input", "metavar": metavar, "reads": True, **options})


def _checkpoint() -> Meta:
    """Declares a flag for a checkpoint, which is checked when it is inspected."""
    return _input("DIR", reads=False, path=True)


Device = Annotated[Literal["auto", "cpu", "cuda"], _flag(group="running")]
Threads = Annotated[int, _rare(ge=1, group="running")]
Split = Annotated[str, _flag(group="input", metavar="NAME", completes=SPLITS)]


class TrainingConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of any training. Either ``epochs`` and ``patience`` or ``steps`` are set.

    Attributes:
      unit: the word for examples, for the help; ``rate_of`` names the optimiser.
      largest: the flag that determines memory use besides ``--batch_size``.
      epochs: maximum number of epochs.
      steps: number of optimiser steps, instead of --epochs.
      patience: stop after N epochs without an improvement on dev.
      eval_steps: with --steps: measure dev and save the state every N steps (default: a tenth of --steps).
      batch_size: {unit} in a batch.
      learning_rate: learning rate{rate_of}.
      schedule: learning rate after the warm-up: constant, falling linearly to zero, or halved when dev stops improving.
      warmup: share of the steps in which the learning rate rises.
      clip: largest norm of the gradients, to which longer ones are scaled down; 0 for none.
      keep: weights to keep: those that are best on dev, or the last, without stopping early.
      device: where to compute; auto: on a GPU if there is one.
      threads: CPU threads of a process.
      seed: random seed.
    """

    without: ClassVar[tuple[str, ...]] = ()
    unit: ClassVar[str] = "examples"
    rate_of: ClassVar[str] = " of Adam"
    largest: ClassVar[str] = ""
    epochs: Annotated[int, _flag(ge=1, either="length")] | None = None
    steps: Annotated[int, _flag(ge=1, either="length")] | None = None
    patience: Annotated[int, _rare(ge=1)] | None = None
    eval_steps: Annotated[int, _rare(ge=1)] | None = None
    batch_size: Annotated[int, _flag(ge=1)]
    learning_rate: Annotated[float, _flag(gt=0, lt=1e6)]
    schedule: Annotated[Schedule, _rare()] = "constant"
    warmup: Annotated[float, _rare(ge=0, le=1)] = 0.0
    clip: Annotated[float, _rare(ge=0, le=1e6)] = 0.0
    keep: Annotated[Literal["best", "last"], _rare()] = "best"
    device: Device = "auto"
    threads: Threads = 1
    seed: Annotated[str, _flag(group="running")] = "0"

    def rate(self, step: int, total: int, dev: Sequence[float] = ()) -> float:
        """Returns the share of the full learning rate at a step, from 0, of ``total`` steps.

        ``dev`` has all earlier results.
        """
        rising = self.warmup * total
        if step < rising:
            return (step + 1) / (rising + 1)
        if self.schedule == "plateau":
            return 0.5 ** plateaus(dev)
        return (total - step) / (total - rising) if self.schedule == "linear" else 1.0

    @property
    def most_epochs(self) -> int:
        """The number of epochs after which the training ends."""
        return self.epochs or 1

    @property
    def clipped_norm(self) -> float:
        """The largest norm of all gradients together; 0 for none."""
        return self.clip

    @property
    def memory_hint(self) -> str:
        """The advice if memory runs out."""
        hint = f"lower --batch_size, which is {self.batch_size}"
        return f"{hint}, or --{self.largest}, which is {getattr(self, self.largest)}" if self.largest else hint


def plateaus(dev: Iterable[float]) -> int:
    """Counts how often ``PLATEAU`` results in a row were no improvement; the count restarts each time."""
    best, waited, count = -1.0, 0, 0
    for measured in dev:
        best, waited = (measured, 0) if measured > best else (best, waited + 1)
        if waited == PLATEAU:
            count, waited = count + 1, 0
    return count


class CorpusTraining(TrainingConfig, frozen=True, kw_only=True):
    """A training on corpora in the SGD format.

    Attributes:
      train: corpora to train on{corpora} (default: the bundled sample).
      split: train, dev or test.
      dev: corpus that selects the best epoch (default: the first of --train).
      dev_split: split of --dev.
      held_out: share of the training dialogues that selects the best epoch, instead of --dev.
    """

    corpora: ClassVar[str] = ", those of 'parapet augment' too"
    train: Annotated[list[str], _input("ROOT")] = []
    split: Split = "train"
    dev: Annotated[str | None, _input("ROOT")] = None
    dev_split: Annotated[str, _rare(group="input", metavar="NAME")] = "dev"
    held_out: Annotated[float, _rare(gt=0, lt=1, group="input")] | None = None


class TinyConfig(CorpusTraining, frozen=True, kw_only=True):
    """The small tracker.

    Attributes:
      size: size of the embeddings.
    """

    unit = "dialogues"
    largest = "size"
    epochs: int | None = 20
    patience: int | None = 8
    batch_size: int = 4
    learning_rate: float = 0.005
    schedule: Schedule = "linear"
    clip: float = 1.0
    size: Annotated[int, _flag(ge=1, le=LARGEST)] = 64


class FineTuning(CorpusTraining, frozen=True, kw_only=True):
    """A tracker of dialogue states that starts from a checkpoint.

    Attributes:
      max_length: maximum number of tokens of an input; longer dialogues lose their oldest part.
      negatives: share of inputs without a value to use.
      dev_frames: number of dev frames, drawn at random, that select the best epoch; 0 for all.
    """

    largest = "max_length"
    epochs: int | None = 3
    patience: int | None = 2
    batch_size: int = 32
    schedule: Schedule = "linear"
    clip: float = 1.0
    max_length: Annotated[int, _rare(ge=16)]
    negatives: Annotated[float, _flag(ge=0, le=1)] = 1.0
    dev_frames: Annotated[int, _rare(ge=0)] = 1000


class T5DstConfig(FineTuning, frozen=True, kw_only=True):
    """A T5 that is prompted for one slot at a time.

    Attributes:
      checkpoint: T5 to start from: t5, mt5, umt5 or longt5.
      max_output: maximum number of tokens of an answer, in training and prediction.
      prompts: what is predicted: values of slots alone, or the active intent and the requested slots, too.
      answers: an answer that is no possible value: read as the nearest one, or taken as it is.
      equal_values: which of a slot's equal values is learned: the one said last, or a random one.
    """

    unit = "prompts"
    rate_of = " of AdamW"
    checkpoint: Annotated[str, _checkpoint()]
    learning_rate: float = 1e-4
    max_length: int = 512
    max_output: Annotated[int, _rare(ge=2)] = 64
    prompts: Annotated[Literal["all", "slots"], _rare()] = "all"
    answers: Annotated[Literal["nearest", "raw"], _rare()] = "nearest"
    equal_values: Annotated[Literal["last", "random"], _rare()] = "last"


class SgpDstConfig(FineTuning, frozen=True, kw_only=True):
    """Four BERT encoders, each with its own schedule; the gradient of each tensor is clipped by itself.

    Attributes:
      checkpoint: BERT to start from: bert, distilbert, electra or roberta.
      module_epochs: --epochs of modules that have others than the rest, comma-separated.
      module_warmup: --warmup of modules that have others than the rest, comma-separated.
      module_negatives: --negatives of modules that have others than the rest, comma-separated.
    """

    unit = "inputs"
    rate_of = " of BertAdam"
    checkpoint: Annotated[str, _checkpoint()]
    learning_rate: float = 2e-05
    warmup: float = 0.1
    max_length: int = 256
    module_epochs: Annotated[str, _rare(metavar="MODULE=N")] = ""
    module_warmup: Annotated[str, _rare(metavar="MODULE=N")] = ""
    module_negatives: Annotated[str, _rare(metavar="MODULE=N")] = ""

    def rate(self, step: int, total: int, dev: Sequence[float] = ()) -> float:
        """Returns 1: the optimiser has a schedule for each module."""
        return 1.0

    def by_module(self, name: str) -> dict[str, float]:
        """Returns ``epochs``, ``warmup`` or ``negatives`` of each module.

        Raises InputError if the flag cannot be parsed.
        """
        least, most = (1, 1000) if name == "epochs" else (0, 1)
        numbers = read_numbers(getattr(self, f"module_{name}"), f"--module_{name}", SGP_MODULES, least, most)
        return {module: numbers.get(module, getattr(self, name)) for module in SGP_MODULES}

    @property
    def most_epochs(self) -> int:
        """The largest number of epochs of a module."""
        return int(max(self.by_module("epochs").values()))

    @property
    def clipped_norm(self) -> float:
        """Zero, as the optimiser clips."""
        return 0.0


def read_numbers(text: str, flag: str, names: Sequence[str], least: int, most: int) -> dict[str, float]:
    """Parses numbers by name, from ``NAME=NUMBER,...``.

    Args:
      text: the value of the flag.
      flag: for messages.
      names: the allowed names.
      least: the smallest number; ``most`` is the largest. If ``most`` is above 1, numbers are integers.

    Raises:
      InputError: the text cannot be parsed, or a number is out of range.
    """
    numbers: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            numbers[name] = int(number) if most > 1 else float(number)
        except ValueError:
            raise InputError(
                f"{part!r}: must be MODULE=N, comma-separated (example: {names[1]}={most})", flag
            ) from None
        if name not in names:
            raise InputError(f"{name!r} is not a module: must be one of {', '.join(names)}", flag)
        if not least <= numbers[name] <= most:
            raise InputError(f"{part}: must be a number from {least} to {most}", flag)
    return numbers


class GenerationConfig(CorpusTraining, frozen=True, kw_only=True):
    """A T5 that generates system utterances; ``model`` is ``ft_t5`` or ``pt_t5``.

    Attributes:
      templates: templates of your own in T2G2's format: a folder with SERVICE.tsv for each service.
      checkpoint: T5 to start from.
      max_input: maximum number of tokens of an input; longer ones lose their beginning.
      max_output: maximum number of tokens of an utterance.
      prefix_length: positions of a prefix.
      prefix_embedding: size of the embedding of each position, which an MLP turns into keys and values.
      prefix_size: size of the hidden layer of the MLPs.
    """

    without: ClassVar[tuple[str, ...]] = ("prefix_length", "prefix_embedding", "prefix_size")
    unit = "turns"
    rate_of = " of AdamW"
    largest = "max_input"
    model: str = "ft_t5"
    templates: Annotated[str | None, _input("DIR")] = None
    checkpoint: Annotated[str, _checkpoint()]
    epochs: int | None = 20
    patience: int | None = 3
    batch_size: int = 16
    learning_rate: float = 0.0003
    schedule: Schedule = "linear"
    warmup: float = 0.05
    clip: float = 1.0
    max_input: Annotated[int, _rare(ge=8)] = 256
    max_output: Annotated[int, _rare(ge=2)] = 128
    prefix_length: Annotated[int, _flag(ge=1)] = 0
    prefix_embedding: Annotated[int, _rare(ge=1)] = 0
    prefix_size: Annotated[int, _rare(ge=1)] = 0


class PrefixConfig(GenerationConfig, frozen=True, kw_only=True):
    """Prefixes for a T5 with frozen weights."""

    without = ()
    model: str = "pt_t5"
    epochs: int | None = 40
    patience: int | None = 5
    learning_rate: float = 0.001
    prefix_length: int = 10
    prefix_embedding: int = 512
    prefix_size: int = 384


class SystemTraining(CorpusTraining, frozen=True, kw_only=True):
    """A training of a whole system.

    Attributes:
      knowledge_base: more entities: JSON, or a folder of SERVICE_db.json.
    """

    unit = "turns"
    corpora = ""
    knowledge_base: Annotated[str | None, _input("PATH", rare=True)] = None


class SoloistConfig(SystemTraining, frozen=True, kw_only=True):
    """A GPT-2 that generates belief states and responses.

    Attributes:
      checkpoint: GPT-2 to start from.
      max_length: maximum number of tokens of an input; longer dialogues lose their oldest part.
      consistency: weight of the paper's contrastive task; 0 for none.
      weight_decay: weight decay of the optimiser; 0 makes it Adam.
    """

    rate_of = " of AdamW"
    largest = "max_length"
    checkpoint: Annotated[str, _checkpoint()]
    epochs: int | None = 10
    patience: int | None = 3
    batch_size: int = 8
    learning_rate: float = 5e-05
    schedule: Schedule = "linear"
    warmup: float = 0.05
    clip: float = 1.0
    max_length: Annotated[int, _rare(ge=8)] = 512
    consistency: Annotated[float, _rare(ge=0, le=1000)] = 0.0
    weight_decay: Annotated[float, _rare(ge=0, le=1)] = 0.01


class DamdConfig(SystemTraining, frozen=True, kw_only=True):
    """GRUs that generate belief states, acts and responses.

    Attributes:
      vocabulary: maximum number of words, the most frequent ones; others can be copied.
      min_count: how often a word must occur to be in the vocabulary.
      embedding: size of the embeddings.
      hidden: size of the GRUs' states.
    """

    epochs: int | None = 100
    patience: int | None = 5
    batch_size: int = 128
    learning_rate: float = 0.005
    schedule: Schedule = "plateau"
    clip: float = 5.0
    vocabulary: Annotated[int, _rare(ge=5)] = 3000
    min_count: Annotated[int, _rare(ge=1)] = 1
    embedding: Annotated[int, _rare(ge=1)] = 50
    hidden: Annotated[int, _rare(ge=1)] = 100


class ClassifierConfig(TrainingConfig, frozen=True, kw_only=True):
    """A text classifier. The default learning rate depends on whether there is a checkpoint.

    Attributes:
      task: what the labels are.
      train: corpora, outputs of 'parapet ood', or JSON lines with utterance and label (default: the bundled sample).
      split: train, dev or test.
      dev: turns that select the best epoch (default: every tenth dialogue of --train).
      dev_split: split of --dev and --foreign.
      foreign: with --task intent: turns labelled ood or in_domain, on which the threshold of --score is tuned.
      checkpoint: BERT or RoBERTa to start from (default: train from scratch).
      max_length: maximum length of an utterance, in words (tokens with --checkpoint); the last are kept.
      score: out-of-domain score of a model of intents: by the highest probability, or by the energy.
      size: size of the embeddings, from scratch.
      buckets: number of buckets of the hashed features, from scratch.
    """

    unit = "utterances"
    rate_of = " of Adam (default: 0.01), or AdamW with --checkpoint (default: 5e-05)"
    task: Annotated[Task, _flag(group="input")] = "intent"
    train: Annotated[list[str], _input("PATH")] = []
    split: Split = "train"
    dev: Annotated[list[str], _input("PATH")] = []
    dev_split: Annotated[str, _rare(group="input", metavar="NAME")] = "dev"
    foreign: Annotated[list[str], _input("PATH", rare=True)] = []
    checkpoint: Annotated[str | None, _checkpoint()] = None
    epochs: int | None = 40
    patience: int | None = 10
    batch_size: int = 32
    learning_rate: float = 0.0
    max_length: Annotated[int, _rare(ge=8)] = 128
    score: Annotated[Literal["msp", "energy"], _rare()] = "msp"
    size: Annotated[int, _rare(ge=1)] = 64
    buckets: Annotated[int, _rare(ge=1)] = 2**15

    @property
    def memory_hint(self) -> str:
        """The advice if memory runs out."""
        return f"lower --batch_size, which is {self.batch_size}" + ("" if self.checkpoint else ", or --buckets")


class BabiConfig(TrainingConfig, frozen=True, kw_only=True):
    """A net for the bAbI dialog tasks.

    Attributes:
      train: dialogues in the bAbI format to train on.
      dev: dialogues that select the best epoch.
      candidates: all possible answers, '1 text' a line.
      match: knowledge base, for match-type features.
      size: size of the embeddings.
      hops: hops over the memory.
      memory: maximum number of lines of history.
      time: time features: lines back from the input, or the index of the line, as in the paper.
      input: whole dialogue, or last utterance.
      negatives: ranking loss over N sampled candidates; 0 for a softmax over all.
      share: same embeddings in dialogues and candidates (A = B); auto: what is better on dev.
      margin: margin of the ranking loss.
      optimiser: optimiser: Adam, or plain stochastic gradient descent.
      initial: standard deviation of new parameters.
      bigrams: two words that follow one another are a word of the dictionary, too.
      task: row of the --preset (default: the task in the names of the files).
    """

    unit = "turns"
    rate_of = ""
    largest = "size"
    model: str
    train: Annotated[list[str], _input("FILE")]
    dev: Annotated[list[str], _input("FILE")]
    candidates: Annotated[str, _input("FILE")]
    match: Annotated[str | None, _input("FILE")] = None
    epochs: int | None = 50
    patience: int | None = 5
    batch_size: int = 32
    size: Annotated[int, _flag(ge=1)] = 128
    hops: Annotated[int, _flag(ge=1)] = 1
    memory: Annotated[int, _flag(ge=1)] | None = None
    time: Annotated[Literal["back", "index"], _rare()] = "back"
    input: Annotated[Literal["history", "last"], _flag()] = "history"
    negatives: Annotated[int, _flag(ge=0)] = 0
    share: Annotated[Literal["off", "on", "auto"], _rare()] = "off"
    margin: Annotated[float, _rare(gt=0, lt=1e6)] = 1.0
    optimiser: Annotated[Literal["adam", "sgd"], _rare()] = "adam"
    initial: Annotated[float, _rare(gt=0, lt=1e6)] = 0.15
    bigrams: Annotated[bool, _rare()] = False
    task: Annotated[Literal["1", "2", "3", "4", "5", "6", "concierge"] | None, _rare()] = None


class EmbeddingsConfig(BabiConfig, frozen=True, kw_only=True):
    """Supervised embeddings."""

    without = ("hops", "memory", "time")
    model: str = "embeddings"
    learning_rate: float = 0.001
    negatives: int = 1000


class MemN2NConfig(BabiConfig, frozen=True, kw_only=True):
    """A memory network."""

    without = ("input", "share")
    model: str = "memn2n"
    learning_rate: float = 0.003
    memory: int | None = 256


class TfIdfConfig(msgspec.Struct, frozen=True, kw_only=True):
    """TF-IDF, which answers with the candidate closest to the dialogue.

    Attributes:
      train: dialogues in the bAbI format, of one or more tasks: the weight of a word is how rare users' turns have it.
      dev: dialogues that select the better --input.
      candidates: all possible answers, '1 text' a line.
      match: knowledge base, for match-type features.
      input: compare with the last utterance or all so far (default: the better one on --dev, without --dev last).
    """

    train: Annotated[list[str], _input("FILE")]
    dev: Annotated[list[str], _input("FILE")] = []
    candidates: Annotated[str, _input("FILE")]
    match: Annotated[str | None, _input("FILE")] = None
    input: Annotated[Literal["last", "history"] | None, _flag()] = None


class NearestConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Nearest neighbour, which answers like the most similar utterance of training.

    Attributes:
      train: dialogues in the bAbI format to train on.
      similarity: answer as the same utterance is answered in training, or as the one that shares most words.
    """

    train: Annotated[list[str], _input("FILE")]
    similarity: Annotated[Literal["exact", "overlap"], _flag()] = "exact"


class RulesConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for tasks 1 to 5, from an ontology, or for task 6, from a file.

    Attributes:
      ontology: domain in TOML (default: the simulator's).
      match: knowledge base of the dialogues.
      rules: rules in TOML, or babi or task6 for those of Parapet.
      train: with --rules: dialogues in the bAbI format to extract patterns from.
      dev: with --rules: dialogues that choose the rules and their order.
      candidates: with --rules: all possible answers, '1 text' a line.
    """

    ontology: Annotated[str | None, _input("FILE")] = None
    match: Annotated[str | None, _input("FILE")] = None
    rules: Annotated[str | None, _flag(metavar="FILE|NAME")] = None
    train: Annotated[list[str], _input("FILE")] = []
    dev: Annotated[list[str], _input("FILE")] = []
    candidates: Annotated[str | None, _input("FILE")] = None


class PredictionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of any prediction.

    Attributes:
      model: output of 'parapet train {name}'.
      device: where to compute; auto: on a GPU if there is one.
      threads: CPU threads of a process.
      batch_size: {unit} in a batch.
    """

    unit: ClassVar[str] = "examples"
    output: str
    model: Annotated[str, _input("DIR")]
    device: Device = "auto"
    threads: Threads = 1
    batch_size: Annotated[int, _flag(ge=1, group="running")] = 64


class SystemPrediction(PredictionConfig, frozen=True, kw_only=True):
    """A prediction by a model of a whole system.

    Attributes:
      knowledge_base: more entities: JSON, or a folder of SERVICE_db.json.
    """

    unit = "turns"
    batch_size: int = 16
    knowledge_base: Annotated[str | None, _input("PATH")] = None


class ClassifierPrediction(PredictionConfig, frozen=True, kw_only=True):
    """A prediction by a classifier.

    Attributes:
      task: what is predicted (default: what the model was trained for).
    """

    unit = "utterances"
    batch_size: int = 256
    task: Annotated[Task | None, _flag()] = None


class GenerationPrediction(PredictionConfig, frozen=True, kw_only=True):
    """A prediction of utterances.

    Attributes:
      checkpoint: T5 that the model was trained with.
      templates: templates of your own in T2G2's format: a folder with SERVICE.tsv for each service (default: those that
        the model was trained with).
      beams: beams of the search (default: as many as candidates).
      candidates: also write the N best, with their scores.
      rerank: choose the candidate that expresses the most acts.
      nli_model: model of --rerank nli, such as roberta-large-mnli.
      also: with --rerank: predictions of other models, whose candidates are added.
    """

    without: ClassVar[tuple[str, ...]] = ("checkpoint",)
    unit = "turns"
    batch_size: int = 32
    checkpoint: Annotated[str | None, _checkpoint()] = None
    templates: Annotated[str | None, _input("DIR")] = None
    beams: Annotated[int, _rare(ge=1, group="search")] | None = None
    candidates: Annotated[int, _flag(ge=0, group="search")] = 0
    rerank: Annotated[Literal["lexical", "nli"] | None, _flag(group="search")] = None
    nli_model: Annotated[str | None, _flag(metavar="DIR", group="search")] = None
    also: Annotated[list[str], _input("DIR", group="search", rare=True)] = []


class PrefixPrediction(GenerationPrediction, frozen=True, kw_only=True):
    """A prediction by prefixes, which need the T5 that they were trained with."""

    without = ()
    checkpoint: str


class BabiPrediction(PredictionConfig, frozen=True, kw_only=True):
    """A prediction by a model of the bAbI dialog tasks.

    Attributes:
      reference: dialogues in the bAbI format.
      sets: further sets, files or folders: OOV=babi/task1-tst-OOV.txt.
      any_task: predict even if file names say that the model was trained on another task.
      top: write the K best answers at each turn, for 'parapet evaluate --task ranking --top K'.
      attention: write what the model attends to in the first N dialogues of each file: JSON lines and a page.
    """

    without: ClassVar[tuple[str, ...]] = ("attention",)
    unit = "turns"
    batch_size: int = 256
    reference: Annotated[list[str], _input("FILE")] = []
    sets: Annotated[list[str], _input("NAME=PATH")] = []
    any_task: Annotated[bool, _rare()] = False
    top: Annotated[int, _flag(ge=1, metavar="K", group="output")] = 1
    attention: Annotated[int, _flag(ge=0, le=MOST_ATTENDED, group="output")] = 0


class MemN2NPrediction(BabiPrediction, frozen=True, kw_only=True):
    """A prediction by a memory network, which can write its attention."""

    without = ()
