"""Typed configurations of training and prediction, from which ``parapet train`` and ``predict`` make flags.

Fields declared by :func:`parapet.transforms.core.options.option` become flags; the program sets the other fields.
This module is imported before any help is printed, so it imports neither torch nor Beam.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

from parapet.schemas.errors import InputError
from parapet.transforms.core import options
from parapet.transforms.core.options import INPUT, REQUIRED, RUNNING, folder, option

PLATEAU = 3  # evaluations of dev without an improvement, after which the learning rate is halved
SGP_MODULES = ("intents", "combine", "copy_slot", "cross_copy")
TEMPLATES = "templates of your own in T2G2's format: a folder with SERVICE.tsv for each service"

Task = Literal["intent", "ood"]
Schedule = Literal["constant", "linear", "plateau"]


def checkpoint(text: str, default: Any = REQUIRED) -> Any:
    """``--checkpoint``: a local folder, or the name of a model on the Hugging Face hub."""
    return option(default, text, group=INPUT, metavar="DIR", path=True)


def candidates() -> Any:
    """``--candidates`` of a bAbI dialog task."""
    return folder("all possible answers, '1 text' a line", "FILE", REQUIRED)


def knowledge() -> Any:
    """``--match``, the knowledge base of a bAbI dialog task."""
    return folder("knowledge base, for match-type features", "FILE", None)


def knowledge_base(rare: bool = False) -> Any:
    """``--knowledge_base`` of a corpus in the SGD format."""
    return folder("more entities: JSON, or a folder of SERVICE_db.json", "PATH", None, rare=rare)


class Machine(options.Options):
    """Where a net is computed."""

    device: Literal["auto", "cpu", "cuda"] = option(
        "auto", "where to compute; auto: on a GPU if there is one", group=RUNNING
    )
    threads: int = option(1, "CPU threads of a process", rare=True, ge=1, group=RUNNING)


class TrainingConfig(Machine):
    """The settings of any training. Either ``epochs`` and ``patience`` or ``steps`` are set.

    Attributes:
      unit: the word for examples, for the help; ``rate_of`` names the optimiser.
    """

    unit: ClassVar[str] = "examples"
    rate_of: ClassVar[str] = " of Adam"
    epochs: int | None = option(None, "maximum number of epochs", ge=1)
    steps: int | None = option(None, "number of optimiser steps, instead of --epochs", ge=1)
    patience: int | None = option(None, "stop after N epochs without an improvement on dev", rare=True, ge=1)
    eval_steps: int | None = option(
        None,
        "with --steps: measure dev and save the state every N steps (default: a tenth of --steps)",
        rare=True,
        ge=1,
    )
    batch_size: int = option(REQUIRED, "{unit} in a batch", ge=1)
    learning_rate: float = option(REQUIRED, "learning rate{rate_of}", gt=0, lt=1000000.0)
    schedule: Schedule = option(
        "constant",
        "learning rate after the warm-up: constant, falling linearly to zero, or halved when dev stops improving",
        rare=True,
    )
    warmup: float = option(0.0, "share of the steps in which the learning rate rises", rare=True, ge=0, le=1)
    clip: float = option(
        0.0,
        "largest norm of the gradients, to which longer ones are scaled down; 0 for none",
        rare=True,
        ge=0,
        le=1000000.0,
    )
    keep: Literal["best", "last"] = option(
        "best", "weights to keep: those that are best on dev, or the last, without stopping early", rare=True
    )
    seed: str = options.seed()

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


def plateaus(dev: Iterable[float]) -> int:
    """Counts how often ``PLATEAU`` results in a row were no improvement; the count restarts each time."""
    best, waited, count = -1.0, 0, 0
    for measured in dev:
        best, waited = (measured, 0) if measured > best else (best, waited + 1)
        if waited == PLATEAU:
            count, waited = count + 1, 0
    return count


class CorpusTraining(TrainingConfig):
    """A training on corpora in the SGD format."""

    corpora: ClassVar[str] = ", those of 'parapet augment' too"
    train: list[str] = folder("corpora to train on{corpora} (default: the bundled sample)", "ROOT", [])
    split: str = options.split("train")
    dev: str | None = folder("corpus that selects the best epoch (default: the first of --train)", "ROOT", None)
    dev_split: str = option("dev", "split of --dev", rare=True, group=INPUT, metavar="NAME")
    held_out: float | None = option(
        None,
        "share of the training dialogues that selects the best epoch, instead of --dev",
        rare=True,
        gt=0,
        lt=1,
        group=INPUT,
    )


class FineTuning(CorpusTraining):
    """A tracker of dialogue states that starts from a checkpoint."""

    epochs: int | None = 3
    patience: int | None = 2
    batch_size: int = 32
    schedule: Schedule = "linear"
    clip: float = 1.0
    max_length: int = option(
        REQUIRED, "maximum number of tokens of an input; longer dialogues lose their oldest part", rare=True, ge=16
    )
    dev_frames: int = option(
        1000, "number of dev frames, drawn at random, that select the best epoch; 0 for all", rare=True, ge=0
    )


def negatives() -> Any:
    """``--negatives`` of a tracker that is asked for one slot at a time."""
    return option(1.0, "share of inputs without a value to use", ge=0, le=1)


class T5DstConfig(FineTuning):
    """A T5 that is prompted for one slot at a time."""

    unit = "prompts"
    rate_of = " of AdamW"
    checkpoint: str = checkpoint("T5 to start from: t5, mt5, umt5 or longt5")
    learning_rate: float = 1e-4
    max_length: int = 512
    negatives: float = negatives()
    max_output: int = option(64, "maximum number of tokens of an answer, in training and prediction", rare=True, ge=2)
    prompts: Literal["all", "slots"] = option(
        "all", "what is predicted: values of slots alone, or the active intent and the requested slots, too", rare=True
    )
    answers: Literal["nearest", "raw"] = option(
        "nearest", "an answer that is no possible value: read as the nearest one, or taken as it is", rare=True
    )
    equal_values: Literal["last", "random"] = option(
        "last", "which of a slot's equal values is learned: the one said last, or a random one", rare=True
    )


def of_modules(name: str, least: int, most: int) -> Any:
    """``--module_NAME``: numbers of some modules of sgp_dst, integers if ``most`` is above 1."""

    def parse(text: str) -> str:
        text = text.replace(" ", "")
        for part in filter(None, text.split(",")):
            module, _, number = part.partition("=")
            try:
                value = int(number) if most > 1 else float(number)
            except ValueError:
                example = f"{SGP_MODULES[1]}={most}"
                raise InputError(f"{part!r}: must be MODULE=N, comma-separated (example: {example})") from None
            if module not in SGP_MODULES:
                raise InputError(f"{module!r} is not a module: must be one of {', '.join(SGP_MODULES)}")
            if not least <= value <= most:
                raise InputError(f"{part}: must be a number from {least} to {most}")
        return text

    text = f"--{name} of modules that have others than the rest, comma-separated"
    return option("", text, rare=True, metavar="MODULE=N", parse=parse)


class SgpDstConfig(FineTuning):
    """Four BERT encoders, each with its own schedule; the gradient of each tensor is clipped by itself."""

    unit = "inputs"
    rate_of = " of BertAdam"
    checkpoint: str = checkpoint("BERT to start from: bert, distilbert, electra or roberta")
    learning_rate: float = 2e-05
    warmup: float = 0.1
    max_length: int = 256
    negatives: float = negatives()
    module_epochs: str = of_modules("epochs", 1, 1000)
    module_warmup: str = of_modules("warmup", 0, 1)
    module_negatives: str = of_modules("negatives", 0, 1)

    def rate(self, step: int, total: int, dev: Sequence[float] = ()) -> float:
        """Returns 1: the optimiser has a schedule for each module."""
        return 1.0

    def by_module(self, name: str) -> dict[str, float]:
        """Returns ``epochs``, ``warmup`` or ``negatives`` of each module."""
        numbers = dict(part.split("=") for part in getattr(self, f"module_{name}").split(",") if part)
        kind = int if name == "epochs" else float
        return {module: kind(numbers.get(module, getattr(self, name))) for module in SGP_MODULES}

    @property
    def most_epochs(self) -> int:
        """The largest number of epochs of a module."""
        return int(max(self.by_module("epochs").values()))

    @property
    def clipped_norm(self) -> float:
        """Zero, as the optimiser clips."""
        return 0.0


class SgdBaselineConfig(FineTuning):
    """Heads that compare fixed vectors of schema elements with the last two utterances."""

    unit = "turns"
    rate_of = " of AdamW"
    checkpoint: str = checkpoint("BERT to start from: bert, distilbert, electra or roberta")
    epochs: int | None = 5
    learning_rate: float = 1e-4
    warmup: float = 0.1
    max_length: int = 80


class GenerationConfig(CorpusTraining):
    """A T5 that generates system utterances; ``model`` is ``ft_t5`` or ``pt_t5``."""

    unit = "turns"
    rate_of = " of AdamW"
    model: str = "ft_t5"
    templates: str | None = folder(TEMPLATES, default=None)
    checkpoint: str = checkpoint("T5 to start from")
    epochs: int | None = 20
    patience: int | None = 3
    batch_size: int = 16
    learning_rate: float = 0.0003
    schedule: Schedule = "linear"
    warmup: float = 0.05
    clip: float = 1.0
    max_input: int = option(
        256, "maximum number of tokens of an input; longer ones lose their beginning", rare=True, ge=8
    )
    max_output: int = option(128, "maximum number of tokens of an utterance", rare=True, ge=2)
    prefix_length: int = 0
    prefix_embedding: int = 0
    prefix_size: int = 0


class SystemTraining(CorpusTraining):
    """A training of a whole system."""

    unit = "turns"
    corpora = ""
    knowledge_base: str | None = knowledge_base(rare=True)


class SoloistConfig(SystemTraining):
    """A GPT-2 that generates belief states and responses."""

    rate_of = " of AdamW"
    checkpoint: str = checkpoint("GPT-2 to start from: gpt2, gpt_neo or llama")
    epochs: int | None = 10
    patience: int | None = 3
    batch_size: int = 8
    learning_rate: float = 5e-05
    schedule: Schedule = "linear"
    warmup: float = 0.05
    clip: float = 1.0
    max_length: int = option(
        512, "maximum number of tokens of an input; longer dialogues lose their oldest part", rare=True, ge=8
    )
    acts: bool = option(False, "write the acts of a response before it, too")
    consistency: float = option(0.0, "weight of the paper's contrastive task; 0 for none", rare=True, ge=0, le=1000)
    weight_decay: float = option(0.01, "weight decay of the optimiser; 0 makes it Adam", rare=True, ge=0, le=1)


class DamdConfig(SystemTraining):
    """GRUs that generate belief states, acts and responses."""

    epochs: int | None = 100
    patience: int | None = 5
    batch_size: int = 128
    learning_rate: float = 0.005
    schedule: Schedule = "plateau"
    clip: float = 5.0
    vocabulary: int = option(
        3000, "maximum number of words, the most frequent ones; others can be copied", rare=True, ge=5
    )
    embedding: int = option(50, "size of the embeddings", rare=True, ge=1)
    hidden: int = option(100, "size of the GRUs' states", rare=True, ge=1)


class ClassifierConfig(TrainingConfig):
    """A text classifier. The default learning rate depends on whether there is a checkpoint."""

    unit = "utterances"
    rate_of = " of Adam (default: 0.01), or AdamW with --checkpoint (default: 5e-05)"
    task: Task = option("intent", "what the labels are", group=INPUT)
    train: list[str] = folder(
        "corpora, outputs of 'parapet ood', or JSON lines with utterance and label (default: the bundled sample)",
        "PATH",
        [],
    )
    split: str = options.split("train")
    dev: list[str] = folder("turns that select the best epoch (default: every tenth dialogue of --train)", "PATH", [])
    dev_split: str = option("dev", "split of --dev and --foreign", rare=True, group=INPUT, metavar="NAME")
    foreign: list[str] = folder(
        "with --task intent: turns labelled ood or in_domain, on which the threshold of --score is tuned",
        "PATH",
        [],
        rare=True,
    )
    checkpoint: str | None = checkpoint("BERT or RoBERTa to start from (default: train from scratch)", None)
    epochs: int | None = 40
    patience: int | None = 10
    batch_size: int = 32
    learning_rate: float = 0.0
    max_length: int = option(
        128, "maximum length of an utterance, in words (tokens with --checkpoint); the last are kept", rare=True, ge=8
    )
    score: Literal["msp", "energy"] = option(
        "msp", "out-of-domain score of a model of intents: by the highest probability, or by the energy", rare=True
    )
    size: int = option(64, "size of the embeddings, from scratch", rare=True, ge=1)
    buckets: int = option(2**15, "number of buckets of the hashed features, from scratch", rare=True, ge=1)


class BabiConfig(TrainingConfig):
    """A net for the bAbI dialog tasks."""

    unit = "turns"
    rate_of = ""
    model: str
    train: list[str] = folder("dialogues in the bAbI format to train on", "FILE", REQUIRED)
    dev: list[str] = folder("dialogues that select the best epoch", "FILE", REQUIRED)
    candidates: str = candidates()
    match: str | None = knowledge()
    epochs: int | None = 50
    patience: int | None = 5
    batch_size: int = 32
    size: int = option(128, "size of the embeddings", ge=1)
    hops: int = 1
    memory: int | None = None
    time: Literal["back", "index"] = "back"
    input: Literal["history", "last"] = "history"
    negatives: int = option(0, "ranking loss over N sampled candidates; 0 for a softmax over all", ge=0)
    share: Literal["off", "on", "auto"] = "off"
    margin: float = option(1.0, "margin of the ranking loss", rare=True, gt=0, lt=1000000.0)
    optimiser: Literal["adam", "sgd"] = option(
        "adam", "optimiser: Adam, or plain stochastic gradient descent", rare=True
    )
    initial: float = option(0.15, "standard deviation of new parameters", rare=True, gt=0, lt=1000000.0)
    bigrams: bool = option(False, "two words that follow one another are a word of the dictionary, too", rare=True)
    task: Literal["1", "2", "3", "4", "5", "6", "concierge"] | None = option(
        None, "row of the --preset (default: the task in the names of the files)", rare=True
    )
