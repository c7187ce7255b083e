"""The reference for generated utterances: system turns with acts, sentences for acts, values; and the predictions.

Sentences state in plain words, with the schema's terms, what an act means (SGSAcc, section 2, Appendix B). There are
two sets of rules. ``paper`` has the candidates of Appendix B word for word, or those of Appendix D where the two
differ; acts that neither mentions (acts without a value other than REQUEST, GOODBYE and REQ_MORE) are as in
``extended``. That set is our own: it avoids broken English, and has separate rules for INFORM_COUNT and OFFER_INTENT.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET

from parapet.evaluation import sets
from parapet.evaluation.sets import ORIGINAL, read_lines
from parapet.schemas.dialogue import Action, Dialogue, Frame, is_marker
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, SplitSchemas, as_path, is_there, read_root
from parapet.schemas.limits import read_text
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.core.seeding import stable_hash
from parapet.transforms.perturb.corpora import domain_of
from parapet.transforms.variants.matching import by_position, name_suffix

Kind = Literal["boolean", "categorical", "free", "marker", "none"]
Rules = Literal["paper", "extended"]
BOOLEANS = ("true", "false")

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")


class Words(msgspec.Struct, frozen=True):
    """The words of a slot or intent: its name in words, and its description without final punctuation."""

    name: str
    description: str


class ServiceWords(msgspec.Struct, frozen=True):
    """The words of a service, by the *original's* names of slots and intents, which the acts use.

    Attributes:
      slots, intents: by name.
      domain: ``Flights`` for ``Flights_4``.
      templates: sentences that users have written for acts, by the acts' keys.
    """

    slots: dict[str, Words]
    intents: dict[str, Words]
    domain: str = ""
    templates: Mapping[str, str] = {}

    def slot(self, name: str) -> Words:
        """Returns the words of a slot. If the schema lacks it (``intent``, ``count``), they are made from its name."""
        return self.slots.get(name) or Words(in_words(name), in_words(name))

    def intent(self, name: str) -> Words:
        """Returns the words of an intent. If the schema lacks it, they are made from its name."""
        return self.intents.get(name) or Words(in_words(name), in_words(name))


def in_words(name: str) -> str:
    """Splits a name into words:

    ``has_live_music`` into ``has live music``, ``BuyBusTicket`` into ``buy bus ticket``.
    """
    return " ".join(word if word.isupper() else word.lower() for word in _CAMEL.split(name) if word)


def kind_of(slot: Slot) -> Kind:
    """Returns the kind of a slot. Boolean slots are categorical ones with the values True and False."""
    if not slot.is_categorical:
        return "free"
    return "boolean" if sorted(value.lower() for value in slot.possible_values) == sorted(BOOLEANS) else "categorical"


def words_of(service: Service) -> ServiceWords:
    """Returns the words of a service from its own schema."""
    return ServiceWords(
        {slot.name: _words(slot) for slot in service.slots},
        {intent.name: _words(intent) for intent in service.intents},
        domain_of(service.service_name),
    )


def _words(element: Slot | Intent) -> Words:
    name = in_words(element.name)
    return Words(name, " ".join(element.description.split()).rstrip(" .?!:;") or name)


def varied_words(services: Sequence[Service], splits: Iterable[SplitSchemas], variant: str) -> dict[str, ServiceWords]:
    """Returns each service's words in a variant, by the original's names; slots correspond by position.

    Args:
      services: the original's services.
      splits: the schemas of the variant.
      variant: its name, for messages.

    Raises:
      InputError: the variant lacks a service, or has another number of slots or intents for it.
    """
    by_name = {service.service_name: service for split in splits for service in split.services}
    suffix = name_suffix([service.service_name for service in services], by_name)
    by_service = {}
    for service in services:
        other = by_name.get(service.service_name + suffix)
        if other is None:
            raise InputError(f"{variant} has no variant of service {service.service_name!r}", "--variants")
        try:
            names = by_position(service, other)
        except InputError as error:
            raise InputError(f"{variant}: service {other.service_name!r} {error.reason}", "--variants") from None
        varied = words_of(other)
        by_service[service.service_name] = ServiceWords(
            {old: varied.slots[new] for old, new in names.slots.items()},
            {old: varied.intents[new] for old, new in names.intents.items()},
            varied.domain,
        )
    return by_service


def services_of(splits: Mapping[str, SplitSchemas], split: str) -> list[Service]:
    """Returns the services of a split, or of a corpus without splits."""
    return (splits[split] if split in splits else splits[SINGLE]).services


class Act(msgspec.Struct, frozen=True):
    """A dialogue act of a system turn.

    Attributes:
      slot: the original's name of the slot, or empty.
      values: the values to express.
      canonical: the values in the form of the service, to detect that two texts are the same value.
      kind: the kind of the slot; ``marker`` for ``intent`` and ``count``.
      intent: the intent of the frame's service call, for acts that report its outcome.
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
        """The key of the pool from which tampered values are drawn."""
        return pool_key(self.service, self.slot, self.kind)

    @property
    def is_boolean(self) -> bool:
        """Whether it states yes or no; a boolean slot may also have the value "dontcare"."""
        return self.kind == "boolean" and [value.lower() in BOOLEANS for value in self.values] == [True]

    @property
    def is_true(self) -> bool:
        """The truth value of a boolean act."""
        return self.values[0].lower() == BOOLEANS[0]

    @property
    def states(self) -> bool:
        """Whether its sentences state its values.

        Those of a REQUEST do not, although it may offer values to choose from.
        """
        return bool(self.values) and self.act not in ("REQUEST", *PHRASES)


def pool_key(service: str, slot: str, kind: Kind) -> tuple[str, str]:
    """Returns the key of a slot's values. A marker has its own key, even if a slot has the same name."""
    return service, f"<{slot}>" if kind == "marker" else slot


# Acts whose sentences do not depend on the schema. From Appendix B:
PAPER_PHRASES = {
    "GOODBYE": ("Have a good day.", "Bye bye.", "See you."),
    "REQ_MORE": ("What else do you need?", "What else can I help you with?", "Is there anything else?"),
}
# Our own; ``paper`` uses these for acts that the appendix does not mention.
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
    """Returns the candidate sentences for an act, without duplicates and in a fixed order; always at least one.

    Args:
      act: the act.
      words: the words of its service.
      rules: the set of rules. Models of generation make their templates from ``extended``, whatever the scoring uses.
        An act with a template of the user's has its sentence alone.
    """
    if template := words.templates.get(key_of(act)):
        return (filled(template, act.values),)
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
    sentence = "Do you want to {}?" if act.act == "OFFER_INTENT" else "I want to {}."
    intents = [words.intent(value) for value in act.values]
    for label in ([in_sentence(intent.description) for intent in intents], [intent.name for intent in intents]):
        yield f"{lead} {listed(label)}"
        yield sentence.format(listed(label))


def _count(act: Act, words: ServiceWords) -> Iterator[str]:
    count_text = listed(act.values)
    yield f"There is {count_text} result." if count_text == "1" else f"There are {count_text} results."
    yield f"The number of results is {count_text}."


_MARKERS = {"intent": _intent, "count": _count}


def _values(act: Act, words: ServiceWords) -> Iterator[str]:
    slot, verb = words.slot(act.slot), "are" if len(act.values) > 1 else "is"
    is_intent = act.kind == "marker" and act.slot == "intent"  # its name is in the schema, and differs between variants
    values = [words.intent(value).name for value in act.values] if is_intent else act.values
    for label in (slot.description, slot.name) if act.slot else (act_name(act),):
        yield f"{label} {verb} {listed(values)}"


def _answers(act: Act, slot: Words) -> Iterator[str]:
    answer = "Yes" if act.is_true else "No"
    yield f"{slot.description}? {answer}."
    yield f"{slot.name}? {answer}."


def _paper_boolean(act: Act, words: ServiceWords) -> Iterator[str]:
    """Yields the sentences of Appendix B for a boolean act, or those in the lists of Appendix D where these differ.

    The lists look like output of the authors' code. B would have "has not", "have not" and "is not" where D has "Has
    no", "Is not" and "Does not"; only D has the candidate with the domain.
    """
    slot = words.slot(act.slot)
    yield from _answers(act, slot)
    parts = slot.name.split()
    if "has" in parts or "have" in parts:
        yield f"Does {slot.name}" if act.is_true else f"Does not {slot.name}"
    elif "is" in parts:
        phrase = slot.name if act.is_true else _IS.sub("is not", slot.name, count=1)
        yield phrase
        if words.domain:
            yield f"{words.domain} {phrase}"
    else:
        for lead in ("Has", "Have", "Is") if act.is_true else ("Has no", "Is not", "Does not"):
            yield f"{lead} {slot.name}"


_IS = re.compile(r"\bis\b")
_HAS_OR_IS = re.compile(r"(?:has|have) (?P<has>.+)|is (?P<is>\S+)")
# Matches "Boolean flag indicating if the property is furnished", but not "Whether to ..." or clauses for both truth
# values.
_CLAUSE = re.compile(r"(?:.*? )??(?:whether or not|whether|if) (.+)", re.IGNORECASE)
_NO_STATEMENT = re.compile(r"^to\b|\bor (?:not|if|no)\b", re.IGNORECASE)


def _boolean(act: Act, words: ServiceWords) -> Iterator[str]:
    """Yields sentences that are grammatical for any name of a slot; none use a name whose part of speech is unknown."""
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
    """Yields sentences for an act of which only the name is known."""
    slot = words.slot(act.slot)
    for label in (slot.description, slot.name) if act.slot else ("",):
        yield f"{act_name(act)} {label}".rstrip()


def act_name(act: Act) -> str:
    """Formats the name of an act: ``INFORM_COUNT`` as ``Inform count``."""
    return act.act.replace("_", " ").capitalize()


def listed(values: Sequence[str]) -> str:
    """Joins values to ``A, B and C``."""
    return " and ".join(part for part in (", ".join(values[:-1]), values[-1]) if part)


def in_sentence(text: str) -> str:
    """Lower-cases the first letter of a description for use within a sentence, unless it begins with an acronym."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


_ANY = "dontcare"  # the value of a slot whose value does not matter

Place = tuple[str, int]  # dialogue id, position of the turn from 0


class SystemTurn(msgspec.Struct, frozen=True):
    """A system turn.

    Attributes:
      turn: its position in the dialogue, from 0.
      previous: the preceding utterance, or empty.
      acts: in the order of frames and actions.
    """

    dialogue_id: str
    turn: int
    utterance: str
    previous: str
    acts: tuple[Act, ...]

    @property
    def place(self) -> Place:
        """The key of its prediction."""
        return self.dialogue_id, self.turn


Kinds = dict[str, dict[str, Kind]]  # service to slot to its kind


def kinds_of(services: Iterable[Service]) -> Kinds:
    """Returns the kinds of all slots."""
    return {service.service_name: {slot.name: kind_of(slot) for slot in service.slots} for service in services}


def _kind(kinds: Kinds, service: str, act: str, slot: str) -> Kind:
    """Returns the kind of an action's slot. Slots that the schema lacks count as markers."""
    if not slot:
        return "none"
    return "marker" if is_marker(act, slot) else kinds.get(service, {}).get(slot, "marker")


def system_turns(dialogue: Dialogue, kinds: Kinds) -> Iterator[SystemTurn]:
    """Yields the system turns of a dialogue, in order. Raises InputError for a service that the schemas lack."""
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


# Key of a slot (:func:`pool_key`) to its (value, canonical form), sorted and without duplicates.
Pools = dict[tuple[str, str], tuple[tuple[str, str], ...]]


def pools_of(dialogues: Iterable[Dialogue], services: Mapping[str, Service], kinds: Kinds) -> Pools:
    """Collects the values that users and system express, and those in the schema for categorical slots and intents."""
    pools: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for service in services.values():
        for slot in service.slots:
            if kinds[service.service_name][slot.name] == "categorical":
                pools[service.service_name, slot.name] = {(value, value) for value in slot.possible_values}
        intents = {(intent.name, intent.name) for intent in service.intents}
        pools[pool_key(service.service_name, "intent", "marker")] = intents
    for dialogue in dialogues:
        for turn in dialogue.turns:
            for frame in turn.frames:
                for action in _actions(frame):
                    kind = _kind(kinds, frame.service, action.act, action.slot)
                    if action.values and kind != "categorical":
                        values = action.values if action.canonical_values is UNSET else action.canonical_values
                        pairs = [pair for pair in zip(action.values, values, strict=False) if pair[1] != _ANY]
                        pools.setdefault(pool_key(frame.service, action.slot, kind), set()).update(pairs)
    return {key: tuple(sorted(pairs)) for key, pairs in pools.items()}


_NO_WORD = re.compile(r"[\W_]+")


def tampered(act: Act, pools: Pools, *drawn_by: str) -> Act | None:
    """Replaces each value of an act by another value of the slot.

    A boolean is negated. Other values are drawn by hash from those of the slot in the corpus, or for categorical slots
    in the schema. Different spellings of a value count as the same value.

    Args:
      act: the act.
      pools: the values of all slots.
      drawn_by: the key of the draw: seed, dialogue, turn, position.

    Returns:
      None if there is no value to replace, or no other value.
    """
    if not act.states:
        return None
    if act.is_boolean:
        other = ("False" if act.is_true else "True",)
        return msgspec.structs.replace(act, values=other, canonical=other)
    taken = {_plain(text) for text in (*act.values, *act.canonical)}
    chosen: list[tuple[str, str]] = []
    for i in range(len(act.values)):
        drawn = _draw(pools.get(act.pool, ()), taken, stable_hash(*drawn_by, act.slot, str(i)))
        if drawn is None:
            return None
        chosen.append(drawn)
        taken |= {_plain(form) for form in drawn}
    values, canonical = zip(*chosen, strict=True)
    return msgspec.structs.replace(act, values=values, canonical=canonical)


def _draw(pool: Sequence[tuple[str, str]], taken: set[str], number: int) -> tuple[str, str] | None:
    """Returns the first free value at or after the position that the number selects."""
    for i in range(len(pool)):
        value, canonical = pool[(number + i) % len(pool)]
        if _plain(value) and _plain(value) not in taken and _plain(canonical) not in taken:
            return value, canonical
    return None


def _plain(value: str) -> str:
    return _NO_WORD.sub(" ", value.casefold()).strip()


class Corpus(msgspec.Struct, frozen=True):
    """The reference data of a split.

    Attributes:
      name: the name of the split.
      turns: the system turns, by dialogue id and position.
      words: the original and each variant to service to its words.
      pools: the values of each slot.
      seen: the services of the training schema; None without one.
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
      split: the split; a corpus without splits is read whole.
      variants: folders of schema variants, by name.

    Raises:
      InputError: a file or dialogue cannot be read, an id appears twice, a service has no schema, the system has no act
        in the whole split, or a variant does not match.
    """
    dialogues = list(sets.read_dialogues(root, split))
    schemas = {schemas.split: schemas for schemas in read_root(root, leave_out_bad=True)}
    services = services_of(schemas, split)
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
    used = [by_name[name] for name in sorted({act.service for turn in turns for act in turn.acts})]
    words = {ORIGINAL: {name: words_of(service) for name, service in by_name.items()}}
    for name, place in variants.items():
        words[name] = varied_words(used, read_root(place, leave_out_bad=True), name)
    seen = sets.services_of_train(root, schemas)
    ordered = sorted(turns, key=lambda turn: turn.place)
    return Corpus(split, tuple(ordered), words, pools_of((dialogue for _, dialogue in dialogues), by_name, kinds), seen)


REFERENCE = "reference"  # in place of a file: the corpus's own system turns


class Candidate(msgspec.Struct, frozen=True):
    """One of several utterances, with a score such as its likelihood; more is better."""

    utterance: str
    score: float


class Prediction(msgspec.Struct, frozen=True):
    """A predicted utterance.

    Attributes:
      turn: its position in the dialogue, from 0, counting user turns.
      utterance: the system's choice.
      candidates: of ``parapet predict --candidates``, for another system's ``--also``.
      set: the name of its set, if a file has predictions for several sets.
      refused: whether there is no utterance, because the request for it was refused.
    """

    dialogue_id: str
    turn: int
    utterance: str
    candidates: tuple[Candidate, ...] | None = None
    set: str = ""
    refused: bool = False


def read_predictions(
    predictions: str, split: str, turns: Mapping[str, Sequence[SystemTurn]]
) -> dict[str, dict[Place, Prediction]]:
    """Reads exactly one prediction for each turn of each set.

    Args:
      predictions: JSON lines, a folder with those of each set, or ``reference``.
      split: the split.
      turns: set to the turns to be predicted.

    Raises:
      InputError: a file cannot be read, or a turn has no prediction, several, or is not a system turn.
    """
    if predictions == REFERENCE:
        return {
            name: {turn.place: Prediction(*turn.place, turn.utterance) for turn in of_set}
            for name, of_set in turns.items()
        }
    utterances: dict[str, dict[str, dict[int, str]]] = {name: {} for name in turns}
    for name, of_set in turns.items():
        for turn in of_set:
            utterances[name].setdefault(turn.dialogue_id, {})[turn.turn] = turn.utterance
    return sets.match_turns(sets.read_rows(predictions, split, list(turns), Prediction), utterances, predictions)


def predicted_variants(predictions: str, variants: Sequence[str]) -> list[str]:
    """Returns the variants that are to be scored: all, if a folder has the predictions of any; those that a file names.

    ``reference`` has those of the original only.
    """
    if predictions == REFERENCE or not is_there(predictions):
        return []
    if as_path(predictions).is_dir():
        places = [as_path(predictions) / name for name in variants]
        return list(variants) if any(is_there(place) or is_there(f"{place}.jsonl") for place in places) else []
    named = {row.set for _, row in read_lines(predictions, Prediction)}
    return [name for name in variants if name in named]


# Templates of acts in the format of T2G2 (Kale and Rastogi 2020): inputs of models, or references of acts. Published
# ones: ``generation/utterance_templates`` of ``google-research/task-oriented-dialogue``.
Templates = Mapping[str, Mapping[str, str]]  # service to key to sentence
NONE: Templates = {}
VALUE, SEPARATOR = "@", "!!"
_IN_KEYS = (("True",), ("False",), ("dontcare",))  # values that are part of the key
_BY_INTENT = ("INFORM_COUNT", "NOTIFY_SUCCESS", "NOTIFY_FAILURE", "OFFER_INTENT")


def read_templates(folder: str) -> tuple[Templates, list[Path]]:
    """Reads the templates of a folder, ``SERVICE.tsv`` for each service; also returns the files.

    A line is a key, a tab and a sentence, with an ``@`` in both for each value: ``INFORM!!city!!@``, ``REQUEST!!city``,
    ``INFORM!!has_wifi!!True``, ``OFFER_INTENT!!BookHotel``, ``INFORM_COUNT!!FindHotel!!count!!@``, ``GOODBYE``. Of
    lines with the same key, the last is used.

    Raises:
      InputError: the folder does not exist or has no such file, or a line has another form; names file and line.
    """
    place = as_path(folder)
    paths = sorted(place.glob("*.tsv")) if place.is_dir() else []
    if not paths:
        reason = "contains no templates: expected a folder with SERVICE.tsv for each service"
        raise InputError(reason, folder, "--templates")
    return {path.stem: _read(path) for path in paths}, paths


def _read(path: Path) -> dict[str, str]:
    acts = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        columns = [" ".join(column.split()) for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            reason = "expected a key, a tab and a sentence, as in 'INFORM!!city!!@' and 'It is in @.'"
            raise InputError(reason, path, f"line {number}")
        key, sentence = columns
        values, places = key.count(VALUE), sentence.count(VALUE)
        if values != places:
            reason = f"the key has {values} {VALUE}, but the sentence has {places}: both must have one for each value"
            raise InputError(reason, path, f"line {number}")
        acts[key] = sentence
    return acts


def key_of(act: Act) -> str:
    """Returns the key of an act's template: act, slot or intent, and the number of values or the boolean."""
    values = VALUE * len(act.values)
    if act.act in _BY_INTENT:
        intent = act.values[0] if act.act == "OFFER_INTENT" and act.values else act.intent
        parts = [act.act, intent, *(("count", values) if act.act == "INFORM_COUNT" else ())]
    else:
        parts = [act.act, act.slot, act.values[0] if act.values in _IN_KEYS else values]
    return SEPARATOR.join(part for part in parts if part)


def template_of(act: Act, templates: Templates) -> str | None:
    """Returns the template of an act; None if there is none."""
    return templates.get(act.service, {}).get(key_of(act))


def warn_without_template(acts: Sequence[Act], templates: Templates, instead: str, place: str = "") -> None:
    """Warns about acts without a template; ``instead`` says what becomes of them."""
    if templates and (without := [act for act in acts if template_of(act, templates) is None]):
        message, first = "%s%s of %s acts have no template and %s, such as %s of %s", without[0]
        counts = f"{len(without):,}", f"{len(acts):,}"
        logging.warning(message, place, *counts, instead, key_of(first), first.service)


def filled(template: str, values: Sequence[str]) -> str:
    """Puts values into a template."""
    pieces = zip_longest(template.split(VALUE), values[: template.count(VALUE)], fillvalue="")
    return " ".join("".join(piece + value for piece, value in pieces).split())
