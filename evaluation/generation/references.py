"""References: what an act means, said in plain sentences with the schema's words (SGSAcc, section 2, Appendix B).

There are two sets of rules. ``paper`` has the candidates of Appendix B word for word, with those of Appendix D where
the two differ; what neither mentions (acts without a value other than REQUEST, GOODBYE and REQ_MORE) is as in
``extended``. That one is ours: no broken English, and rules for INFORM_COUNT and OFFER_INTENT of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, SplitSchemas
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.corpora import domain_of
from parapet.transforms.table1 import name_suffix
from parapet.transforms.variants.matching import by_position

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
    return "boolean" if sorted(one.lower() for one in slot.possible_values) == sorted(BOOLEANS) else "categorical"


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
        return self.kind == "boolean" and [one.lower() in BOOLEANS for one in self.values] == [True]

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
    if found := _HAS_OR_IS.fullmatch(slot.name):
        if about := found["has"]:
            yield f"It has {about}." if act.is_true else f"It does not have {about}."
            yield f"They have {about}." if act.is_true else f"They do not have {about}."
        else:
            yield f"It is {found['is']}." if act.is_true else f"It is not {found['is']}."
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
