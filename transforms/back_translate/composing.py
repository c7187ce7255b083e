"""A service with back-translated names and descriptions; what cannot be used keeps its original, with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from parapet.schemas.rows import BackTranslation
from parapet.schemas.service import Service, elements_of, parse_service
from parapet.transforms.naming import Convention, Conventions, join_words, name_words
from parapet.transforms.variants.names import compose_variant

ENGLISH = "en"

MAX_NAME_WORDS = 10  # a longer one is a sentence: the longest name of SGD-X has seven words

REASONS = {
    "identical": "the back-translation is the same text",
    "empty": "no letter or digit that a name can have",
    "non_ascii": "has letters that names of the corpus cannot have",
    "too_long": f"more than {MAX_NAME_WORDS} words: a sentence, not a name",
    "collision": "another name of the service is the same",
    "no_text": "the original is empty, or has no letters to translate",
    "not_translated": "the engine gave no translation",
}


class SourceText(msgspec.Struct, frozen=True):
    """One name or description.

    Attributes:
      element_id: whose.
      place: its form field, ``slot_3``: kind and position.
      field: ``name`` or ``description``.
      original: as the schema has it.
      text: what is sent to an engine; empty where there is nothing to send.
    """

    element_id: str
    place: str
    field: Literal["name", "description"]
    original: str
    text: str


def source_texts(service: Service) -> Iterator[SourceText]:
    """Yields the names of intents and slots, then the descriptions, the service's too."""
    for element in elements_of(service, "names"):
        yield SourceText(element.id, element.field, "name", element.name, phrase_of(element.name))
    for element in elements_of(service, "descriptions"):
        text = " ".join(element.description.split())
        yield SourceText(element.id, element.field, "description", element.description, text)


def phrase_of(name: str) -> str:
    """``FindRestaurants`` and ``find_restaurants`` are "find restaurants"."""
    return " ".join(name_words(name))


def texts_of(services: Iterable[Service]) -> list[str]:
    """All texts to translate, each once, sorted."""
    return sorted({source.text for service in services for source in source_texts(service) if source.text})


class Legs(msgspec.Struct, frozen=True):
    """What is known of one pivot.

    Attributes:
      there: English text to pivot text.
      back: pivot text to English text.
    """

    there: Mapping[str, str]
    back: Mapping[str, str]


def back_translated(
    raw: Mapping[str, Any], pivot: str, legs: Legs, conventions: Conventions
) -> tuple[dict[str, Any], list[BackTranslation]]:
    """A service as the variant of a pivot.

    Args:
      raw: the service as its file has it.
      pivot: the language.
      legs: its translations.
      conventions: how the corpus writes names.

    Returns:
      The variant, in the layout of SGD-X, as ``SERVICEzh``; one row for each name and description, in their order.
    """
    sources = list(source_texts(parse_service(dict(raw))))
    rows = [_row(source, pivot, legs, conventions) for source in sources]
    for kind in ("intent", "slot"):
        named = [i for i, source in enumerate(sources) if source.field == "name" and source.place.startswith(kind)]
        for i, row in zip(named, without_collisions([rows[i] for i in named]), strict=True):
            rows[i] = row
    emitted = {(source.place, source.field): row.emitted for source, row in zip(sources, rows, strict=True)}
    names = {place: text for (place, field), text in emitted.items() if field == "name"}
    descriptions = {place: text for (place, field), text in emitted.items() if field == "description"}
    return compose_variant(raw, pivot, names, descriptions), rows


def _row(source: SourceText, pivot: str, legs: Legs, conventions: Conventions) -> BackTranslation:
    there = legs.there.get(source.text, "")
    back = legs.back.get(there, "") if there else ""
    emitted, reason = source.original, ""
    if not source.text:
        reason = "no_text"
    elif not back:
        reason = "not_translated"
    elif source.field == "name":
        convention = conventions.intents if source.place.startswith("intent") else conventions.slots
        emitted, reason = name_of(back, source.original, convention)
    elif back == source.text:
        reason = "identical"
    else:
        emitted = back
    return BackTranslation(
        source.element_id,
        source.field,
        pivot,
        source.original,
        source.text,
        there,
        back,
        emitted or source.original,
        reason,
    )


def name_of(text: str, original: str, convention: Convention) -> tuple[str, str]:
    """A back-translation as a name; the original and a reason where it is none."""
    words = name_words(text)
    if any(char.isalpha() and not name_words(char) for char in text):
        return original, "non_ascii"
    if not words:
        return original, "empty"
    if len(words) > MAX_NAME_WORDS:
        return original, "too_long"
    name = join_words(words, convention, original)
    return (original, "identical") if name == original else (name, "")


def without_collisions(rows: Sequence[BackTranslation]) -> list[BackTranslation]:
    """Names of one kind, unique: of two that are the same, the later one gets its original back.

    Originals are unique, so a new name that equals another original gives way. Each step settles one name.
    """
    rows = list(rows)
    while (i := _colliding(rows)) is not None:
        rows[i] = msgspec.structs.replace(rows[i], emitted=rows[i].original, reason="collision")
    return rows


def _colliding(rows: Sequence[BackTranslation]) -> int | None:
    """The last new name that another element has too."""
    names = [row.emitted for row in rows]
    for i in reversed(range(len(rows))):
        if not rows[i].reason and names.count(names[i]) > 1:
            return i
    return None
