"""Check whether a back-translated name or description of a schema still says the same, in good English.

Short texts leave an engine without context: "weather" comes back as "time", "city" as the name of a city. No measure of
similarity tells these from "film" for "movie". So the new text must consist of the words of the original, or of their
synonyms below, in the same relations: "event date" may become "date of the event", but not "date event". An engine
loses changes that the list does not know; no text changes its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

WORDS, ORDER, FORM, GRAMMAR = "other_words", "other_order", "other_form", "grammar"

# A word may be in several groups. Nouns and verbs are apart: "reserve" is no synonym of "booking".
_SYNONYMS = """
movie film/find locate/search seek/begin start commence/beginning start/end finish/buy purchase/get obtain/book reserve
booking reservation/hire rent/hire rental/trip journey/journey ride/cab taxi/airplane plane aircraft/location place
place venue/location venue/kind type sort/certain determined given particular specific specified
many multiple several various/different various/city town/apartment flat/doctor physician/phone telephone
number quantity/amount sum/cost price/fare price/charge fee/recipient receiver/happen occur/happening occurrence
theater theatre cinema/cheap inexpensive/broad extensive wide/comprehensive extensive/image photo photograph
depart leave/layover stopover/person individual/choose select/chance likelihood possibility probability
percent percentage/area region zone/see view/browse view/create make/change modify alter/delete remove
add insert/whole entire/main principal/leading top/premier leading/easy simple/fast quick rapid/easily simply
quickly rapidly fast/famous popular/business company firm/estimated expected/following next/client customer user
passenger traveler traveller/guest visitor/child kid/aid assist help/assistance help/allow enable permit/inform tell
answer reply respond/indicate show/if whether/desire wish/want wish/need require/use utilize/form method means
duration length/shop store/road street/average mean/rating score/assessment evaluation review
edit modify alter/manage administer/arrange schedule/comment note remark/send transfer/give provide/offer provide
supply provide/deliver send/discover find/ask request/question query/nice pleasant/big huge large/small tiny
arrive arriving/end ending/find finding/book booking/final ending/job work occupation/expertise specialty speciality
caption subtitle/artist performer/singer vocalist/category class/exact precise/complimentary free/hairdresser stylist
baggage luggage/contain include/auto automobile car/train rail railway/bus coach/attraction sight/indicator flag
sport sports/need necessity/genre style/money funds/sender originator
"""
_SPELLINGS = {
    r"^search\b(?: for)?|\b(?:search|look) for\b": "find",
    r"\b(?:searching|looking) for\b": "finding",
    r"\btak(e|ing) place\b": r"occur\1",
    r"\bclose to\b": "near",
    r"\bit's\b": "it is",
    r"\bat (?=(?:an?|the|certain|given|particular|specific)\b)": "in ",
    r"\b(round|one|red|pick|drop|check|non|wi)[- ]?(trip|way|eye|up|off|in|out|stop|fi)\b": r"\1\2",
    # Cannot be turned around: the number of seats is no seat number.
    r"\b(?:number|quantity) of\b": "numberof",
    r"\b(list|set|pair|range) of\b": r"\1of",
    r"\b(?:tele)?phone number\b": "phonenumber",
    r"\b(street|email) address\b": r"\1address",
}
ARTICLES = frozenset({"a", "an", "the"})
_FUNCTION_WORDS = """
about across after all already and any are as at be been before being between by can could do does during each either
every for from had has have he her his how i if in into is it its many me more most much my near no non none not of on
only or our per since than that their them then there these they this those through to under until up via was we were
what when where whether which while who will with within without would you your
"""
_FUNCTION = frozenset(_FUNCTION_WORDS.split())
_CONJUNCTIONS = frozenset({"and", "or", "to", "that", "which", "who", "where", "when"})
_SAME = {"whether": "if", "for": "to"}  # "for finding" is "to find"
_FIRST = frozenset({"average", "maximum", "minimum", "total"})  # "total price of car rental", "total car rental price"
# What may be "B of A" instead of "A B": the date of the event, but not the phone of the house, and no date of end.
_OWNED = """
address airport category chance city code cost date director fare genre id kind language location name number place
possibility price size specialty speciality style time title type
"""
_NO_OWNERS = frozenset({"begin", "beginning", "start", "starting", "end", "ending", "calendar"})
_WORD = re.compile(r"[^\W_]+(?:'(?!s\b)\w+)?|'s\b|[.,;:()]")
_HYPHENATED = re.compile(r"\b[a-z]+(?:-[a-z]+)+\b")
_SEARCH_FOR = re.compile(r"\b(?:look|search)(?:s|es|ing)? for\b", re.IGNORECASE)
_MARK = re.compile(r"[^\w\s,'’-]")
_BROKEN = re.compile(r" [.,;:!?]|[a-z][.,;:!?][a-z]| \(s\)|\d - \d|\bto \w+ .*\band \w+ing\b|\bif to\b", re.IGNORECASE)


class _Word(NamedTuple):
    """A word that carries meaning, and whether it is the last of a phrase, which the others describe."""

    text: str
    is_head: bool


def refusal(before: str, after: str, is_action: bool) -> str:
    """Return why a text may not replace another, or an empty string.

    Args:
      before: the original, for a name its words.
      after: the back-translation.
      is_action: whether the first word is a verb that must stay one, as in intents.
    """
    old, new = _words(before, after), _words(after, before)
    if is_action and not _is_same(old[0], new[0]):
        return WORDS
    if is_action and (_form(old[0]) != _form(new[0]) or new[1:2] == ["to"]):
        return FORM  # "visit property" as "visit to property"
    left, right = (list(_relations(words[is_action:])) for words in (old, new))
    pairs = list(zip(left, right, strict=False))
    if len(left) != len(right) or any(
        new.count(word) > max(1, old.count(word)) for word in {*new} - _FUNCTION - ARTICLES - {","}
    ):
        return WORDS  # among others, "city or town" as "city or city"
    if not all(_is_same(a.text, b.text) for a, b in pairs):
        return ORDER if all(any(_is_same(a.text, b.text) for b in right) for a in left) else WORDS
    if not _has_same_owners(pairs, is_action):
        return ORDER
    if any(_is_other_form(a, b, is_action, "to" in new) for a, b in pairs):
        return FORM
    loses_for = _SEARCH_FOR.search(before) and not _SEARCH_FOR.search(after) and "search" in after.lower()
    has_other_marks = _MARK.findall(before.strip(" .")) != _MARK.findall(after.strip(" ."))
    if loses_for or has_other_marks or _BROKEN.search(after) or not _is_grammatical(old, new, is_action):
        return GRAMMAR
    return ""


def _words(text: str, other: str) -> list[str]:
    """Split a text into words and marks; compounds with a hyphen in either text are one word."""
    text, other = (x.lower().replace("’", "'") for x in (text, other))
    for compound in _HYPHENATED.findall(f"{text} {other}"):
        text = re.sub(compound.replace("-", "[- ]?"), compound.replace("-", ""), text)
    for pattern, spelling in _SPELLINGS.items():
        text = re.sub(pattern, spelling, text)
    return _WORD.findall(text.strip(" .?!")) or [""]


def _relations(words: list[str]) -> Iterator[_Word]:
    """Yield the words that carry meaning; "date of the event" is in the order of "event date"."""
    parts: list[list[str]] = [[]]  # what "of" and "for" separate
    begin = ""
    for word, following in pairwise([*words, ".", ""]):
        if word in ARTICLES or word == "'s":
            continue
        if parts[-1] and (word == "of" or (word == "for" and not following.endswith("ing"))):
            parts.append([])
        elif word not in _FUNCTION and word[:1].isalnum():
            parts[-1].append(word)
        else:
            # "Date of the visit or arrival" is not "visit date or arrival".
            ordered = parts if word in _CONJUNCTIONS or begin in ("and", "or") else parts[::-1]
            phrase = [_Word(each, i == len(part)) for part in ordered for i, each in enumerate(part, 1)]
            yield from sorted(phrase, key=lambda each: each.text not in _FIRST)
            if not parts[-1] and parts[0]:
                yield _Word("of", False)
            parts, begin = [[]], word
            if word[:1].isalnum():
                yield _Word(_SAME.get(word, word), False)


def _has_same_owners(pairs: list[tuple[_Word, _Word]], is_action: bool) -> bool:
    """Whether words only change between the two sides of "of" where that keeps the meaning."""
    moved = [(i, old) for i, (old, new) in enumerate(pairs) if new.is_head != old.is_head]
    if (
        any(old.text in _NO_OWNERS or old.text.isdigit() for _, old in moved)
        or len({old.is_head for _, old in moved}) > 1
    ):
        return False  # among others, "flight city of origin" as "city of origin flight"
    owned = [next((new.text for _, new in pairs[i + 1 :] if new.is_head), "") for i, old in moved if not old.is_head]
    return is_action or all(_lemma(word) in _OWNED.split() for word in owned)


def _is_other_form(old: _Word, new: _Word, is_action: bool, has_to: bool) -> bool:
    """Whether a noun has another number, or a verb another form."""
    before, after = _form(old.text), _form(new.text)
    if before == after or any({old.text, new.text} <= group for group in _synonyms()):
        return False
    if before == "ing":  # "seating class" may become "seat class", and "for finding" "to find"
        return after != "" or not (has_to or not (old.is_head or new.is_head))
    return old.is_head == new.is_head or not is_action  # "buy event tickets" may become "buy tickets for events"


def _is_grammatical(old: list[str], new: list[str], is_action: bool) -> bool:
    """Whether articles, marks, and function words at the ends are where those of the original are."""
    ends = zip((old[0], old[-1]), (new[0], new[-1]), strict=True)
    if any(a != b and {a, b} & _FUNCTION and {a, b} != {"if", "whether"} for a, b in ends):
        return False
    # "Buy tickets of event", "time of flight of origin", "the airline's name to book with"
    if new.count("of") > max(not is_action, old.count("of")) or any(new.count(x) > old.count(x) for x in ("'s", ",")):
        return False
    adjacent = [pair for pair in pairwise(old) if not _FUNCTION & {*pair}]
    for first, article, noun in zip(new[is_action:], new[is_action + 1 :], new[is_action + 2 :], strict=False):
        if article in ARTICLES and any(_is_same(first, a) and _is_same(noun, b) for a, b in adjacent):
            return False  # "ending city" as "ending the city"
    # The article of a noun stays, except after another word that describes it.
    bare = (_FUNCTION | ARTICLES) - {"and", "or"}
    articles = [(a, b) for a, b in pairwise(old) if a in ARTICLES]
    found = list(pairwise(["in" if old[0] in ARTICLES else "", *new]))
    return not any(
        (a != c if b == d else a[0] != c[:1]) and (c in bare or c.endswith("of")) and _is_same(b, d)
        for a, b in articles
        for c, d in found
    )


@lru_cache(1 << 14)
def _is_same(word: str, other: str) -> bool:
    """Whether two words are the same in another form, or synonyms."""
    if word in _FUNCTION or other in _FUNCTION:
        return word == other
    left, right = {word, _lemma(word)}, {other, _lemma(other)}
    return bool(left & right) or any(group & left and group & right for group in _synonyms())


def _form(word: str) -> str:
    """Return the ending of a form that is not the basic one: "ing" of "booking", "s" of "seats"."""
    if word.endswith("ing"):
        return "ing"
    return next((end for end in ("ed", "est", "er", "s") if word.endswith(end) and _lemma(word) != word), "")


@lru_cache(1 << 14)
def _lemma(word: str) -> str:
    import simplemma

    return str(simplemma.lemmatize(word, "en")) if word else ""


@cache
def _synonyms() -> list[set[str]]:
    return [set(group.split()) for line in _SYNONYMS.strip().splitlines() for group in line.split("/")]
