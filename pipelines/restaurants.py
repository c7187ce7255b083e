"""``parapet restaurants``: simulates the bAbI dialog tasks 1 to 5, with out-of-vocabulary tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from parapet.pipelines.corpora import CorpusPipeline
from parapet.transforms.core import options
from parapet.transforms.core.options import option
from parapet.transforms.report.text import counted

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.simulators.restaurants_corpus import Config


class Restaurants(CorpusPipeline["Config"]):
    """``parapet restaurants``."""

    name = "restaurants"
    description = (
        "Simulates the bAbI dialog tasks 1 to 5 from an ontology: a knowledge base, dialogues in the published format "
        "and in the SGD format, and out-of-vocabulary tests. Writes OUT/dialog-babi-task1-API-calls-trn.txt, "
        "OUT/sgd/task1, OUT/sgd/task1-oov and so on."
    )
    example = """\
  parapet restaurants --output simulated                          # the paper's sizes: 1,000 dialogues a task and split
  parapet restaurants --tasks 1,5 --sizes train=100000,dev=0 --formats babi --output simulated
  parapet restaurants --ontology hotels.toml --babi_plus --output simulated"""
    group = "simulation"
    ontology: str = options.folder("domain in TOML (default: the paper's restaurants, with other names)", "FILE")
    tasks: tuple[int, ...] = option((1, 2, 3, 4, 5), "tasks, comma-separated", commas=True, ge=1, le=5)
    sizes: tuple[str, ...] = option(
        ("1000",),
        "dialogues of each task: a number, or train=5000,oov=0 for some of train, dev, test, oov",
        commas=True,
    )
    babi_plus: bool = option(False, "add copies with hesitations, corrections and restarts")
    formats: tuple[Literal["babi", "sgd"], ...] = option(
        ("babi", "sgd"), "formats, comma-separated", group=options.OUTPUT, commas=True
    )
    dialogues_per_file: int = option(
        1000, "larger sets are split into numbered files", group=options.OUTPUT, rare=True, ge=1, le=1_000_000
    )
    seed: str = options.seed()

    def check(self) -> Config:
        """Reads the ontology. Raises InputError if it or an option cannot be used."""
        from parapet.schemas.layout import as_path
        from parapet.schemas.limits import read_whole
        from parapet.transforms.simulators import restaurants_corpus, restaurants_simulation
        from parapet.transforms.simulators.restaurants_simulation import default_ontology, read_ontology

        own = self.ontology and read_ontology(read_whole(as_path(self.ontology)), self.ontology)
        config = self.settings_of(
            restaurants_corpus.Config,
            ontology=own or default_ontology(),
            ontology_path=self.ontology,
            tasks=tuple(sorted({*self.tasks})),
            sizes=restaurants_corpus.parse_sizes(self.sizes),
            formats=tuple(sorted({*self.formats})),
        )
        restaurants_simulation.check_world(
            config.world(), config.tasks, [split for split, _ in config.sizes], config.ontology_path
        )
        return config

    def wire(self, pipeline: beam.Pipeline, config: Config) -> None:
        """Simulates dialogues in shards, and writes them with statistics and the other files."""
        from functools import partial

        import apache_beam as beam

        from parapet.transforms.core.progress import expect
        from parapet.transforms.core.runs import WriteEach
        from parapet.transforms.simulators import restaurants_corpus

        shards = config.shards()
        expect(sum(shard.dialogues for shard in shards), "dialogues")
        write = WriteEach(restaurants_corpus.write_shard, setup=partial(restaurants_corpus.Simulator, config))
        outputs = pipeline | "Shards" >> beam.Create(shards) | "Spread" >> beam.Reshuffle() | "Dialogues" >> write
        _ = outputs | "Finish" >> self.finish(config, restaurants_corpus.metadata_files, shown=restaurants_corpus.SHOWN)

    def lines(self, config: Config, statistics: Any) -> Iterator[str]:
        """Yields the means of each task."""
        for task, numbers in statistics["tasks"].items():
            solved = statistics["bot"].get("plain", {}).get(task, {}).values()
            tried, right = (sum(test[name] for test in solved) for name in ("tried", "solved"))
            dialogues = counted(numbers["all"]["dialogues"], "dialogue")
            yield f"task {task}: {dialogues}; the rule-based bot solved {right:,} of {tried:,}"
        yield f"{statistics['candidates']:,} candidates, {statistics['facts']:,} facts"


COMMAND = Restaurants
