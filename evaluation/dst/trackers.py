"""Two trackers without training: ``names`` reads the names of slots, ``meaning`` also what the schema says of them.

    parapet evaluate --task dst --model names ...

Both find the same values in the same way: dates, times, numbers, names and possible values in what the user says, and
the values that the system offers and the user accepts. They differ in how they decide which slot a value belongs to.
``names`` compares the words beside a value and the words of the system's question with the words of slot names, word
by word, as a tracker does that has learnt the names of a schema. ``meaning`` compares them with names and
descriptions, by the similarity of character n-grams, so that another wording of the same costs it less.

Neither reads the slot names in the system's acts for values that the user says. Both read them for offers and
confirmations, whose values are the system's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from parapet.evaluation.dst.model import Context, Example
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.reports.meaning import of_grams
from parapet.transforms.reports.text import name_words


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?)"
)
_DAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_NTH = r"\d{1,2}(?:st|nd|rd|th)"
_SMALL = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_NUMBERS = _SMALL.split("|")
_NUMBER = rf"(?:\d+|{_SMALL})"
# The kinds of values, each by its form. An earlier kind takes precedence.
_FORMS = {
    "money": re.compile(r"\$\d[\d,.]*\d|\$\d|\b\d[\d,]* (?:dollars|bucks)\b", re.IGNORECASE),
    "phone": re.compile(r"\b\d{3}[- ]\d{3}[- ]\d{4}\b|\b\d{3}-\d{4}\b"),
    "address": re.compile(r"\b\d+ (?:[A-Z][\w.#-]*[ ,]*)+"),
    "time": re.compile(
        rf"\b(?:(?:quarter|half|{_NUMBER}) (?:past|to|after|before) {_NUMBER}|{_NUMBER}(?::\d\d)? ?[ap]\.?m\b|"
        rf"\d{{1,2}}:\d\d|{_NUMBER} o['\"’]?clock|(?:morning|afternoon|evening) {_NUMBER}(?::\d\d)?(?: o'clock)?|"
        rf"{_NUMBER}(?= in the (?:morning|afternoon|evening|night)))"
        r"(?: in the (?:morning|afternoon|evening|night))?(?![\w:])|\b(?:noon|midnight)\b",
        re.IGNORECASE,
    ),
    "date": re.compile(
        rf"\b(?:{_MONTH} (?:the )?\d{{1,2}}(?:st|nd|rd|th)?|{_NTH} of (?:{_MONTH}|(?:this|next) month)|(?:the )?{_NTH}(?! of)|"
        rf"(?:next |this |coming )?{_DAY}(?:,? (?:the )?{_NTH}|,? {_MONTH} {_NTH}| (?:this|next) week)?|"
        r"(?:the )?day after tomorrow|(?:later )?today|tomorrow|tonight)\b",
        re.IGNORECASE,
    ),
    "number": re.compile(rf"\b{_NUMBER}\b", re.IGNORECASE),
    "name": re.compile(
        r"\b[A-Z][\w'’&-]*(?:(?: (?:of|the|and|de|la|&|(?:in|on|at|for) the)){0,2} (?!I\b)[A-Z0-9][\w'’&-]*)*",
    ),
}  # fmt: skip
# The words in the name or the description of a slot that tell which kind of values it has. Names are of three sorts.
_KINDS = {
    "money": "price cost fare fee amount budget balance rent money charge",
    "phone": "phone telephone",
    "address": "address street",
    "time": "time hour clock",
    "date": "date day when",
    "number": "number count many quantity size people person guest seat ticket room passenger adult group",
    "place": "city town area location place region port harbour station airport origin destination neighbourhood district village municipality country where",
    "person": "author writer director actor artist singer instructor trainer teacher doctor dentist therapist stylist "
    "owner recipient receiver contact person host coach leader performer who",
    "name": "name title company line venue restaurant hotel shop store theater cinema movie film song album band "
    "event team museum attraction property salon account library branch gym studio operator track",
}
# What a preposition before a value says of its slot.
_CUES = {
    "in": "city town area location where place region",
    "near": "city town area location where place",
    "around": "city town area location where place",
    "from": "from origin source start departure depart departing leave leaving pickup sender",
    "to": "to destination end arrival arrive arriving land going toward reach receiver recipient",
    "leaving": "from origin source start departure depart leave leaving",
    "returning": "return returning back",
    "until": "end to checkout",
    "at": "name venue",
    "by": "author artist singer director writer",
    "for": "number people size",
    "of": "city town place",
}
_IDLE = _words(
    "a an and are as be been can could do does for has have he her his how i if in is it its me my of on or "
    "our she so that the their them there they this to us was we what when where whether which who will with "
    "would you your s t ll d m re ve user customer whose one out off by from at show tell flag boolean "
    "something given"
)
_ASKING = _words("when where who")
_BREAKS = _words("of at in on for to from by with that which who whose where when")
_REJECTION = re.compile(
    r"\b(?:another|others?|else|different|next one|instead|rather|besides|alternatives?|cheaper|try|search|look for|"
    r"not (?:quite |really |so )?(?:my|for me|sure|what|that|the)|too \w+|don't (?:like|want)|actually|sorry|change|wait|"
    r"make (?:that|it))\b|^\W*(?:no|nope|nah)\b",
    re.IGNORECASE,
)
_ACCEPTANCE = re.compile(
    r"\b(?:ok(?:ay)?|yes|yeah|yep|yup|sure|correct|right|agreed?|absolutely|perfect|great|good|fine|exactly|deal|"
    r"definitely|sounds?|looks|works?|wonderful|awesome|cool|excellent|nice|lovely|brilliant|alright|happy|love|adore|"
    r"interested|pick|choose|suits?|suitable|will do|you may|please do|go ahead|do (?:it|that|so)|it is|"
    r"thanks?|bye|goodbye|i like|that(?: one|'s it|'s the|'s what|'ll)|(?:is )?what i (?:want|need)|i(?:'d| would| will|'ll) (?:go|take|like|love|"
    r"visit|call|try|do|have)|take (?:it|that|the)|the (?:first|second|last|other) (?:one)?|(?:^|i'd |please )(?:book|"
    r"reserve|keep|hold|buy|get|put|sign|order))\b",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:i|we|let)(?:'d|'ll|'s| would| will)? (?:take|book|reserve|have) (?:it|that|this|them)\b", re.IGNORECASE
)
# An answer without a capital: "I'd like some soup, please"
_ANSWER = re.compile(
    r"^\W*(?:(?:oh|well|yes|ok|okay|sure|please|hi|hello|hm+)\W+)*"
    r"(?:(?:i|we)(?:'d| would|'m| am|'ll)? (?:really )?(?:like|want|need|prefer|love|have|looking for|in the mood for|"
    r"feel like)(?: to \w+)?|it(?:'s| is)|(?:find|get|show)(?: me)?|(?:how|what) about|maybe)?\s*(?:for )?"
    r"(?:some(?:thing)?|a|an|the|my|our|any)?\s*"
    r"(?P<value>[a-z][\w-]*(?: (?!(?:at|in|on|for|with|to|is|are|would|will|please|that|which|it|i|kind)\b)[a-z][\w-]*){0,3})",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:no|not|without|never|nope)\b|n't\b", re.IGNORECASE)
_NO_PREFERENCE = re.compile(
    r"\b(?:do(?:es)?n't (?:really )?(?:care|matter|mind)|(?:not|isn't) important|no preference|"
    r"any(?:thing|where|one)?(?: \w+)? (?:is fine|will do|would do|is ok(?:ay)?|is good|works)|whatever|up to you)\b",
    re.IGNORECASE,
)
_DOING = re.compile(
    r"\b(?:book|reserve|buy|purchase|order|get me|sign me up|keep|hold|put|make|schedule|arrange|play|rent|add|send|"
    r"pay|transfer|request|get|set up|reservation|appointment)\b",
    re.IGNORECASE,
)
_SEARCHING = re.compile(
    r"\b(?:find|search|look|show|which|what|any|are there|is there|does|list|suggest|recommend|know|check|see|where|"
    r"where's|fancy|like to|love to|something|some|other|another|instead)\b",
    re.IGNORECASE,
)
_NO_COUNT = _words("the that this another which good any nice am pm other first second last next")
_PARTY = _words("people person passenger guest adult group party size ticket")
_PEOPLE = re.compile(r"\s*(?:of us|people|persons?|adults?|guests?|friends|passengers?|travell?ers)\b")
# A question about what the system offers, and a refusal. The values in them are not what the user wants.
_IDLE_TALK = re.compile(
    r"\b(?:is|are|does|do|did|was|has|have) (?:it|they|this|that|these)\b[^?]*\?|\bhow \w+ (?:is|are) (?:it|they)\b|\bhow much\b|"
    r"\b(?:nothing|thank you|not today|not now)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?:[^.?!]|[.](?=\w))+[.?!]*")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_NO_NAMES = _words(
    "i i'm i'd i'll i've ok okay yes yeah no not sure thanks thank great good hello hi hey please what which "
    "who where when how can could would do does is are it it's that that's this they my we we'd let let's the "
    "a an for in on at from to and but so just perfect right correct well also book find tell shall sorry bye "
    "goodbye am pm mr mrs fine then any there's there actually maybe there will you hmm hm oh may might"
)
BEFORE, AFTER = 4, 3  # size of a value's context, in words
IN, JOINT = 1.5, 0.5
TRUTH = 0.5  # least score for a sentence to tell about a boolean slot
LEAST = 1.0  # least score for a slot to accept a value


class Value(msgspec.Struct, frozen=True):
    """A text that looks like a value: its kind, and the words around it."""

    text: str
    kind: str
    around: frozenset[str] = frozenset()
    cues: frozenset[str] = frozenset()  # what the preposition before it says of its slot
    is_alone: bool = False  # a single word whose capital may be due to the beginning of a sentence


def stem(word: str) -> str:
    """Returns a lower-case word without the ending of a plural."""
    word = word.lower().replace("’", "'").removesuffix("'s").removesuffix("'")
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) and len(word) > 3 else word


@lru_cache(1 << 14)
def stems(text: str) -> tuple[str, ...]:
    """Returns the words of a text, without their endings."""
    return tuple(map(stem, _WORD.findall(text)))


_KIND_STEMS = {kind: frozenset(map(stem, words.split())) for kind, words in _KINDS.items()}
_CUE_STEMS = {word: frozenset(map(stem, words.split())) for word, words in _CUES.items()}
_NAMES = ("name", "place", "person")
_VENUES = _KIND_STEMS["name"] | {"room"}


@lru_cache(1 << 14)
def values_in(text: str) -> tuple[Value, ...]:
    """Finds the texts that look like values, in order."""
    spans: list[tuple[int, int, str]] = []
    for kind, form in _FORMS.items():
        rest = list(text)
        for start, end, _ in spans:
            rest[start:end] = "\n" * (end - start)
        for match in form.finditer("".join(rest)):
            start, end = _trim_name(text, *match.span()) if kind == "name" else match.span()
            if start < end:
                spans.append((start, end, kind))
    spans.sort()
    values = []
    for i, (start, end, kind) in enumerate(spans):
        before = stems(re.split(r"[.?!;]", text[spans[i - 1][1] if i else 0 : start])[-1])[-BEFORE:]
        after = stems(re.split(r"[.?!;,]", text[end : spans[i + 1][0] if i + 1 < len(spans) else len(text)])[0])[:AFTER]
        after = after[: next((n for n, word in enumerate(after) if word in _CUE_STEMS or word in ("on", "and")), AFTER)]
        around = {*before, *after} - {*_CUE_STEMS}
        if kind == "number" and _PEOPLE.match(text[end:]):
            around |= _PARTY
        cue = next((word for word in reversed(before) if word not in ("the", "a", "this", "next")), "")
        if kind == "name" and text[end : end + 1] == " " and re.match(r" (?:the )?[a-z]+s\b(?<!s's)", text[end:]):
            cue = cue if cue in ("from", "to", "by") else "in"  # "Boston museums" are museums in Boston
        if kind == "number" and before[-1:] == ("not",) or (text[start:end] == "one" and {*before[-1:]} & _NO_COUNT):
            continue
        cues = _CUE_STEMS.get(cue, frozenset()) | {cue} - {""}
        is_alone = " " not in text[start:end] and bool(re.search(r"(?:^|[.?!:])\s*$", text[:start]))
        values.append(
            Value(text[start:end].rstrip(" ,.&'"), kind, frozenset(around), cues, kind == "name" and is_alone)
        )
    return tuple(values)


def _trim_name(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the place of a name without words before it that have a capital as the first of a sentence."""
    words = [(start + word.start(), word[0]) for word in re.finditer(r"\S+", text[start:end])]
    articles = {"The", "A"} if len(words) > 2 else set()  # of titles
    while words and words[0][1] not in articles and _is_usual(words[0][1]):
        words = words[1:]
    return (words[0][0], end) if words else (start, start)


def _is_usual(word: str) -> bool:
    word = word.lower().strip(".,'’")
    return word in _NO_NAMES or any(usual.fullmatch(word) for usual in (_ACCEPTANCE, _REJECTION, _DOING, _SEARCHING))


class Names:
    """The tracker that reads the names of slots."""

    unknown = 0.0  # how well a name suits a slot whose words do not tell a kind

    # How a slot or an intent is known. Meaning does this in another way.

    def words(self, element: Slot | Intent) -> dict[str, float]:
        """Returns the words that tell of an element, each with its weight: those of its name, the last one first."""
        return {stem(word): 1.0 for word in reversed(name_words(element.name))}

    def kinds(self, slot: Slot) -> dict[str, float]:
        """Returns the kinds of values that a slot takes, from 0 to 1: that of the last word of its name."""
        last = next(iter(self.words(slot)), "")
        return {kind: 1.0 for kind, telling in _KIND_STEMS.items() if last in telling}

    def like(self, word: str, other: str) -> float:
        """How similar two words are, from 0 to 1."""
        return float(word == other)

    # What both do.

    def predict(self, batch: Sequence[Example]) -> list[dict[str, Any]]:
        """Predicts a state for each example."""
        return [self._state(example) for example in batch]

    def _state(self, example: Example) -> dict[str, Any]:
        service, name = example.service, example.service.service_name
        state: dict[str, str] = {}
        offers: dict[str, str] = {}
        confirmed: dict[str, str] = {}
        intent: Intent | None = None
        question, speaking, offered = "", "", ""
        frames = example.frames or (((Context(service)),),) * len(example.history)
        for (speaker, text), contexts in zip(example.history, frames, strict=True):
            context = next((context for context in contexts if context.service.service_name == name), None)
            if speaker == "SYSTEM":
                if context is None:
                    question, confirmed = "", {}
                    continue
                question = " ".join(part for part in _SENTENCE.findall(text) if part.rstrip().endswith("?"))
                acts = {act.act for act in context.actions}
                slots = {slot.name for slot in _of_user(service)}
                values = {
                    kind: {
                        act.slot: act.values[0]
                        for act in context.actions
                        if act.act == kind and act.values and act.slot in slots
                    }
                    for kind in ("OFFER", "CONFIRM")
                }
                offers = values["OFFER"] or offers
                confirmed = values["CONFIRM"]
                offered = next((a.values[0] for a in context.actions if a.act == "OFFER_INTENT" and a.values), "")
                if "NOTIFY_SUCCESS" in acts:
                    offers = {}
                continue
            if context is None:
                continue
            if len(contexts) > 1:
                text = self._part(text, is_old=name == speaking)
            speaking = name
            sentences = [part.strip() for part in _SENTENCE.findall(text)]
            wishes = " ".join(part for part in sentences if not _IDLE_TALK.search(part))
            statements = " ".join(part for part in sentences if not part.endswith("?"))
            rejects = bool(_REJECTION.search(text))
            rejects = rejects and not _DECISION.search(text)
            accepts = bool(_ACCEPTANCE.search(statements)) and not (rejects and not confirmed)
            likely = [
                other
                for other in service.intents
                if (confirmed and confirmed.keys() <= _taken(other)) or (offered == other.name and accepts)
            ]
            suits = self._suits(service, wishes, question, state)
            intent = self._intent(likely or service.intents, service, text, intent, suits)
            said = self._said(service, _taken(intent), wishes, question, suits)
            if confirmed:
                is_right = not rejects and not _NEGATION.search(text) and not confirmed.keys() & said.keys()
                state |= {slot: value for slot, value in confirmed.items() if is_right or slot in state}
                offers = {}
            elif accepts or rejects:
                state |= offers if accepts else {}
                offers = {}
            state |= said
            confirmed = {}
        return {
            "active_intent": intent.name if intent else "NONE",
            "requested_slots": self._requested(service, example.history[-1][1]),
            "slot_values": {slot: [value] for slot, value in state.items()},
        }

    def _part(self, text: str, is_old: bool) -> str:
        """Returns what a turn about two services says of the earlier or of the later one."""
        sentences = _SENTENCE.findall(text)
        return sentences[0] if is_old else " ".join(sentences[1:] or sentences)

    def _match(self, words: Collection[str], element: Slot | Intent, common: Counter[str]) -> float:
        """How many of the words tell of an element. Words count less that tell of several."""
        own = [
            (word, weight / max(common[word], 1))
            for word, weight in self.words(element).items()
            if word not in _IDLE or word in _CUE_STEMS
        ]
        return sum(max((self.like(word, other) * weight for other, weight in own), default=0.0) for word in words)

    def _common(self, service: Service) -> Counter[str]:
        elements: list[Slot | Intent] = [*service.slots, *service.intents]
        return Counter(word for element in elements for word in self.words(element))

    def _points(
        self, value: Value, slot: Slot, asked: Collection[str], state: dict[str, str], common: Counter[str]
    ) -> float:
        """How well a value suits a slot; 0 if it cannot be one of its values."""
        kinds = self.kinds(slot)
        is_asked = slot.name in asked
        beside = self._match(value.around, slot, common)
        beside += max((self._match([word], slot, common) for word in value.cues), default=0.0)
        if slot.is_categorical:
            fits = value.kind == "number" and _digits(value.text) in slot.possible_values
            alone = 0.0 if value.text.lower() in ("1", "one") else max(self.unknown, kinds.get("number", 0.0))
            return fits and (1.0 if beside or is_asked else alone) + beside + is_asked
        if value.kind != "name":
            fit = kinds.get(value.kind, 0.0)
            return fit and (beside or is_asked or value.kind != "number") and fit + beside + is_asked
        last = stems(value.text)[-1:]
        if (value.is_alone and not is_asked) or (kinds and "name" not in kinds and last[0] in _VENUES):
            return 0.0
        fit = max(kinds.get(sort, 0.0) for sort in _NAMES)
        if not fit and not kinds:
            fit = self.unknown
        sort = max((kinds.get(sort, 0.0) for sort in _NAMES if value.cues & _KIND_STEMS[sort]), default=0.0)
        # "Jane Doe" is more often a person than a title, "The House of Doe" is not
        shape = 0.2 * ("person" in kinds) if re.fullmatch(r"[A-Z]\w+ [A-Z]\w+", value.text) else 0.0
        head = shape + self._match(last, slot, common)
        return fit and fit + beside + is_asked + head + 0.5 * sort + 2.0 * (state.get(slot.name) == value.text)

    def _suits(self, service: Service, text: str, question: str, state: dict[str, str]) -> dict[tuple[int, str], float]:
        """How well each value in a text suits each slot."""
        usable, common = _of_user(service), self._common(service)
        asked = self._asked(usable, question, common)
        return {
            (i, slot.name): self._points(value, slot, asked, state, common)
            for i, value in enumerate(values_in(text))
            for slot in usable
        }

    def _said(
        self, service: Service, taken: Collection[str], text: str, question: str, suits: dict[tuple[int, str], float]
    ) -> dict[str, str]:
        """Assigns the values in what the user says to slots, the best pairs first."""
        usable, common = _of_user(service), self._common(service)
        asked = self._asked(usable, question, common)
        slots = {slot.name: slot for slot in usable}
        values, words = values_in(text), stems(text)
        pairs = sorted(
            ((points + IN * (name in taken), i, name) for (i, name), points in suits.items() if points > 0),
            key=lambda pair: (-pair[0], pair[1]),
        )
        said, placed = dict[str, str](), set[int]()
        for points, i, name in pairs:
            if points >= LEAST and i not in placed and name not in said:
                said[name] = _digits(values[i].text) if slots[name].is_categorical else values[i].text
                placed.add(i)
        for slot in usable:
            if slot.is_categorical and slot.name not in said:
                value = (
                    self._truth(slot, text, slot.name in asked, common)
                    if _is_boolean(slot)
                    else self._listed(slot, words)
                )
                if value:
                    said[slot.name] = value
        for name in sorted(asked - said.keys()):
            answer = _ANSWER.match(text)
            if answer and not slots[name].is_categorical and {*self.kinds(slots[name])} <= {*_NAMES} and len(asked) < 3:
                own = self.words(slots[name])
                phrase = [word for word in answer["value"].split() if stem(word) not in own]
                if phrase and not any(map(_is_usual, phrase)) and not values_in(" ".join(phrase)):
                    said[name] = " ".join(phrase)
        if _NO_PREFERENCE.search(text):
            said |= {name: "dontcare" for name in asked if name not in said}
        return said

    def _listed(self, slot: Slot, words: Sequence[str]) -> str:
        """Returns the possible value that is said last."""
        last, place = "", -1
        for value in slot.possible_values:
            own = stems(value)
            places = [i for i in range(len(words)) if words[i : i + len(own)] == own and not value.isdigit()]
            if places and places[-1] > place:
                last, place = value, places[-1]
        return last

    def _truth(self, slot: Slot, text: str, is_asked: bool, common: Counter[str]) -> str:
        for sentence in _SENTENCE.findall(text):
            words = frozenset(stems(sentence)) - {"person", "people", "has", "offer"}
            if self._match(words, slot, common) >= TRUTH:
                return "False" if _NEGATION.search(sentence) else "True"
        if is_asked and (answer := re.match(r"\W*(yes|yeah|yep|sure|no|nope)\b", text, re.IGNORECASE)):
            return "False" if answer[1].lower().startswith("n") else "True"
        return ""

    def _asked(self, usable: Sequence[Slot], question: str, common: Counter[str]) -> set[str]:
        """Returns the slots that a question of the system is about."""
        asked = set()
        for part in re.split(r"[,?]|\b(?:and|or)\b", question):
            words = set(stems(part))
            kinds = {"when": {"date"}, "where": {"place", "city", "town"}, "who": {"person"}, "many": {"number"}}
            for word, telling in kinds.items():
                words |= telling if word in words else set()
            points = {slot.name: self._match(words, slot, common) for slot in usable}
            best = max(points, key=lambda name: points[name], default="")
            if best and points[best] >= 0.5:
                asked.add(best)
        return asked

    def _intent(
        self,
        intents: Sequence[Intent],
        service: Service,
        text: str,
        before: Intent | None,
        suits: dict[tuple[int, str], float],
    ) -> Intent | None:
        """Returns the intent that the user follows: by the words, the verbs, and the slots that suit the values."""
        words, common = frozenset(stems(text)), self._common(service)
        does, searches = bool(_DOING.search(text)), bool(_SEARCHING.search(text))

        def points(intent: Intent) -> float:
            verb = does if intent.is_transactional else searches and not does
            taken, best = _taken(intent), dict[int, float]()
            for (i, name), suit in suits.items():
                best[i] = max(best.get(i, 0.0), suit * (name in taken))
            known = 0.8 * (before is not None and intent.name == before.name)
            return (
                min(self._match(words, intent, common), 2)
                + verb
                + known
                + 0.1 * min(len(taken), 5)
                + JOINT * sum(best.values())
            )

        return max(intents, key=points, default=None)

    def _requested(self, service: Service, text: str) -> list[str]:
        questions = " ".join(part for part in _SENTENCE.findall(text) if part.rstrip().endswith("?"))
        words, common = frozenset(stems(questions)), self._common(service)
        return sorted(slot.name for slot in service.slots if words and self._match(words, slot, common) >= 0.9)


class Meaning(Names):
    """The tracker that also reads descriptions, and compares words by their similarity."""

    unknown = 0.6

    def words(self, element: Slot | Intent) -> dict[str, float]:
        """Returns the words of the element's name and the content words of its description."""
        return _described(element.name, element.description)[0]

    def kinds(self, slot: Slot) -> dict[str, float]:
        """Returns the kinds that the words tell; the nouns that head the name and the description tell most."""
        words, heads = _described(slot.name, slot.description)
        return {
            kind: fit
            for kind, telling in _KIND_STEMS.items()
            if (
                fit := max(
                    (max(_alike(word, other) for other in telling) * (1 if word in heads else 0.5) for word in words),
                    default=0.0,
                )
            )
            >= 0.4
        }

    def like(self, word: str, other: str) -> float:
        """The similarity of the words where it is high."""
        return _alike(word, other)


@lru_cache(1 << 16)
def _alike(word: str, other: str) -> float:
    if word == other:
        return 1.0
    likeness = of_grams(word, other) if word[:3] == other[:3] else 0.0  # English inflects at the end
    return likeness if likeness >= 0.5 else 0.0


@lru_cache(1 << 14)
def _described(name: str, description: str) -> tuple[dict[str, float], frozenset[str]]:
    """Returns the words of a name and of a description, with weights; and the nouns that head them."""
    named, described = _phrases(stems(" ".join(name_words(name)))), _phrases(stems(description))
    words = {word: 0.6 for phrase in described for word in phrase}
    words |= {word: 1.0 for phrase in named for word in phrase}
    return words, frozenset(word for phrases in (named, described) for word in phrases[0][-2:])


def _phrases(words: Sequence[str]) -> list[list[str]]:
    """Splits a description into phrases, of which the first has the noun that tells what is described."""
    phrases: list[list[str]] = [[]]
    for word in words:
        if word in _BREAKS and phrases[-1]:
            phrases.append([])
        if word not in _IDLE or word in _ASKING or word in _CUE_STEMS:
            phrases[-1].append(word)
    return phrases


def _of_user(service: Service) -> list[Slot]:
    """Lists the slots that a user can give a value for: those that intents take."""
    names = {name for intent in service.intents for name in (*intent.required_slots, *intent.optional_slots)}
    return [slot for slot in service.slots if slot.name in names]


def _taken(intent: Intent | None) -> set[str]:
    return {*intent.required_slots, *intent.optional_slots} if intent else set()


def _is_boolean(slot: Slot) -> bool:
    return {value.lower() for value in slot.possible_values} <= {"true", "false"}


def _digits(text: str) -> str:
    return str(_NUMBERS.index(text.lower()) + 1) if text.lower() in _NUMBERS else text
