"""``parapet anonymise``: replaces names, numbers and addresses in chats by placeholders."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from parapet.pipelines.corpora import CorpusPipeline
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, sample_root
from parapet.transforms.core import options
from parapet.transforms.core.options import option
from parapet.transforms.report.text import counted

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.anonymise.writing import Config


class Anonymise(CorpusPipeline["Config"]):
    """``parapet anonymise``."""

    name = "anonymise"
    description = """\
Replaces names, places, numbers and addresses in chats by placeholders such as <PERSON_1> and <PHONE_1>, the same
throughout a chat: OUT/chats and, in the format of bAbI, OUT/babi. OUT/suspects lists what may have been missed."""
    example = "  parapet anonymise --chats march.csv april.csv --bots concierge,ella --output anonymous"
    group = "what is replaced"
    done = "anonymised"
    chats: list[str] = option(
        [], "JSON lines or CSV (default: those of the sample)", group=options.INPUT, metavar="FILE", reads=True
    )
    bots: tuple[str, ...] = option((), "further names of bots, besides agent and bot", group=options.INPUT, commas=True)
    entities: str = option("", "more to replace, one per line: TEXT or KIND<TAB>TEXT", metavar="FILE", reads=True)
    keep: tuple[str, ...] = option((), "kinds to leave as they are, such as TIME,DATE", commas=True, parse=str.upper)
    spacy_model: str = option("", "spaCy model that finds names (default: rules)", metavar="NAME")
    phone_regions: tuple[str, ...] = option(
        ("US", "GB"), "countries of phone numbers without a country code", commas=True, parse=str.upper
    )
    placeholders: Literal["numbered", "paper"] = option("numbered", "<PERSON_1>, or <person> as in the paper")
    splits: tuple[float, ...] | None = option(
        None, "also write a set, OUT/concierge: shares, 0.8,0.1,0.1", group=options.OUTPUT, commas=True, ge=0, le=1
    )
    max_bad: Fraction = options.max_bad("chats")
    seed: str = options.seed("--splits")

    def inputs(self, config: Config) -> list[tuple[str, str]]:
        """Lists the chats."""
        return [("--chats", file.path) for file in config.files]

    def check(self) -> Config:
        """Reads the lists and the first bytes of the chats. Raises InputError if one of them cannot be used."""
        from parapet.transforms.anonymise import replacing
        from parapet.transforms.anonymise.writing import Config, SplitConfig, list_chats

        files = list_chats(self.chats or [str(sample_root() / "chats.jsonl")])
        entities = replacing.read_entities(self.entities) if self.entities else []
        replacing.check_regions(self.phone_regions)
        for kind in self.keep:
            if kind not in replacing.KINDS:
                raise InputError(f"there is no kind {kind!r}: must be one of {', '.join(replacing.KINDS)}", "--keep")
        if self.spacy_model:
            replacing.check_model(self.spacy_model)
        if self.splits and (len(self.splits) != len(SPLITS) or abs(sum(self.splits) - 1) > 1e-9):
            raise InputError("must be the shares of train, dev and test, such as 0.8,0.1,0.1", "--splits")
        model, kept = self.spacy_model or None, frozenset(self.keep)
        rules = replacing.Rules(tuple(entities), model, self.phone_regions, kept, self.placeholders == "paper")
        splits = SplitConfig(self.splits, self.seed) if self.splits else None
        return Config(self.output, tuple(files), rules, frozenset(name.lower() for name in self.bots), splits)

    def wire(self, pipeline: beam.Pipeline, config: Config) -> None:
        """Replaces names in the chats, and writes chats, suspects, statistics and a page."""
        from functools import partial

        import apache_beam as beam

        from parapet.transforms.anonymise import writing
        from parapet.transforms.core.runs import WriteEach

        chats = pipeline | "Files of chats" >> beam.Create(config.files)
        names = (
            chats
            | "Spread" >> beam.Reshuffle()
            | "Names" >> beam.FlatMap(writing.names_of_file, config)
            | "Different names" >> beam.Distinct()
        )
        write = WriteEach(
            partial(writing.write_file, config=config),
            beam.pvalue.AsList(names),
            others=(writing.SET,) if config.splits else (),
            progress=("chats", "turns"),
        )
        outputs = chats | "Spread chats" >> beam.Reshuffle() | "Chats" >> write
        if config.splits:
            write_set = WriteEach(partial(writing.write_set, output=self.output, config=config.splits), shown=0)
            of_set = outputs.others[writing.SET] | "Gather set" >> beam.combiners.ToList() | "Set" >> write_set
            outputs = outputs.with_more("Set", written=of_set.written, counts=of_set.counts)
        _ = outputs | "Finish" >> self.finish(config, writing.metadata_files)

    def lines(self, config: Config, statistics: Any) -> Iterator[str]:
        """Yields the numbers of replacements, and warns about suspects; never quotes a chat."""
        replaced = ", ".join(f"{numbers['mentions']:,} {kind}" for kind, numbers in statistics["replaced"].items())
        chats, turns = counted(statistics["written"], "chat"), counted(statistics["turns"], "turn")
        yield f"{chats}, {turns}: {replaced or 'nothing to replace'}"
        if "set" in statistics:
            numbers = statistics["set"]
            chats = ", ".join(f"{n:,} {name}" for name, n in numbers["dialogues"].items())
            yield f"{self.output}/concierge: {chats}; {numbers['candidates']:,} candidates"
        suspects = {kind: n for kind, n in statistics["suspects"].items() if n}
        if suspects:
            kinds = ", ".join(f"{n:,} {kind}" for kind, n in suspects.items())
            chats = counted(statistics["chats_with_suspects"], "chat")
            logging.warning("%s may have been missed in %s; see %s/suspects", kinds, chats, self.output)


COMMAND = Anonymise
