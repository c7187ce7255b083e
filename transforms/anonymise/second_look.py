"""A second look at anonymised texts, by other means than the replacing rules: what may have been missed.

It is independent of those rules, so that what they do not know does not escape it, too.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

import msgspec

from parapet.transforms.anonymise.mentions import PLACEHOLDER
from parapet.transforms.crowd.lexicon import word_frequency

# Common given names, which the replacing rules do not know. Names that are also words (will, mark, grace, rose) or
# months are not among them: they would be everywhere.
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
KINDS = {
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
_WORD = re.compile(r"[^\W\d_]+")
_ENDS = re.compile(r"(?:[.!?:;\n\"“(*-]|^)\s*$")  # after which a sentence starts
_SELDOM = 4.0  # Zipf frequency: once in a hundred thousand words
_COMMON = 4.5


class Suspect(msgspec.Struct, frozen=True, order=True):
    """Text that may identify somebody: turn from 0, kind, first character and length; never the text itself."""

    turn: int
    kind: str
    first: str
    length: int


def suspects_in(turn: int, text: str, parts: Container[str], names: Container[str]) -> Iterator[Suspect]:
    """What may have been missed in a turn.

    Args:
      turn: its number.
      text: the anonymised text.
      parts: words of what was replaced in the chat, in lower case.
      names: words of names that were replaced anywhere, in lower case.
    """
    # A placeholder has nothing to suspect, but still separates the words beside it.
    text = PLACEHOLDER.sub("<>", text)
    for found in _DIGITS.finditer(_MONEY.sub("$", text)):
        yield _suspect(turn, DIGITS, found[0])
    for found in _AT.finditer(text):
        yield _suspect(turn, AT, found[0])
    for found in _LINK.finditer(text):
        yield _suspect(turn, LINK, found[0])
    shouted = sum(map(str.isupper, text)) > 0.6 * sum(map(str.isalpha, text))
    for found in _WORD.finditer(text):
        kind = _kind_of(
            found[0], not _ENDS.search(text[max(0, found.start() - 8) : found.start()]), shouted, parts, names
        )
        if kind:
            yield _suspect(turn, kind, found[0])


def _kind_of(word: str, inside: bool, shouted: bool, parts: Container[str], names: Container[str]) -> str:
    lower = word.casefold()
    capital = word[0].isupper() and inside and not shouted
    frequency = word_frequency(lower) if len(word) > 2 else 9.0
    if len(word) > 2 and (frequency < _COMMON or capital) and (lower in parts or lower in names):
        return CARRIED
    if lower in GIVEN_NAMES:
        return GIVEN
    return CAPITAL if capital and frequency < _SELDOM else ""


def _suspect(turn: int, kind: str, text: str) -> Suspect:
    return Suspect(turn, kind, text[0], len(text))
