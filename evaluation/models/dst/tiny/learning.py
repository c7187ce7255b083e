"""Training of the small tracker: at each step from the true state before it, all slots at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.dst.frames import JOINT, score_frame, slots_of
from parapet.evaluation.models.batching import bucketed
from parapet.evaluation.models.configs import TinyConfig
from parapet.evaluation.models.dst.data import Labelled
from parapet.evaluation.models.dst.tiny.batch import Wanted, batch_of, wanted_of
from parapet.evaluation.models.dst.tiny.net import Scores, TinyNet
from parapet.evaluation.models.dst.tiny.reading import NEVER, Read
from parapet.evaluation.models.dst.tiny.steps import Reader, Track
from parapet.evaluation.models.dst.tiny.targets import KEEP, Target, grouped, step_of, target
from parapet.evaluation.models.dst.tiny.tracking import BUCKETS, Card, Tracking, rows_of
from parapet.evaluation.models.examples import Versions, laid_out
from parapet.evaluation.models.learner import Learner
from parapet.evaluation.models.saving import MODEL, WEIGHTS, card_bytes, weights_bytes

DROP = 0.5  # share of words that are hidden where the net reads utterances without the schema
RARE = 2.0  # a word that is in n dialogues is replaced by an unknown one in ``RARE / (RARE + n)`` of batches
SCORED = 64  # dialogues at a time where nothing is trained
ACCEPTS, REQUESTED = 3.0, 10.0  # what these losses weigh beside the others
CHANGES = 5.0  # what a value that changes weighs beside one that stays


class TinyLearner(Learner):
    """A net with its data.

    Args:
      config: how it is trained.
      frames: to learn from.
      dev: frames that choose the best epoch.
      versions: of the dialogues of ``frames``, where they are perturbed in each epoch.
    """

    metric = "joint goal accuracy"

    def __init__(
        self,
        config: TinyConfig,
        frames: Sequence[Labelled],
        dev: Sequence[Labelled],
        versions: Versions[Labelled] | None = None,
    ) -> None:
        self.config, self.device = config, torch.device(config.device)
        self.module = TinyNet(BUCKETS, config.size, DROP).to(self.device)
        self.reader = Reader(BUCKETS)
        self.tracks, self.targets = read_targets(self.reader, frames)
        self._dev = list(dev)
        # Of one kernel for all parameters; the results are those of a loop over them.
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=config.learning_rate, fused=True)
        # Dev adds words to the reader. An epoch begins with those of training alone, so that it can be resumed.
        self._train_reader, self._versions, self._epoch_reader = self.reader.copy(), versions, self.reader
        self._originals: dict[int, list[tuple[Track, Target]]] = {}
        self._count(len(self.tracks))
        missed = sum(one.lost() for one in self.targets)
        if missed:
            logging.warning("%s values are in no utterance: they cannot be learned", f"{missed:,}")

    def _count(self, tracks: int) -> None:
        """Counts the words of the first tracks, and how long these are."""
        counts = dialogues_with(self.tracks[:tracks], len(self._epoch_reader.lexicon.rows))
        self._rare = (RARE / (RARE + counts)).to(self.device)
        self._lengths = torch.tensor([one.steps * len(one.keys) for one in self.tracks[:tracks]])

    def prepare(self, epoch: int) -> None:
        """Perturbs dialogues."""
        if self._versions is None:
            return
        self._epoch_reader, dialogues = self._train_reader.copy(), self._versions.dialogues

        def encode(number: int, rows: Sequence[Labelled]) -> list[tuple[Track, Target]]:
            if rows is not dialogues[number].rows:
                return list(zip(*read_targets(self._epoch_reader, rows), strict=True))
            if number not in self._originals:
                self._originals[number] = list(zip(*read_targets(self._epoch_reader, rows), strict=True))
            return self._originals[number]

        found, self.versions = laid_out(self._versions.draw(epoch), encode)
        self.tracks, self.targets = [track for track, _ in found], [target for _, target in found]
        self._count(len(self.versions))

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """The batches of an epoch."""
        return bucketed(self._lengths, self.config.batch_size, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss."""
        return loss_of(*self._scored(batch))

    def embeddings(self) -> list[nn.Module]:
        """Those of words."""
        return [self.module.reading.words.table]

    def example_losses(self, batch: Tensor) -> Tensor:
        """The loss of each dialogue."""
        return loss_of(*self._scored(batch), by_track=True)

    def outcome(self, batch: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The loss, and the scores of values, intents, and requested slots beside 0."""
        read, scores, wanted = self._scored(batch)
        there = read.batch.slot_there[:, None] & wanted.known[:, :, None]
        options = torch.cat([scores.fixed, scores.values, scores.mentions], 3)[there]
        requested = scores.requested[there]
        logits = [options, scores.intents[wanted.known], torch.stack([requested, torch.zeros_like(requested)], 1)]
        return loss_of(read, scores, wanted), logits

    def _scored(self, batch: Tensor) -> tuple[Read, Scores, Wanted]:
        ids = batch.tolist()
        given = batch_of([self.tracks[i] for i in ids], self.device)
        wanted = wanted_of([self.targets[i] for i in ids], [self.tracks[i] for i in ids], self.device)
        rare = self._rare[given.vocabulary] if self.module.training else None
        read = self.module.read(given, rows_of(self._epoch_reader.lexicon, given.vocabulary), rare)
        return read, self.module.score(read, 0, wanted.before, wanted.intent_before), wanted

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
        card = Card(buckets=BUCKETS, size=self.config.size)
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


def loss_of(read: Read, scores: Scores, wanted: Wanted, by_track: bool = False) -> Tensor:
    """The sum of the losses: of values, intents and requested slots, of whose the mentions are, of what is accepted.

    Args:
      read, scores: of the net.
      wanted: what is right.
      by_track: gives the loss of each track, shape (tracks,), instead of their common mean.
    """

    def mean(losses: Tensor, counted: Tensor) -> Tensor:
        first = 1 if by_track else 0
        return (losses * counted).flatten(first).sum(-1) / counted.flatten(first).sum(-1).clamp(min=1)

    there = read.batch.slot_there
    options = torch.cat([scores.fixed, scores.values, scores.mentions], 3).float()
    right = torch.cat([wanted.fixed, wanted.values, wanted.mentions], 3) & (options > NEVER)
    counted = right.any(3) & there[:, None]
    # Of a value that is mentioned several times, any mention will do.
    # What is missed stays missed, what is wrong is often set right: a change counts more.
    weight = torch.where(wanted.fixed[..., KEEP], 1.0, CHANGES)
    values = mean(-_log_sum(options.log_softmax(3), right, 3) * weight, counted)
    intents = mean(
        F.cross_entropy(scores.intents.float().flatten(0, 1), wanted.intent.flatten(), reduction="none").unflatten(
            0, wanted.intent.shape
        ),
        wanted.known,
    )
    requested = mean(
        F.binary_cross_entropy_with_logits(scores.requested.float(), wanted.requested.float(), reduction="none"),
        wanted.known[:, :, None] & there[:, None],
    )
    owners = mean(-_log_sum(read.owners.float(), wanted.owners, 1), wanted.owners.any(1))
    accepts = mean(
        F.binary_cross_entropy_with_logits(read.accepts.float(), wanted.accepts.float(), reduction="none"),
        wanted.offered,
    )
    slots = there.sum(1).float()
    return (slots if by_track else slots.mean()) * values + intents + REQUESTED * requested + owners + ACCEPTS * accepts


def _log_sum(logs: Tensor, right: Tensor, dimension: int) -> Tensor:
    """The logarithm of the summed probabilities of what is right."""
    return logs.masked_fill(~right, NEVER).logsumexp(dimension)
