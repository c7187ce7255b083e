"""What the models of whole systems share: the prediction of states and responses for a corpus and its sets."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.flags import Parser, add_knowledge_base
from parapet.pipelines.models.family import (
    Family,
    Option,
    Output,
    Prediction,
    check_numbers,
    header_of_sets,
    job_of,
    plan_sets,
    read_sets,
    read_versions,
)
from parapet.pipelines.sets import add_sets

if TYPE_CHECKING:
    from parapet.evaluation.models.robust import Versions
    from parapet.evaluation.models.systems.data import Step
    from parapet.evaluation.models.systems.inference import Job
    from parapet.pipelines.models.family import Inputs

    Read = tuple[list[Step], list[Step], Inputs, Versions[Step] | None]

WARNINGS = {
    "too_long": ("turn", "{n} with more history than the model reads: the oldest was cut off"),
    "unknown_slots": ("slot", "the model named {n} that the schema does not have: left out"),
}


class System(Family):
    """A model that writes belief states and responses."""

    predict_description = """\
Predicts after each user turn, from the reference's history, the belief state and the response:
OUT/predictions/original/SPLIT/..., for 'parapet evaluate --task dst', and OUT/responses/original/SPLIT/...,
delexicalised, for 'parapet evaluate --task response'; and so on for each variant and set."""
    batch = (16, "turns")

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.predict_example = f"""\
  parapet predict {model} --model my_model --reference my_corpus --sets typos=my_variations/typos --output said
  parapet evaluate --task dst --reference my_corpus --sets typos=my_variations/typos --predictions said/predictions \\
    --output my_states
  parapet evaluate --task response --reference my_corpus --sets typos=my_variations/typos \\
    --predictions said/responses --output my_responses"""

    def add_predict_flags(self, parser: Parser) -> None:
        """The sets, and the database."""
        add_sets(parser)
        add_knowledge_base(parser)

    def read_training(self, args: argparse.Namespace) -> Read:
        """What is trained on: train and dev, their files for ``run.json``, and what is perturbed in the loop.

        Raises:
          InputError: a file that cannot be read, or flags that cannot work.
        """
        from parapet.evaluation.models.systems.data import read_steps, reader_of

        read = partial(read_steps, knowledge_base=args.knowledge_base)
        train, dev, inputs = read_sets(args, read, lambda step: step.dialogue_id)
        again = partial(reader_of, knowledge_base=args.knowledge_base)
        return train, dev, inputs, read_versions(args, again, lambda step: step.dialogue_id)

    def predicted(
        self, args: argparse.Namespace, kind: type[Job], options: Mapping[str, Option] = {}, **own: object
    ) -> Prediction:
        """The prediction by a model whose folder has been checked.

        Args:
          args: the flags.
          kind: the model's job.
          options: flags that shape the content, for ``run.json``.
          own: the fields of the job that are the model's own.

        Raises:
          InputError: something is missing, or cannot work.
        """
        from parapet.evaluation.models.systems.data import read_source
        from parapet.evaluation.sets import open_reference

        check_numbers(args)
        check_apart(args.output, knowledge_base=args.knowledge_base)
        plan = plan_sets(args)
        corpus = str(open_reference(plan.reference)[0])
        read_source(corpus, plan.split, args.knowledge_base)
        own |= {"reference": corpus, "split": plan.split, "sets": plan.sets, "inputs": plan.files}
        files = [("--sets", file.path) for file in plan.files]
        return Prediction(
            job=job_of(kind, args, self.model, knowledge_base=args.knowledge_base, **own),
            header=header_of_sets(self.model, args.model, plan, **options),
            inputs=[("--model", args.model), ("--reference", plan.reference), *files],
            asked="asked",
            answered="answered",
            outputs=tuple(Output(f"predictions/{name}", f"frames/{name}", "frame") for name in plan.sets),
            warnings=WARNINGS,
        )
