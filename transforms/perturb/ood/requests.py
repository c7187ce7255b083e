"""The requests of a corpus's users that make sense without what was said before.

"Is there wifi?" and "I want to leave on the 5th" can only be understood in their dialogues. A turn that is inserted
into another one must say itself what it is about, as "I need a bus to Fresno, can you find one?" does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.service import Service
from parapet.transforms.perturb.corpora import NO_INTENT, domain_of
from parapet.transforms.perturb.edits import DECISIVE
from parapet.transforms.perturb.language import rule
from parapet.transforms.report.text import words

# Words of services that name no topic.
_GENERIC_WORDS = """
add book booking buy bye certain check choose date dates different easily finding goodbye hello list location number
offered option options place places please popular provide provider provides range reservation reserve reserving
search searching select selected service services set show specific specified thank thanks type user users using
various welcome wide widely
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())
_FREQUENT = 5.72  # the logarithm of a word's frequency (Zipf scale) from which it names no topic: "need", "find"
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|_")


@lru_cache(maxsize=1 << 15)
def _topic(word: str) -> str:
    from wordfreq import zipf_frequency

    is_topic = len(word) > 2 and word.isalpha() and word not in DECISIVE and word not in _GENERIC
    if not is_topic or zipf_frequency(word, "en") >= _FREQUENT:
        return ""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def topics_of(text: str) -> frozenset[str]:
    """Return the words of a text that say what it is about, in the singular."""
    return frozenset(filter(None, map(_topic, words(_CAMEL.sub(" ", text)))))


class Topics(msgspec.Struct, frozen=True):
    """What the services of a corpus are about.

    Attributes:
      domains: word to the domains whose schemas have it.
      names: word to the domains, at most two, whose services or intents have it in their names or descriptions.
    """

    domains: dict[str, frozenset[str]]
    names: dict[str, frozenset[str]]

    def about(self, text: str) -> frozenset[str]:
        """Return the domains whose schemas have a word of a text; users of these might say it."""
        return frozenset().union(*(self.domains.get(word, ()) for word in topics_of(text)))

    def named(self, text: str, domains: Iterable[str]) -> bool:
        """Whether a text names one of the domains."""
        return any(not self.names.get(word, frozenset()).isdisjoint(domains) for word in topics_of(text))


def topics_of_services(services: Iterable[Service]) -> Topics:
    """Collect the words of schemas by domain."""
    domains: dict[str, set[str]] = {}
    names: dict[str, set[str]] = {}
    for service in services:
        domain = domain_of(service.service_name)
        of_names = [service.service_name, service.description]
        of_names += [text for intent in service.intents for text in (intent.name, intent.description)]
        of_slots = [text for slot in service.slots for text in (slot.name, slot.description, *slot.possible_values)]
        for table, texts in ((names, of_names), (domains, [*of_names, *of_slots])):
            for word in topics_of(" . ".join(texts)):
                table.setdefault(word, set()).add(domain)
    few = {word: frozenset(named) for word, named in names.items() if len(named) <= 2}
    return Topics({word: frozenset(having) for word, having in domains.items()}, few)


def requests_of(dialogue: Dialogue, topics: Topics) -> Iterator[tuple[int, str]]:
    """Yield the position and text of user turns that start a request and name its service, without a greeting."""
    active: dict[str, str] = {}
    for position, turn in enumerate(dialogue.turns):
        states = {frame.service: frame.state for frame in turn.frames if frame.state}
        intents = {service: state.active_intent for service, state in states.items()}
        new = {domain_of(name) for name, intent in intents.items() if intent not in ("", NO_INTENT, active.get(name))}
        active.update(intents)
        if turn.speaker == "USER" and new and is_request(turn.utterance) and topics.named(turn.utterance, new):
            yield position, without_greeting(turn.utterance)


def _either(phrases: str) -> str:
    """Return a pattern for any of some words, or of phrases with underscores for spaces."""
    return rf"\b(?:{'|'.join(phrases.split())})\b".replace("_", r"\s+")


_GREETING = rule(r"^(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening))\b(?: there| again)?(?:[\s,.!-]+|$)")
_DO = _either(
    "add arrange book buy call check create display find get give help list look listen make order pay play pull put"
    " rent request reserve ring schedule search send set show start tell transfer write translate sing turn"
)
_WANT = _either(
    "i_(?:(?:really|just|also|do|will)_)?(?:need|want|wanna|would|have_to|must|wish_to) i'd i'll_need we_(?:need|want)"
    " (?:i_am|i'm|we_are|we're)_(?:\\w+_)?(?:looking|trying|hoping|interested|searching|seeking|in_need|in_the_mood)"
    " looking_(?:for|to) i_(?:got|like)_to"
)
_ACTION = rule(rf"(?:^|[.,!?:]\s*)(?:please\s+|kindly\s+)?(?:{_WANT}|{_DO}|(?:can|could|would|will) you\b(?! rather))")
_QUESTION = rule(
    _either("please (?:can|could|may)_i (?:can|could|would|will)_you (?:is|are)_there do_you")
    + rf"|{_WANT}|^{_either('what when where which who how see')}"
)
# Beginnings that answer or continue what was said, whatever follows.
_CONTINUES = rule(
    r"\W*"
    + _either(
        "and but or so actually also plus maybe then instead because what_about how_about what_else why_not both cool"
        " nice good great awesome perfect wonderful fine alright right correct ugh oh okay ok yes yeah yep yup ya sure"
        " no nope nah not never thanks thank thx bye goodbye leaving staying departing going returning arriving sent"
        " for on in at to from with by around after before until well very_well got_it i_see let's_(?:do|go_with|try)"
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
_THAT_NOUN = (
    r"\bthat\b(?!\s+(?:i|i'm|i've|you|we|they|my|there|is|are|was|were|has|have|had|can|could|will|would|do|does"
    r"|\w+ed|[a-z]+[^s\W]s)\b)"
)
_REFERS_BACK = rule(
    _either(
        "other others another else different instead again similar rather same more both either also too correct these"
        " those as_well of_it what_about keep_looking keep_searching still such additional thanks thank_you"
    )
    + r"|\b(?:an?|the|my|and(?:\s+(?:around|at|by|for|from|in|near|on|to|with))?)\s*\?\s*$|\bto\s+from\b"  # cut short
    + rf"|\bthis\b(?!\s+{_DAY})|(?:^|[.!?,;]\s*)that\b|{_BEFORE_THAT}\s+that\b|{_THAT_NOUN}"
    r"|\b(?:fine|okay|ok|happy)\s+with\b"
    r"|\b(?:is|are|seems?|sounds?|looks?|(?:will|would)\s+be)\s+(?:good|great|perfect|interesting|nice|fine)\b"
    r"|\b(?:need|want|like|take)\s+(?:two|three|four|five|\d)(?:\s+please)?\s*(?:[.,!]|$)"
    r"|(?<!is )(?<!are )(?<!was )(?<!if )(?<!whether )(?<!will )(?<!were )\bthere\b"
    r"(?!'s\b|\s+(?:is|are|was|were|will|any|be|a|an|some)\b)"
)
# Pronouns that are understood if the utterance itself has introduced their referent.
_THING = rule(
    r"\b(?:it|its|itself|ones?(?=\s*(?:[.,!?;]|$|\s(?:in|at|on|for|that|which|with|please|from|by|near|to|is|until|till)\b)))\b"
)
_A_THING = rule(r"\b(?:an?|my|our|any|some)\s+\w")
_PEOPLE = rule(r"\b(?:they|them|their|theirs|he|him|his|she|her|hers|here)\b")
_SOME_PEOPLE = rule(
    r"\b(?:two|three|four|friends?|people|everyone|someone|mom|dad|wife|husband|brother|sister|son|daughter)\b"
)
# "the 8th", "the weather", "the best", "the album Mercury Lane", "the address of …" need no context.
_KNOWN = rule(
    r"the\s+(?:\d|[a-z]+(?:est|most)\b|"
    + _either(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
        " weather forecast temperature movie_theaters? morning afternoon evening night weekend days? week month year"
        " moment next last coming mood best most news way internet usa? uk bay_area monday tuesday wednesday thursday"
        " friday saturday sunday (?:current|expected)_weather salon dentist doctor balance_(?:of|in|on)_my"
        " (?:city|number|name|area|end|middle|beginning|start)_of"
    )
    + ")"
)
_NAMED = re.compile(r"[Tt]he(?:\s+[a-z]+)?\s+[\"'“‘]?[A-Z]")
_FEWEST = 4  # words; shorter utterances are answers


def without_greeting(text: str) -> str:
    """Return a turn as it may be said in the middle of a dialogue."""
    text = " ".join(text.split())
    rest = _GREETING.sub("", text, count=1)
    return rest[:1].upper() + rest[1:] if rest != text else text


def asks_for_action(text: str) -> bool:
    """Whether somebody is asked to do something, as in "Find me a bus", and not only asked or told."""
    return _ACTION.search(text) is not None


def is_request(text: str) -> bool:
    """Whether a turn asks for something and refers only to what it introduces itself."""
    text = without_greeting(text)
    asks = asks_for_action(text) or _QUESTION.search(text)
    return bool(asks) and text.count(" ") >= _FEWEST - 1 and is_self_contained(text)


def is_self_contained(text: str) -> bool:
    """Whether an utterance refers only to what it introduces itself."""
    if _CONTINUES.match(text) or _REFERS_BACK.search(text):
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
