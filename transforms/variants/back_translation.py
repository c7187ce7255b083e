"""Back-translate schemas: one variant per pivot language (Lee et al. 2022, "Schema Augmentation").

Each text is translated alone and in phrases that give it context. Of the back-translations that pass the gate of
meaning, the one farthest from the original is used; if none passes, the original stays, with a reason in the audit.

The gate checks whether a text still says the same, in good English. Short texts leave an engine without context:
"weather" comes back as "time", "city" as the name of a city. No measure of similarity tells these from "film" for
"movie". So the new text must consist of the words of the original, or of their synonyms below, in the same relations:
"event date" may become "date of the event", but not "date event". An engine loses changes that the list does not know;
no text changes its meaning.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import msgspec
import orjson
import pyarrow as pa

from parapet.schemas.layout import DEAD_LETTERS, schema_bytes
from parapet.schemas.rows import AUDIT, BackTranslation, Translation, parquet_bytes
from parapet.schemas.service import Service, Task, elements_of, parse_service
from parapet.schemas.tools import ToolFile, identifiers
from parapet.transforms.core import counts, fence
from parapet.transforms.report.numbers import Metric, Numbers, sections_of
from parapet.transforms.report.report import Report, Table, Tile, page
from parapet.transforms.report.text import Conventions, counted, join_words, name_words, number
from parapet.transforms.translate.memory import ENGLISH, MEMORY_FILE, by_languages, memory_bytes, merge
from parapet.transforms.translate.translate import Untranslated
from parapet.transforms.variants import table1
from parapet.transforms.variants.distance import lemma, levenshtein_ratio
from parapet.transforms.variants.matching import MAPPING, by_position, compose_variant, mapping_bytes

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
_OWNED_WORDS = """
address airport category chance city code cost date director fare genre id kind language location name number place
possibility price size specialty speciality style time title type
"""
_OWNED = frozenset(_OWNED_WORDS.split())
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
    """Returns why a text may not replace another, or an empty string.

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
    """Splits a text into words and marks; compounds with a hyphen in either text are one word."""
    text, other = (x.lower().replace("’", "'") for x in (text, other))
    for compound in _HYPHENATED.findall(f"{text} {other}"):
        text = re.sub(compound.replace("-", "[- ]?"), compound.replace("-", ""), text)
    for pattern, spelling in _SPELLINGS.items():
        text = re.sub(pattern, spelling, text)
    return _WORD.findall(text.strip(" .?!")) or [""]


def _relations(words: list[str]) -> Iterator[_Word]:
    """Yields the words that carry meaning; "date of the event" is in the order of "event date"."""
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
    return is_action or all(word and lemma(word) in _OWNED for word in owned)


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
    if word in _FUNCTION or other in _FUNCTION or not (word and other):
        return word == other
    left, right = {word, lemma(word)}, {other, lemma(other)}
    return bool(left & right) or any(group & left and group & right for group in _synonyms())


def _form(word: str) -> str:
    """Returns the ending of a form that is not the basic one: "ing" of "booking", "s" of "seats"."""
    if word.endswith("ing"):
        return "ing"
    return next((end for end in ("ed", "est", "er", "s") if word.endswith(end) and lemma(word) != word), "")


@cache
def _synonyms() -> list[set[str]]:
    return [set(group.split()) for line in _SYNONYMS.strip().splitlines() for group in line.split("/")]


REASONS = {
    "identical": "the back-translation is the same text",
    "collision": "another name of the service is the same",
    "lost_name": "the back-translation has lost the name of a tool or parameter",
    "no_text": "the original is empty, or has no letters to translate",
    "not_translated": "the engine gave no translation",
    WORDS: "has other words than the original and their synonyms",
    ORDER: "has the words of the original in another order, which changes what belongs together",
    FORM: "has another form of a word: a verb for a noun, a plural for a singular",
    GRAMMAR: "lacks or adds an article, a preposition or a mark",
}

# Phrases that tell the engine the part of speech, with the pattern of the answer.
_PHRASES = {"intent": ("I want to {}.", r"I want to (.*)"), "slot": ("It is the {}.", r"(?:It is|It's) the (.*)")}
_LABELLED = {"name": r"([^:]*):.*", "description": r"[^:]*:(.*)"}  # the answers to "NAME: DESCRIPTION"
MAX_PHRASE_WORDS = 15  # a longer description has context enough
_FIELDS: dict[Literal["name", "description"], Task] = {"name": "names", "description": "descriptions"}


class SourceText(msgspec.Struct, frozen=True):
    """A name or description.

    Attributes:
      element_id: the element's id.
      place: its form field, such as ``slot_3``: kind and position.
      field: ``name`` or ``description``.
      original: the text in the schema.
      text: the original in words, in one line; may be empty.
      candidates: the texts to send to an engine, each with the pattern that finds the back-translation in the answer.
      scopes: the scopes in which a name must be unique, see :class:`parapet.schemas.service.Element`.
    """

    element_id: str
    place: str
    field: Literal["name", "description"]
    original: str
    text: str
    candidates: dict[str, str]
    scopes: tuple[str, ...] = ()

    @property
    def is_action(self) -> bool:
        """Whether it begins with a verb."""
        return not self.place.startswith("slot")


def source_texts(service: Service) -> Iterator[SourceText]:
    """Yields the names of intents and slots, then the descriptions, including the service's."""
    for field, task in _FIELDS.items():
        for element in elements_of(service, task):
            name = " ".join(name_words(element.name.rpartition(".")[2]))  # the prefix is kept
            description = " ".join(element.description.split())
            text = name if field == "name" else description
            candidates = {text: "(.*)"} if field == "name" else {f"{text.rstrip('.')}.": "(.*)"}
            if element.kind in _PHRASES and len(text.split()) <= MAX_PHRASE_WORDS:
                phrase, pattern = _PHRASES[element.kind]
                lower = text if text[1:2].isupper() else text[:1].lower() + text[1:]
                candidates[phrase.format(lower.rstrip("."))] = pattern
                if name and description and ":" not in description:
                    candidates[f"{name}: {description}"] = _LABELLED[field]
            scopes = tuple(f"{element.kind}:{scope}" for scope in element.scopes) if field == "name" else ()
            original = element.text(task)
            yield SourceText(element.id, element.field, field, original, text, candidates if text else {}, scopes)


Answers = Mapping[str, tuple[str, str]]  # text to its translation into the pivot, and that back to English


def back_translated(
    raw: Mapping[str, Any], pivot: str, answers: Answers, conventions: Conventions
) -> tuple[dict[str, Any], list[BackTranslation]]:
    """Returns a service as the variant of a pivot.

    Args:
      raw: the service as read from its file.
      pivot: the pivot language.
      answers: the translations of the pivot.
      conventions: the naming conventions of the corpus.

    Returns:
      The variant ``SERVICEzh``, in the layout of SGD-X; and a row for each name and description, in order.
    """
    service = parse_service(dict(raw))
    sources, conventions = list(source_texts(service)), conventions.within(service)
    rows = [_row(source, pivot, answers, conventions) for source in sources]
    rows = without_collisions(rows, [source.scopes for source in sources])
    emitted: dict[str, dict[str, str]] = {"name": {}, "description": {}}
    for source, row in zip(sources, rows, strict=True):
        emitted[source.field][source.place] = row.emitted
    return compose_variant(raw, pivot, emitted["name"], emitted["description"]), rows


def _row(source: SourceText, pivot: str, answers: Answers, conventions: Conventions) -> BackTranslation:
    """Returns the usable back-translation farthest from the original, or that of the text alone if there is none."""
    place, rows = (source.element_id, source.field, pivot, source.original), []
    for text, pattern in source.candidates.items():
        forth, back = answers.get(text, ("", ""))
        emitted, reason = _usable(source, back, pattern, conventions) if back else ("", "not_translated")
        rows.append(BackTranslation(*place, text, forth, back, source.original if reason else emitted, reason))
    if not rows:
        return BackTranslation(*place, "", "", "", source.original, "no_text")
    usable = [row for row in rows if not row.reason]
    return min(usable, key=lambda row: levenshtein_ratio(source.original, row.emitted), default=rows[0])


def _usable(source: SourceText, back: str, pattern: str, conventions: Conventions) -> tuple[str, str]:
    """Returns the new name or description in a back-translation, and why it cannot be used, if so."""
    if (match := re.fullmatch(pattern, back, re.IGNORECASE | re.DOTALL)) is None:
        return "", WORDS
    if source.field == "name":
        convention = conventions.of("intent" if source.is_action else "slot", source.original)
        words = [word for word in name_words(match[1]) if word not in ARTICLES]
        emitted, text = join_words(words, convention, source.original), match[1]
    else:
        emitted = text = like(match[1].strip(), source.text)
    if not emitted:
        return "", WORDS
    if emitted in (source.original, source.text):
        return emitted, "identical"
    if any(identifier not in text for identifier in identifiers(source.text)):
        return emitted, "lost_name"
    return emitted, refusal(source.text, text, source.is_action)


def like(text: str, original: str) -> str:
    """Returns a description with the capitals and the final mark of the original."""
    known = set(re.findall(r"\w+", original)[1:])
    text = re.sub(r"\b[A-Z][a-z]+\b", lambda match: match[0] if match[0] in known else match[0].lower(), text)
    text = text.rstrip(".") + "." * original.endswith(".")
    return text[:1].upper() + text[1:] if original[:1].isupper() else text


def without_collisions(rows: Sequence[BackTranslation], scopes: Sequence[tuple[str, ...]]) -> list[BackTranslation]:
    """Keeps the original of each new name that is another original, or an earlier new name, in one of its scopes."""
    taken = {(scope, row.original) for row, own in zip(rows, scopes, strict=True) for scope in own}
    unique = []
    for row, own in zip(rows, scopes, strict=True):
        names = {(scope, row.emitted) for scope in own}
        if not row.reason and names & taken:
            row = msgspec.structs.replace(row, emitted=row.original, reason="collision")
        taken |= names
        unique.append(row)
    return unique


EXAMPLES = 40

_TABLES = (
    Numbers(
        "How far each back-translation is from the original",
        "pivots/*",
        ("pivot",),
        (
            Metric("name_distance", "name distance", digits=2),
            Metric("description_bleu", "BLEU", digits=1),
            Metric("names_changed", "names changed", percent=True),
            Metric("descriptions_changed", "descriptions changed", percent=True),
        ),
        note="SGD-X (Lee et al. 2022) reports for SGD's training schemas, as means over Mandarin, Japanese and Korean: "
        "name distance 0.14, BLEU 34.1, self-BLEU 41.8. Known to be odd: now and then a word in another sense than "
        "that of its synonym, and changes as small as an article.",
        chart="bars",
    ),
    Numbers(
        "Names and descriptions that keep the original",
        "pivots/*/kept/*",
        ("pivot", "reason"),
        (Metric("", "number"),),
        REASONS,
    ),
)


def back_translate_report(statistics: Mapping[str, Any], audit: Sequence[BackTranslation]) -> Report:
    """Makes the report from ``statistics.json`` and the rows of the audit."""
    pivots, average = statistics["pivots"], statistics["average"]
    changed = [row for row in audit if not row.reason]
    return Report(
        command="back_translate",
        title="Back-translation",
        headline="Schemas through another language and back",
        lead=f"{counted(statistics['services'], 'service')}, {counted(len(pivots), 'pivot language')}.",
        tiles=[
            Tile("average name distance", number(average["name_distance"], 2)),
            Tile("average BLEU of descriptions", number(average["description_bleu"], 1)),
            Tile("self-BLEU", number(statistics["self_bleu"], 1)),
        ],
        sections=[
            *sections_of(statistics, *_TABLES),
            Table(
                title="Examples of changed names and descriptions",
                columns=["original", "new", "translation", "pivot"],
                rows=[
                    [" ".join(text.split()) for text in (row.original, row.emitted, row.pivot_text, row.pivot)]
                    for row in changed[:: len(changed) // EXAMPLES + 1]
                ],
                text_columns=4,
            ),
        ],
        terms=table1.terms_of(["name_distance", "description_bleu"]),
        links={
            "statistics.json": f"all numbers; BLEU by sacrebleu, `{statistics['bleu_signature']}`",
            "translations.parquet": "every name and description, its translation and back-translation",
        },
    )


class Corpus(msgspec.Struct, frozen=True):
    """The schemas to back-translate.

    Attributes:
      files: path below a root (``train/schema.json``) to the names of its services, in order.
      raw: every service as read from its file.
      pivots: the pivot languages, in the given order.
      conventions: the naming conventions of the corpus.
      tools: the file of the toolsets, if the services are toolsets.
    """

    files: dict[str, list[str]]
    raw: dict[str, dict[str, Any]]
    pivots: list[str]
    conventions: Conventions
    tools: ToolFile | None = None

    def services(self) -> list[Service]:
        """Parses every service."""
        return [parse_service(dict(raw)) for raw in self.raw.values()]

    def texts(self) -> list[str]:
        """Returns the distinct texts to translate, sorted."""
        sources = [source for service in self.services() for source in source_texts(service)]
        return sorted({text for source in sources for text in source.candidates})


def make_files(
    corpus: Corpus,
    translations: Iterable[Translation],
    memory: Iterable[Translation],
    untranslated: Iterable[Untranslated],
    max_bad: Fraction,
) -> Iterator[tuple[str, bytes]]:
    """Yields (path below the output, bytes) of all output.

    Args:
      corpus: the schemas.
      translations: the translations of this run's texts in both directions, known or new.
      memory: other translations to keep.
      untranslated: the texts without a translation.
      max_bad: maximum share of each pivot's texts without a translation; their elements keep the original.

    Raises:
      InputError: more texts, or all, have no translation.
    """
    dead, translations = sorted(set(untranslated)), list(translations)
    texts = by_languages(translations)
    answers = {
        pivot: {
            text: (forth, back)
            for text, forth in texts.get((ENGLISH, pivot), {}).items()
            if (back := texts.get((pivot, ENGLISH), {}).get(forth, ""))
        }
        for pivot in corpus.pivots
    }
    check_untranslated(corpus.texts(), answers, dead, max_bad)
    variants: dict[str, dict[str, dict[str, Any]]] = {}
    audit: list[BackTranslation] = []
    for pivot in corpus.pivots:
        for name, raw in corpus.raw.items():
            with fence.needed(f"{pivot} variant", name):
                variant, rows = back_translated(raw, pivot, answers[pivot], corpus.conventions)
            variants.setdefault(pivot, {})[name] = variant
            audit += rows
        for path, names in corpus.files.items():
            services = [variants[pivot][name] for name in names]
            written = corpus.tools.service_files(services) if corpus.tools else {path: schema_bytes(services)}
            yield from ((f"{pivot}/{name}", data) for name, data in written.items())
    ordered = sorted(audit, key=lambda row: (row.element_id, row.field, row.pivot))
    yield "translations.parquet", parquet_bytes(pa.Table.from_pylist([*map(msgspec.structs.asdict, ordered)], AUDIT))
    yield MEMORY_FILE, memory_bytes(merge((row for row in translations if row.provider), memory))
    items = [
        table1.Item(service, {pivot: parse_service(variants[pivot][service.service_name]) for pivot in corpus.pivots})
        for service in corpus.services()
    ]
    if not corpus.tools:
        mapped = {
            pivot: {item.original.service_name: by_position(item.original, item.variants[pivot]) for item in items}
            for pivot in corpus.pivots
        }
        yield MAPPING, mapping_bytes(mapped)
    yield DEAD_LETTERS, b"".join(orjson.dumps(msgspec.to_builtins(letter)) + b"\n" for letter in dead)
    numbers = statistics(corpus.pivots, items, audit)
    yield "statistics.json", (json.dumps(numbers, indent=2, ensure_ascii=False) + "\n").encode()
    yield "report.html", page(back_translate_report(numbers, audit)).encode()


def statistics(pivots: Sequence[str], items: Sequence[table1.Item], audit: Sequence[BackTranslation]) -> dict[str, Any]:
    """Returns the measures of SGD-X for back-translations, and how many texts kept the original, by reason."""
    measured = table1.measures_of(items, pivots)
    numbers = {}
    for pivot in pivots:
        rows = [row for row in audit if row.pivot == pivot]
        changed = {
            f"{field}s_changed": table1.mean(not row.reason for row in rows if row.field == field) for field in _FIELDS
        }
        kept = Counter(row.reason for row in rows if row.reason)
        numbers[pivot] = {**measured["variants"][pivot], **changed, "kept": dict(sorted(kept.items()))}
    content: dict[str, Any] = table1.rounded(
        {"services": len(items), "pivots": numbers, "average": measured["average"], "self_bleu": measured["self_bleu"]}
    )
    return {**content, "bleu_signature": table1.bleu_signature()}


def check_untranslated(
    texts: Collection[str], answers: Mapping[str, Answers], dead: Sequence[Untranslated], max_bad: Fraction
) -> None:
    """Raises InputError if too many texts of a pivot have no back-translation.

    Args:
      texts: all texts to translate.
      answers: the known translations of each pivot.
      dead: the texts without a translation, with reasons.
      max_bad: maximum share of each pivot's texts without a translation.
    """
    tallies = [
        counts.Tally("text", len(texts), sum(text not in known for text in texts), pivot, is_record=True)
        for pivot, known in answers.items()
    ]
    reasons = Counter(letter.reason.partition(":")[0] for letter in dead)
    places = [f"{x.source} to {x.target}: {x.text[:80]!r}: {x.reason}" for x in dead]
    done = "translated (the translations so far are kept: run the same command again for the rest)"
    counts.check_bad(tallies, max_bad, done, reasons, places)
