"""``parapet back_translate``: translates schemas to other languages and back, one variant per pivot."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from parapet.pipelines import app
from parapet.pipelines.command import counted, read_good, say
from parapet.pipelines.translation import EMBEDDED, MEMORY, TranslationOptions, plugin_of
from parapet.schemas import errors, layout
from parapet.transforms.core import options, plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.translate.translate import Translating
    from parapet.transforms.variants.back_translation import Corpus

    Settings = tuple[Corpus, Translating]  # the schemas, and how their texts are translated


class BackTranslate(TranslationOptions, app.Pipeline["Settings"]):
    """``parapet back_translate``."""

    name = "back_translate"
    description = (
        "Makes one schema variant per pivot language, by translation there and back: OUT/zh/train/schema.json and so "
        "on. Every translation is kept in OUT/memory.parquet: a text is paid for once."
    )
    example = """\
  parapet back_translate --output translated       # the sample, through Portuguese
  parapet back_translate --schemas my_corpus --engine google --google_project my-project --output translated --dry_run
  parapet back_translate --schemas my_corpus --engine local --model en-zh=opus-mt-en-zh zh-en=opus-mt-zh-en \\
      --pivots zh --output translated"""
    schemas: str = options.schemas()
    max_bad: Fraction = options.max_bad("texts of a pivot")
    dry_run: bool = options.dry_run()

    @property
    def engine_name(self) -> str:
        """The engine, by default the memories if there are any."""
        return self.engine or (MEMORY if self.memory else EMBEDDED)

    def check(self) -> Settings:
        """Reads schemas and memories, and opens the engine once. Raises InputError if one of them cannot be used."""
        from parapet.schemas.layout import raw_by_name, services_by_name, splits_of
        from parapet.transforms.report.text import conventions_of
        from parapet.transforms.variants.back_translation import Corpus

        self.check_engine(self.engine_name)
        pivots = [*dict.fromkeys(self.pivots or (("pt",) if self.engine_name == EMBEDDED else ("zh", "ja", "ko")))]
        splits = read_good(self.schemas or layout.sample_root())
        conventions = conventions_of(services_by_name(splits).values())
        corpus = Corpus(splits_of(splits), raw_by_name(splits), pivots, conventions, splits[0].tools)
        return corpus, self.translating(self.output, self.engine_name, pivots, self.dry_run)

    def wire(self, pipeline: beam.Pipeline, settings: Settings) -> None:
        """Translates the texts to each pivot and back, and writes variants, memory and a page."""
        import apache_beam as beam

        from parapet.transforms.core.files import Publish, WriteFiles
        from parapet.transforms.translate.translate import BackTranslate, Replay
        from parapet.transforms.variants.back_translation import make_files

        corpus, how = settings
        engine = how.engine or Replay()
        translations, untranslated = (
            pipeline
            | "Texts" >> beam.Create([(pivot, text) for pivot in how.pivots for text in corpus.texts()])
            | "Back-translate" >> BackTranslate(how.known, engine, how.paid)
        )
        used = {"provider": engine.provider, "model": engine.model}
        recorded = {"pivots": how.pivots, **used, "max_bad": float(self.max_bad)}
        header = {**errors.run_header(self.name, recorded), **plugins.recorded(plugin_of(self.engine_name))}
        files = (
            pipeline
            | "Corpus" >> beam.Create([corpus], reshuffle=False)
            | "Make files"
            >> beam.FlatMap(
                make_files,
                translations=beam.pvalue.AsList(translations),
                memory=how.memory,
                untranslated=beam.pvalue.AsList(untranslated),
                max_bad=self.max_bad,
            )
        )
        _ = files | "Write" >> WriteFiles(self.output) | "Publish" >> Publish(self.output, header)

    def report(self, settings: Settings, counters: dict[str, int]) -> None:
        """Prints the measures and the bill; for a dry run, what would be sent."""
        from parapet.transforms.core.files import read_written

        corpus, how = settings
        if self.dry_run:
            for line in plan_lines(corpus.texts(), how):
                print(line)
            return
        if lines := read_written(self.output, "dead_letters.jsonl").count(b"\n"):
            logging.warning("%s left in English, see %s/dead_letters.jsonl", counted(lines, "text"), self.output)
        say(text_table(self.statistics()))
        self.settle(how, counters)
        say(f"report: {self.output}/report.html")


COMMAND = BackTranslate


def text_table(statistics: dict[str, Any]) -> str:
    """Formats the measures as text, one line per pivot."""
    from parapet.transforms.variants.table1 import measure_lines

    rows = {
        pivot: {**numbers, "refused": sum(numbers["kept"].values()) - numbers["kept"].get("identical", 0)}
        for pivot, numbers in statistics["pivots"].items()
    }
    columns = {
        "name distance": ("name_distance", ".3f"),
        "BLEU": ("description_bleu", ".1f"),
        "names changed": ("names_changed", ".1%"),
        "descriptions changed": ("descriptions_changed", ".1%"),
        "refused": ("refused", ""),
    }
    self_bleu = statistics["self_bleu"]
    return "\n".join([*measure_lines(rows, columns), f"self-BLEU {'-' if self_bleu is None else f'{self_bleu:.1f}'}"])


def plan_lines(texts: Sequence[str], how: Translating) -> Iterator[str]:
    """Yields what would be sent; the way back is taken to be as long as the way there."""
    yield f"{counted(len(texts), 'text')}, {counted(sum(map(len, texts)), 'character')} in English"
    total = 0
    for pivot in how.pivots:
        unknown = {*texts} - how.known.of("en", pivot).keys()
        characters = 2 * sum(map(len, unknown))
        total += characters
        yield f"{pivot}: {counted(2 * len(unknown), 'text')} to translate, about {characters:,} characters"
    dollars = total * (how.engine.dollars_per_million if how.engine else 0) / 1e6
    yield f"about {total:,} characters, ${dollars:,.2f}; dry run: nothing was sent or written"
