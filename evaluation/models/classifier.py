"""A text classifier: its training data, features, nets and folder. Module ``turns`` has the prediction."""

import copy
import logging
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Protocol

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models import configs, inference, saving, training
from parapet.evaluation.models.saving import MODEL, WEIGHTS, device_of, enough_memory
from parapet.evaluation.models.turns import Answer, Turn, read_labelled
from parapet.evaluation.ood import OOD, best_threshold, is_of_ood
from parapet.schemas import errors, layout
from parapet.transforms.core.checkpoints import Checkpoint
from parapet.transforms.perturb import corpora

HELD_OUT = 0.1  # share of the dialogues, without --dev


class Corpus(msgspec.Struct, frozen=True):
    """The training data of a classifier.

    Attributes:
      train, dev: labelled turns.
      foreign: labelled turns for tuning a threshold, if any.
      files: (flag, path) of the files read.
    """

    train: list[Turn]
    dev: list[Turn]
    foreign: list[Turn]
    files: list[tuple[str, str]]


def read_training(config: configs.ClassifierConfig, train: Sequence[str]) -> Corpus:
    """Reads the training data of a classifier.

    Args:
      config: names the task and the paths; without paths of dev, some training dialogues are held out.
      train: the paths of training data.

    Raises:
      InputError: a file cannot be read, there is nothing to learn, or nothing to select the best epoch with.
    """
    task, dev, foreign = config.task, config.dev, config.foreign
    learned = read_labelled(train, config.split, task)
    files = input_files("train", train, config.split)
    if dev:
        chosen_by = read_labelled(dev, config.dev_split, task)
        files += input_files("dev", dev, config.dev_split)
    else:
        learned, chosen_by = inference.held_out(learned, HELD_OUT, config.seed, lambda turn: turn.key[1])
    if not learned or not chosen_by:
        raise errors.InputError("there are too few dialogues to hold some out: give --dev", train[0], "--train")
    labels = {turn.label for turn in learned}
    if len(labels) < 2:
        reason = f"all turns have the label {labels.pop()!r}, so there is nothing to learn"
        raise errors.InputError(reason, train[0], "--train")
    lost = [turn for turn in chosen_by if turn.label not in labels]
    if lost:
        message = "dev: %s turns have labels that training lacks, such as %r, and count as wrong"
        logging.warning(message, f"{len(lost):,}", lost[0].label)
    if task == OOD:
        _check_both(chosen_by, dev[0] if dev else train[0], "--dev")
    tuned = read_labelled(foreign, config.dev_split, OOD) if foreign else []
    if foreign:
        _check_both(tuned, foreign[0], "--foreign")
        files += input_files("foreign", foreign, config.dev_split)
    return Corpus(learned, chosen_by, tuned, files)


def _check_both(turns: Sequence[Turn], path: str, flag: str) -> None:
    if len({turn.label for turn in turns}) < 2:
        reason = f"all of these turns are {turns[0].label}, but a threshold requires both kinds"
        raise errors.InputError(reason, path, flag)


def input_files(flag: str, paths: Sequence[str], split: str) -> list[tuple[str, str]]:
    """Lists (flag, path) of all files that are read for paths, in order."""
    names = []
    for path in paths:
        if layout.as_path(path).is_file():
            names.append((flag, path))
        elif is_of_ood(path):
            sets = sorted(folder / "turns" for folder in layout.as_path(path).iterdir() if (folder / "turns").is_dir())
            named = [file for folder in sets for file in sorted((folder / split).glob("*.parquet"))]
            plain = [file for folder in sets for file in sorted(folder.glob("*.parquet"))]
            names += [(flag, str(file)) for file in named or plain]
        else:
            names += [(flag, file_path) for file_path in corpora.read_corpus(path, [split]).paths()]
    return names


_WORDS = re.compile(r"\w+|[^\w\s]")


_DIGIT = re.compile(r"\d")


GRAMS = (3, 4, 5)  # characters


class Encoder(Protocol):
    """Encodes texts as numbers; ``pad`` is the padding number."""

    pad: int

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Returns the numbers of each text, and the number of texts that were too long and lost their beginnings."""


class Hashed:
    """Words, pairs of words and character n-grams, each hashed to a bucket (Joulin et al. 2017, section 2.1).

    Args:
      buckets: the number of buckets; 0 is the padding, not a bucket.
      length: the maximum number of words in a text.
    """

    pad = 0

    def __init__(self, buckets: int, length: int) -> None:
        self.buckets, self.length = buckets, length

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Sees :class:`Encoder`."""
        rows, long = [], 0
        for text in texts:
            words = words_of(text)
            long += len(words) > self.length
            features = dict.fromkeys(grams_of(words[-self.length :]))
            rows.append([1 + zlib.crc32(gram.encode("utf-8", "surrogatepass")) % self.buckets for gram in features])
        return rows, long


def words_of(text: str) -> list[str]:
    """Splits a text into lower-cased words and punctuation; all digits become 0."""
    return _WORDS.findall(_DIGIT.sub("0", text.casefold()))


def grams_of(words: Sequence[str]) -> Iterator[str]:
    """Yields the words, pairs of adjacent words, and the character n-grams of each word with boundary marks."""
    yield from words
    yield from (f"{first} {other}" for first, other in pairwise(words))
    for word in words:
        marked = f"<{word}>"
        for n in GRAMS:
            yield from (marked[at : at + n] for at in range(len(marked) - n + 1))


class Pieces:
    """The tokens of a checkpoint's tokenizer.

    Args:
      tokenizer: a tokenizer of transformers.
      length: the maximum number of tokens, including special ones.
    """

    def __init__(self, tokenizer: Any, length: int) -> None:
        self.tokenizer, self.length = tokenizer, length
        self.pad = int(tokenizer.pad_token_id or 0)
        tokenizer.truncation_side = "left"

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Sees :class:`Encoder`."""
        if not texts:
            return [], 0
        # Tokenizers reject lone surrogates.
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        whole = self.tokenizer(clean, return_attention_mask=False, verbose=False)["input_ids"]
        long = sum(len(row) > self.length for row in whole)
        if long:
            whole = self.tokenizer(clean, return_attention_mask=False, truncation=True, max_length=self.length)
            whole = whole["input_ids"]
        return [list(row) for row in whole], long


DROPOUT = 0.3


class Bag(nn.Module):
    """The mean of the embeddings of a text's features, and a linear layer (Joulin et al. 2017, section 2).

    Embeddings start as zeros, so that features unseen in training favour no class.

    Args:
      buckets: the number of features, without the padding 0.
      size: the size of embeddings.
      classes: the number of classes.
    """

    def __init__(self, buckets: int, size: int, classes: int) -> None:
        super().__init__()
        self.features = nn.EmbeddingBag(buckets + 1, size, mode="mean", padding_idx=0)
        self.classes = nn.Linear(size, classes)
        nn.init.zeros_(self.features.weight)

    def forward(self, tokens: Tensor, _: Tensor) -> Tensor:
        """Computes the scores of the classes; shape (texts, classes)."""
        return torch.as_tensor(self.classes(nn.functional.dropout(self.features(tokens), DROPOUT, self.training)))


class Headed(nn.Module):
    """A checkpoint's model for sequence classification.

    Args:
      model: a model of transformers.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Computes the scores of the classes; shape (texts, classes)."""
        return torch.as_tensor(self.model(input_ids=tokens, attention_mask=mask).logits)


DIGITS = 9


class Classifier:
    """A loaded model whose answers do not depend on the batch.

    It computes in double precision and rounds to nine digits. Padding and batch size only change digits far behind
    these. If classes are equal then, the first wins.

    Args:
      module: computes the scores of the classes from tokens and mask.
      encoder: encodes the texts.
      labels: the classes, in the order of the scores.
      score: ``msp`` or ``energy``; a model trained on out-of-domain turns uses their probability instead.
      device: the device to use.
      batch: texts at a time.
    """

    def __init__(
        self, module: nn.Module, encoder: Encoder, labels: Sequence[str], score: str, device: torch.device, batch: int
    ) -> None:
        self.module = module.double().to(device).eval()
        self.encoder, self.labels, self.score, self.device, self.batch = encoder, labels, score, device, batch

    def answers(self, texts: Sequence[str]) -> tuple[list[Answer], int]:
        """Answers each text; also returns the number of distinct texts that were too long and lost their beginnings."""
        different = list(dict.fromkeys(texts))
        encoded, long = self.encoder.encode(different)
        rows = training.Rows(encoded, self.device)
        answers: dict[str, Answer] = {}
        with enough_memory(self.batch), torch.inference_mode():
            for ids in training.by_length(rows.lengths.tolist(), self.batch):
                logits = self.module(*rows.padded(torch.tensor(ids), self.encoder.pad)).cpu()
                best = logits.round(decimals=DIGITS).argmax(1).tolist()
                for i, label, score in zip(ids, best, foreign(logits, self.labels, self.score).tolist(), strict=True):
                    answers[different[i]] = Answer(self.labels[label], round(score, DIGITS) + 0.0)
        return [answers[text] for text in texts], long


def foreign(logits: Tensor, labels: Sequence[str], score: str) -> Tensor:
    """Scores how likely a text is out of domain.

    ``msp`` is 1 minus the highest probability (Hendrycks and Gimpel 2017, section 2), ``energy`` the negative logarithm
    of the sum of the scores' exponentials (Liu et al. 2020, section 3.1, at temperature 1).

    Args:
      logits: the scores of the classes; shape (texts, classes).
      labels: the classes. If one is ``ood``, its probability is the score.
      score: ``msp`` or ``energy``.
    """
    if OOD in labels:
        return logits.softmax(1)[:, list(labels).index(OOD)]
    if score == "energy":
        return -logits.logsumexp(1)
    return -torch.expm1(logits.log_softmax(1).amax(1))  # expm1 keeps the precision of probabilities near 1


# Prefixes of the names of weights that a task adds.
HEAD = ("classifier.", "pre_classifier.", "bert.pooler.")


class Card(saving.Card, frozen=True, kw_only=True):
    """The content of ``model.json``.

    Attributes:
      task: ``intent`` or ``ood``.
      labels: the classes, in the order of the scores.
      checkpoint: whether the model is one of transformers, rather than a net with ``size`` and ``buckets``.
      length: the maximum number of words or tokens in an utterance.
      score: ``msp`` or ``energy``.
      threshold: turns with at least this score are out of domain; None if it was not tuned.
    """

    model: str = "classifier"
    format: int = 1
    task: str
    labels: Annotated[list[str], msgspec.Meta(min_length=2)]
    checkpoint: bool
    size: saving.Positive
    buckets: saving.Positive
    length: saving.Positive
    score: str
    threshold: float | None


def load(folder: str, device: str, batch: int) -> tuple[Card, Classifier]:
    """Loads a classifier; also returns its card.

    Args:
      folder: the folder of the model.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: texts at a time.

    Raises:
      InputError: the model is missing, of another kind, or damaged.
    """
    card = saving.read_card(folder, Card)
    encoder: Encoder
    module: nn.Module
    if card.checkpoint:
        checkpoint = saving.inside(folder, card.model)
        tokenizer, model = saving.load(checkpoint, "AutoModelForSequenceClassification")
        if model.config.num_labels != len(card.labels):
            reason = f"has {model.config.num_labels} classes, but {MODEL} beside it has {len(card.labels)}"
            raise checkpoint.refused(reason)
        encoder, module = Pieces(tokenizer, saving.longest(tokenizer, model, card.length, MODEL)), Headed(model)
    else:
        encoder, module = Hashed(card.buckets, card.length), Bag(card.buckets, card.size, len(card.labels))
        saving.load_weights(module, folder)
    return card, Classifier(module, encoder, card.labels, card.score, device_of(device), batch)


SCORED = 256  # texts at a time outside of training


DECAY = 0.01  # weight decay


class ClassifierLearner(training.Learner):
    """A classifier with its data.

    Args:
      config: the settings of the training.
      corpus: the training data.
      checkpoint: the checkpoint to start from; None for a net from scratch.

    Raises:
      InputError: the checkpoint cannot be loaded.
    """

    def __init__(self, config: configs.ClassifierConfig, corpus: Corpus, checkpoint: Checkpoint | None = None) -> None:
        self.config, self.device, train, dev = config, torch.device(config.device), corpus.train, corpus.dev
        self.threshold: float | None = None
        self.f1: float | None = None  # F1 with the threshold, on the turns for tuning
        self.tuned = dev if config.task == OOD else corpus.foreign
        self.labels = sorted({turn.label for turn in train})
        self.metric = "F1 of out-of-domain turns" if config.task == OOD else f"{config.task.removesuffix('s')} accuracy"
        self.encoder, module, self.length = body(config, self.labels, checkpoint)
        self.module, rate = module.to(self.device), config.learning_rate
        if checkpoint is None:
            # One kernel for all parameters, with the same results as a loop.
            self.optimiser = torch.optim.Adam(module.parameters(), rate, fused=True)
        else:
            self.optimiser = torch.optim.AdamW(module.parameters(), rate, weight_decay=DECAY, fused=True)
        self.rows = self._rows(train, "train")
        self._dev_rows = self._rows(dev, "dev")
        numbers = {label: number for number, label in enumerate(self.labels)}
        # Intents of dev that training lacks always count as wrong.
        self.classes, self._dev_classes = (
            torch.tensor([numbers.get(turn.label, -1) for turn in turns], device=self.device) for turns in (train, dev)
        )

    def _rows(self, turns: Sequence[Turn], name: str) -> training.Rows:
        encoded, long = self.encoder.encode([turn.utterance for turn in turns])
        if long:
            message = "%s: %s utterances are longer than %d tokens: their beginnings are cut off"
            logging.warning(message, name, f"{long:,}", self.length)
        return training.Rows(encoded, self.device)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch."""
        return training.bucketed(self.rows.lengths, self.config.batch_size, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """Computes the mean loss."""
        logits = self.module(*self.rows.padded(batch, self.encoder.pad)).float()
        return F.cross_entropy(logits, self.classes[batch.to(self.device)])

    def dev(self) -> float:
        """Computes the accuracy of intents; for out-of-domain turns, the highest F1 of any threshold."""
        order = [torch.tensor(ids) for ids in training.by_length(self._dev_rows.lengths.tolist(), SCORED)]
        logits = torch.cat([self.module(*self._dev_rows.padded(ids, self.encoder.pad)) for ids in order])
        classes = self._dev_classes[torch.cat(order).to(self.device)]
        if self.config.task != OOD:
            return int((logits.argmax(1) == classes).sum()) / len(classes)
        scores = foreign(logits.float(), self.labels, self.config.score).tolist()
        truth = (classes == self.labels.index(OOD)).tolist()
        best = best_threshold(list(zip(scores, truth, strict=True)))
        return best[1] if best else 0.0

    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder, and tunes the threshold on scores in the precision of prediction."""
        if self.tuned:
            # A copy, as prediction changes the precision.
            module, score = copy.deepcopy(self.module), self.config.score
            classifier = Classifier(module, self.encoder, self.labels, score, self.device, SCORED)
            answers, _ = classifier.answers([turn.utterance for turn in self.tuned])
            truth = [turn.label == OOD for turn in self.tuned]
            best = best_threshold([*zip((answer.score for answer in answers), truth, strict=True)])
            self.threshold, self.f1 = best or (None, None)
        card = Card(
            task=self.config.task,
            labels=self.labels,
            checkpoint=self.config.checkpoint is not None,
            size=self.config.size,
            buckets=self.config.buckets,
            length=self.length,
            score=self.config.score,
            threshold=self.threshold,
        )
        if isinstance(self.module, Headed) and isinstance(self.encoder, Pieces):
            return {MODEL: saving.card_bytes(card), **saving.saved(self.encoder.tokenizer, self.module.model)}
        return {MODEL: saving.card_bytes(card), WEIGHTS: saving.weights_bytes(self.module.state_dict())}

    def result(self) -> dict[str, float | None]:
        """Returns the threshold and its F1, if it was tuned."""
        return {} if self.f1 is None else {"threshold": self.threshold, "threshold_f1": self.f1}


def body(
    config: configs.ClassifierConfig, labels: Sequence[str], checkpoint: Checkpoint | None
) -> tuple[Encoder, nn.Module, int]:
    """Returns the encoder, the net, and the maximum length of a text.

    Raises:
      InputError: the checkpoint cannot be loaded, or has too few positions.
    """
    if checkpoint is None:
        net = Bag(config.buckets, config.size, len(labels))
        return Hashed(config.buckets, config.max_length), net, config.max_length
    names = dict(enumerate(labels))
    tokenizer, model = saving.load(
        checkpoint,
        "AutoModelForSequenceClassification",
        HEAD,
        num_labels=len(labels),
        id2label=names,
        label2id={label: number for number, label in names.items()},
        ignore_mismatched_sizes=True,  # replaces a head for other classes
    )
    length = saving.longest(tokenizer, model, config.max_length, "--max_length")
    return Pieces(tokenizer, length), Headed(model), length
