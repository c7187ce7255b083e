"""``parapet back_translate``: translates schemas to other languages and back, one variant per pivot."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.pipelines import app
from parapet.pipelines.command import counted, read_good, say
from parapet.pipelines.translation import EMBEDDED, MEMORY, PAID, TranslationOptions, bill, parse_pivots, plugin_of
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import sample_root
from parapet.transforms.running import options, plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.rows import Translation
    from parapet.transforms.translation.memory import Engine
    from parapet.transforms.translation.translate import Known
    from parapet.transforms.variants.back_translation import Corpus

EXAMPLE = """\
  parapet back_translate --output translated       # the sample, through Portuguese
  parapet back_translate --schemas my_corpus --engine google --google_project my-project --output translated --dry_run
  parapet back_translate --schemas my_corpus --engine local --model en-zh=opus-mt-en-zh zh-en=opus-mt-zh-en \\
      --pivots zh --output translated"""


@dataclass(frozen=True)
class Texts:
    """What is translated.

    Attributes:
      corpus: the schemas, and the pivots.
      texts: the distinct texts to translate.
      memory: all earlier translations; ``known`` has those by this engine.
      engine: None if only memories are used.
    """

    corpus: Corpus
    texts: list[str]
    memory: list[Translation]
    known: Known
    engine: Engine | None


@dataclass(frozen=True, kw_only=True)
class BackTranslate(TranslationOptions, app.Pipeline[Texts]):
    """``parapet back_translate``."""

    name = "back_translate"
    description = (
        "Makes one schema variant per pivot language, by translation there and back: OUT/zh/train/schema.json and so "
        "on. Every translation is kept in OUT/memory.parquet: a text is paid for once."
    )
    example = EXAMPLE
    schemas: str = options.schemas()
    max_bad: Fraction = options.max_bad("texts of a pivot")
    dry_run: bool = options.dry_run()

    @property
    def engine_name(self) -> str:
        """The engine, by default the memories if there are any."""
        return self.engine or (MEMORY if self.memory else EMBEDDED)

    def check(self) -> Texts:
        """Reads schemas and memories, and opens the engine once. Raises InputError if one of them cannot be used."""
        from parapet.transforms.translation.memory import by_languages
        from parapet.transforms.translation.translate import Known
        from parapet.transforms.variants.back_translation import texts_of

        self.check_engine(self.engine_name)
        pivots = self.pivots or ("pt" if self.engine_name == EMBEDDED else "zh,ja,ko")
        corpus = _corpus(self.schemas or sample_root(), parse_pivots(pivots))
        memory = self.read_memories(self.output)
        engine = self.open_engine(self.engine_name, corpus.pivots, self.dry_run)
        known = Known(by_languages(memory, *((engine.provider, engine.model) if engine else ("", ""))))
        texts = Texts(corpus, texts_of(corpus.services()), memory, known, engine)
        if engine is None and not self.dry_run:
            self._check_replay(texts)
        return texts

    def _check_replay(self, texts: Texts) -> None:
        """Raises InputError if the memories lack more texts than ``--max_bad`` allows."""
        from parapet.transforms.translation.translate import replay
        from parapet.transforms.variants.back_translation import check_untranslated, legs_of

        translations, missing = replay(texts.texts, texts.corpus.pivots, texts.known)
        legs = legs_of(texts.corpus.pivots, translations)
        try:
            check_untranslated(texts.texts, legs, sorted(missing), self.max_bad, "translated")
        except InputError as error:
            hint = (
                "the engine 'memory' only replays translations: add a --memory that contains them, or choose "
                "another --engine"
            )
            raise InputError(f"{hint}; {error.reason}", "--memory") from None

    def build(self, pipeline: beam.Pipeline, texts: Texts) -> None:
        """Translates the texts to each pivot and back, and writes variants, memory and a page."""
        import apache_beam as beam

        from parapet.transforms.storage.files import Publish, WriteFiles, join, prepare
        from parapet.transforms.translation.translate import BackTranslate, replay
        from parapet.transforms.variants.back_translation import make_files

        prepare(self.output, "back_translate")
        pivots, engine = texts.corpus.pivots, texts.engine
        if engine is None:
            known, missing = replay(texts.texts, pivots, texts.known)
            translations = pipeline | "Translations" >> beam.Create(known)
            untranslated = pipeline | "Untranslated" >> beam.Create(missing)
        else:
            translations, untranslated = (
                pipeline
                | "Texts" >> beam.Create([(pivot, text) for pivot in pivots for text in texts.texts])
                | "Back-translate" >> BackTranslate(texts.known, engine, join(self.output, PAID))
            )
        recorded = {
            "pivots": pivots,
            "provider": engine.provider if engine else "memory",
            "model": engine.model if engine else "",
            "max_bad": float(self.max_bad),
        }
        header = {**run_header("back_translate", recorded), **plugins.recorded(plugin_of(self.engine_name))}
        _ = (
            pipeline
            | "Corpus" >> beam.Create([texts.corpus], reshuffle=False)
            | "Make files"
            >> beam.FlatMap(
                make_files,
                translations=beam.pvalue.AsList(translations),
                memory=texts.memory,
                untranslated=beam.pvalue.AsList(untranslated),
                max_bad=self.max_bad,
            )
            | "Write" >> WriteFiles(self.output)
            | "Publish" >> Publish(self.output, header)
        )

    def report(self, texts: Texts, counters: dict[str, int]) -> None:
        """Prints the measures and the bill; for a dry run, what would be sent."""
        if self.dry_run:
            _print_plan(texts)
            return
        from parapet.transforms.storage.files import clear, join, read_written

        clear(join(self.output, PAID))  # the published memory contains everything
        statistics = json.loads(read_written(self.output, "statistics.json"))
        lines = (read_written(self.output, "dead_letters.jsonl")).count(b"\n")
        if lines:
            logging.warning("%s left in English, see %s/dead_letters.jsonl", counted(lines, "text"), self.output)
        say(text_table(statistics))
        if texts.engine is not None:
            say(bill(self.engine_name, texts.engine.dollars_per_million, counters))
        say(f"report: {join(self.output, 'report.html')}")


COMMAND = BackTranslate


def _corpus(schemas: str | Path, pivots: list[str]) -> Corpus:
    from parapet.schemas.layout import raw_by_name, services_by_name, splits_of
    from parapet.transforms.reports.text import conventions_of
    from parapet.transforms.variants.back_translation import Corpus

    splits = read_good(schemas)
    conventions = conventions_of(services_by_name(splits).values())
    return Corpus(splits_of(splits), raw_by_name(splits), pivots, conventions, splits[0].tools)


def text_table(statistics: dict[str, Any]) -> str:
    """Formats the measures as text, one line per pivot."""
    from parapet.transforms.variants.table1 import measure_lines

    rows = {
        pivot: {
            **numbers,
            "kept": sum(sum(numbers[f"{field}_fallbacks"].values()) for field in ("name", "description")),
        }
        for pivot, numbers in statistics["pivots"].items()
    }
    columns = {
        "name distance": ("name_distance", ".3f"),
        "BLEU": ("description_bleu", ".1f"),
        "names identical": ("names_identical", ".1%"),
        "kept": ("kept", ""),
    }
    self_bleu = statistics["self_bleu"]
    return "\n".join([*measure_lines(rows, columns), f"self-BLEU {'-' if self_bleu is None else f'{self_bleu:.1f}'}"])


def _print_plan(plan: Texts) -> None:
    """Prints what would be sent: exact for the way into each pivot, estimated for the unknown part of the way back."""
    from parapet.transforms.translation.memory import missing

    known, texts = plan.known, plan.texts
    print(f"{counted(len(texts), 'text')}, {counted(sum(map(len, texts)), 'character')} in English")
    total = 0
    for pivot in plan.corpus.pivots:
        into = known.of("en", pivot)
        missing_texts = missing(texts, into)
        back = missing((into[text] for text in texts if text in into), known.of(pivot, "en"))
        # The translations do not exist yet, so their length is estimated: it rarely exceeds that of the English text.
        characters = 2 * sum(map(len, missing_texts)) + sum(map(len, back))
        total += characters
        print(
            f"{pivot}: {counted(len(missing_texts) * 2 + len(back), 'text')} to translate, "
            f"about {characters:,} characters"
        )
    dollars = total * (plan.engine.dollars_per_million if plan.engine else 0) / 1e6
    print(f"about {total:,} characters, ${dollars:,.2f}; dry run: nothing was sent or written")
