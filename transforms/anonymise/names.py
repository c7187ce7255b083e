"""Finds names: those on a list, those that a spaCy model finds, and those that the words around them reveal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text
from parapet.transforms.anonymise.mentions import KINDS, Mention
from parapet.transforms.text import check_plain_text

_TOKEN = re.compile(r"\w+")
_KIND = re.compile(r"[A-Z]{2,20}")
# Labels of spaCy's English models (OntoNotes 5) and of those of other languages (WikiNER) to kinds.
_LABELS = {
    "PERSON": "PERSON",
    "PER": "PERSON",
    "GPE": "LOCATION",
    "LOC": "LOCATION",
    "FAC": "LOCATION",
    "ORG": "ORGANIZATION",
    "DATE": "DATE",
    "TIME": "TIME",
}

Entry = tuple[str, str]  # kind, text


def read_entities(path: str) -> list[Entry]:
    """Reads entities, one per line, ``Blue Door`` or ``ORGANIZATION<TAB>Blue Door``. Raises InputError."""
    content = read_text(as_path(path), where="--entities")
    check_plain_text(content[:1000].encode(), path, "--entities")
    lines = content.splitlines()
    entries = []
    for number, line in enumerate(lines, 1):
        kind, _, text = line.partition("\t") if "\t" in line else ("ENTITY", "", line)
        if not text.strip():
            continue
        if not _KIND.fullmatch(kind.strip()):
            reason = f"a kind is in capitals, such as {', '.join(list(KINDS)[-3:])}"
            raise InputError(reason, path, f"line {number}")
        if not _TOKEN.search(text):
            raise InputError("has no letter or digit", path, f"line {number}")
        entries.append((kind.strip(), text.strip()))
    if not entries:
        raise InputError("no entities here", path, "--entities")
    return sorted(set(entries))


class Gazetteer:
    """Finds listed texts, as whole words in any case. Its time does not depend on the length of the list.

    Args:
      entries: (kind, text).
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._of_first: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for kind, text in entries:
            tokens = tuple(token.casefold() for token in _TOKEN.findall(text))
            if tokens:
                self._of_first.setdefault(tokens[0], []).append((tokens, kind))
        for found in self._of_first.values():
            found.sort(key=lambda one: (-len(one[0]), one))

    def find(self, text: str) -> Iterator[Mention]:
        """The longest mention at each place; mentions do not overlap."""
        places = [(found.group().casefold(), *found.span()) for found in _TOKEN.finditer(text)]
        words = tuple(word for word, _, _ in places)
        at = 0
        while at < len(words):
            for tokens, kind in self._of_first.get(words[at], ()):
                if words[at : at + len(tokens)] == tokens:
                    yield Mention(places[at][1], places[at + len(tokens) - 1][2], kind)
                    at += len(tokens) - 1
                    break
            at += 1


def check_model(name: str) -> None:
    """Raises InputError where there is no such spaCy model, or it finds no entities."""
    try:
        pipes = _model(name).pipe_names
    except OSError:
        reason = f"there is no trained model {name!r}: python -m spacy download {name}, or give the folder of one"
        raise InputError(reason, "--spacy_model") from None
    except Exception as error:  # a model's own
        raise InputError(f"the model {name!r} cannot be loaded: {error}", "--spacy_model") from None
    if not {"ner", "entity_ruler"} & set(pipes):
        raise InputError(f"the model {name!r} finds no entities: it has no component ner", "--spacy_model")


@cache
def _model(name: str) -> Any:
    """Cached: a model takes a second to load."""
    import spacy

    return spacy.load(name)


def recognised(texts: Sequence[str], model: str) -> list[list[Mention]]:
    """The mentions that a model finds in each text."""
    return [
        [
            Mention(entity.start_char, entity.end_char, _LABELS[entity.label_])
            for entity in doc.ents
            if entity.label_ in _LABELS
        ]
        for doc in _model(model).pipe(texts)
    ]


_WORD = r"[^\W\d_](?:[^\W\d_]|['’.-](?=[^\W\d_])){0,40}"
_NAME = rf"(?P<name>{_WORD}(?: {_WORD}){{0,3}})"
_CAPITAL = r"[A-ZÀ-ÖØ-Þ](?:[^\W\d_]|['’-](?=[^\W\d_])){0,40}"
_CAPITALS = rf"(?P<name>{_CAPITAL}(?: {_CAPITAL}){{0,3}})(?!\w)"

_TITLE = re.compile(rf"(?<!\w)(?:mr|mrs|ms|miss|mx|dr|prof|professor|sir|madam|lady|lord)\b\.? {_NAME}", re.I)
# After these a name follows, in any case.
_STRONG = re.compile(
    r"(?<!\w)(?:(?:under |in |by )?(?:the |my |her |his |our |your |last |first |full |sur|middle ){0,4}name"
    r"(?:['’]?s| on (?:it|the (?:booking|reservation|account|card)))?(?: is| was| will be| would be| of)?[:,]?|"
    rf"named|known as|signed by) {_NAME}",
    re.I,
)
# After these a name follows only where it is capitalised.
_WEAK = re.compile(
    r"(?<!\w)(?i:this is|i am|i['’]?m|it['’]s|call me|ask for|speak(?:ing)? (?:to|with)|talk(?:ing)? (?:to|with)|hi|"
    r"hello|hey|dear|thanks|thank you|cheers|regards|sincerely|yours|best|love|under|wife|husband|son|daughter|brother|"
    r"sister|friend|boss|colleague|mother|father|mom|mum|dad|partner|boyfriend|girlfriend|sent by|signed|with|for|and|"
    rf"meet|tell|told|ask)[,!:]? {_CAPITALS}"
)
_IS = re.compile(rf"(?<!\w){_CAPITALS},? (?:here|speaking)\b")
_PLACE = re.compile(rf"(?<!\w)(?i:in|near|around|to|from|at|outside|downtown|visiting|of|by) {_CAPITALS}")
_NAME_WORD = re.compile(_WORD)

# Words that are no part of a name: what people say after "I'm", "this is", "thanks".
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
    """Mentions of people and places by the words before or after them; they may overlap."""
    for pattern in (_TITLE, _STRONG):
        for found in pattern.finditer(text):
            yield from _name(text, *found.span("name"), "PERSON", sure=True)
    for pattern in (_WEAK, _IS):
        for found in pattern.finditer(text):
            yield from _name(text, *found.span("name"), "PERSON")
    for found in _PLACE.finditer(text):
        yield from _name(text, *found.span("name"), "LOCATION")


def _name(text: str, start: int, end: int, kind: str, sure: bool = False) -> Iterator[Mention]:
    """The words of a name, up to the first that is not part of one; where ``sure``, any capitalised word is."""
    at = start
    for word in _NAME_WORD.finditer(text, start, end):
        capital = word[0][0].isupper()
        if (is_no_name(word[0]) and not (sure and capital)) or not (sure or capital):
            break
        at = word.end()
    if at - start > 1:
        yield Mention(start, at, kind)


def is_no_name(word: str) -> bool:
    """Whether a word is never taken for a name; "I'd" is like "I"."""
    return re.split("['’]", word)[0].lower() in _NO_NAME
