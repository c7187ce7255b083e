"""Replacing the mentions of a chat, and an independent check of the result.

The same person, place or number has the same placeholder throughout the chat. The check does not share the rules of the
replacement, so that it can notice mentions that these rules miss.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence

import msgspec

from parapet.transforms.anonymise.chats import API_CALL, BOT, Chat
from parapet.transforms.anonymise.mentions import (
    PLACEHOLDER,
    Entry,
    Gazetteer,
    Mention,
    all_numbers_in,
    is_no_name,
    names_in,
    numbers_in,
    placeholder,
    recognised,
    settled,
)
from parapet.transforms.crowd.lexicon import word_frequency
from parapet.transforms.perturb.edits import Edit, edited
from parapet.transforms.report.text import clean

_TOKEN = re.compile(r"[^\W_]+")
_NAMES = frozenset({"PERSON", "LOCATION", "ORGANIZATION", "ENTITY"})
_COMMON = 5.4  # Zipf frequency of words that are rarely names, such as will, may


class Rules(msgspec.Struct, frozen=True):
    """The rules of the replacement.

    Attributes:
      entities: the entities listed by the user.
      model: the spaCy model; None to find names by rules alone.
      regions: the regions of phone numbers.
      kept: kinds that are not replaced.
      paper: whether to replace all numbers and days, with placeholders as in Bordes et al. 2017, Table 7.
    """

    entities: tuple[Entry, ...] = ()
    model: str | None = None
    regions: tuple[str, ...] = ("US", "GB")
    kept: frozenset[str] = frozenset()
    paper: bool = False


class Replaced(msgspec.Struct, frozen=True):
    """An anonymised chat.

    Attributes:
      texts: the texts of its turns.
      mentions: kind to the number of replaced mentions.
      things: kind to the number of different people, places or numbers.
      parts: words of replaced mentions, in lower case; any of them left in the text was missed.
      names: the words among them that are parts of people's names.
    """

    texts: tuple[str, ...]
    mentions: Counter[str]
    things: Counter[str]
    parts: frozenset[str]
    names: frozenset[str]


class Anonymiser:
    """Replaces mentions according to rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._listed = Gazetteer(rules.entities)

    def of(self, chat: Chat) -> Replaced:
        """Anonymise a chat.

        Texts are cleaned first: full-width digits become ASCII digits, invisible characters are removed.
        """
        texts = [_plain(turn.speaker, clean(turn.text)) for turn in chat.turns]
        mentions_here = self._found(texts, [("PERSON", turn.called) for turn in chat.turns if turn.called])
        placeholders = _Placeholders(self.rules.paper)
        counts: Counter[str] = Counter()
        replaced = []
        for text, mentions in zip(texts, mentions_here, strict=True):
            edits = []
            for mention in mentions:
                counts[mention.kind] += 1
                edits.append(
                    Edit(mention.start, mention.end, placeholders.of(mention.kind, text[mention.start : mention.end]))
                )
            replaced.append(edited(text, edits))
        return Replaced(tuple(replaced), counts, placeholders.things, placeholders.parts(), placeholders.names())

    def _found(self, texts: Sequence[str], called: Sequence[Entry]) -> list[list[Mention]]:
        """Find the mentions of each text by form, list, model and context, then further mentions of the same names."""
        chosen = [[*numbers_in(text, self.rules.regions), *self._listed.find(text), *names_in(text)] for text in texts]
        if self.rules.paper:
            for text, mentions in zip(texts, chosen, strict=True):
                mentions += all_numbers_in(text)
        if self.rules.model:
            for mentions, more in zip(chosen, recognised(texts, self.rules.model), strict=True):
                mentions += more
        first = [self._settled(text, mentions) for text, mentions in zip(texts, chosen, strict=True)]
        known = [
            (mention.kind, text[mention.start : mention.end])
            for text, mentions_here in zip(texts, first, strict=True)
            for mention in mentions_here
        ]
        again = _Again([*known, *called])
        return [
            self._settled(text, [*mentions, *again.find(text)]) for text, mentions in zip(texts, first, strict=True)
        ]

    def _settled(self, text: str, mentions: list[Mention]) -> list[Mention]:
        kept = (mention for mention in mentions if mention.kind not in self.rules.kept)
        return settled(text, kept, (match.span() for match in PLACEHOLDER.finditer(text)))


def _plain(speaker: str, text: str) -> str:
    """Return the text; for an API call of the operator only its name without arguments, as in the paper's data."""
    return API_CALL if speaker == BOT and text.split(" ")[0].lower() == API_CALL else text


class _Again:
    """Finds further mentions of a chat's names, such as "Ann" after "Ann Lee"."""

    def __init__(self, known: Sequence[Entry]) -> None:
        entries = {(kind, value) for kind, value in known if kind in _NAMES}
        self._whole = Gazetteer(sorted(entries))
        tokens = {
            (kind, token)
            for kind, value in entries
            if kind == "PERSON"
            for token in _TOKEN.findall(value)
            if len(token) > 1 and not is_no_name(token)
        }
        self._parts = Gazetteer(sorted(tokens))

    def find(self, text: str) -> Iterator[Mention]:
        yield from self._whole.find(text)
        for mention in self._parts.find(text):
            word = text[mention.start : mention.end]
            # In a chat with a person called Will, "will" is mostly not a name.
            if word[0].isupper() or word_frequency(word.lower()) < _COMMON:
                yield mention


class _Placeholders:
    """Numbers the different people, places and numbers of each kind in order."""

    def __init__(self, paper: bool) -> None:
        self._paper = paper
        self._of: dict[tuple[str, str], str] = {}
        self._of_word: dict[str, str] = {}  # word of a name to the last person with it
        self._words: dict[str, set[str]] = {}  # person to the words of their names
        self._values: set[Entry] = set()
        self.things: Counter[str] = Counter()

    def of(self, kind: str, value: str) -> str:
        """Return the placeholder of a value."""
        key = _key(kind, value)
        words = set(key.split()) if kind == "PERSON" else set()
        same = self._of.get((kind, key)) or self._person(words)
        if same is None:
            self.things[kind] += 1
            same = placeholder(kind, self.things[kind], self._paper)
        self._of[kind, key] = same
        self._of_word.update(dict.fromkeys(words, same))
        self._words.setdefault(same, set()).update(words)
        self._values.add((kind, value))
        return same

    def _person(self, words: set[str]) -> str | None:
        """Return the earlier person with these names ("Ann" is "Ann Lee", and vice versa) if unambiguous."""
        called = {place for word in words if (place := self._of_word.get(word))}
        if len(called) != 1:
            return None
        (place,) = called
        return place if words <= self._words[place] or self._words[place] <= words else None

    def parts(self) -> frozenset[str]:
        """Return the words of all values in lower case."""
        return frozenset(token.casefold() for _, value in self._values for token in _TOKEN.findall(value))

    def names(self) -> frozenset[str]:
        """Return the words of people's names in lower case."""
        values = (value for kind, value in self._values if kind == "PERSON")
        return frozenset(token.casefold() for value in values for token in _TOKEN.findall(value))


def _key(kind: str, value: str) -> str:
    """Return a key shared by all values for the same person, place or number."""
    if kind == "PHONE" and sum(map(str.isdigit, value)) >= 7:
        return "".join(filter(str.isdigit, value))[-9:]  # ignores the country code
    return " ".join(_TOKEN.findall(value.casefold()))


def normalised(text: str) -> str:
    """Lower-case a text, as in dialog bAbI, but not its placeholders."""
    parts, at = [], 0
    for match in PLACEHOLDER.finditer(text):
        parts += [text[at : match.start()].lower(), match[0]]
        at = match.end()
    return "".join([*parts, text[at:].lower()])


# Common given names, which the rules of the replacement do not use. Names that are also words (will, mark, grace,
_GIVEN_NAMES_TEXT = """
aaron abdul abigail adam adrian ahmed aisha alan albert alejandro alex alexander alexandra alexis alfred ali
alice alison allison amanda amelia amy ana andre andrea andreas andrew angela anita ann anna anne annie anthony
antonio arjun arthur ashley austin barbara ben benjamin bernard beth betty beverly billy bob bobby brandon
brenda brian bruce bryan caleb cameron camille carl carla carlos carmen carol caroline carolyn catherine cathy
charles charlie charlotte chen cheryl chloe chris christian christina christine christopher claire clara claudia
colin connor craig crystal cynthia daniel daniela danielle danny darren dave david dean deborah debra denise
dennis derek diana diane diego donald donna doris dorothy doug douglas dylan eddie edward eileen elaine eleanor
elena eli elizabeth ella ellen emily emma eric erica erik erin ethan eugene eva evan evelyn fatima felix
fernando fiona francesca francis francisco frank frederick gabriel gareth gary george gerald giovanni gloria
gordon graham greg gregory hannah hans harold harry hassan heather hector helen henry howard hugo ian ibrahim
ingrid irene isaac isabel isabella ivan jack jacob jacqueline jake james jamie jan jane janet janice jason
javier jean jeff jeffrey jennifer jenny jeremy jerry jesse jessica jim jimmy joan joanna joanne joe joel john
johnny jon jonathan jordan jorge jose joseph joshua joyce juan juanita judith judy julia julian julie justin
karen karl kate katherine kathleen kathryn kathy katie keith kelly ken kenneth kevin kim kimberly kyle larry
laura lauren laurie lawrence leah lee leo leon leonard leslie liam linda lisa logan lori louis louise lucas lucy
luis luke lynn madison marco marcus margaret maria marie marilyn mario martha martin marvin mary mason matthew
maureen max megan mehmet melanie melissa michael michelle miguel mike mohamed mohammed molly monica muhammad
nadia nancy natalie natasha nathan neil nicholas nick nicola nicole nina noah nora oliver olivia omar oscar
pablo pamela patricia patrick paul paula pauline pedro peggy peter phil philip phillip phyllis priya rachel
rafael raj ralph ravi raymond rebecca renee ricardo richard rick robert roberto robin roger ronald rosa rosie
ross roy russell ruth ryan sabrina sally samantha samuel sandra sanjay sara sarah scott sean sebastian sergio
shane shannon sharon shaun sheila shirley simon sofia sophia sophie stacy stanley stefan stella stephanie
stephen steve steven stuart sue susan suzanne sven sylvia tamara tanya tara taylor teresa terry theresa thomas
tiffany tim timothy tina todd tom tommy tony tracy travis trevor tyler valerie vanessa vera victoria vincent
virginia vivian walter wanda wayne wendy william yusuf yvonne zachary zoe
"""
GIVEN_NAMES = frozenset(_GIVEN_NAMES_TEXT.split())


DIGITS, AT, LINK, CAPITAL, GIVEN, CARRIED = "digits", "at", "link", "capital", "given_name", "carried"
SUSPICIONS = {
    DIGITS: "five digits or more, whatever is between them",
    AT: "an at sign",
    LINK: "http, www or a domain",
    CAPITAL: "a capitalised word inside a sentence that is rare in English",
    GIVEN: "a common given name",
    CARRIED: "a word of what was replaced in the chat, or a name that was replaced in another",
}

_MONEY = re.compile(r"[$€£] ?\d{1,3}(?:,?\d{3}){0,2}(?:\.\d\d)?(?![\d])")
_DIGITS = re.compile(r"\d(?:[^\w<>]{0,2}\d){4,}")
_AT = re.compile(r"(?<!\S)(?=\S{2})[^\s@]*@\S*")
_LINK = re.compile(r"https?:|www\.|\w\.(?:com|org|net|info|co)\b", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]+")
_ENDS = re.compile(r"(?:[.!?:;\n\"“(*-]|^)\s*$")  # the end of text before which a sentence starts
_SELDOM = 4.0  # Zipf frequency: once in a hundred thousand words
_COMMON_WORD = 4.5


class Suspect(msgspec.Struct, frozen=True, order=True):
    """Text that may identify a person: turn from 0, kind, first character and length; never the text itself."""

    turn: int
    kind: str
    first: str
    length: int


def suspects_in(turn: int, text: str, parts: Container[str], names: Container[str]) -> Iterator[Suspect]:
    """Yield possibly missed mentions in a turn.

    Args:
      turn: the number of the turn.
      text: the anonymised text.
      parts: words of the mentions replaced in the chat, in lower case.
      names: words of the names replaced in any chat, in lower case.
    """
    # A placeholder is not suspect, but must still separate the words beside it.
    text = PLACEHOLDER.sub("<>", text)
    for match in _DIGITS.finditer(_MONEY.sub("$", text)):
        yield _suspect(turn, DIGITS, match[0])
    for match in _AT.finditer(text):
        yield _suspect(turn, AT, match[0])
    for match in _LINK.finditer(text):
        yield _suspect(turn, LINK, match[0])
    shouted = sum(map(str.isupper, text)) > 0.6 * sum(map(str.isalpha, text))
    for match in _LETTERS.finditer(text):
        kind = _kind_of(
            match[0], not _ENDS.search(text[max(0, match.start() - 8) : match.start()]), shouted, parts, names
        )
        if kind:
            yield _suspect(turn, kind, match[0])


def _kind_of(word: str, inside: bool, shouted: bool, parts: Container[str], names: Container[str]) -> str:
    lower = word.casefold()
    capital = word[0].isupper() and inside and not shouted
    frequency = word_frequency(lower) if len(word) > 2 else 9.0
    if len(word) > 2 and (frequency < _COMMON_WORD or capital) and (lower in parts or lower in names):
        return CARRIED
    if lower in GIVEN_NAMES:
        return GIVEN
    return CAPITAL if capital and frequency < _SELDOM else ""


def _suspect(turn: int, kind: str, text: str) -> Suspect:
    return Suspect(turn, kind, text[0], len(text))
