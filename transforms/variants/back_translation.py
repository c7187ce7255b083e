"""Back-translate schemas: one variant per pivot language (Lee et al. 2022, "Schema Augmentation").

Each text is translated alone and in phrases that give it context. Of the back-translations that pass the gate of
meaning, the one farthest from the original is used; if none passes, the original stays, with a reason in the audit.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import msgspec
import orjson
import pyarrow as pa

from parapet.schemas.layout import DEAD_LETTERS, schema_bytes
from parapet.schemas.rows import AUDIT, BackTranslation, Translation, parquet_bytes
from parapet.schemas.service import Service, Task, elements_of, parse_service
from parapet.schemas.tool_texts import identifiers
from parapet.schemas.tools import ToolFile
from parapet.transforms.core.counts import Tally, check_bad
from parapet.transforms.core.fence import needed
from parapet.transforms.report.numbers import Metric, Numbers, sections_of
from parapet.transforms.report.report import Report, Table, Tile, page
from parapet.transforms.report.text import Conventions, counted, join_words, name_words, number
from parapet.transforms.translate.memory import ENGLISH, MEMORY_FILE, by_languages, memory_bytes, merge
from parapet.transforms.translate.translate import Untranslated
from parapet.transforms.variants import schema_gate, table1
from parapet.transforms.variants.distance import levenshtein_ratio
from parapet.transforms.variants.matching import MAPPING, by_position, compose_variant, mapping_bytes

REASONS = {
    "identical": "the back-translation is the same text",
    "collision": "another name of the service is the same",
    "lost_name": "the back-translation has lost the name of a tool or parameter",
    "no_text": "the original is empty, or has no letters to translate",
    "not_translated": "the engine gave no translation",
    schema_gate.WORDS: "has other words than the original and their synonyms",
    schema_gate.ORDER: "has the words of the original in another order, which changes what belongs together",
    schema_gate.FORM: "has another form of a word: a verb for a noun, a plural for a singular",
    schema_gate.GRAMMAR: "lacks or adds an article, a preposition or a mark",
}

# Phrases that tell the engine the part of speech, with the pattern of the answer.
_PHRASES = {
    "intent": ("I want to {}.", r"I want to (.*)"),
    "slot": ("It is the {}.", r"(?:It is|It's) the (.*)"),
}
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
    """Yield the names of intents and slots, then the descriptions, including the service's."""
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
    """Return a service as the variant of a pivot.

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
    """Return the usable back-translation farthest from the original, or that of the text alone if there is none."""
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
    """Return the new name or description in a back-translation, and why it cannot be used, if so."""
    match = re.fullmatch(pattern, back, re.IGNORECASE | re.DOTALL)
    if match is None:
        return "", schema_gate.WORDS
    if source.field == "name":
        convention = conventions.of("intent" if source.is_action else "slot", source.original)
        words = [word for word in name_words(match[1]) if word not in schema_gate.ARTICLES]
        emitted, text = join_words(words, convention, source.original), match[1]
    else:
        emitted = text = like(match[1].strip(), source.text)
    if not emitted:
        return "", schema_gate.WORDS
    if emitted in (source.original, source.text):
        return emitted, "identical"
    if any(identifier not in text for identifier in identifiers(source.text)):
        return emitted, "lost_name"
    return emitted, schema_gate.refusal(source.text, text, source.is_action)


def like(text: str, original: str) -> str:
    """Return a description with the capitals and the final mark of the original."""
    known = set(re.findall(r"\w+", original)[1:])
    text = re.sub(r"\b[A-Z][a-z]+\b", lambda match: match[0] if match[0] in known else match[0].lower(), text)
    text = text.rstrip(".") + "." * original.endswith(".")
    return text[:1].upper() + text[1:] if original[:1].isupper() else text


def without_collisions(rows: Sequence[BackTranslation], scopes: Sequence[tuple[str, ...]]) -> list[BackTranslation]:
    """Keep the original of each new name that is another original, or an earlier new name, in one of its scopes."""
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
    """Make the report from ``statistics.json`` and the rows of the audit."""
    pivots, average = statistics["pivots"], statistics["average"]
    changed = [row for row in audit if not row.reason]
    sections = [
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
    ]
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
        sections=sections,
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
        """Parse every service."""
        return [parse_service(dict(raw)) for raw in self.raw.values()]

    def texts(self) -> list[str]:
        """Return the distinct texts to translate, sorted."""
        sources = [source for service in self.services() for source in source_texts(service)]
        return sorted({text for source in sources for text in source.candidates})


def make_files(
    corpus: Corpus,
    translations: Iterable[Translation],
    memory: Iterable[Translation],
    untranslated: Iterable[Untranslated],
    max_bad: Fraction,
) -> Iterator[tuple[str, bytes]]:
    """Yield (path below the output, bytes) of all output.

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
            with needed(f"{pivot} variant", name):
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
    """Return the measures of SGD-X for back-translations, and the number of texts that kept the original, by reason."""
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
        {
            "services": len(items),
            "pivots": numbers,
            "average": measured["average"],
            "self_bleu": measured["self_bleu"],
        }
    )
    return {**content, "bleu_signature": table1.bleu_signature()}


def check_untranslated(
    texts: Collection[str], answers: Mapping[str, Answers], dead: Sequence[Untranslated], max_bad: Fraction
) -> None:
    """Raise InputError if too many texts of a pivot have no back-translation.

    Args:
      texts: all texts to translate.
      answers: the known translations of each pivot.
      dead: the texts without a translation, with reasons.
      max_bad: maximum share of each pivot's texts without a translation.
    """
    tallies = [
        Tally("text", len(texts), sum(text not in known for text in texts), pivot, is_record=True)
        for pivot, known in answers.items()
    ]
    reasons = Counter(letter.reason.partition(":")[0] for letter in dead)
    places = [f"{x.source} to {x.target}: {x.text[:80]!r}: {x.reason}" for x in dead]
    done = "translated (the translations so far are kept: run the same command again for the rest)"
    check_bad(tallies, max_bad, done, reasons, places)
