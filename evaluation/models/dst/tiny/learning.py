"""Training of the small tracker: at each step from the true state before it, all slots at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from parapet.evaluation.dst.frames import JOINT, score_frame, slots_of
from parapet.evaluation.models.batching import bucketed
from parapet.evaluation.models.dst.data import Labelled
from parapet.evaluation.models.dst.tiny.batch import Wanted, batch_of, wanted_of
from parapet.evaluation.models.dst.tiny.net import Scores, TinyNet
from parapet.evaluation.models.dst.tiny.reading import NEVER, Read
from parapet.evaluation.models.dst.tiny.steps import Reader, Track
from parapet.evaluation.models.dst.tiny.targets import KEEP, Target, grouped, step_of, target
from parapet.evaluation.models.dst.tiny.tracking import BUCKETS, Card, Tracking, rows_of
from parapet.evaluation.models.saving import MODEL, WEIGHTS, card_bytes, weights_bytes
from parapet.evaluation.models.training import Learner, TrainingConfig

SCORED = 64  # dialogues at a time where nothing is trained
ACCEPTS, REQUESTED = 3.0, 10.0  # what these losses weigh beside the others
CHANGES = 5.0  # what a value that changes weighs beside one that stays


class Config(TrainingConfig, frozen=True, kw_only=True):
    """How the net is trained: on dialogues, by Adam.

    Attributes:
      buckets: of the tables of embeddings.
      size: of an embedding.
      drop: the share of words that are hidden where the net reads utterances without the schema.
      rare: a word that is in n dialogues is replaced by an unknown one in ``rare / (rare + n)`` of batches.
    """

    buckets: int = BUCKETS
    size: int
    drop: float = 0.5
    rare: float = 2.0

    @property
    def memory_hint(self) -> str:
        """What to do where memory is used up."""
        return f"lower --batch_size, which is {self.batch_size}, or --size, which is {self.size}"


class TinyLearner(Learner):
    """A net with its data.

    Args:
      config: how it is trained.
      frames: to learn from.
      dev: frames that choose the best epoch.
    """

    metric = "joint goal accuracy"

    def __init__(self, config: Config, frames: Sequence[Labelled], dev: Sequence[Labelled]) -> None:
        self.config, self.device = config, torch.device(config.device)
        self.module = TinyNet(config.buckets, config.size, config.drop).to(self.device)
        self.reader = Reader(config.buckets)
        self.tracks, self.targets = read_targets(self.reader, frames)
        self._dev = list(dev)
        # Of one kernel for all parameters; the results are those of a loop over them.
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=config.learning_rate, fused=True)
        counts = dialogues_with(self.tracks, len(self.reader.lexicon.rows))
        self._rare = (config.rare / (config.rare + counts)).to(self.device)
        self._lengths = torch.tensor([one.steps * len(one.keys) for one in self.tracks])
        missed = sum(one.lost() for one in self.targets)
        if missed:
            logging.warning("%s values are in no utterance: they cannot be learned", f"{missed:,}")

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        return bucketed(self._lengths, self.config.batch_size, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss."""
        ids = batch.tolist()
        given = batch_of([self.tracks[i] for i in ids], self.device)
        wanted = wanted_of([self.targets[i] for i in ids], [self.tracks[i] for i in ids], self.device)
        read = self.module.read(given, rows_of(self.reader.lexicon, given.vocabulary), self._rare[given.vocabulary])
        return loss_of(read, self.module.score(read, 0, wanted.before, wanted.intent_before), wanted)

    def dev(self) -> float:
        """The mean joint goal accuracy of the frames."""
        tracking = Tracking(self.module, self.reader, self.device)
        found = tracking.states([one.asked for one in self._dev], SCORED)
        total = 0.0
        for one, state in zip(self._dev, found, strict=True):
            values, _ = score_frame(one.state, state, slots_of(one.asked.service))
            total += values[JOINT] if one.asked.service.slots else 1.0
        return total / len(self._dev)

    def files(self) -> dict[str, bytes]:
        """The files of the model's folder."""
        card = Card(buckets=self.config.buckets, size=self.config.size)
        return {MODEL: card_bytes(card), WEIGHTS: weights_bytes(self.module.state_dict())}


def read_targets(reader: Reader, frames: Sequence[Labelled]) -> tuple[list[Track], list[Target]]:
    """The dialogues of some frames, and what is right for them."""
    tracks, targets = [], []
    for group in grouped([one.asked for one in frames]):
        longest = frames[group[-1]].asked
        tracks.append(reader.track(longest.service, longest.history))
        targets.append(target(tracks[-1], {step_of(frames[i].asked): frames[i].state for i in group}))
    return tracks, targets


def dialogues_with(tracks: Sequence[Track], words: int) -> Tensor:
    """Of each word, how many dialogues and schemas have it."""
    counts = np.zeros(words)
    for one in tracks:
        counts[np.unique(one.words)] += 1
    for schema in {id(one.schema): one.schema for one in tracks}.values():
        for table in (schema.slots, schema.intents, schema.values):
            counts[np.unique(table)] += 1
    return torch.from_numpy(counts).float()


def loss_of(read: Read, scores: Scores, wanted: Wanted) -> Tensor:
    """The sum of the losses: of values, intents and requested slots, of whose the mentions are, of what is accepted."""
    there = read.batch.slot_there
    options = torch.cat([scores.fixed, scores.values, scores.mentions], 3).float()
    right = torch.cat([wanted.fixed, wanted.values, wanted.mentions], 3) & (options > NEVER)
    counted = right.any(3) & there[:, None]
    # Of a value that is mentioned several times, any mention will do.
    # What is missed stays missed, what is wrong is often set right: a change counts more.
    weight = torch.where(wanted.fixed[..., KEEP], 1.0, CHANGES) * counted
    values = -(_log_sum(options.log_softmax(3), right, 3) * weight).sum() / counted.sum().clamp(min=1)
    intents = F.cross_entropy(scores.intents.float()[wanted.known], wanted.intent[wanted.known])
    asked = (wanted.known[:, :, None] & there[:, None]).float()
    requested = F.binary_cross_entropy_with_logits(
        scores.requested.float(), wanted.requested.float(), asked, reduction="sum"
    ) / asked.sum().clamp(min=1)
    owned = wanted.owners.any(1)
    owners = -(_log_sum(read.owners.float(), wanted.owners, 1) * owned).sum() / owned.sum().clamp(min=1)
    offered = wanted.offered.float()
    accepts = F.binary_cross_entropy_with_logits(
        read.accepts.float(), wanted.accepts.float(), offered, reduction="sum"
    ) / offered.sum().clamp(min=1)
    slots = there.sum(1).float().mean()
    return slots * values + intents + REQUESTED * requested + owners + ACCEPTS * accepts


def _log_sum(logs: Tensor, right: Tensor, dimension: int) -> Tensor:
    """The logarithm of the summed probabilities of what is right."""
    return logs.masked_fill(~right, NEVER).logsumexp(dimension)
