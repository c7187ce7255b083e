"""What generated utterances are scored against: system turns with acts, references of acts, values; and predictions.

References say in plain sentences, with the schema's words, what an act means (SGSAcc, section 2, Appendix B). There are
two sets of rules. ``paper`` has the candidates of Appendix B word for word, with those of Appendix D where the two
differ; what neither mentions (acts without a value other than REQUEST, GOODBYE and REQ_MORE) is as in ``extended``.
That one is ours: no broken English, and rules for INFORM_COUNT and OFFER_INTENT of their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET

from parapet.evaluation import sets
from parapet.evaluation.sets import ORIGINAL, read_lines
from parapet.schemas.dialogue import Action, Dialogue, Frame, is_marker, read_dialogues
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, SplitSchemas, as_path, is_there, read_root
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.perturbation.corpora import domain_of
from parapet.transforms.running.seeding import stable_hash
from parapet.transforms.variants.matching import by_position, name_suffix

Kind = Literal["boolean", "categorical", "free", "marker", "none"]
Rules = Literal["paper", "extended"]
BOOLEANS = ("true", "false")

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")


class Words(msgspec.Struct, frozen=True):
    """How a schema calls a slot or an intent: its name in words, and its description without a mark at the end."""

    name: str
    description: str


class ServiceWords(msgspec.Struct, frozen=True):
    """The words of a service, by the *original's* names of slots and intents, which are those of the acts.

    Attributes:
      slots, intents: by name.
      domain: ``Flights`` of ``Flights_4``.
    """

    slots: dict[str, Words]
    intents: dict[str, Words]
    domain: str = ""

    def slot(self, name: str) -> Words:
        """Of a slot; one that the schema lacks (``intent``, ``count``) is called by its name."""
        return self.slots.get(name) or Words(in_words(name), in_words(name))

    def intent(self, name: str) -> Words:
        """Of an intent, likewise."""
        return self.intents.get(name) or Words(in_words(name), in_words(name))


def in_words(name: str) -> str:
    """``has_live_music`` is ``has live music``, ``BuyBusTicket`` is ``buy bus ticket``."""
    return " ".join(word if word.isupper() else word.lower() for word in _CAMEL.split(name) if word)


def kind_of(slot: Slot) -> Kind:
    """Boolean slots are categorical ones whose values are True and False."""
    if not slot.is_categorical:
        return "free"
    return "boolean" if sorted(value.lower() for value in slot.possible_values) == sorted(BOOLEANS) else "categorical"


def words_of(service: Service) -> ServiceWords:
    """The words of a service as its own schema has them."""
    return ServiceWords(
        {slot.name: _words(slot) for slot in service.slots},
        {intent.name: _words(intent) for intent in service.intents},
        domain_of(service.service_name),
    )


def _words(element: Slot | Intent) -> Words:
    name = in_words(element.name)
    return Words(name, " ".join(element.description.split()).rstrip(" .?!:;") or name)


def varied_words(services: Iterable[Service], splits: Iterable[SplitSchemas], variant: str) -> dict[str, ServiceWords]:
    """The words of the variant of each service, by the original's names; the n-th slot is the n-th of the original.

    Args:
      services: of the original.
      splits: the schemas of the variant.
      variant: its name, for messages.

    Raises:
      InputError: the variant lacks a service, or has it with another number of slots or intents.
    """
    by_name = {service.service_name: service for split in splits for service in split.services}
    services = list(services)
    suffix = name_suffix([service.service_name for service in services], by_name)
    found = {}
    for service in services:
        other = by_name.get(service.service_name + suffix)
        if other is None:
            raise InputError(f"{variant} has no variant of service {service.service_name!r}", "--variants")
        try:
            names = by_position(service, other)
        except InputError as error:
            raise InputError(f"{variant}: service {other.service_name!r} {error.reason}", "--variants") from None
        varied = words_of(other)
        found[service.service_name] = ServiceWords(
            {old: varied.slots[new] for old, new in names.slots.items()},
            {old: varied.intents[new] for old, new in names.intents.items()},
            varied.domain,
        )
    return found


def services_of(splits: Mapping[str, SplitSchemas], split: str) -> list[Service]:
    """The services of a split, or of a corpus that is one."""
    return (splits[split] if split in splits else splits[SINGLE]).services


class Act(msgspec.Struct, frozen=True):
    """A dialogue act of a system turn.

    Attributes:
      slot: with the original's name, or nothing.
      values: as they are to be said.
      canonical: the same in the form of the service, for telling two ways to say one value.
      kind: of the slot; ``marker`` where it is ``intent`` or ``count``.
      intent: of the service call in the frame, for acts that say what became of it.
    """

    service: str
    act: str
    slot: str
    values: tuple[str, ...]
    canonical: tuple[str, ...]
    kind: Kind
    intent: str = ""

    @property
    def pool(self) -> tuple[str, str]:
        """What its values are drawn from: those of the slot, or those that a marker of this name has."""
        return pool_key(self.service, self.slot, self.kind)

    @property
    def is_boolean(self) -> bool:
        """Whether it says yes or no; a boolean slot may be said not to matter as well."""
        return self.kind == "boolean" and [value.lower() in BOOLEANS for value in self.values] == [True]

    @property
    def is_true(self) -> bool:
        """Of a boolean act, which."""
        return self.values[0].lower() == BOOLEANS[0]

    @property
    def states(self) -> bool:
        """Whether its references say its values: a REQUEST may have some to choose from, and they do not."""
        return bool(self.values) and self.act not in ("REQUEST", *PHRASES)


def pool_key(service: str, slot: str, kind: Kind) -> tuple[str, str]:
    """By which the values of a slot are found; a marker's are not those of a slot that has its name."""
    return service, f"<{slot}>" if kind == "marker" else slot


# Acts that say the same whatever the schema. Of Appendix B:
PAPER_PHRASES = {
    "GOODBYE": ("Have a good day.", "Bye bye.", "See you."),
    "REQ_MORE": ("What else do you need?", "What else can I help you with?", "Is there anything else?"),
}
# Ours; ``paper`` has those of the acts that the appendix does not mention.
PHRASES = {
    "GOODBYE": ("Goodbye.", "Have a nice day.", "Enjoy yourself."),
    "REQ_MORE": ("Request more.", "Is there anything else?", "Can I help you with anything else?"),
    "NOTIFY_SUCCESS": ("The request was successful.", "It is done."),
    "NOTIFY_FAILURE": ("The request failed.", "It could not be done."),
    "THANK_YOU": ("Thank you.",),
    "AFFIRM": ("Yes.",),
    "AFFIRM_INTENT": ("Yes, please.",),
    "NEGATE": ("No.",),
    "NEGATE_INTENT": ("No, not now.",),
    "REQUEST_ALTS": ("Request something else.",),
}

_OUTCOMES = {"NOTIFY_SUCCESS": "was successful", "NOTIFY_FAILURE": "failed"}


def references(act: Act, words: ServiceWords, rules: Rules = "extended") -> tuple[str, ...]:
    """The candidates for an act's reference, all different, in a fixed order; there is always one.

    Args:
      act: the act.
      words: of its service.
      rules: whose. Models of generation make their templates from ``extended``, whatever utterances are scored by.
    """
    return tuple(dict.fromkeys(_rule(act, rules)(act, words)))


def _rule(act: Act, rules: Rules) -> Callable[[Act, ServiceWords], Iterator[str]]:
    paper = rules == "paper"
    if act.act in PHRASES:
        return _paper_phrases if paper and act.act in PAPER_PHRASES else _phrases
    if act.act == "REQUEST":
        return _request
    if act.kind == "marker" and act.values and not paper and act.slot in _MARKERS:
        return _MARKERS[act.slot]
    if act.is_boolean:
        return _paper_boolean if paper else _boolean
    return _values if act.values else _bare


def _paper_phrases(act: Act, words: ServiceWords) -> Iterator[str]:
    yield from PAPER_PHRASES[act.act]


def _phrases(act: Act, words: ServiceWords) -> Iterator[str]:
    yield from PHRASES[act.act]
    if act.act in _OUTCOMES and act.intent:
        name = words.intent(act.intent).name
        yield f"{name[:1].upper()}{name[1:]} {_OUTCOMES[act.act]}."


def _request(act: Act, words: ServiceWords) -> Iterator[str]:
    slot = words.slot(act.slot)
    yield f"Request {slot.description}"
    yield f"Request {slot.name}"


def _intent(act: Act, words: ServiceWords) -> Iterator[str]:
    lead = "Offer to" if act.act == "OFFER_INTENT" else "Request to"
    asked = "Do you want to {}?" if act.act == "OFFER_INTENT" else "I want to {}."
    for label in zip(*(_both(words.intent(value)) for value in act.values), strict=True):
        yield f"{lead} {listed(label)}"
        yield asked.format(listed(label))


def _both(words: Words) -> tuple[str, str]:
    return in_sentence(words.description), words.name


def _count(act: Act, words: ServiceWords) -> Iterator[str]:
    said = listed(act.values)
    yield f"There is {said} result." if said == "1" else f"There are {said} results."
    yield f"The number of results is {said}."


_MARKERS = {"intent": _intent, "count": _count}


def _values(act: Act, words: ServiceWords) -> Iterator[str]:
    slot, verb = words.slot(act.slot), "are" if len(act.values) > 1 else "is"
    is_intent = act.kind == "marker" and act.slot == "intent"  # whose name the schema has, and a variant another
    values = [words.intent(value).name for value in act.values] if is_intent else act.values
    for label in (slot.description, slot.name) if act.slot else (act_name(act),):
        yield f"{label} {verb} {listed(values)}"


def _answers(act: Act, slot: Words) -> Iterator[str]:
    answer = "Yes" if act.is_true else "No"
    yield f"{slot.description}? {answer}."
    yield f"{slot.name}? {answer}."


def _paper_boolean(act: Act, words: ServiceWords) -> Iterator[str]:
    """Appendix B. Where it differs from the lists of Appendix D, which look like output of the authors' code, as these.

    B would have "has not", "have not" and "is not" where D has "Has no", "Is not" and "Does not"; only D has the
    candidate with the domain.
    """
    slot = words.slot(act.slot)
    yield from _answers(act, slot)
    parts = slot.name.split()
    if "has" in parts or "have" in parts:
        yield f"Does {slot.name}" if act.is_true else f"Does not {slot.name}"
    elif "is" in parts:
        said = slot.name if act.is_true else _IS.sub("is not", slot.name, count=1)
        yield said
        if words.domain:
            yield f"{words.domain} {said}"
    else:
        for lead in ("Has", "Have", "Is") if act.is_true else ("Has no", "Is not", "Does not"):
            yield f"{lead} {slot.name}"


_IS = re.compile(r"\bis\b")
_HAS_OR_IS = re.compile(r"(?:has|have) (?P<has>.+)|is (?P<is>\S+)")
# "Boolean flag indicating if the property is furnished"; not "Whether to ...", and nothing that says both.
_CLAUSE = re.compile(r"(?:.*? )??(?:whether or not|whether|if) (.+)", re.IGNORECASE)
_NO_STATEMENT = re.compile(r"^to\b|\bor (?:not|if|no)\b", re.IGNORECASE)


def _boolean(act: Act, words: ServiceWords) -> Iterator[str]:
    """Sentences that are right whatever the slot is called: where a name's part of speech is not known, it has none."""
    slot = words.slot(act.slot)
    yield from _answers(act, slot)
    if match := _HAS_OR_IS.fullmatch(slot.name):
        if about := match["has"]:
            yield f"It has {about}." if act.is_true else f"It does not have {about}."
            yield f"They have {about}." if act.is_true else f"They do not have {about}."
        else:
            yield f"It is {match['is']}." if act.is_true else f"It is not {match['is']}."
    clause = _CLAUSE.fullmatch(slot.description)
    if clause and not _NO_STATEMENT.search(clause[1]):
        yield f"It is true that {clause[1]}." if act.is_true else f"It is not true that {clause[1]}."


def _bare(act: Act, words: ServiceWords) -> Iterator[str]:
    """An act of which nothing is known but its name."""
    slot = words.slot(act.slot)
    for label in (slot.description, slot.name) if act.slot else ("",):
        yield f"{act_name(act)} {label}".rstrip()


def act_name(act: Act) -> str:
    """``INFORM_COUNT`` is ``Inform count``."""
    return act.act.replace("_", " ").capitalize()


def listed(values: Sequence[str]) -> str:
    """``A, B and C``."""
    return " and ".join(part for part in (", ".join(values[:-1]), values[-1]) if part)


def in_sentence(text: str) -> str:
    """A description in the middle of a sentence: without its capital, which names and acronyms keep."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


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


Kinds = dict[str, dict[str, Kind]]  # of each service the kind of each slot


def kinds_of(services: Iterable[Service]) -> Kinds:
    """The kinds of all slots."""
    return {service.service_name: {slot.name: kind_of(slot) for slot in service.slots} for service in services}


def _kind(kinds: Kinds, service: str, act: str, slot: str) -> Kind:
    """That of an action's slot; one that the schema lacks is a marker as well."""
    if not slot:
        return "none"
    return "marker" if is_marker(act, slot) else kinds.get(service, {}).get(slot, "marker")


def system_turns(dialogue: Dialogue, kinds: Kinds) -> Iterator[SystemTurn]:
    """The system turns of a dialogue, in order. Raises InputError for a service that the schemas lack."""
    previous = ""
    for position, turn in enumerate(dialogue.turns):
        if turn.speaker == "SYSTEM":
            acts: list[Act] = []
            for i, frame in enumerate(turn.frames):
                if frame.service not in kinds:
                    where = f"{dialogue.dialogue_id} turns[{position}].frames[{i}]"
                    raise InputError(f"the schema of the split has no service {frame.service!r}", "", where)
                acts += (_act(frame, action, kinds) for action in _actions(frame))
            yield SystemTurn(dialogue.dialogue_id, position, turn.utterance, previous, tuple(acts))
        previous = turn.utterance


def _actions(frame: Frame) -> list[Action]:
    return [] if frame.actions is UNSET else frame.actions


def _act(frame: Frame, action: Action, kinds: Kinds) -> Act:
    canonical = action.values if action.canonical_values is UNSET else action.canonical_values
    intent = "" if frame.service_call is UNSET else frame.service_call.method
    kind = _kind(kinds, frame.service, action.act, action.slot)
    return Act(frame.service, action.act, action.slot, tuple(action.values), tuple(canonical), kind, intent)


# Of each slot (:func:`pool_key`) the values said for it, each with its canonical form: sorted, different.
Pools = dict[tuple[str, str], tuple[tuple[str, str], ...]]


def pools_of(dialogues: Iterable[Dialogue], services: Mapping[str, Service], kinds: Kinds) -> Pools:
    """The values that users and system say, and those of the schema for categorical slots and intents."""
    pools: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for service in services.values():
        for slot in service.slots:
            if kinds[service.service_name][slot.name] == "categorical":
                pools[service.service_name, slot.name] = {(value, value) for value in slot.possible_values}
        pools[pool_key(service.service_name, "intent", "marker")] = {
            (intent.name, intent.name) for intent in service.intents
        }
    for dialogue in dialogues:
        for turn in dialogue.turns:
            for frame in turn.frames:
                for action in _actions(frame):
                    kind = _kind(kinds, frame.service, action.act, action.slot)
                    if action.values and kind != "categorical":
                        given = action.values if action.canonical_values is UNSET else action.canonical_values
                        pairs = (
                            (value, form) for value, form in zip(action.values, given, strict=False) if form != _ANY
                        )
                        pools.setdefault(pool_key(frame.service, action.slot, kind), set()).update(pairs)
    return {key: tuple(sorted(pairs)) for key, pairs in pools.items()}


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
        one = _draw(pools.get(act.pool, ()), taken, stable_hash(*drawn_by, act.slot, str(i)))
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
    dialogues = list(sets.read_dialogues(root, split))
    schemas = {one.split: one for one in read_root(root, leave_out_bad=True)}
    services = (schemas[SINGLE] if SINGLE in schemas else schemas[split]).services
    by_name = {service.service_name: service for service in services}
    kinds = kinds_of(services)
    turns: list[SystemTurn] = []
    for path, dialogue in dialogues:
        try:
            turns += system_turns(dialogue, kinds)
        except InputError as error:
            raise InputError(error.reason, path, error.where) from None
    if not any(turn.acts for turn in turns):
        raise InputError("no system turn has an action, so there is nothing for utterances to express", root, split)
    used = {act.service for turn in turns for act in turn.acts}
    words = {ORIGINAL: {name: words_of(service) for name, service in by_name.items()}}
    for name, place in variants.items():
        words[name] = varied_words((by_name[one] for one in sorted(used)), read_root(place, leave_out_bad=True), name)
    train = schemas.get("train")
    seen = frozenset(service.service_name for service in train.services) if train is not None else None
    ordered = sorted(turns, key=lambda turn: turn.place)
    return Corpus(split, tuple(ordered), words, pools_of((dialogue for _, dialogue in dialogues), by_name, kinds), seen)


REFERENCE = "reference"  # in place of a file: the corpus's own system turns


class Candidate(msgspec.Struct, frozen=True):
    """One of several utterances, and its likelihood or the like: more is better."""

    utterance: str
    score: float


class Prediction(msgspec.Struct, frozen=True):
    """What a system says in a turn.

    Attributes:
      turn: its position in the dialogue, from 0; user turns count.
      utterance: the system's choice.
      candidates: of an ensemble, to be ranked by how faithful they are; may be left out.
      set: the name of its set, where one file has the predictions for several.
    """

    dialogue_id: str
    turn: int
    utterance: str
    candidates: tuple[Candidate, ...] | None = None
    set: str = ""


def read_predictions(
    predictions: str, split: str, turns: Mapping[str, Sequence[SystemTurn]]
) -> dict[str, dict[Place, Prediction]]:
    """Of each set a prediction for each of its turns, neither more nor less.

    Args:
      predictions: JSON lines, a folder with those of each set, or with dialogues in the SGD format; or ``reference``.
      split: whose dialogues.
      turns: by set, those to be predicted.

    Raises:
      InputError: a file cannot be read, a turn has no prediction, or two, or is not the system's.
    """
    if predictions == REFERENCE:
        return {
            name: {turn.place: Prediction(turn.dialogue_id, turn.turn, turn.utterance) for turn in of}
            for name, of in turns.items()
        }
    if not is_there(predictions):
        raise InputError("there is no such file or folder", predictions, "--predictions")
    utterances: dict[str, dict[str, dict[int, str]]] = {name: {} for name in turns}
    for name, of in turns.items():
        for turn in of:
            utterances[name].setdefault(turn.dialogue_id, {})[turn.turn] = turn.utterance
    read = _read if as_path(predictions).is_dir() else _lines
    rows = sets.read_predictions(predictions, split, list(turns), read, (".json", ".jsonl"))
    return sets.match_turns(rows, utterances, predictions)


def predicted_variants(predictions: str, split: str, variants: Sequence[str]) -> list[str]:
    """The variants that something was predicted for: all of them, or none.

    A file and ``reference`` are the original's; of a file whose rows have sets, those that are named.

    Raises:
      InputError: some variants have predictions, and others none.
    """
    if predictions == REFERENCE or not is_there(predictions):
        return []
    if as_path(predictions).is_dir():
        places = [as_path(predictions) / name for name in variants]
        if any(is_there(place) or is_there(place.with_name(f"{place.name}.jsonl")) for place in places):
            for name in variants:
                sets.prediction_files(predictions, split, name)
            return list(variants)
        return []
    named = {row.set for _, row in _lines(predictions)}
    return [name for name in variants if name in named]


def _read(path: str) -> Iterator[tuple[str, Prediction]]:
    """The rows of a file in a folder: JSON lines, or dialogues, whose system turns are the predictions."""
    if path.endswith(".jsonl"):
        yield from _lines(path)
        return
    for i, dialogue in enumerate(read_dialogues(path)):
        for position, turn in enumerate(dialogue.turns):
            if turn.speaker == "SYSTEM":
                yield f"[{i}].turns[{position}]", Prediction(dialogue.dialogue_id, position, turn.utterance)


def _lines(path: str) -> Iterator[tuple[str, Prediction]]:
    for number, one in read_lines(path, Prediction):
        where = f"line {number}"
        if one.candidates is not None:
            if not one.candidates:
                raise InputError(
                    "the list of candidates is empty: leave out the field, or give candidates", path, where
                )
            if not all(math.isfinite(candidate.score) for candidate in one.candidates):
                raise InputError("a candidate's score is not a finite number", path, where)
        yield where, one
