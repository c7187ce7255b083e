"""Two trackers without training: ``names`` reads the names of slots, ``meaning`` also what the schema says of them.

    parapet evaluate --task dst --model names ...

Both find the same values in the same way: dates, times, numbers, names and possible values in what the user says, in
the answers to the system's questions, and in what the system offers and the user accepts. They differ in how they
decide which slot a value belongs to. ``names`` compares the words beside a value with the words of slot names, word by
word, as a tracker does that has learnt the names of a schema. ``meaning`` compares them with names and descriptions, by
the similarity of character n-grams, so that another wording of the same costs it less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from parapet.evaluation.dst.model import Example
from parapet.schemas.service import Service, Slot
from parapet.transforms.reports.text import name_words

_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?)"
)
_DAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_NTH = r"\d{1,2}(?:st|nd|rd|th)"
_SMALL = "one two three four five six seven eight nine ten eleven twelve".split()
_NUMBER = rf"(?:\d+|one(?= (?:person|people|adult|ticket|hour|night|room|seat|passenger))|{'|'.join(_SMALL[1:])})"
# The kinds of values, each by its form. What comes first takes the place.
_FORMS = {
    "money": re.compile(r"\$\d[\d,.]*\d|\$\d|\b\d[\d,]* (?:dollars|bucks)\b", re.IGNORECASE),
    "phone": re.compile(r"\b\d{3}[- ]\d{3}[- ]\d{4}\b|\b\d{3}-\d{4}\b"),
    "address": re.compile(r"\b\d+ (?:[A-Z0-9][\w.#-]*[ ,]*)+"),
    "time": re.compile(
        rf"\b(?:(?:quarter|half|{_NUMBER}) (?:past|to|after|before) {_NUMBER}|\d{{1,2}}(?::\d\d)? ?[ap]\.?m\b|"
        rf"\d{{1,2}}:\d\d|{_NUMBER} o'clock|(?:morning|afternoon|evening) {_NUMBER}(?::\d\d)?(?: o'clock)?)"
        r"(?: in the (?:morning|afternoon|evening))?(?![\w:])|\b(?:noon|midnight)\b",
        re.IGNORECASE,
    ),
    "date": re.compile(
        rf"\b(?:{_MONTH} (?:the )?\d{{1,2}}(?:st|nd|rd|th)?|{_NTH}(?: of (?:{_MONTH}|this month|next month))?|"
        rf"(?:next |this |coming )?{_DAY}(?:,? (?:the )?{_NTH}|,? {_MONTH} {_NTH}| (?:this|next) week)?|(?:the )?day after tomorrow|today|tomorrow|"
        r"later today|tonight)\b",
        re.IGNORECASE,
    ),
    "number": re.compile(rf"\b{_NUMBER}\b", re.IGNORECASE),
    "name": re.compile(
        r"\b[A-Z][\w'’&-]*(?:(?: (?:of|the|and|in|on|at|for|without|de|la|&)){0,2} (?!I\b)[A-Z0-9][\w'’&-]*)*",
    ),
}  # fmt: skip
# The words that tell which kind of value a slot has.
_KINDS = {
    "money": "price cost fare fee amount budget balance rent money pay charge",
    "phone": "phone number call",
    "address": "address street",
    "time": "time hour clock",
    "date": "date day",
    "number": "number count many quantity size people persons guests seats tickets rooms passengers adults group",
    "name": "name city town place location area region title address venue restaurant hotel shop store company line "
    "station airport port harbour theater cinema movie film song album artist singer band event team museum attraction "
    "neighbourhood origin destination property salon doctor dentist therapist stylist account recipient contact where who "
    "author writer director actor actress host teacher trainer instructor person owner library branch gym studio "
    "operator room subtitle track gallery",
}
# What a preposition before a value says of its slot.
_CUES = {
    "in": "city town area location where place region",
    "near": "city town area location where place",
    "around": "city town area location where",
    "from": "from origin source start departure depart departing leave leaves leaving pickup sender",
    "to": "to destination end arrival arrive arriving land lands going goes toward reach receiver recipient contact",
    "leaving": "from origin source start departure depart leave leaves date",
    "returning": "return returning back date",
    "until": "end to checkout out return",
    "at": "name at time",
    "by": "by artist singer director",
    "on": "on date day",
    "for": "number people size",
    "with": "with name",
}
_IDLE = frozenset(
    "a an and are as be been can could do does for have has he her his how i if in is it its me my of on or our she so that "
    "the their them there they this to us was we what when where whether which who will with would you your s t ll d m re ve "
    "user users customer customers whose one out off by from at".split()
)
_YES = re.compile(
    r"^(?:ok(?:ay)?|yes|yeah|yep|yup|sure|correct|right|agreed|absolutely|perfect|great|good|fine|exactly|deal|definitely|"
    r"that(?:'s| is| sounds| works| would| will)|sounds|looks|it(?:'s| is) a|i(?:'ll| will| would|'d)? (?:do|take|like|want)|"
    r"let(?:'s| us)|book|reserve|go|please|wonderful|awesome|cool|excellent|nice|just|both|early|alright|works)\b",
    re.IGNORECASE,
)
_NO = re.compile(
    r"\b(?:no|nope|nah|not|n't|don't|doesn't|isn't|rather|another|other|others|else|instead|different|change|cheaper|"
    r"actually|wait|anything|something|someone)\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\b(?:no|not|without|never)\b|n't\b", re.IGNORECASE)
_ANY = re.compile(
    r"\b(?:do(?:es)?n't (?:really )?(?:care|matter|mind)|no preference|any(?:thing|where|one)?(?: is| will| would)? (?:fine|do|"
    r"ok(?:ay)?|good|works)|whatever|up to you|either)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[^.?!]*\?")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_NO_NAMES = frozenset(
    "i i'm i'd i'll i've ok okay yes yeah no sure thanks thank great good hello hi hey please what which who where when how "
    "can could would do does is are it that this they my we let the a an for in on at from to and but so just perfect "
    "right correct well also book find tell shall sorry bye goodbye am pm mr mrs cheers fine".split()
)
BEFORE, AFTER = 3, 2  # size of a value's context, in words
LEAST = 0.9  # least score for a slot to accept a value


class Value(msgspec.Struct, frozen=True):
    """A text that looks like a value: its kind, and the words around it."""

    text: str
    kind: str
    around: frozenset[str]
    is_first: bool = False  # a single word that has its capital from the beginning of a sentence


def stem(word: str) -> str:
    """Returns a lower-case word without the ending of a plural."""
    word = word.lower().replace("’", "'").removesuffix("'s")
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) and len(word) > 3 else word


@lru_cache(1 << 14)
def stems(text: str) -> tuple[str, ...]:
    """Returns the words of a text, without their endings."""
    return tuple(map(stem, _WORD.findall(text)))


_KIND_STEMS = {kind: frozenset(map(stem, words.split())) for kind, words in _KINDS.items()}
_CUE_STEMS = {word: frozenset(map(stem, words.split())) for word, words in _CUES.items()}


@lru_cache(1 << 14)
def values_in(text: str) -> tuple[Value, ...]:
    """Finds the texts that look like values, in order."""
    taken: list[tuple[int, int, str]] = []
    for kind, form in _FORMS.items():
        for match in form.finditer(text):
            start, end = match.span()
            if kind == "name":
                start, end = _name(text, start, end)
            if start < end and all(end <= first or last <= start for first, last, _ in taken):
                taken.append((start, end, kind))
    found = []
    for start, end, kind in sorted(taken):
        before, after = stems(text[:start])[-BEFORE:], stems(text[end:])[:AFTER]
        around = {*before, *after}
        for word in before[-1:]:
            around |= _CUE_STEMS.get(word, frozenset())
        if kind == "number" and after[:2] == ("of", "us"):
            around |= _KIND_STEMS["number"]
        is_first = re.search(r"(?:^|[.?!:])\s*$", text[:start]) is not None and " " not in text[start:end]
        found.append(Value(text[start:end].rstrip(" ,.&'"), kind, frozenset(around), is_first))
    return tuple(found)


def _name(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the place of a name without the capitalised first word of a sentence, which need not be part of it."""
    words = [(start + word.start(), word[0]) for word in re.finditer(r"\S+", text[start:end])]
    before = text[:start].rstrip()
    is_first = not before or before[-1] in ".?!:"
    while words and words[0][1].lower().strip(".,'’") in _NO_NAMES - ({"the", "a"} if len(words) > 2 else set()):
        words = words[1:]
        is_first = False
    if not words or (is_first and len(words) == 1 and not re.match(r"\s*(?:$|[.,!]|please)", text[end:])):
        return start, start
    return words[0][0], end


class Names:
    """The tracker that reads the names of slots."""

    def predict(self, batch: Sequence[Example]) -> list[dict[str, Any]]:
        """Predicts a state for each example."""
        return [self._state(example) for example in batch]

    # How a slot is known. Meaning does this in another way.

    def words(self, slot: Slot) -> tuple[str, ...]:
        """Returns what is known of a slot, the most telling word first: the last of its name."""
        return tuple(stem(word) for word in reversed(name_words(slot.name)))

    def like(self, word: str, other: str) -> float:
        """How similar two words are, from 0 to 1."""
        return float(word == other)

    # What both do.

    def _match(self, words: Sequence[str] | frozenset[str], slot: Slot) -> float:
        """How many of the words tell of a slot."""
        own = [word for word in self.words(slot) if word not in _IDLE or word in _CUE_STEMS]
        return sum(max((self.like(word, other) for other in own), default=0.0) for word in {*words} - _IDLE)

    def _kind(self, slot: Slot) -> str:
        """Returns the kind of values that a slot takes, by its first telling word; empty if none tells."""
        for word in self.words(slot):
            for kind, telling in _KIND_STEMS.items():
                if max((self.like(word, other) for other in telling), default=0.0) >= 0.8:
                    return kind
        return ""

    def _state(self, example: Example) -> dict[str, Any]:
        service = example.service
        state: dict[str, str] = {}
        offered: dict[str, str] = {}
        known: dict[str, str] = {}  # a value to its slot
        intent, asked = "", ""
        for i, (speaker, text) in enumerate(example.history):
            if example.frames and all(frame.service.service_name != service.service_name for frame in example.frames[i]):
                continue
            if speaker == "SYSTEM":
                asked = text
                offers = _offers(service, example.frames[i]) if example.frames else {}
                if not example.frames:
                    offers = self._assigned(service, text, "", known)
                offered |= offers
                known |= {value.lower(): slot for slot, value in offers.items()}
                continue
            accepts = not _NO.search(text) and not (text.rstrip().endswith("?") and "." not in text)
            if accepts:  # a summary may correct what was understood
                state = state | offered
            if accepts or _NO.search(text):
                offered = {}
            said = self._assigned(service, text, asked, known)
            if _ANY.search(text) and (slot := self._asked_for(service, asked)):
                said.setdefault(slot, "dontcare")
            state |= said
            known |= {value.lower(): slot for slot, value in said.items()}
            intent = self._intent(service, text, asked if accepts else "", intent)
        return {
            "active_intent": intent or "NONE",
            "requested_slots": self._requested(service, example.history[-1][1]),
            "slot_values": {slot: [value] for slot, value in state.items()},
        }

    def _assigned(self, service: Service, text: str, asked: str, known: dict[str, str]) -> dict[str, str]:
        """Finds values in a text, and assigns each to the slot that suits it best."""
        told = [slot.name for slot in _told(service)]
        of_asked = self._asked_for(service, asked) if asked else ""
        found: dict[str, str] = {}
        for value in values_in(text):
            points = {}
            is_alone = value.kind == "name" and value.is_first
            for slot in service.slots:
                if slot.is_categorical and not (value.kind == "number" and _number(value.text) in slot.possible_values):
                    continue
                beside = self._match(value.around, slot)
                is_known = known.get(value.text.lower()) == slot.name
                is_asked = slot.name == of_asked
                kind = self._kind(slot) or ("number" if slot.is_categorical else "name?")
                if kind.rstrip("?") != value.kind or (is_alone and not is_asked):
                    continue
                if kind == "number" and not (beside or is_asked or is_known):
                    continue
                points[slot.name] = (
                    (0.3 if kind.endswith("?") else 1.0)
                    + beside
                    + 0.5 * self._match(stems(value.text), slot)
                    + 1.0 * is_asked
                    + 3.0 * is_known
                    - 0.5 * (slot.name in found)
                    + 0.1 * (slot.name in told)
                )
            best = max(points, key=lambda name: points[name], default=None)
            if best is not None and points[best] >= LEAST:
                is_listed = next(slot for slot in service.slots if slot.name == best).is_categorical
                found[best] = _number(value.text) if is_listed else value.text
        found = {slot: value for slot, value in found.items() if slot in told}
        usable = _told(service)
        words = stems(text)
        for slot in usable:
            if not slot.is_categorical or slot.name in found:
                continue
            if {value.lower() for value in slot.possible_values} <= {"true", "false"}:
                if value := self._truth(slot, text):
                    found[slot.name] = value
                continue
            for value in slot.possible_values:
                own = stems(value)
                if not value.isdigit() and any(words[i : i + len(own)] == own for i in range(len(words))):
                    found[slot.name] = value
        return found

    def _truth(self, slot: Slot, text: str) -> str:
        for sentence in re.findall(r"[^.?!]+[.?!]?", text):
            if sentence.rstrip().endswith("?"):
                continue
            if self._match(frozenset(stems(sentence)) - {"person", "people", "has", "offer"}, slot) >= 0.9:
                return "False" if _NEGATED.search(sentence) else "True"
        return ""

    def _asked_for(self, service: Service, text: str) -> str:
        """Returns the slot that a question of the system is about; empty if there is none."""
        questions = _QUESTION.findall(text)
        if not questions:
            return ""
        words = frozenset(stems(questions[-1]))
        for kind, word in (("time", "when"), ("name", "where")):
            words |= _KIND_STEMS[kind] & {"time", "date", "day", "city"} if word in words else frozenset()
        points = {slot.name: self._match(words, slot) for slot in _told(service)}
        best = max(points, key=lambda name: points[name], default="")
        return best if best and points[best] >= 0.9 else ""

    def _intent(self, service: Service, text: str, accepted: str, before: str) -> str:
        words = {*stems(text), *stems(accepted)} - _IDLE
        points = {
            intent.name: sum(
                max(self.like(word, stem(other)) for other in (*name_words(intent.name), *stems(intent.description)))
                for word in words
            )
            + 0.5 * (intent.name == before)
            for intent in service.intents
        }
        return max(points, key=lambda name: points[name], default="NONE")

    def _requested(self, service: Service, text: str) -> list[str]:
        words = frozenset(stems(" ".join(_QUESTION.findall(text))))
        return sorted(slot.name for slot in service.slots if words and self._match(words, slot) >= 0.9)


class Meaning(Names):
    """The tracker that also reads descriptions, and compares words by their character n-grams."""

    def words(self, slot: Slot) -> tuple[str, ...]:
        """Returns the content words of the slot's description, and those of its name."""
        return _described(slot.name, slot.description)

    def like(self, word: str, other: str) -> float:
        """The cosine of the words' character n-grams, where it is high."""
        return _alike(word, other)


@lru_cache(1 << 16)
def _alike(word: str, other: str) -> float:
    from parapet.transforms.reports.meaning import of_grams

    if word == other:
        return 1.0
    likeness = of_grams(word, other) if min(len(word), len(other)) > 3 else 0.0
    return likeness if likeness >= 0.5 else 0.0


@lru_cache(1 << 14)
def _described(name: str, description: str) -> tuple[str, ...]:
    own = [stem(word) for word in reversed(name_words(name))]
    said = [word for word in stems(description) if word not in _IDLE]
    return tuple(dict.fromkeys([*own[:1], *said[:3], *own[1:], *said[3:]]))


def _told(service: Service) -> list[Slot]:
    """Lists the slots that a user can give a value for: those that intents take."""
    names = {name for intent in service.intents for name in (*intent.required_slots, *intent.optional_slots)}
    return [slot for slot in service.slots if slot.name in names]


def _number(text: str) -> str:
    return str(_SMALL.index(text.lower()) + 1) if text.lower() in _SMALL else text


def _offers(service: Service, frames: Sequence[Any]) -> dict[str, str]:
    """Returns what the system says: the values of its offers, information and confirmations, by slot."""
    told = {slot.name for slot in _told(service)}
    return {
        action.slot: action.values[0]
        for frame in frames
        if frame.service.service_name == service.service_name
        for action in frame.actions
        if action.act in ("OFFER", "CONFIRM", "INFORM") and action.slot in told and action.values
    }
