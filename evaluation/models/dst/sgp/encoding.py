"""The questions that user turns raise, as rows of token ids: each utterance and each slot is tokenised once."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from parapet.evaluation.models.dst.pairs import Histories, History, Pairs, Stretch, Tokens
from parapet.evaluation.models.dst.sgp.rules import KINDS, Kind, Schema, intents_of, needed, slot_of, speaker_text
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service, Slot

ROOM = 16  # tokens that are left to the dialogue at least


class Batch(msgspec.Struct, frozen=True):
    """Inputs of a module.

    Attributes:
      tokens, mask, types: as BERT takes them; shape (rows, width).
      options: where the tokens of each option begin and where they end; shape (rows, options, 2), 0 and 0 for none.
      open: where a span may begin and end; shape (rows, width).
      said: the number of the utterance that a token is of; shape (rows, width).
    """

    tokens: Tensor
    mask: Tensor
    types: Tensor
    options: Tensor
    open: Tensor
    said: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        return Batch(*(getattr(self, name).to(device, non_blocking=True) for name in self.__struct_fields__))


class Questions:
    """Questions about turns, by module.

    Args:
      tokenizer: of the checkpoint, a fast one.
      histories: the dialogues. Those that begin alike should follow one another, the shorter ones first.
      limit: tokens of a row at most.
    """

    def __init__(self, tokenizer: Any, histories: Sequence[History], limit: int) -> None:
        self.tokenizer, self.limit = tokenizer, limit
        self.tokens = Tokens()
        # Of each token of the dialogues: its utterance, and its characters; those of speakers have none.
        self.said, self.begins, self.ends = array("i"), array("i"), array("i")
        self.utterances: list[str] = []
        self._turns = _encoded_turns(tokenizer, histories)
        known = Histories(self.tokens, self._write)
        self.places = [known.add(history) for history in histories]
        self._schemas: dict[tuple[int, str, Kind], tuple[Stretch, list[tuple[int, int]]]] = {}
        self._rows: dict[Kind, list[tuple[Stretch, Stretch]]] = {kind: [] for kind in KINDS}
        self._open: dict[Kind, list[Stretch]] = {kind: [] for kind in KINDS}
        self._options: dict[Kind, list[list[tuple[int, int]]]] = {kind: [] for kind in KINDS}

    def _write(self, turn: tuple[str, str]) -> list[int]:
        lead, ids, offsets = self._turns[turn]
        self.said.extend([len(self.utterances)] * (len(lead) + len(ids)))
        self.utterances.append(turn[1])
        self.begins.extend([-1] * len(lead) + [begin for begin, _ in offsets])
        self.ends.extend([-1] * len(lead) + [end for _, end in offsets])
        return [*lead, *ids]

    def ask(self, kind: Kind, service: Service, slot: Slot | None, where: Stretch, open: Stretch) -> int:
        """Adds a question; gives its number.

        Args:
          kind: the module.
          service: that it is about.
          slot: of it; None for intents.
          where: the turns that the module sees.
          open: where a span may be.

        Raises:
          InputError: the schema has so much to say that no room is left to the dialogue.
        """
        key = (id(service), slot.name if slot else "", kind)
        if key not in self._schemas:
            self._schemas[key] = self._schema(kind, service, slot)
        schema, options = self._schemas[key]
        self._rows[kind].append((where, schema))
        self._open[kind].append(open)
        self._options[kind].append(options)
        return len(self._rows[kind]) - 1

    def _schema(self, kind: Kind, service: Service, slot: Slot | None) -> tuple[Stretch, list[tuple[int, int]]]:
        said: Schema = intents_of(service) if slot is None else slot_of(service, slot, kind)
        end = self.tokenizer.sep_token_id
        head, *options = self.tokenizer([said.head, *said.options], add_special_tokens=False)["input_ids"]
        ids = [end, *head, end]
        places = []
        for option in options:
            places.append((len(ids), len(ids) + len(option)))
            ids += [*option, end]
        if len(ids) + ROOM > self.limit:
            where = f"{service.service_name} {slot.name if slot else 'intents'}"
            reason = f"takes {len(ids)} of {self.limit} tokens, which leaves too few to the dialogue: give more"
            raise InputError(reason, "--max_length", where)
        return self.tokens.add(ids), places

    def text_of(self, first: int, last: int) -> str:
        """The text of two tokens and those between them."""
        return self.utterances[self.said[first]][self.begins[first] : self.ends[last]]

    def tokens_of(self, turn: Stretch, begin: int, end: int) -> tuple[int, int] | None:
        """The first and the last token of characters of an utterance; None where none has them."""
        found = [
            place for place in range(turn.start, turn.end) if self.begins[place] < end and self.ends[place] > begin
        ]
        return (found[0], found[-1]) if found else None

    def rows(self, kind: Kind) -> ModuleRows:
        """The questions to a module so far, to be taken in batches."""
        return ModuleRows(self, kind)


class ModuleRows:
    """The questions to one module.

    Args:
      questions: all of them.
      kind: the module.
    """

    def __init__(self, questions: Questions, kind: Kind) -> None:
        self.kind, self.fill = kind, questions.tokenizer.pad_token_id
        self.pairs = Pairs(questions.tokens, questions._rows[kind], questions.limit, questions.tokenizer.cls_token_id)
        options, opens = questions._options[kind], questions._open[kind]
        most = max((len(one) for one in options), default=1)
        distinct = {id(one): one for one in options}
        places = {number: i for i, number in enumerate(distinct)}
        padded = [[*one, *[(0, 0)] * (most - len(one))] for one in distinct.values()]
        self.options = torch.tensor(padded, dtype=torch.long).view(-1, most, 2)
        self.which = torch.tensor([places[id(one)] for one in options], dtype=torch.long)
        self.opens = torch.tensor([(one.start, one.end) for one in opens], dtype=torch.long).view(-1, 2)
        # Tokens of schemas are of no utterance, and have no characters.
        self.said = torch.tensor(questions.said, dtype=torch.int32)
        self.there = torch.tensor(questions.begins, dtype=torch.int32) >= 0

    def __len__(self) -> int:
        return len(self.pairs)

    def batch(self, ids: Tensor) -> Batch:
        """Some rows; ``ids`` are their numbers, on the CPU."""
        pairs = self.pairs
        tokens, mask = pairs.padded(ids, self.fill)
        behind = pairs.lead + pairs.stretches[ids][:, None]  # where the schema begins
        columns = torch.arange(tokens.shape[1])
        options = self.options[self.which[ids]]
        options = torch.where(options[..., 1:] > 0, options + behind[..., None], 0)
        places = (pairs.starts[ids][:, None] + columns - pairs.lead).clamp(0, len(self.said) - 1)
        opens = self.opens[ids]
        inside = (columns >= pairs.lead) & (columns < behind)
        open = inside & (places >= opens[:, :1]) & (places < opens[:, 1:]) & self.there[places]
        return Batch(tokens, mask, (columns > behind).long() * mask, options, open, self.said[places].long())

    def column(self, ids: Tensor, places: Tensor) -> Tensor:
        """The columns of the dialogues' tokens in rows; below 0 where they are cut off."""
        return torch.where(
            places >= self.pairs.starts[ids], places - self.pairs.starts[ids] + self.pairs.lead, places.new_tensor(-1)
        )

    def place(self, row: int, column: int) -> int:
        """The token of the dialogues in a column of a row."""
        return int(self.pairs.starts[row]) + column - self.pairs.lead


def _encoded_turns(
    tokenizer: Any, histories: Sequence[History]
) -> dict[tuple[str, str], tuple[list[int], list[int], list[tuple[int, int]]]]:
    """Of each turn the tokens of who speaks, those of the utterance, and their characters."""
    distinct = list(dict.fromkeys(turn for history in histories for turn in history))
    if not distinct:
        return {}
    leads = {
        speaker: tokenizer(speaker_text(speaker), add_special_tokens=False)["input_ids"] for speaker, _ in distinct
    }
    said = tokenizer(
        [utterance for _, utterance in distinct],
        add_special_tokens=False,
        return_offsets_mapping=True,
        verbose=False,
    )
    return {
        turn: (leads[turn[0]], ids, offsets)
        for turn, ids, offsets in zip(distinct, said["input_ids"], said["offset_mapping"], strict=True)
    }


Key = tuple[int, History]  # the service's id, and all that was said until the user turn, with it


class Turn(msgspec.Struct):
    """A user turn under a service.

    Attributes:
      before: the user turn before it; None for the first.
      places: of the dialogue's turns, this one last.
      intent: the number of the question about the active intent.
      slots: of each slot the number of the question, to the module of categorical or free slots.
      transfer: of each slot, the number of the question whether its value was said before.
    """

    service: Service
    before: Key | None
    places: list[Stretch]
    intent: int = -1
    slots: dict[str, int] = {}
    transfer: dict[str, int] = {}

    @property
    def all(self) -> Stretch:
        """The dialogue so far."""
        return Stretch(self.places[0].start, self.places[-1].end)

    @property
    def user(self) -> Stretch:
        """What the user says."""
        return self.places[-1]

    @property
    def past(self) -> Stretch:
        """What was said before that."""
        return Stretch(self.places[0].start, self.user.start)


def last_exchange(turn: Turn, history: History) -> Stretch:
    """What the system said last, and what the user says."""
    before = len(history) > 1 and history[-2][0] != "USER"
    return Stretch(turn.places[-2].start, turn.user.end) if before else turn.user


def user_turns(history: History, service: Service) -> Iterator[Key]:
    """The keys of the user turns so far."""
    for position, (speaker, _) in enumerate(history):
        if speaker == "USER":
            yield id(service), history[: position + 1]


def ask(questions: Questions, turn: Turn, key: Key) -> None:
    """Asks for the intent and for what the user says of each slot."""
    service, where = turn.service, last_exchange(turn, key[1])
    turn.intent = questions.ask("intent", service, None, where, Stretch(0, 0))
    turn.slots = {}
    for slot in service.slots:
        kind: Kind = "categorical" if slot.is_categorical else "free"
        turn.slots[slot.name] = questions.ask(kind, service, slot, where, turn.user)


def ask_for_transfer(questions: Questions, turn: Turn, filled: set[str]) -> None:
    """Asks for the free slots that have no value: whether it was said before, by whomever and of whatever service."""
    wanted = needed(turn.service)
    turn.transfer = {
        slot.name: questions.ask("transfer", turn.service, slot, turn.all, turn.past)
        for slot in turn.service.slots
        if not slot.is_categorical and slot.name in wanted and slot.name not in filled and len(turn.past)
    }
