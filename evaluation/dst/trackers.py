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

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from parapet.evaluation.dst.model import Context, Example
from parapet.schemas.dialogue import Action
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.report.meaning import of_grams
from parapet.transforms.report.text import name_words


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_MONTH = "(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*"
_NTH = r"\d{1,2}(?:st|nd|rd|th)"
_SMALL = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
NUMBERS = _SMALL.split("|")
_NUMBER = rf"(?:\d+|{_SMALL})"
_PART = "(?:morning|afternoon|evening|night)"
# The kinds of values, each by its form. An earlier kind takes precedence.
_FORMS = {
    "money": _form(r"\$\d[\d,.]*\d|\$\d|\b\d[\d,]* (?:dollars|bucks)\b"),
    "phone": re.compile(r"\b\d{3}-(?:\d{3}-)?\d{4}\b"),
    "time": _form(
        rf"\b(?:(?:quarter|half|{_NUMBER}) (?:past|to|after|before) {_NUMBER}|{_NUMBER}(?::\d\d)? ?[ap]\.?m\b|"
        rf"\d{{1,2}}:\d\d|{_NUMBER} o['\"’]?clock|{_PART} {_NUMBER}(?::\d\d)?(?: o'clock)?|"
        rf"{_NUMBER}(?= in the {_PART}))(?: in the {_PART})?(?![\w:])|\b(?:noon|midnight)\b"
    ),
    "date": _form(
        rf"\b(?:{_MONTH} (?:the )?\d{{1,2}}(?:st|nd|rd|th)?|{_NTH} of (?:{_MONTH}|(?:this|next) month)|"
        rf"(?:the )?{_NTH}(?! of)|(?:the )?day after tomorrow|(?:later )?today|tomorrow|tonight|"
        rf"(?:next |this |coming )?(?:mon|tues|wednes|thurs|fri|satur|sun)day"
        rf"(?:,? (?:the )?{_NTH}|,? {_MONTH} {_NTH}| (?:this|next) week)?)\b"
    ),
    "number": _form(rf"(?<!\bnot )(?<!\b[ap]m )(?<!\bthe )(?<!\bth(?:at|is) )\b{_NUMBER}\b(?![ -]way\b)"),
    "name": re.compile(
        r"\b[A-Z][\w'’&-]*(?:(?: (?:of|the|and|de|la|&|(?:in|on|for) the)){0,2} (?!I\b)[A-Z0-9][\w'’&-]*)*"
    ),
}
_COUNTED = _words("people person guest seat ticket passenger adult group")
# The words in the name or the description of a slot that tell which kind of values it has. Names are of three sorts.
_KINDS = {
    "money": _words("price cost fare fee amount budget balance rent money charge"),
    "time": _words("time hour clock"),
    "date": _words("date day when"),
    "number": _words("number count many quantity size room") | _COUNTED,
    "place": _words(
        "city town area location place region port station airport origin destination village country where"
    ),
    "person": _words("author director actor artist singer instructor trainer teacher doctor stylist owner person who"),
    "name": _words("name title venue restaurant hotel shop store movie film song album event museum salon library gym"),
}
_SORTS = ("name", "place", "person")
_VENUES = _KINDS["name"] | {"room"}
# What a preposition before a value says of its slot.
_CUES = {
    **dict.fromkeys(["in", "near", "around", "of"], _words("city town area location where place region")),
    "from": _words("from origin source start departure depart departing leave leaving pickup sender"),
    "to": _words("to destination end arrival arrive arriving land going toward reach receiver recipient"),
    "for": _COUNTED | {"size"},
}
IDLE = _words(
    "a an and are as be been can could do does for has have he her his how i if in is it its me my of on or our she so "
    "that the their them there they this to us was we what when where whether which who will with would you your s t d "
    "ll m re ve user customer whose one out off by from at show tell flag boolean something given i'm i'd i'll i've "
    "let's it's that's there's hello hi hey please thank not but so just well also maybe actually then"
)
_BREAKS = _words("of at in on for to from by with that which who whose where when")
_REJECTION = _form(
    r"\b(?:another|others?|else|different|next one|instead|rather|besides|alternatives?|cheaper|try|search|look for|"
    r"not (?:quite |really |so )?(?:my|for me|sure|what|that|the|today|now)|too \w+|don't (?:like|want)|actually|sorry|"
    r"later|think (?:it|about)|show me|change|wait|make (?:that|it))\b|^\W*(?:no|nope|nah)\b(?!.* take (?:it|that))"
)
_APPROVAL = _form(
    r"\b(?:ok(?:ay)?|yes|yeah|yep|sure|right|great|good|perfect|fine|nice|cool|excellent|awesome|wonderful|sounds|looks|"
    r"works|thanks?|take (?:it|that|the)|i(?:'d| would|'ll| will)? (?:like|love)|that one)\b"
)
_NEGATION = _form(r"\b(?:no|not|without|never|nope)\b|n't\b")
_NO_PREFERENCE = _form(
    r"\b(?:(?:is|are)(?: not|n't) important|do(?:es)?n't (?:really )?(?:care|matter|mind)|no preference|whatever|"
    r"up to you|any(?:thing|where|one)?(?: \w+)? (?:is fine|will do|would do|is ok(?:ay)?|is good|works))\b"
)
_DOING = _form(
    r"\b(?:book|reserve|buy|purchase|order|get|sign me up|keep|hold|put|make|schedule|arrange|play|rent|add|send|pay|"
    r"transfer|request|set up|reservation|appointment)\b"
)
_SEARCHING = _form(
    r"\b(?:find|search|look|show|which|what|any|are there|is there|does|list|suggest|recommend|know|check|see|where|"
    r"fancy|like to|love to|something|some|other|another|instead)\b"
)
# A question about what the system offers. The values in it are not what the user wants.
_QUESTION = _form(
    r"^\W*(?:(?:and|also|but|well|ok|okay) )?(?:what|who|which|how|where|when|is|are|does|did|do they|"
    r"(?:please |can you |could you )*(?:give|tell|let) me|please confirm|i need (?:the|their))\b(?! about)"
)
_YES_OR_NO = _form(r"\W*(?:(?P<yes>yes|yeah|yep|sure)|no|nope)\b")
# An answer without a capital: "I'd like some soup, please"
_ANSWER = _form(
    r"^(?:\W*(?:oh|well|yes|ok|sure|please|i|we|i'd|i'm|would|am|like|want|need|prefer|love|looking for|find|me|maybe|"
    r"something|some|an?|the|my|our|for|how about|it|it's|is|has|there's)\b)*\W*(?P<value>[a-z-]+"
    r"(?: (?!(?:at|in|on|for|with|to|is|are|would|will|please|that|which|it|i|kind)\b)[a-z-]+){0,2})"
)
_SENTENCE = re.compile(r"(?:[^.?!]|[.](?=\w))+[.?!]*")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
LEAST = 1.5  # least score for a slot to accept a value
OFFERED = 9.0  # score of a value that the system has offered
TELLS = 0.5  # least score for a sentence to be about a slot


class Value(msgspec.Struct, frozen=True):
    """A text that looks like a value: its kind, and the words around it.

    Attributes:
      cues: what the preposition before it says of its slot.
      is_alone: whether it is a word with a capital that may be due to the beginning of a sentence.
    """

    text: str
    kind: str
    around: frozenset[str] = frozenset()
    cues: frozenset[str] = frozenset()
    is_alone: bool = False


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


def sentences(text: str) -> list[str]:
    """Splits a text after full stops, question marks and exclamation marks."""
    return [sentence.strip() for sentence in _SENTENCE.findall(text) if not sentence.isspace()]


@lru_cache(1 << 14)
def values_in(text: str) -> tuple[Value, ...]:
    """Finds the texts that look like values, in order."""
    spans: list[tuple[int, int, str]] = []
    rest = text
    for kind, form in _FORMS.items():
        for match in form.finditer(rest):
            start, end = _trim(text, *match.span()) if kind == "name" else match.span()
            if start < end:
                spans.append((start, end, kind))
                rest = rest[:start] + "\n" * (end - start) + rest[end:]
    spans.sort()
    borders = [0, *(place for start, end, _ in spans for place in (start, end)), len(text)]
    values = []
    for i, (start, end, kind) in enumerate(spans):
        before = stems(re.split(r"[.?!;]", text[borders[2 * i] : start])[-1])[-4:]
        after = stems(re.split(r"[.?!;,]", text[end : borders[2 * i + 3]])[0])[:3]
        after = after[: next((n for n, word in enumerate(after) if word in _BREAKS - {"of"} or word == "and"), 3)]
        around = frozenset({*before, *after} - {*_CUES})
        around |= _COUNTED if kind == "number" and around & (_COUNTED | {"us"}) else frozenset()
        cue = next((word for word in reversed(before) if word not in ("the", "a", "this", "next")), "")
        if kind == "name" and cue not in ("from", "to", "by") and re.match(r" (?:the )?[a-z]+s\b", text[end:]):
            cue = "in"  # "Boston museums" are museums in Boston
        is_alone = kind == "name" and not re.search(r"[^.?!:\s]\s*$", text[:start]) and " " not in text[start:end]
        cues = _CUES.get(cue, frozenset()) | {cue} - {""}
        values.append(Value(text[start:end].rstrip(" ,.&'"), kind, around, cues, is_alone))
    return tuple(values)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the place of a name without words before it that have a capital as the first of a sentence."""
    words = text[start:end].split(" ")
    articles = {"The", "A"} if len(words) > 2 else set()  # of titles
    while words and words[0] not in articles and _is_usual(words[0].lower().strip(".,'’")):
        start += len(words.pop(0)) + 1
    return start, end


def _is_usual(word: str) -> bool:
    return word.lower() in IDLE or any(usual.fullmatch(word) for usual in (_APPROVAL, _REJECTION, _DOING, _SEARCHING))


class Names:
    """The tracker that reads the names of slots."""

    unknown = 0.0  # how well a name suits a slot whose words do not tell a kind

    def words(self, element: Slot | Intent) -> dict[str, float]:
        """Returns the words that tell of an element, each with its weight: those of its name, the last one first."""
        return {stem(word): 1.0 for word in reversed(name_words(element.name))}

    def kinds(self, slot: Slot) -> dict[str, float]:
        """Returns the kinds of values that a slot takes, from 0 to 1: that of the last word of its name."""
        last = next(iter(self.words(slot)), "")
        return {kind: 1.0 for kind, telling in _KINDS.items() if last in telling}

    def like(self, word: str, other: str) -> float:
        """How similar two words are, from 0 to 1."""
        return float(word == other)

    def predict(self, batch: Sequence[Example]) -> list[dict[str, Any]]:
        """Predicts a state for each example."""
        return [_Dialogue(self, example.service).state(example) for example in batch]


class Meaning(Names):
    """The tracker that also reads descriptions, and compares words by their similarity."""

    unknown = 0.6

    def words(self, element: Slot | Intent) -> dict[str, float]:
        """Returns the words of the element's name and the content words of its description."""
        return _described(element.name, element.description)[0]

    def kinds(self, slot: Slot) -> dict[str, float]:
        """Returns the kinds that the words tell; the nouns that head the name and the description tell most."""
        return _described(slot.name, slot.description)[1]

    def like(self, word: str, other: str) -> float:
        """The similarity of the words where it is high."""
        return _alike(word, other)


@lru_cache(1 << 16)
def _alike(word: str, other: str) -> float:
    likeness = of_grams(word, other) if word[:3] == other[:3] else 0.0  # English inflects at the end
    return likeness if likeness >= 0.5 else 0.0


@lru_cache(1 << 14)
def _described(name: str, description: str) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the words of a name and of a description, with weights; and the kinds that they tell."""
    named, described = _phrases(stems(" ".join(name_words(name)))), _phrases(stems(description))
    words = {word: 0.6 for phrase in described for word in phrase}
    words |= {word: 1.0 for phrase in named for word in phrase}
    heads = {word for phrases in (named, described) for word in phrases[0][-2:]}
    kinds: dict[str, float] = {}
    for kind, telling in _KINDS.items():
        likes = [max(_alike(word, other) for other in telling) * (1 if word in heads else 0.5) for word in words]
        kinds |= {kind: max(likes)} if max(likes, default=0.0) >= 0.4 else {}
    return words, kinds


def _phrases(words: Sequence[str]) -> list[list[str]]:
    """Splits a description into phrases, of which the first has the noun that tells what is described."""
    phrases: list[list[str]] = [[]]
    for word in words:
        if word in _BREAKS and phrases[-1]:
            phrases.append([])
        if word not in IDLE or word in _CUES:
            phrases[-1].append(word)
    return phrases


class _Dialogue:
    """What is known in a dialogue of the state of a service."""

    def __init__(self, tracker: Names, service: Service) -> None:
        self.tracker, self.service = tracker, service
        names = set().union(*map(_slots, service.intents))
        self.slots = {slot.name: slot for slot in service.slots if slot.name in names}
        elements: list[Slot | Intent] = [*service.slots, *service.intents]
        words_of = {id(element): tracker.words(element) for element in elements}
        common = Counter(word for words in words_of.values() for word in words if word not in IDLE or word in _CUES)
        # Of each element, the words that tell of it, with weights. Words count less that tell of several.
        self.own = {
            element: [(word, weight / common[word]) for word, weight in words.items() if word in common]
            for element, words in words_of.items()
        }
        self.values, self.offers, self.confirmation = dict[str, str](), dict[str, str](), dict[str, str]()
        self.intent: Intent | None = None
        self.question, self.proposal, self.has_offered = "", "", False

    def state(self, example: Example) -> dict[str, Any]:
        """Reads the dialogue and returns the state after it."""
        is_current = False
        frames = example.frames or ((Context(self.service),),) * len(example.history)
        for (speaker, text), contexts in zip(example.history, frames, strict=True):
            context = next((context for context in contexts if context.service == self.service.service_name), None)
            if speaker == "SYSTEM":
                self.listen(text if context else "", context.actions if context else ())
            elif context:
                parts = sentences(text)
                if len(contexts) > 1 and len(parts) > 1:  # the user leaves one service, and turns to another
                    parts = parts[:1] if is_current else parts[1:]
                self.read(parts)
            is_current = context is not None
        words = stems(" ".join(part for part in sentences(example.history[-1][1]) if part.endswith("?")))
        return {
            "active_intent": self.intent.name if self.intent else "NONE",
            "requested_slots": sorted(slot.name for slot in self.service.slots if self.match({*words}, slot) >= 0.9),
            "slot_values": {slot: [value] for slot, value in self.values.items()},
        }

    def listen(self, text: str, actions: Sequence[Action]) -> None:
        """Notes what the system asks, offers and wants to have confirmed."""
        acts: dict[str, dict[str, str]] = {}
        for action in actions:
            if action.values and (action.slot in self.slots or action.act == "OFFER_INTENT"):
                acts.setdefault(action.act, {})[action.slot] = action.values[0]
        self.question = " ".join(part for part in sentences(text) if part.endswith("?"))
        self.offers = acts.get("OFFER", self.offers)
        self.has_offered = self.has_offered or bool(self.offers)
        self.confirmation = acts.get("CONFIRM", {})
        self.proposal = next(iter(acts.get("OFFER_INTENT", {}).values()), "")

    def read(self, parts: Sequence[str]) -> None:
        """Updates the state with what the user says."""
        text = " ".join(parts)
        rejects = bool(_REJECTION.search(text))
        statements = [part for part in parts if part[-1] != "?" and not _QUESTION.search(part)]
        accepts = not rejects and (len(statements) == len(parts) or any(map(_APPROVAL.search, statements)))
        asks_about_offers = self.has_offered and not rejects
        wishes = " ".join(part for part in parts if not (asks_about_offers and _QUESTION.search(part)))
        in_question = self.in_question()
        suits = {
            (i, name): self.suit(value, slot, name in in_question)
            for i, value in enumerate(values_in(wishes))
            for name, slot in self.slots.items()
        }
        proposed = [intent for intent in self.service.intents if accepts and intent.name == self.proposal]
        intents = proposed or self.service.intents
        previous = self.intent
        self.intent = max(intents, key=lambda intent: self.intent_score(intent, text, suits), default=None)
        if wishes and self.intent and self.intent.is_transactional and self.intent is not previous:
            accepts = True
        values = self.assign(wishes, suits, in_question)
        if self.confirmation:
            is_right = not rejects and not _NEGATION.search(text) and not self.confirmation.keys() & values.keys()
            self.values |= {slot: v for slot, v in self.confirmation.items() if is_right or slot in self.values}
        elif accepts:
            self.values |= self.offers
        if self.confirmation or accepts or rejects:
            self.offers = {}
        self.values |= values

    def match(self, words: Collection[str], element: Slot | Intent) -> float:
        """How many of the words tell of an element."""
        own, like = self.own[id(element)], self.tracker.like
        return sum(max((like(word, other) * weight for other, weight in own), default=0.0) for word in words)

    def suit(self, value: Value, slot: Slot, is_in_question: bool) -> float:
        """How well a value suits a slot; 0 if it cannot be one of its values."""
        if value.text.lower() == self.offers.get(slot.name, "").lower():
            return OFFERED
        kinds, last = self.tracker.kinds(slot), stems(value.text)[-1:]
        beside = self.match(value.around, slot) + max((self.match([cue], slot) for cue in value.cues), default=0.0)
        evidence = beside + is_in_question
        if slot.is_categorical:
            if value.kind != "number" or _digits(value.text) not in slot.possible_values:
                return 0.0
            is_count = _digits(value.text) != "1" and max(self.tracker.unknown, kinds.get("number", 0.0))
            return (1.0 if evidence else float(is_count)) + evidence
        if value.kind != "name":
            fit = kinds.get(value.kind, 0.0) if evidence or value.kind != "number" else 0.0
            return fit and fit + evidence
        if (value.is_alone and not is_in_question) or (kinds and kinds.get("name", 0.0) < 0.8 and {*last} & _VENUES):
            return 0.0
        fit = max(kinds.get(sort, 0.0) for sort in _SORTS) if kinds else self.tracker.unknown
        # "Jane Doe" is rather a person than a title, "The House of Doe" is not.
        person = 0.2 * ("person" in kinds) * bool(re.fullmatch(r"[A-Z]\w+ [A-Z]\w+", value.text))
        return fit and fit + evidence + self.match(last, slot) + person

    def in_question(self) -> set[str]:
        """Returns the slots that the system's question is about."""
        names = set()
        for part in re.split(r"[,?]|\b(?:and|or)\b", self.question):
            points = {name: self.match({*stems(part)}, slot) for name, slot in self.slots.items()}
            best = max(points, key=lambda name: points[name], default="")
            names |= {best} if best and points[best] >= TELLS else set()
        return names

    def intent_score(self, intent: Intent, text: str, suits: dict[tuple[int, str], float]) -> float:
        """How well an intent suits a text: its words, its verbs, and the slots that its values suit."""
        does, slots = bool(_DOING.search(text)), _slots(intent)
        verb = does if intent.is_transactional else not does and bool(_SEARCHING.search(text))
        best: dict[int, float] = {}
        for (i, name), suit in suits.items():
            best[i] = max(best.get(i, 0.0), suit * (name in slots))
        words = self.match({*stems(text)}, intent)
        return words + verb + 0.8 * (intent is self.intent) + 0.1 * min(len(slots), 5) + 0.5 * sum(best.values())

    def assign(self, text: str, suits: dict[tuple[int, str], float], in_question: set[str]) -> dict[str, str]:
        """Assigns the values in what the user says to slots, the best pairs first."""
        values, assigned, placed = values_in(text), dict[str, str](), set[int]()
        bonus = dict.fromkeys(_slots(self.intent) if self.intent else (), 1.5)
        scores = {pair: suit + bonus.get(pair[1], 0.0) for pair, suit in suits.items() if suit > 0}
        for i, name in sorted(scores, key=lambda pair: (-scores[pair], pair[0])):
            if scores[i, name] >= LEAST and i not in placed and name not in assigned:
                assigned[name] = _digits(values[i].text) if self.slots[name].is_categorical else values[i].text
                placed.add(i)
        for name, slot in self.slots.items():
            value = assigned.get(name) or self.choose(slot, text, name in in_question)
            assigned |= {name: value} if value else {}
        return assigned

    def choose(self, slot: Slot, text: str, is_in_question: bool) -> str:
        """Returns no preference, the possible value that the user says last, or an answer in other words."""
        parts = sentences(text)
        about = parts if is_in_question else [part for part in parts if self.match({*stems(part)}, slot) >= TELLS]
        if any(map(_NO_PREFERENCE.search, about)):
            return "dontcare"
        if not slot.is_categorical:
            return self.answer(slot, text) if is_in_question and not values_in(text) else ""
        if {value.lower() for value in slot.possible_values} <= {"true", "false"}:
            return self.truth(slot, text, is_in_question and slot.name not in self.confirmation)
        spoken = f" {' '.join(stems(text))} "
        places = {v: spoken.rfind(f" {' '.join(stems(v))} ") for v in slot.possible_values if not v.isdigit()}
        last = max(places, key=lambda value: places[value], default="")
        return last if last and places[last] >= 0 else ""

    def truth(self, slot: Slot, text: str, is_in_question: bool) -> str:
        """Returns whether the user wants what the slot tells, or the answer yes or no."""
        for part in sentences(text):
            is_wish = part[-1] != "?" or part.startswith("Which ")
            if is_wish and self.match({*stems(part)}, slot) >= TELLS:
                return str(not _NEGATION.search(part))
        answer = _YES_OR_NO.match(text) if is_in_question else None
        return str(answer["yes"] is not None) if answer else ""

    def answer(self, slot: Slot, text: str) -> str:
        """Returns an answer without a capital to a question about a slot that takes names or anything."""
        answer = None if _NEGATION.search(text) else _ANSWER.match(text)
        own = self.tracker.words(slot)
        words = [word for word in answer["value"].split() if stem(word) not in own] if answer else []
        is_value = {*self.tracker.kinds(slot)} <= {*_SORTS} and not any(map(_is_usual, words))
        return " ".join(words) if is_value else ""


def _slots(intent: Intent) -> set[str]:
    """Returns the names of the slots that an intent takes, for which the user can give values."""
    return {*intent.required_slots, *intent.optional_slots}


def _digits(text: str) -> str:
    return str(NUMBERS.index(text.lower()) + 1) if text.lower() in NUMBERS else text
