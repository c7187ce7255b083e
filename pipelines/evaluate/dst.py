"""``parapet evaluate --task dst``: scores dialogue states against the reference, for all schema variants and sets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from parapet.pipelines import app, command, corpora
from parapet.pipelines.evaluate import UserModel
from parapet.schemas.errors import InputError
from parapet.schemas.layout import MANIFEST
from parapet.transforms.core import options
from parapet.transforms.core.options import OUTPUT, option
from parapet.transforms.report.text import counted, percent

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.evaluation.dst.model import Config


class EvaluateStates(corpora.SetOptions, UserModel, app.Pipeline["Config"]):
    """``parapet evaluate --task dst``."""

    name = "evaluate --task dst"
    description = """\
Scores predicted dialogue states by the official SGD metrics (OUT/metrics.json) and, with variants, by schema
sensitivity as in SGD-X (OUT/robustness.json)."""
    example = """\
  parapet evaluate --task dst --model names --output my_scores          # a tracker without training, on the sample
  parapet evaluate --task dst --reference my_corpus --variants my_dialogues --predictions my_predictions \\
      --output my_scores                  # my_predictions/original/..., my_predictions/v1/..., as my_dialogues"""
    group = "scoring"
    predictions_text = "folder with SGD dialogues or JSON lines: original/, v1/, ...; or a file"
    model_text = "FILE.py:NAME, MODULE:NAME, or a plug-in"
    system: str = option("the system", "name of the system", group=OUTPUT, rare=True, metavar="NAME")
    batch_size: int = option(64, "examples in a batch", group=UserModel.group_of_model, ge=1)
    exact: bool = option(False, "match free slots exactly (default: fuzzily, as SGD's script)", rare=True)
    across_turn: bool = option(False, "joint accuracies by turn, over its services, as in MultiWOZ", rare=True)
    official: bool = option(False, "ignore missing dialogues and unknown slots, as SGD's script does", rare=True)
    zero: Literal["zero", "drop"] = option("zero", "sensitivity of frames that are wrong in all variants", rare=True)
    replicates: int = option(1000, "replicates of the bootstrap; 0: no intervals", rare=True, ge=0, le=100_000)
    seed: str = options.seed("the bootstrap")

    @property
    def processes(self) -> int | None:
        """One process if there is a model, which has threads of its own."""
        return 1 if self.model and self.workers is None else self.workers

    def inputs(self, config: Config) -> list[tuple[str, str]]:
        """Lists the files that workers read."""
        return corpora.inputs_of(self)

    def check(self) -> Config:
        """Reads schemas and file names. Raises InputError if one of them cannot be used."""
        from parapet.evaluation.dst import model
        from parapet.evaluation.dst.frames import ScoreConfig

        code = self.user_code()
        sources = self.sources(self.predicted)
        if code:
            model.check(code)
        plan = model.make_plan(sources)
        if lacking := model.unmatched(plan.sets.values(), plan.jobs):
            reason = f"variants are compared file by file, but {'; '.join(lacking)}"
            raise InputError(reason, sources.variants or sources.reference)
        plan = model.comparable(plan)
        for line in plan.remarks:
            logging.warning("%s", line)
        scoring = ScoreConfig(not self.exact, self.official)
        more = {"model": code, "is_deterministic": self.is_deterministic}
        return self.settings_of(model.Config, sources=sources, plan=plan, scoring=scoring, **more)

    def build(self, pipeline: beam.Pipeline, config: Config) -> None:
        """Wires the pipeline: scores the files of all sets, and writes rows, metrics with intervals, and a page."""
        from parapet.evaluation.dst.scoring import EvaluateStates

        _ = pipeline | "Evaluate" >> EvaluateStates(config)

    def report(self, config: Config, counters: dict[str, int]) -> None:
        """Prints joint goal accuracy by set, and warns about skipped records."""
        from parapet.evaluation.dst.scoring import REFUSED, change_of, sensitivity_of
        from parapet.evaluation.task import refused_notes
        from parapet.transforms.core.counts import Counts

        counts = Counts.of_json(self.written(MANIFEST)["counts"])
        numbers = self.written("robustness.json")
        for name, of_set in numbers["sets"].items():
            value = of_set["metrics"].get("#ALL_SERVICES", {}).get("joint_goal_accuracy")
            accuracy = "no joint goal accuracy" if value is None else f"joint goal accuracy {percent(value)}"
            command.say(f"{name}: {accuracy} over {counted(counts.sum('frames', set=name), 'frame')}")
        if variants := numbers.get("variants"):
            row = variants["table"]["#ALL_SERVICES"]
            change = change_of(row, numbers["sets"]["original"]["intervals"].get("#ALL_SERVICES"))
            command.say(
                f"joint goal accuracy, mean over the variants: {percent(row['variants'])}, change {change}; schema "
                f"sensitivity: {sensitivity_of(row)}"
            )
        for note in refused_notes(
            {name: n for name, values in numbers["sets"].items() if (n := values.get(REFUSED))}, "frame"
        ):
            logging.warning("%s", note)
        for name, unit in (("missing_dialogues", "dialogue"), ("missing_turns", "turn"), ("unknown_slots", "slot")):
            if n := counts.sum(name):
                logging.warning("--official ignored %s %s", counted(n, unit), name.partition("_")[0])


COMMAND = EvaluateStates
