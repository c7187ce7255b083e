"""Names of people and places by the words around them: for chats where no trained model is at hand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from parapet.transforms.anonymise.mentions import Mention

_WORD = r"[^\W\d_](?:[^\W\d_]|['’.-](?=[^\W\d_])){0,40}"
_NAME = rf"(?P<name>{_WORD}(?: {_WORD}){{0,3}})"
_CAPITAL = r"[A-ZÀ-ÖØ-Þ](?:[^\W\d_]|['’-](?=[^\W\d_])){0,40}"
_CAPITALS = rf"(?P<name>{_CAPITAL}(?: {_CAPITAL}){{0,3}})(?!\w)"

_TITLE = re.compile(rf"(?<!\w)(?:mr|mrs|ms|miss|mx|dr|prof|professor|sir|madam|lady|lord)\b\.? {_NAME}", re.I)
# After these a name follows however it is written.
_STRONG = re.compile(
    r"(?<!\w)(?:(?:under |in |by )?(?:the |my |her |his |our |your |last |first |full |sur|middle ){0,4}name"
    r"(?:['’]?s| on (?:it|the (?:booking|reservation|account|card)))?(?: is| was| will be| would be| of)?[:,]?|"
    rf"named|known as|signed by) {_NAME}",
    re.I,
)
# After these one only where it is written with a capital.
_WEAK = re.compile(
    r"(?<!\w)(?i:this is|i am|i['’]?m|it['’]s|call me|ask for|speak(?:ing)? (?:to|with)|talk(?:ing)? (?:to|with)|hi|"
    r"hello|hey|dear|thanks|thank you|cheers|regards|sincerely|yours|best|love|under|wife|husband|son|daughter|brother|"
    r"sister|friend|boss|colleague|mother|father|mom|mum|dad|partner|boyfriend|girlfriend|sent by|signed|with|for|and|"
    rf"meet|tell|told|ask)[,!:]? {_CAPITALS}"
)
_IS = re.compile(rf"(?<!\w){_CAPITALS},? (?:here|speaking)\b")
_PLACE = re.compile(rf"(?<!\w)(?i:in|near|around|to|from|at|outside|downtown|visiting|of|by) {_CAPITALS}")
_TOKEN = re.compile(_WORD)

# Words that end a name, or are none: what people say after "I'm", "this is", "thanks".
_WORDS = """
a able about address afraid african after again all allergic alright also always am american an and another any
anyone anything april are around as asap asian at august available away awesome back bad be because been before
being best better book booked booking both bother brazilian breakfast british brunch but by call called calling
can cannot cash certainly cheap check chinese christmas coming confirmed cool correct could curious currently
day days dear december did dinner do does doing done down dr each early easter easy either else email english
ethiopian european even ever every everybody everyone everyone's everything excellent excuse expensive february
fine first folks for found free french friday fridays from full fully fun get getting give glad gluten go going
good got great greek guys had happy has have having he hello help her here hey hi him his home hope hoping how
however hungry i if in indian interested into is it italian its january japanese july june just kind know korean
last late later lebanese let lets like looking lost lot lots lovely lunch ma madam making mam many march may
maybe me mediterranean mexican mine miss monday more morning moroccan most mr mrs ms much my name near need
never next nice night no none not nothing november now number october of off office ok okay on once one one's
only or order other our out over perfect phone please possible probably quick quite ready really reservation
right running same saturday saturdays say see september seriously service she single sir so some somebody
someone something somewhat soon sorry spanish still sunday sundays super support sure table tea team thai than
thank thanks that the their them then there these they this those three thursday time to today together tomorrow
tonight too trying tuesday turkish two u unable under understood until up upset urgent us vegan vegetarian very
vietnamese waiting want wanting was we wednesday week well were what when where which while who why will with
without wondering working worried would wow wrong yeah yes yesterday yet you your yours
"""
_NO_NAME = frozenset(_WORDS.split())


def names_in(text: str) -> Iterator[Mention]:
    """Mentions of people and places that the words before or after them tell; they may overlap."""
    for pattern in (_TITLE, _STRONG):
        for found in pattern.finditer(text):
            yield from _name(text, *found.span("name"), "PERSON", sure=True)
    for pattern in (_WEAK, _IS):
        for found in pattern.finditer(text):
            yield from _name(text, *found.span("name"), "PERSON")
    for found in _PLACE.finditer(text):
        yield from _name(text, *found.span("name"), "LOCATION")


def _name(text: str, start: int, end: int, kind: str, sure: bool = False) -> Iterator[Mention]:
    """The words of a name, up to the first that is none; where it is sure that one comes, a capital makes it one."""
    at = start
    for word in _TOKEN.finditer(text, start, end):
        capital = word[0][0].isupper()
        if (is_no_name(word[0]) and not (sure and capital)) or not (sure or capital):
            break
        at = word.end()
    if at - start > 1:
        yield Mention(start, at, kind)


def is_no_name(word: str) -> bool:
    """Whether a word is among those that are never taken for a name; "I'd" is as little as "I"."""
    return re.split("['’]", word)[0].lower() in _NO_NAME
