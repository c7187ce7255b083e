"""The model at work: belief span, database, action span, response, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
import torch
from torch import Tensor

from parapet.evaluation.models import saving
from parapet.evaluation.models.batching import Rows
from parapet.evaluation.models.damd.encoding import (
    END,
    MATCHES,
    PAD,
    SPECIAL,
    Surfaces,
    Vocabulary,
    asked_of,
    delexicalised,
    is_long,
    matches_of,
    parts_of,
    said_last,
)
from parapet.evaluation.models.damd.net import Card, Encoder, Net, Source, check
from parapet.evaluation.models.devices import device_of, enough_memory
from parapet.evaluation.models.systems import inference
from parapet.evaluation.models.systems.data import Database, Part, Reply, Step, acts_of, belief_of, database_parts


class Damd:
    """A model whose answer to a turn does not depend on other dialogues; it computes in double precision.

    Args:
      card: what is known of it.
      net: with its weights.
      database: what is looked up between belief span and action span.
      device: where to compute.
      batch: turns at a time.
    """

    def __init__(self, card: Card, net: Net, database: Database, device: torch.device, batch: int) -> None:
        self.card, self.net = card, net.double().to(device).eval()
        self.vocabulary, self.surfaces = Vocabulary(card.words[len(SPECIAL) :]), Surfaces(card.surfaces)
        self.database, self.device, self.batch = database, device, batch

    def answers(self, steps: Sequence[Step]) -> list[Reply]:
        """The reply to each turn; those of a dialogue stand together, as each begins with the belief state before."""
        dialogues = [list(group) for _, group in groupby(range(len(steps)), lambda i: steps[i].dialogue_id)]
        of = {i: number for number, dialogue in enumerate(dialogues) for i in dialogue}
        found: dict[int, Reply] = {}
        before: dict[int, tuple[Part, ...]] = {}
        with enough_memory(f"lower --batch_size, which is {self.batch}"), torch.inference_mode():
            for batch in self._batches(dialogues):
                asked = [msgspec.structs.replace(steps[i], before=before.get(of[i], ())) for i in batch]
                for i, (reply, belief) in zip(batch, self._answers(asked), strict=True):
                    found[i], before[of[i]] = reply, belief
        return [found[i] for i in range(len(steps))]

    def _batches(self, dialogues: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """The first turns of all dialogues, the second ones, and so on."""
        for turn in range(max(map(len, dialogues), default=0)):
            wave = [dialogue[turn] for dialogue in dialogues if turn < len(dialogue)]
            for first in range(0, len(wave), self.batch):
                yield wave[first : first + self.batch]

    def _answers(self, steps: Sequence[Step]) -> list[tuple[Reply, tuple[Part, ...]]]:
        """The reply to each turn with its belief state, of dialogues that are each in one turn."""
        net, card = self.net, self.card
        texts = [asked_of(step) for step in steps]
        numbers = [self.vocabulary.numbered(one) for one in texts]
        user, first = self._encoded("user", [one.user for one in numbers])
        previous, _ = self._encoded("utterance", [one.previous for one in numbers])
        before, _ = self._encoded("span", [one.before for one in numbers])
        own = max(len(one.own) for one in numbers)
        belief = net.written(net.belief, card.longest.belief, own, first, [user, previous, before])
        spans = [
            self.surfaces.written(parts_of(words), step.before, said_last(step))
            for words, step in zip(self._words(belief, [one.own for one in numbers]), steps, strict=True)
        ]
        states = [belief_of(parts) for parts in spans]
        matches = [
            matches_of(step.before, parts, database_parts(state, self.database))
            for step, parts, state in zip(steps, spans, states, strict=True)
        ]
        pointers = [[float(one == n) for n in range(len(MATCHES))] for one in matches]
        pointer = torch.tensor(pointers, dtype=torch.float64, device=self.device)
        texts = [
            msgspec.structs.replace(one, delexicalised=delexicalised(one.user, parts))
            for one, parts in zip(texts, spans, strict=True)
        ]
        numbers = [self.vocabulary.numbered(one) for one in texts]
        own = max(len(one.own) for one in numbers)
        said, first = self._encoded("utterance", [one.delexicalised for one in numbers])
        acts = net.written(net.acts, card.longest.acts, own, first, [said, belief], pointer)
        response = net.written(net.response, card.longest.response, own, first, [said, belief, acts], pointer)
        names = [one.own for one in numbers]
        answers = zip(states, self._words(acts, names), self._words(response, names), strict=True)
        replies = [
            Reply(state, " ".join(words), is_long(step), acts_of(parts_of(span)))
            for step, (state, span, words) in zip(steps, answers, strict=True)
        ]
        return list(zip(replies, spans, strict=True))

    def _encoded(self, name: str, rows: Sequence[Sequence[int]]) -> tuple[Source, Tensor]:
        numbers, mask = Rows(rows, self.device).padded(torch.arange(len(rows)), PAD)
        encoder: Encoder = getattr(self.net, name)
        found: tuple[Source, Tensor] = self.net.encoded(encoder, numbers, mask.bool())
        return found

    def _words(self, written: Source, own: Sequence[Sequence[str]]) -> list[list[str]]:
        """What was written, without the end."""
        rows = zip(written.numbers.tolist(), written.mask.tolist(), own, strict=True)
        return [
            self.vocabulary.text([one for one, kept in zip(numbers, mask, strict=True) if kept and one != END], words)
            for numbers, mask, words in rows
        ]


def load(folder: str, database: Database, device: str, batch: int) -> Damd:
    """The model in a folder, ready to answer.

    Args:
      folder: where it is.
      database: what it looks up.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: turns at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    card = check(folder)
    net = Net(card.sizes)
    saving.load_weights(net, folder)
    return Damd(card, net, database, device_of(device), batch)


class Job(inference.Job, frozen=True, kw_only=True):
    """What is predicted."""

    def load(self) -> Damd:
        """The model, with the database of the reference."""
        return load(self.folder, self.database(), self.device, self.batch_size)
