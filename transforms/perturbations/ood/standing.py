"""Decide whether an utterance is self-contained, that is, refers to nothing said before it.

"Is there wifi?" and "Where's the venue at?" can only be understood after an answer that named a hotel or a concert. An
utterance that is inserted into another dialogue must say itself what it is about, as "I need a bus to Fresno, can you
find one?" does.
"""

from __future__ import annotations

import re

from parapet.transforms.perturbations.language import rule


def _either(words: str) -> str:
    """Return a pattern for any of some words, or of phrases with underscores for spaces."""
    return rf"\b(?:{'|'.join(words.split())})\b".replace("_", r"\s+")


# Beginnings that continue what was said, whatever follows.
_CONTINUES = rule(
    _either(
        "and but or so actually also plus maybe then instead because what_about how_about what_else why_not both cool"
        " nice good great awesome perfect wonderful fine alright ugh okay ok leaving staying departing going returning"
        " arriving sent for on in at to from with by around after before until"
    )
)
_DAY = _either(
    "month week weekend morning afternoon evening night year summer winter spring fall coming time monday tuesday"
    " wednesday thursday friday saturday sunday"
)
_BEFORE_THAT = _either(
    "in at on of to for with about from like do does did if is are was will can and around near by after before book"
    " reserve rent play watch want need prefer see know check buy have take make use get hear find all"
)
_ALTERNATIVE = rule(
    _either(
        "other others another else different instead again similar rather same more both either also too correct these"
        " those as_well of_it what_about keep_looking keep_searching"
    )
    + rf"|\bthis\b(?!\s+{_DAY})|(?:^|[.!?,;]\s*)that\b|{_BEFORE_THAT}\s+that\b|\bthat\s+(?:day|date|time|place|area)\b"
    r"|\b(?:fine|okay|ok|happy)\s+with\b"
    r"|\b(?:is|are|seems?|sounds?|looks?|(?:will|would)\s+be)\s+(?:good|great|perfect|interesting|nice|fine)\b"
    r"|\b(?:need|want|like|take)\s+(?:two|three|four|five|\d)(?:\s+please)?\s*(?:[.,!]|$)"
    r"|(?<!hi )(?<!hello )(?<!hey )(?<!is )(?<!are )(?<!was )(?<!if )(?<!whether )(?<!will )(?<!were )\bthere\b"
    r"(?!'s\b|\s+(?:is|are|was|were|will|any|be|a|an|some)\b)"
)
# Pronouns that are understood if the utterance itself has introduced their referent.
_THING = rule(
    r"\b(?:it|its|itself|ones?(?=\s*(?:[.,!?;]|$|\s(?:in|at|on|for|that|which|with|please|from|by|near|to|is|until|till)\b)))\b"
)
_A_THING = rule(r"\b(?:an?|my|our|any|some)\s+\w")
_PEOPLE = rule(r"\b(?:they|them|their|theirs|he|him|his|she|her|hers)\b")
_SOME_PEOPLE = rule(
    r"\b(?:some|two|three|four|friends?|people|everyone|someone|mom|dad|wife|husband|brother|sister|son)\b"
)
# "the 8th", "the weather", "the best", "the album Mercury Lane", "the address of …" need no context.
_KNOWN = rule(
    r"the\s+(?:\d|[a-z]+(?:est|most)\b|"
    + _either(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
        " weather forecast temperature movie_theaters? morning afternoon evening night weekend days? week month year"
        " moment next last coming mood best most news way internet usa? uk bay_area monday tuesday wednesday thursday"
        " friday saturday sunday (?:city|number|name|area|end|middle|beginning|start)_of"
    )
    + ")"
)
_NAMED = re.compile(r"[Tt]he(?:\s+[a-z]+)?\s+[\"'“‘]?[A-Z]")


_FEWEST = 4  # words; shorter utterances are answers


def stands_alone(text: str) -> bool:
    """Whether an utterance refers only to what it introduces itself."""
    text = " ".join(text.split())
    if text.count(" ") < _FEWEST - 1 or _CONTINUES.match(text) or _ALTERNATIVE.search(text):
        return False
    thing, people = _THING.search(text), _PEOPLE.search(text)
    if thing and not _A_THING.search(text, 0, thing.start()):
        return False
    if people and not _SOME_PEOPLE.search(text, 0, people.start()):
        return False
    return all(_is_known(text, match.start()) for match in re.finditer(r"\bthe\b", text, re.IGNORECASE))


def _is_known(text: str, at: int) -> bool:
    """Whether the noun after a "the" is generally known, has a name, or was introduced before."""
    if _KNOWN.match(text, at) or _NAMED.match(text, at):
        return True
    nouns = [word.casefold() for word in re.findall(r"[^\W\d_]+", text[at + 3 :])[:2] if len(word) > 3]
    before = {word.casefold() for word in re.findall(r"[^\W\d_]+", text[:at])}
    return bool(nouns) and not before.isdisjoint(nouns)
