"""Utterances for other dialogues: requests of the corpus's users, small talk and files, and the pool of distinct texts.

"Is there wifi?" and "I want to leave on the 5th" can only be understood in their dialogues. A turn that is inserted
into another one must say itself what it is about, as "I need a bus to Fresno, can you find one?" does.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

import msgspec

from parapet.schemas import layout, limits
from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.core.counts import Counts
from parapet.transforms.perturb.corpora import NO_INTENT, dialogues_of, domain_of, domains_of
from parapet.transforms.perturb.edits import DECISIVE
from parapet.transforms.perturb.english import rule
from parapet.transforms.perturb.ood import CHAT, OWN
from parapet.transforms.report.text import check_plain_text, words

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
    """Returns the words of a text that say what it is about, in the singular."""
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
        """Returns the domains whose schemas have a word of a text; users of these might say it."""
        return frozenset().union(*(self.domains.get(word, ()) for word in topics_of(text)))

    def named(self, text: str, domains: Iterable[str]) -> bool:
        """Whether a text names one of the domains."""
        return any(not self.names.get(word, frozenset()).isdisjoint(domains) for word in topics_of(text))


def topics_of_services(services: Iterable[Service]) -> Topics:
    """Collects the words of schemas by domain."""
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
    """Yields the position and text of user turns that start a request and name its service, without a greeting."""
    active: dict[str, str] = {}
    for position, turn in enumerate(dialogue.turns):
        states = {frame.service: frame.state for frame in turn.frames if frame.state}
        intents = {service: state.active_intent for service, state in states.items()}
        new = {domain_of(name) for name, intent in intents.items() if intent not in ("", NO_INTENT, active.get(name))}
        active.update(intents)
        if turn.speaker == "USER" and new and is_request(turn.utterance) and topics.named(turn.utterance, new):
            yield position, without_greeting(turn.utterance)


def _either(phrases: str) -> str:
    """Returns a pattern for any of some words, or of phrases with underscores for spaces."""
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
    """Returns a turn as it may be said in the middle of a dialogue."""
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


LONGEST = 400  # characters; longer texts are not turns of a dialogue

# The statuses of texts: the key in statistics.json, and its meaning.
KEPT, GENERIC = "kept", "generic"
STATUSES = {
    KEPT: "may be injected",
    GENERIC: "has no word that says what it is about",
    "refers_back": 'turn of a dialogue that refers to something said before it, as in "is it furnished?"',
    "too_long": f"more than {LONGEST} characters",
    "empty": "without words",
}


class Utterance(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A foreign utterance.

    Attributes:
      key: its words, by which utterances are compared.
      source: its origin: file and line, or file, dialogue and turn.
      text: the text, with single spaces.
      origin: ``own``, ``chat``, or the name of a file or folder.
      about: domains where it must not be used: those that it comes from, or whose schemas have one of its words.
      splits: the splits where it may be used; empty for all.
      status: one of ``STATUSES``.
    """

    key: str
    source: str
    text: str
    origin: str
    about: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    status: str = KEPT


def key_of(text: str) -> str:
    """Returns the text by which utterances are compared: lower-case words without punctuation, separated by spaces."""
    return " ".join(words(text))


def utterance_of(
    text: str, source: str, origin: str, about: Iterable[str] = (), splits: tuple[str, ...] = (), status: str = KEPT
) -> Utterance:
    """Makes an utterance of the pool."""
    key, text = key_of(text), " ".join(text.split())
    if not key:
        status = "empty"
    elif len(text) > LONGEST:
        status = "too_long"
    elif origin not in (OWN, CHAT) and not topics_of(text):
        status = GENERIC
    return Utterance(key, source, text, origin, tuple(sorted(about)), splits, status)


def merged(utterances: Iterable[Utterance]) -> list[Utterance]:
    """Merges utterances with the same words: the first by source, with the domains and splits of all."""
    merged: dict[str, Utterance] = {}
    for one in sorted(utterances):
        if (first := merged.get(one.key)) and (one.about, one.splits) != (first.about, first.splits):
            about, splits = {*first.about, *one.about}, {*first.splits, *one.splits}
            one = msgspec.structs.replace(first, about=tuple(sorted(about)), splits=tuple(sorted(splits)))
            merged[one.key] = one
        merged.setdefault(one.key, one)
    return [*merged.values()]


def pool_of(utterances: Iterable[Utterance], topics: Topics) -> tuple[list[Utterance], Counts]:
    """Returns the utterances that may be injected, and the number of utterances by status.

    Args:
      utterances: of the corpus and of the sources; some may have the same words.
      topics: what the services of the corpus are about.
    """
    kept, counts = [], Counts()
    for utterance in merged(utterances):
        counts.add("pool", value=utterance.status)
        if utterance.status == KEPT:
            about = topics.about(utterance.text).union(utterance.about)
            kept.append(msgspec.structs.replace(utterance, about=tuple(sorted(about))))
    return kept, counts


def pool_numbers(counts: Counts) -> dict[str, Any]:
    """Returns the numbers of foreign utterances: read, distinct, and by status."""
    return {
        "utterances": counts.sum("source_rows"),
        "different": counts.sum("pool"),
        **{status: counts.sum("pool", value=status) for status in STATUSES},
    }


class SourceFile(msgspec.Struct, frozen=True):
    """A file of foreign utterances: its name below the source, and its path, which is empty for our own small talk."""

    name: str
    path: str


def names_of(source: str) -> list[str]:
    """Splits ``own,chat,FILE`` into sources; a file or folder may have a comma in its name."""
    return [source] if layout.is_there(source) else [name for part in source.split(",") if (name := part.strip())]


def list_sources(source: str) -> list[SourceFile]:
    """Lists the files of ``--source`` except the corpus itself, sorted by name for each of its parts.

    Raises:
      InputError: a source does not exist, has no files, or one has an unknown format.
    """
    if not (names := names_of(source)):
        raise InputError("must be one or more of own, chat, files and folders", "--source")
    return [file for name in names if name != OWN for file in _files_of(name)]


def _files_of(name: str) -> list[SourceFile]:
    if name == CHAT:
        return [SourceFile(CHAT, "")]
    place = layout.as_path(name)
    if place.is_file():
        folder, paths = place.parent, [place] if place.suffix in (".txt", ".json") else []
    else:
        dialogues = [path for path in place.rglob("*.json") if layout.DIALOGUE_FILE.fullmatch(path.name)]
        folder, paths = place, sorted(dialogues or place.rglob("*.txt"))
    if not paths:
        problem = "contains no utterances" if layout.is_there(name) else "there is no such file or folder"
        reason = f"{problem}; give own, chat, text (.txt), dialogues in the SGD format (.json), or a folder"
        raise InputError(reason, name, "--source")
    return [SourceFile(path.relative_to(folder).as_posix(), str(path)) for path in paths]


def read_source(file: SourceFile) -> Iterator[Utterance | InputError]:
    """Yields the utterances of a file, and an error for each bad row. Raises InputError if the file cannot be read."""
    return _sgd(file) if file.path.endswith(".json") else _text(file)


def _text(file: SourceFile) -> Iterator[Utterance | InputError]:
    from parapet.transforms.core.files import read_bytes  # loads Beam

    if file.path:
        data = read_bytes(file.path, limits.MAX_DIALOGUE_FILE).removeprefix(b"\xef\xbb\xbf")
        check_plain_text(data[:1000], file.name)
    else:
        data = files(__package__).joinpath("small_talk.txt").read_bytes()
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            if text := line.decode().strip():
                yield utterance_of(text, f"{file.name}:{number}", _origin(file))
        except UnicodeDecodeError as error:
            yield InputError(f"not_utf8: byte {error.start}; save the file as UTF-8", file.name, f"line {number}")


def _sgd(file: SourceFile) -> Iterator[Utterance | InputError]:
    for position, _, dialogue in dialogues_of(DialogueFile("", file.name, file.path, 0)):
        if isinstance(dialogue, InputError):
            yield InputError(dialogue.reason, file.name, f"[{position}].{dialogue.where}")
            continue
        domains = domains_of(dialogue)
        for turn in user_turns_of(dialogue):
            text = dialogue.turns[turn].utterance
            source = source_id(file.name, dialogue.dialogue_id, turn)
            status = KEPT if is_self_contained(text) else "refers_back"
            yield utterance_of(text, source, _origin(file), domains, status=status)


def _origin(file: SourceFile) -> str:
    return file.name.partition("/")[0]


def source_id(name: str, dialogue_id: str, turn: int) -> str:
    """Returns the id of a dialogue's turn as a source, for the rows."""
    return f"{name}:{dialogue_id}:{turn}".encode(errors="replace").decode()


def user_turns_of(dialogue: Dialogue) -> list[int]:
    """Returns the positions of user turns."""
    return [t for t, turn in enumerate(dialogue.turns) if turn.speaker == "USER"]
