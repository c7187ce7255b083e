"""What ``parapet evaluate --task intent`` scores: predicted intents beside those of JSON lines or of corpora."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from parapet.evaluation.active_intents import Renamed, UserTurn, renamed_intents, user_turns
from parapet.evaluation.lines import Key, Keyed, check_same, key_of, named, read_keyed
from parapet.evaluation.sets import ORIGINAL, Placed, SetRoot, Sources, find_sets, read_dialogues, read_rows
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, as_path, is_there, read_root
from parapet.schemas.limits import read_text
from parapet.schemas.service import Service


class Reference(Keyed, kw_only=True):
    """A row of the reference."""

    label: str
    utterance: str = ""


class Prediction(Keyed, kw_only=True):
    """A row of the predictions; where it has a label too, no reference is needed.

    Attributes:
      service: with a corpus, whose frame of the turn it is of; nothing for a prediction of the turn.
    """

    predicted: str
    label: str | UnsetType = UNSET
    utterance: str = ""
    service: str = ""


ItemKey = tuple[str, str, int, str]  # set, dialogue id, turn, service; without a service where it is of no frame
Unit = Literal["item", "turn", "frame"]  # a row of JSON lines; of a corpus a user turn, or each of its frames


class Item(msgspec.Struct, frozen=True):
    """An utterance with its intent, and the predicted one."""

    label: str
    predicted: str
    utterance: str


class Items(msgspec.Struct, frozen=True):
    """What is scored; ``without_state`` is the number of predictions of user turns that have no active intent."""

    items: dict[ItemKey, Item]
    unit: Unit = "item"
    without_state: int = 0


def read_items(predictions: str, reference: str | None, intents: frozenset[str] | None) -> dict[ItemKey, Item]:
    """The items of JSON lines by key; the arguments are those of :class:`Intent`, ``intents`` what is in the file.

    Raises:
      InputError: items missing, twice, or in one file alone; no label, two that differ, one that is none of the
        intents.
    """
    predicted = read_keyed(predictions, Prediction)
    labels = read_keyed(reference, Reference) if reference else {}
    if reference:
        check_same(labels, predicted, predictions)
    items = {}
    for key, (number, row) in predicted.items():
        placed = Placed(key[0], predictions, f"line {number}", row)
        if not reference and row.label is UNSET:
            raise placed.error("has no label: give it here, or give --reference")
        at, label = (labels[key][0], labels[key][1].label) if reference else (number, str(row.label))
        _check_intent(label, intents, reference or predictions, f"line {at}")
        utterance = labels[key][1].utterance if reference else ""
        items[(*key, "")] = _item(placed, label, utterance or row.utterance, {}, intents)
    return items


def _item(
    placed: Placed[Prediction], label: str, utterance: str, renamed: Mapping[str, str], intents: frozenset[str] | None
) -> Item:
    """An item. Raises InputError where it has another label than the reference, or an intent that cannot be."""
    row = placed.row
    if row.label is not UNSET and renamed.get(row.label, row.label) != label:
        raise placed.error(f"the label is {row.label!r} here and {label!r} in the reference")
    predicted = renamed.get(row.predicted, row.predicted)
    _check_intent(predicted, intents, placed.path, placed.where)
    return Item(label, predicted, utterance)


def _check_intent(name: str, intents: frozenset[str] | None, path: str, where: str) -> None:
    if not name.strip():
        raise InputError("an intent is empty", path, where)
    if intents is not None and name not in intents:
        raise InputError(f"{name!r} is none of those of --intents", path, where)


class Labelled(NamedTuple):
    """The labels of a set.

    Attributes:
      turns: by dialogue and turn.
      renamed: how the intents of a variant are called in the original.
    """

    turns: dict[tuple[str, int], UserTurn]
    renamed: Renamed


def read_sets(predictions: str, sources: Sources, intents: frozenset[str] | None) -> Items:
    """The items of several sets, or of a corpus.

    Where a prediction names a service, predictions are of frames; else each is of a user turn. Predictions of user
    turns without a state are passed over.

    Raises:
      InputError: a set that cannot be read, items missing, twice or unknown, labels that differ, an intent that is none
        of the intents.
    """
    roots = find_sets(sources)
    sets = {root.name: labels for root, labels in zip(roots, _labels_of(roots, sources.split), strict=True)}
    placed = list(read_rows(predictions, sources.split, list(sets), Prediction))
    is_corpus = any(turn.frames for labels in sets.values() for turn in labels.turns.values())
    unit: Unit = "item" if not is_corpus else "frame" if any(one.row.service for one in placed) else "turn"
    items: dict[ItemKey, Item] = {}
    without_state = 0
    for one in placed:
        labels = sets[one.set]
        key = _key_of(one, several=len(sets) > 1)
        turn = labels.turns.get(key[1:])
        if turn is None:
            raise one.error(f"the reference has no {named(key)}, of the user")
        if not turn.intent:
            without_state += 1
            continue
        service, label = _frame(one, turn) if unit == "frame" and turn.frames else ("", turn.intent)
        of_schema = {mine: its for names in labels.renamed.values() for mine, its in names.items()}
        renamed = {**of_schema, **labels.renamed.get(service or turn.service, {})}
        if (*key, service) in items:
            raise one.error(f"{named(key)} appears twice" + (f", of service {service!r}" if service else ""))
        items[*key, service] = _item(one, label, turn.utterance or one.row.utterance, renamed, intents)
    _check_complete(sets, items, unit, predictions)
    return Items(items, unit, without_state)


def _key_of(placed: Placed[Prediction], several: bool) -> Key:
    """With the name of the set where there are several."""
    try:
        return (placed.set if several else "", *key_of(placed.row)[1:])
    except InputError as error:
        raise placed.error(error.reason) from None


def _frame(placed: Placed[Prediction], turn: UserTurn) -> tuple[str, str]:
    """(service, active intent) of the frame that a prediction is of."""
    service = placed.row.service
    if not service and len(turn.frames) == 1:
        (service,) = turn.frames
    if service not in turn.frames:
        what = f"there is no frame of {service!r} in the turn" if service else "has no 'service'"
        raise placed.error(f"{what}: it has frames of {', '.join(turn.frames)}")
    return service, turn.frames[service]


def _check_complete(sets: Mapping[str, Labelled], items: Mapping[ItemKey, Item], unit: Unit, predictions: str) -> None:
    missing: list[ItemKey] = []
    for name, labels in sets.items():
        shown = name if len(sets) > 1 else ""
        for place, turn in labels.turns.items():
            services = (turn.frames if unit == "frame" and turn.frames else ("",)) if turn.intent else ()
            missing += [key for service in services if (key := (shown, *place, service)) not in items]
    if missing:
        (name, dialogue_id, number, service), n = min(missing), len(missing)
        reason = f"there is no prediction for {named((name, dialogue_id, number))}"
        reason += f", of service {service!r}" if service else ""
        raise InputError(reason + (f"; {n:,} are missing in all" if n > 1 else ""), predictions)


def _labels_of(roots: list[SetRoot], split: str) -> Iterator[Labelled]:
    originals: dict[str, Service] = {}
    for name, path, kind in roots:
        if path.is_file():
            yield Labelled(dict(_of_lines(str(path))), {})
            continue
        schemas = {one.split: one.services for one in read_root(path, leave_out_bad=True)}
        services = {one.service_name: one for one in schemas.get(split) or schemas.get(SINGLE) or []}
        originals = services if name == ORIGINAL else originals
        renamed = renamed_intents(name, services, originals) if kind == "variant" else {}
        turns: dict[tuple[str, int], UserTurn] = {}
        for _, dialogue in read_dialogues(path, split):
            turns |= {(dialogue.dialogue_id, turn.turn): turn for turn in user_turns(dialogue, renamed)}
        if not any(turn.intent for turn in turns.values()):
            raise InputError(f"no user turn of {split!r} has a state: there are no intents to compare with", path)
        yield Labelled(turns, renamed)


def _of_lines(path: str) -> Iterator[tuple[tuple[str, int], UserTurn]]:
    for key, (number, row) in read_keyed(path, Reference).items():
        if key[0]:
            raise InputError("has a set of its own: give all sets as --sets, or in one file", path, f"line {number}")
        _check_intent(row.label, None, path, f"line {number}")
        yield key[1:], UserTurn(key[2], row.utterance, row.label, "", {})


def read_intents(path: str) -> frozenset[str]:
    """The intents of a file, one a line. Raises InputError where there are none."""
    place = as_path(path)
    if not is_there(path) or not place.is_file():
        raise InputError("there is no such file", path)
    lines = read_text(place).splitlines()
    intents = frozenset(line.strip() for line in lines if line.strip())
    if not intents:
        raise InputError("there are no intents in it", path)
    return intents
