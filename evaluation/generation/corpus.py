"""A corpus as generation is scored against: system turns with their acts, schema words, and acts with other values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET

from parapet.evaluation.generation.references import Act, Kind, ServiceWords, kind_of, pool_key, varied_words, words_of
from parapet.evaluation.sets import ORIGINAL
from parapet.schemas.dialogue import Action, Dialogue, Frame, is_marker
from parapet.schemas.errors import InputError, surrogate_in
from parapet.schemas.layout import SINGLE, read_root
from parapet.schemas.service import Service
from parapet.transforms.corpora import dialogues_of, read_corpus
from parapet.transforms.seeding import stable_hash

_ANY = "dontcare"  # said of a value that does not matter

Place = tuple[str, int]  # dialogue id, position of the turn from 0


class SystemTurn(msgspec.Struct, frozen=True):
    """A system turn.

    Attributes:
      turn: its position in the dialogue, from 0.
      previous: the utterance before it, or nothing.
      acts: in the order of frames and actions.
    """

    dialogue_id: str
    turn: int
    utterance: str
    previous: str
    acts: tuple[Act, ...]

    @property
    def place(self) -> Place:
        """By which predictions are found."""
        return self.dialogue_id, self.turn


class Kinds(msgspec.Struct, frozen=True):
    """Of each service, the kind of each slot."""

    of: dict[str, dict[str, Kind]]

    def kind(self, service: str, act: str, slot: str) -> Kind:
        """That of an action's slot; one that the schema lacks is a marker as well."""
        if not slot:
            return "none"
        return "marker" if is_marker(act, slot) else self.of.get(service, {}).get(slot, "marker")


def kinds_of(services: Iterable[Service]) -> Kinds:
    """The kinds of all slots."""
    return Kinds({one.service_name: {slot.name: kind_of(slot) for slot in one.slots} for one in services})


def system_turns(dialogue: Dialogue, kinds: Kinds) -> Iterator[SystemTurn]:
    """The system turns of a dialogue, in order. Raises InputError for a service that the schemas lack."""
    previous = ""
    for position, turn in enumerate(dialogue.turns):
        if turn.speaker == "SYSTEM":
            acts: list[Act] = []
            for i, frame in enumerate(turn.frames):
                _check_service(frame, kinds, f"{dialogue.dialogue_id} turns[{position}].frames[{i}]")
                acts += (_act(frame, action, kinds) for action in _actions(frame))
            yield SystemTurn(dialogue.dialogue_id, position, turn.utterance, previous, tuple(acts))
        previous = turn.utterance


def _check_service(frame: Frame, kinds: Kinds, where: str) -> None:
    if frame.service not in kinds.of:
        raise InputError(f"the schema of the split has no service {frame.service!r}", "", where)


def _actions(frame: Frame) -> list[Action]:
    return [] if frame.actions is UNSET else frame.actions


def _act(frame: Frame, action: Action, kinds: Kinds) -> Act:
    canonical = action.values if action.canonical_values is UNSET else action.canonical_values
    intent = "" if frame.service_call is UNSET else frame.service_call.method
    kind = kinds.kind(frame.service, action.act, action.slot)
    return Act(frame.service, action.act, action.slot, tuple(action.values), tuple(canonical), kind, intent)


class Pools(msgspec.Struct, frozen=True):
    """Of each slot (:func:`pool_key`) the values said for it, each with its canonical form: sorted, different."""

    of: dict[tuple[str, str], tuple[tuple[str, str], ...]]


def pools_of(dialogues: Iterable[Dialogue], services: Mapping[str, Service], kinds: Kinds) -> Pools:
    """The values that users and system say, and those of the schema for categorical slots and intents."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for service in services.values():
        for slot in service.slots:
            if kinds.of[service.service_name][slot.name] == "categorical":
                found[service.service_name, slot.name] = {(value, value) for value in slot.possible_values}
        found[pool_key(service.service_name, "intent", "marker")] = {
            (intent.name, intent.name) for intent in service.intents
        }
    for dialogue in dialogues:
        for turn in dialogue.turns:
            for frame in turn.frames:
                for action in _actions(frame):
                    kind = kinds.kind(frame.service, action.act, action.slot)
                    if action.values and kind != "categorical":
                        given = action.values if action.canonical_values is UNSET else action.canonical_values
                        pairs = (
                            (value, form) for value, form in zip(action.values, given, strict=False) if form != _ANY
                        )
                        found.setdefault(pool_key(frame.service, action.slot, kind), set()).update(pairs)
    return Pools({key: tuple(sorted(pairs)) for key, pairs in found.items()})


_NO_WORD = re.compile(r"[\W_]+")


def tampered(act: Act, pools: Pools, *drawn_by: str) -> Act | None:
    """The act with each value replaced by another of the slot's.

    A boolean says the opposite. Others are drawn by hash from the values of the slot in the corpus, for categorical
    slots from those of the schema. Two ways to say one value are one value.

    Args:
      act: the act.
      pools: the values of all slots.
      drawn_by: what the draw depends on: seed, dialogue, turn, position.

    Returns:
      None where there is nothing to replace, or nothing to replace it by.
    """
    if not act.states:
        return None
    if act.is_boolean:
        other = ("False" if act.is_true else "True",)
        return msgspec.structs.replace(act, values=other, canonical=other)
    taken = {_plain(one) for one in (*act.values, *act.canonical)}
    chosen: list[tuple[str, str]] = []
    for i in range(len(act.values)):
        one = _draw(pools.of.get(act.pool, ()), taken, stable_hash(*drawn_by, act.slot, str(i)))
        if one is None:
            return None
        chosen.append(one)
        taken |= {_plain(form) for form in one}
    values, canonical = zip(*chosen, strict=True)
    return msgspec.structs.replace(act, values=values, canonical=canonical)


def _draw(pool: Sequence[tuple[str, str]], taken: set[str], number: int) -> tuple[str, str] | None:
    """The first free value from a place on that the number gives."""
    for i in range(len(pool)):
        value, canonical = pool[(number + i) % len(pool)]
        if _plain(value) and _plain(value) not in taken and _plain(canonical) not in taken:
            return value, canonical
    return None


def _plain(value: str) -> str:
    return _NO_WORD.sub(" ", value.casefold()).strip()


class Corpus(msgspec.Struct, frozen=True):
    """What utterances are scored against.

    Attributes:
      name: of the split.
      turns: the system turns, by dialogue id and position.
      words: of each service, for the original and each variant.
      pools: the values of each slot.
      seen: the services of the training schema; None where there is none.
    """

    name: str
    turns: tuple[SystemTurn, ...]
    words: dict[str, dict[str, ServiceWords]]
    pools: Pools
    seen: frozenset[str] | None


def read(root: str | Path, split: str, variants: Mapping[str, Path] = {}) -> Corpus:
    """Reads a split.

    Args:
      root: the corpus.
      split: whose dialogues; a corpus without splits is read whole.
      variants: folders of schema variants, by name.

    Raises:
      InputError: a file or dialogue that cannot be read, an id that appears twice, a service without a schema, no
        act of the system in the whole split, a variant that does not match.
    """
    schemas = {one.split: one for one in read_root(root, leave_out_bad=True)}
    files = sorted(read_corpus(root, [split]).files, key=lambda file: file.relative)
    services = (schemas[SINGLE] if SINGLE in schemas else schemas[split]).services
    by_name = {service.service_name: service for service in services}
    kinds = kinds_of(services)
    dialogues: dict[str, Dialogue] = {}
    turns: list[SystemTurn] = []
    for file in files:
        for position, raw, plain, dialogue in dialogues_of(file):
            if isinstance(dialogue, InputError):
                raise InputError(dialogue.reason, file.path, f"[{position}].{dialogue.where}".rstrip("."))
            if not plain and surrogate_in(raw) is not None:
                raise InputError("not_unicode: half a surrogate in it", file.path, f"[{position}]")
            if dialogue.dialogue_id in dialogues:
                raise InputError(f"dialogue {dialogue.dialogue_id!r} appears twice in the split", file.path)
            dialogues[dialogue.dialogue_id] = dialogue
            try:
                turns += system_turns(dialogue, kinds)
            except InputError as error:
                raise InputError(error.reason, file.path, error.where) from None
    if not any(turn.acts for turn in turns):
        raise InputError("no system turn has an action: there is nothing that utterances should say", root, split)
    used = {act.service for turn in turns for act in turn.acts}
    words = {ORIGINAL: {name: words_of(service) for name, service in by_name.items()}}
    for name, place in variants.items():
        words[name] = varied_words((by_name[one] for one in sorted(used)), read_root(place, leave_out_bad=True), name)
    train = schemas.get("train")
    seen = frozenset(service.service_name for service in train.services) if train is not None else None
    ordered = sorted(turns, key=lambda turn: turn.place)
    return Corpus(split, tuple(ordered), words, pools_of(dialogues.values(), by_name, kinds), seen)
