"""From translations to what ``back_translate`` writes: variants, audit, memory, mapping, numbers, a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import orjson
import pyarrow as pa

from parapet.schemas.layout import schema_bytes
from parapet.schemas.rows import AUDIT, BackTranslation, Translation
from parapet.schemas.service import Service, parse_service
from parapet.transforms import table1
from parapet.transforms.back_translate.composing import ENGLISH, Legs, back_translated, texts_of
from parapet.transforms.back_translate.report import back_translate_report
from parapet.transforms.dead_letters import DEAD_LETTERS, Tally, check_bad
from parapet.transforms.naming import Conventions
from parapet.transforms.parquet import parquet_bytes
from parapet.transforms.perturbation.fence import needed
from parapet.transforms.report import page
from parapet.transforms.translation.memory import MEMORY_FILE, by_languages, memory_bytes, merge
from parapet.transforms.translation.translate import Untranslated
from parapet.transforms.variants.folders import MAPPING, mapping_bytes
from parapet.transforms.variants.names import by_position

AUDIT_FILE = "translations.parquet"
KEPT = "translated (what was translated is kept: run the same command again for the rest)"


class Corpus(msgspec.Struct, frozen=True):
    """What is back-translated.

    Attributes:
      files: path below a root (``train/schema.json``) to the names of its services, in their order.
      raw: every service as its file has it.
      pivots: the languages, in the order given.
      conventions: how the corpus writes names.
    """

    files: dict[str, list[str]]
    raw: dict[str, dict[str, Any]]
    pivots: list[str]
    conventions: Conventions

    def services(self) -> list[Service]:
        """Every service, parsed."""
        return [parse_service(dict(raw)) for raw in self.raw.values()]


def make_files(
    corpus: Corpus,
    translations: Iterable[Translation],
    memory: Iterable[Translation],
    untranslated: Iterable[Untranslated],
    max_bad: Fraction,
) -> Iterator[tuple[str, bytes]]:
    """Yields (path below the output, bytes) of everything there is to write.

    Args:
      corpus: the schemas.
      translations: of this run's texts, both ways, known before or new.
      memory: whatever else is to be kept.
      untranslated: the texts that have no translation.
      max_bad: the share of each pivot's texts that may be; their elements keep the original.

    Raises:
      InputError: there are more, or a translation of none.
    """
    dead = sorted(set(untranslated))
    translations = list(translations)
    legs = legs_of(corpus.pivots, translations)
    texts = texts_of(corpus.services())
    check_untranslated(texts, legs, dead, max_bad, KEPT)
    check_invariants(texts, legs, dead)
    variants: dict[str, dict[str, dict[str, Any]]] = {}
    audit: list[BackTranslation] = []
    for pivot in corpus.pivots:
        for name, raw in corpus.raw.items():
            with needed(f"{pivot} variant", name):
                variant, rows = back_translated(raw, pivot, legs[pivot], corpus.conventions)
            variants.setdefault(pivot, {})[name] = variant
            audit += rows
        for path, names in corpus.files.items():
            yield f"{pivot}/{path}", schema_bytes([variants[pivot][name] for name in names])
    yield AUDIT_FILE, audit_bytes(audit)
    yield MEMORY_FILE, memory_bytes(merge((row for row in translations if row.provider), memory))
    items = [
        table1.Item(_typed(raw), {pivot: _typed(variants[pivot][name]) for pivot in corpus.pivots})
        for name, raw in corpus.raw.items()
    ]
    mapped = {
        pivot: {item.original.service_name: by_position(item.original, item.variants[pivot]) for item in items}
        for pivot in corpus.pivots
    }
    yield MAPPING, mapping_bytes(mapped)
    yield DEAD_LETTERS, b"".join(orjson.dumps(msgspec.to_builtins(letter)) + b"\n" for letter in dead)
    numbers = statistics(corpus.pivots, items, audit)
    yield "statistics.json", (json.dumps(numbers, indent=2, ensure_ascii=False) + "\n").encode()
    yield "report.html", page(back_translate_report(numbers, audit)).encode()


def legs_of(pivots: Sequence[str], translations: Iterable[Translation]) -> dict[str, Legs]:
    """What is known of each pivot."""
    texts = by_languages(translations)
    return {pivot: Legs(texts.get((ENGLISH, pivot), {}), texts.get((pivot, ENGLISH), {})) for pivot in pivots}


def check_invariants(texts: Sequence[str], legs: Mapping[str, Legs], dead: Iterable[Untranslated]) -> None:
    """Every text is translated, or among the dead letters. Raises RuntimeError where one is neither."""
    untranslated = {(letter.source, letter.target, letter.text) for letter in dead}
    for pivot, leg in legs.items():
        lost = {(ENGLISH, pivot, text) for text in texts if text not in leg.there}
        known = [leg.there[text] for text in texts if text in leg.there]
        lost |= {(pivot, ENGLISH, text) for text in known if text not in leg.back}
        if never := sorted(lost - untranslated):
            raise RuntimeError(f"texts that were neither translated nor refused: {never[:3]}")


def audit_bytes(rows: Iterable[BackTranslation]) -> bytes:
    """``translations.parquet``, sorted by element, field and pivot."""
    ordered = sorted(rows, key=lambda row: (row.element_id, row.field, row.pivot))
    return parquet_bytes(pa.Table.from_pylist([msgspec.to_builtins(row) for row in ordered], AUDIT))


def statistics(pivots: Sequence[str], items: Sequence[table1.Item], audit: Iterable[BackTranslation]) -> dict[str, Any]:
    """The measures of SGD-X for back-translations, and what kept its original, and why."""
    measured = table1.rounded(table1.measures_of(items, pivots))
    by_pivot: dict[str, Counter[tuple[str, str]]] = {pivot: Counter() for pivot in pivots}
    for row in audit:
        by_pivot[row.pivot][row.field, row.reason] += 1
    return {
        "services": len(items),
        "pivots": {pivot: {**measured["variants"][pivot], **_unchanged(by_pivot[pivot])} for pivot in pivots},
        "average": measured["average"],
        "self_bleu": measured["self_bleu"],
        "bleu_signature": table1.bleu_signature(),
    }


def _unchanged(counts: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in ("name", "description"):
        of_field = {reason: n for (counted, reason), n in sorted(counts.items()) if counted == field}
        total = sum(of_field.values())
        same = of_field.pop("identical", 0)
        found[f"{field}s"] = total
        found[f"{field}s_identical"] = round(same / total, 6) if total else None
        found[f"{field}_fallbacks"] = {reason: n for reason, n in of_field.items() if reason}
    return found


def _typed(raw: Mapping[str, Any]) -> Service:
    return parse_service(dict(raw))


def check_untranslated(
    texts: Collection[str], legs: Mapping[str, Legs], dead: Sequence[Untranslated], max_bad: Fraction, done: str
) -> None:
    """Raises InputError where more texts of a pivot have no translation there and back than may be.

    Args:
      texts: all that are to be translated.
      legs: what is known of each pivot.
      dead: the texts without a translation, and why.
      max_bad: the share of each pivot's texts that may be without.
      done: what could not be done to them.
    """
    tallies = [
        Tally("text", len(texts), sum(leg.there.get(text) not in leg.back for text in texts), pivot, is_record=True)
        for pivot, leg in legs.items()
    ]
    reasons = Counter(letter.reason.partition(":")[0] for letter in dead)
    places = [f"{x.source} to {x.target}: {x.text[:80]!r}: {x.reason}" for x in dead]
    check_bad(tallies, max_bad, done, reasons, places)
