"""``parapet hits``: makes HIT pages, requester-site files and a cost plan from schemas or dialogues."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from parapet.pipelines import app, command
from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST, sample_root, services_by_name
from parapet.transforms.core import options
from parapet.transforms.core.options import option
from parapet.transforms.crowd.hits.terms import RATINGS, REWARD, REWRITES, SCHEMAS, HitTask, Terms

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.crowd.hits.make_hits import MakeHits, Unit

# SGSAcc has three workers judge an utterance. For rewrites one good answer is enough; in our sample, vetting accepts
# about one of two answers.
_ASSIGNMENTS = 3

_OF_DIALOGUES, _OF_RATINGS = "--task rewrites, ratings", "--task ratings"
_TERMS = Terms()
_UNITS = {SCHEMAS: "element", REWRITES: "user turn", RATINGS: "utterance"}


def _dollars(text: str) -> Decimal:
    if not REWARD.fullmatch(text) or not Decimal(text):
        raise InputError(f"{text!r} is not an amount of dollars such as 1.25")
    return Decimal(text)


_draw = partial(option, group=_OF_RATINGS, rare=True)


class Hits(app.Pipeline["MakeHits"]):
    """``parapet hits``."""

    name = "hits"
    description = """Makes the pages on which crowd workers paraphrase names and descriptions of a schema (schemas),
        rewrite user turns (rewrites), or judge generated utterances (ratings)."""
    example = "  parapet hits --schemas my_corpus --output my_hits --dry_run"
    group = "pay and cost"
    task: str = option(SCHEMAS, "what the pages ask for", group=options.INPUT, choices=(SCHEMAS, REWRITES, RATINGS))
    schemas: str = options.schemas()
    shortfall: str = options.folder("shortfall.csv of 'compose': ask only for what is missing", "FILE", rare=True)
    cues: str = option(
        "auto", "CSV of service_name,cue for pages of names", group=options.INPUT, rare=True, metavar="auto|none|FILE"
    )
    dialogues: list[str] = options.folder("corpus, or its files", "ROOT|FILE", [], group=_OF_DIALOGUES)
    split: str | None = option(None, f"split of a corpus (default: {TEST})", group=_OF_DIALOGUES, choices=SPLITS)
    turns: int | None = option(None, "user turns to draw (default: all)", group=_OF_DIALOGUES, rare=True, ge=1)
    scores: str = options.folder("output of 'evaluate --task generation', for ratings", group=_OF_DIALOGUES)
    # The defaults are the numbers of SGSAcc's sample.
    faithful: int = _draw(200, "number of valid turns found faithful", ge=0)
    unfaithful: int = _draw(200, "of those found unfaithful", ge=0)
    invalid: int = _draw(25, "of turns that fail validation", ge=0)
    unit: Literal["turn", "act"] = _draw("turn", "what an utterance is judged by: all acts of its turn, or one act")
    items: int = _draw(10, "utterances on a page, at most", ge=1)
    checks: int = _draw(1, "utterances of other turns on each page, of which nobody attentive says Yes", ge=0)
    no_naturalness: bool = _draw(False, "do not ask how natural an utterance sounds, as SGSAcc's authors did not")
    hourly_wage: Decimal = option(
        _TERMS.hourly_wage, f"dollars per hour, which sets rewards (default: {_TERMS.hourly_wage})", parse=_dollars
    )
    reward: Decimal | None = option(None, "dollars per assignment, instead of --hourly_wage", parse=_dollars)
    assignments: int | None = option(
        None, f"workers per HIT (default: {_TERMS.assignments}; {_ASSIGNMENTS} of dialogues)", ge=1
    )
    max_per_worker: int | None = option(None, "assignments that one worker may do (default: any)", metavar="N", ge=1)
    auto_approval_hours: int = option(
        _TERMS.auto_approval_hours, "hours until unreviewed work is paid", rare=True, ge=0, le=720
    )
    lifetime_days: int = option(_TERMS.lifetime_days, "days for which a HIT is offered", rare=True, ge=1, le=365)
    sandbox: bool = option(False, "the forms go to MTurk's sandbox", group=options.RUNNING)
    dry_run: bool = options.dry_run()
    seed: int = options.seed("what is drawn of dialogues", 0)

    def check(self) -> MakeHits:
        """Reads schemas or lists dialogue files. Raises InputError if they cannot be used."""
        inputs_of_others = ("dialogues", "scores") if self.task == SCHEMAS else ("schemas", "shortfall")
        if other := next((name for name in inputs_of_others if getattr(self, name)), ""):
            raise InputError(f"is not for --task {self.task}", f"--{other}")
        return {SCHEMAS: self._for_schemas, REWRITES: self._for_rewrites, RATINGS: self._for_ratings}[self.task]()

    def _for_schemas(self) -> MakeHits:
        from parapet.schemas.service import TASKS, elements_of, task_id
        from parapet.transforms.crowd.hits import page, schema_pages

        services = services_by_name(command.read_good(self.schemas or sample_root()))
        cues = self.cues if self.cues in (page.AUTO, page.NONE) else schema_pages.read_cues(self.cues, services)
        only: frozenset[tuple[str, str]] | None = None
        assignments = _TERMS.assignments
        if self.shortfall:
            lacks = page.read_shortfall(self.shortfall)
            known = {
                (task_id(name, task), element.field): name
                for name, service in services.items()
                for task in TASKS
                for element in elements_of(service, task)
            }
            if unknown := next((place for place in lacks if place not in known), None):
                raise InputError(f"the schemas have no such element: {', '.join(unknown)}", self.shortfall)
            short = {known[place] for place in lacks}
            services = {name: service for name, service in services.items() if name in short}
            only, assignments = frozenset(lacks), page.top_up_assignments(max(lacks.values()))
        recorded = {"cues": cues, "only": None if only is None else sorted(only)}
        return self._pages(TASKS, [*services.values()], assignments, recorded, only=only, cues=cues)

    def _for_rewrites(self) -> MakeHits:
        from parapet.transforms.crowd.hits.dialogue_pages import dialogue_paths

        files = dialogue_paths(self.dialogues or [sample_root()], self.split)
        recorded = {"task": REWRITES, "split": self.split, "turns": self.turns, "seed": self.seed}
        return self._pages((REWRITES,), files, _ASSIGNMENTS, recorded, turns=self.turns)

    def _for_ratings(self) -> MakeHits:
        from parapet.evaluation.ratings.sample import STRATA, draw_sample, read_scores
        from parapet.transforms.crowd.hits.dialogue_pages import group_items

        if not self.scores:
            raise InputError("is required: give the output of 'parapet evaluate --task generation'", "--scores")
        root, *others = self.dialogues or [str(sample_root())]
        if others:
            raise InputError("takes one corpus for ratings, the one that --scores is about", "--dialogues")
        sizes: dict[str, int] = {stratum: getattr(self, stratum) for stratum in STRATA}
        items, drawn = draw_sample(root, read_scores(self.scores), sizes, self.seed, self.unit)
        groups = [*map(tuple, group_items(items, self.items, self.checks, self.seed))]
        naturalness = not self.no_naturalness
        recorded = {"task": RATINGS, "unit": self.unit, "drawn": drawn, "naturalness": naturalness, "seed": self.seed}
        return self._pages((RATINGS,), groups, _ASSIGNMENTS, recorded, naturalness=naturalness)

    def _pages(
        self, tasks: tuple[HitTask, ...], units: Sequence[Unit], assignments: int, recorded: dict[str, Any], **more: Any
    ) -> MakeHits:
        """Plans the pages of units.

        Args:
          tasks: what they ask for.
          units: see :class:`MakeHits`.
          assignments: the default number of workers for each HIT.
          recorded: the options of the task, for ``run.json``.
          more: further settings of the pages.
        """
        from parapet.transforms.core.runs import RunInfo
        from parapet.transforms.crowd.hits.make_hits import MakeHits
        from parapet.transforms.crowd.hits.page import Settings

        times = self.auto_approval_hours, self.lifetime_days
        terms = Terms(self.hourly_wage, self.reward, self.assignments or assignments, *times, self.max_per_worker or 0)
        settings = Settings(terms, sandbox=self.sandbox, tasks=tasks, seed=self.seed, **more)
        recorded = {**msgspec.to_builtins(terms), "sandbox": self.sandbox, **recorded}
        return MakeHits(units, settings, RunInfo("hits", self.output, recorded))

    def inputs(self, pages: MakeHits) -> list[tuple[str, str]]:
        """Lists the dialogue files that workers read."""
        return [("--dialogues", unit.path) for unit in pages.units if isinstance(unit, DialogueFile)]

    def build(self, pipeline: beam.Pipeline, pages: MakeHits) -> None:
        """Wires the pipeline: renders the pages, writes and publishes them."""
        from parapet.transforms.core.files import prepare

        prepare(self.output, "hits")
        pipeline | pages

    def report(self, pages: MakeHits, counters: dict[str, int]) -> None:
        """Prints the plan and where to begin."""
        from parapet.transforms.crowd.hits.make_hits import plan_units
        from parapet.transforms.crowd.hits.page import Plan

        say_plan = print if self.dry_run else command.say
        if self.dry_run:
            plan = plan_units(pages.units, pages.settings)
        else:
            plan = msgspec.convert(self.written("plan.json"), Plan)
        say_plan(plan.table())
        if plan.total.hits:
            say_plan(plan.workers())
        drawn: Any = pages.info.options.get("drawn", {})
        for name, numbers in drawn.items():
            say_plan(f"{name}: {numbers['drawn']:,} of {command.counted(numbers[f'{self.unit}s'], self.unit)}")
        first = {each.reason: each for each in reversed(plan.not_asked)}  # many have the same reason
        for reason, n in Counter(each.reason for each in plan.not_asked).items():
            where = f"{first[reason].task_id} {first[reason].element_id}".strip()
            logging.warning("left out: %s (%s): %s", command.counted(n, _UNITS[self.task]), where[:200], reason)
        say_plan("dry run: nothing was written" if self.dry_run else f"begin with {self.output}/index.html")


COMMAND = Hits
