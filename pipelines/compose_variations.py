"""``parapet compose_variations``: vets answers to rewriting tasks into variations of user turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parapet.pipelines import command, crowd_answers
from parapet.schemas.layout import sample_root
from parapet.transforms.core import options
from parapet.transforms.core.options import option

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.crowd.rewrites import RewritingTask


class ComposeVariations(crowd_answers.Composing["RewritingTask"]):
    """``parapet compose_variations``."""

    name = "compose_variations"
    description = (
        "Vets what crowd workers answered to the tasks of 'parapet hits --task rewrites'. Writes OUT/rewritten.jsonl, "
        "a line for each user turn and kind (paraphrase, typos, verbose, simple) with a good answer, and an audit of "
        "every answer."
    )
    example = """\
  parapet compose_variations --output out                # the sample
  parapet compose_variations --sgd my_corpus --split test --responses batch.csv --output out
  # open out/review.html in a browser, decide, download decisions.csv, then
  parapet compose_variations --sgd my_corpus --split test --responses batch.csv \\
      --decisions decisions.csv --output out"""
    complete = "turn has a good answer of each kind"
    corpus, sample = "sgd", ("rewrites.csv",)
    sgd: str = options.sgd()
    split: str = options.split()
    hits: list[str] = option(
        [],
        "outputs of 'parapet hits', to count turns without answers and to check the corpus",
        metavar="DIR",
        reads=True,
    )
    seed: int = options.seed("the choice among good answers", 0)

    def check(self) -> RewritingTask:
        """Reads the corpus and the tasks. Raises InputError if a flag or file cannot be used."""
        from parapet.transforms.crowd.rewrite_rules import read_tasks
        from parapet.transforms.crowd.rewrites import RewritingTask
        from parapet.transforms.perturb.corpora import read_corpus

        _ = self.sources  # check them
        files = read_corpus(self.sgd or str(sample_root()), [self.split]).files
        return RewritingTask(files, read_tasks(self.hits), self.split, self.seed, self.output)

    def inputs(self, task: RewritingTask) -> list[tuple[str, str]]:
        """Lists the files that workers read."""
        return [("--sgd", self.sgd or str(sample_root())), *super().inputs(task)]

    def compose(self, assignments: beam.PCollection, task: RewritingTask) -> tuple[Any, ...]:
        """Chooses the answers for each turn."""
        from parapet.transforms.core.progress import expect_dialogues
        from parapet.transforms.crowd.rewrites import RewriteTurns

        expect_dialogues(task.files)
        rewritten = assignments | RewriteTurns(task, self.sources.decisions).with_outputs()
        return rewritten.outcomes, [rewritten.dead_letters]

    def report(self, task: RewritingTask, counters: dict[str, int]) -> int:
        """Prints what was composed and what to do next. Returns the exit status."""
        statistics = self.statistics()
        kinds = ", ".join(f"{numbers['turns']:,} {kind}" for kind, numbers in statistics["kinds"].items())
        complete = f"{statistics['complete']:,} of {command.counted(statistics['turns'], 'user turn')}"
        headline = f"{complete} have a good answer of all four kinds: {kinds}"
        short: int = statistics["short"]
        missing = f"{command.counted(short, 'rewriting')} still missing" if short else ""
        nothing = "" if statistics["answers"]["used"] else "no rewriting could be used"
        status = self.conclude(headline, short, missing, nothing)
        if not nothing:
            command.say(f"next: parapet language_variations --rewritten {self.output}/rewritten.jsonl")
        return status


COMMAND = ComposeVariations
