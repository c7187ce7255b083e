"""Evaluations of several runs of a system: each run in its folder ``OUT/run-0``, ``OUT/run-1`` …, then all together."""

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from parapet.pipelines.app import Command
from parapet.pipelines.command import execute, say
from parapet.schemas.layout import MANIFEST, as_path
from parapet.transforms.core import options


class Runs(Command[Sequence[Command[Any]]]):
    """The evaluations of a command's runs; ``runner_flags`` are Beam's own flags."""

    name = "evaluate"
    stopped = "run the same command again"
    output: str = options.output_folder()
    evaluations: tuple[Command[Any], ...] = ()
    runner_flags: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, command: Any, differences: Sequence[Mapping[str, object]], runner_flags: tuple[str, ...]
    ) -> Command[Any]:
        """Makes an evaluation for each run, from the options in which it differs; of a single run it is all."""
        from parapet.evaluation.sets import run_name

        if len(differences) == 1:
            return replace(command, **differences[0])
        evaluations = [
            replace(command, output=f"{command.output}/{run_name(i)}", **options_of_run)
            for i, options_of_run in enumerate(differences)
        ]
        return cls(output=command.output, evaluations=tuple(evaluations), runner_flags=runner_flags)

    def check(self) -> Sequence[Command[Any]]:
        """Returns the evaluations, each of which checks its inputs when it begins."""
        return self.evaluations

    def act(self, evaluations: Sequence[Command[Any]]) -> int:
        """Runs the evaluations, and publishes the numbers of all runs."""
        from parapet.evaluation.repeats import combine
        from parapet.evaluation.sets import run_name
        from parapet.evaluation.task import publish
        from parapet.transforms.core.files import clear

        for i, evaluation in enumerate(evaluations):
            say(f"{run_name(i)}:")
            is_quiet = not logging.getLogger().isEnabledFor(logging.INFO)
            if status := execute(evaluation, self.runner_flags, is_quiet):
                return status
        combined = combine([str(evaluation.output) for evaluation in evaluations])  # type: ignore[attr-defined]
        publish(self.output, combined.files, combined.header)
        for number in itertools.count(len(evaluations)):  # of an earlier evaluation with more runs
            if not (as_path(self.output) / run_name(number) / MANIFEST).is_file():
                break
            clear(f"{self.output}/{run_name(number)}")
        for line in combined.summary:
            say(line)
        return 0
