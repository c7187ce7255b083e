"""``parapet predict``: runs a model that ``parapet train`` made, or a language model, on files of dialogues."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from parapet.pipelines.command import counted, run_command, say
from parapet.pipelines.dispatch import hand_over, spelling
from parapet.pipelines.flags import Parser
from parapet.pipelines.models import ENDPOINT, family_of
from parapet.pipelines.models import PREDICTING as MODELS

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.pipelines.models.family import Prediction

TOKENS = ("tokens_sent", "tokens_answered")  # counts of language models

USAGE = f"""usage: parapet predict MODEL [flags]

Runs a model of 'parapet train' on dialogues, or asks a language model:
OUT/predictions, for 'parapet evaluate'.

models:
{chr(10).join(f"  {name:15}{what}" for name, what in MODELS.items())}

example:
  parapet predict tiny_dst --model my_model --reference my_corpus \\
      --output my_states
  parapet evaluate --task dst --reference my_corpus \\
      --predictions my_states/predictions --output my_scores

'parapet predict MODEL --help' shows the flags of a model.
"""


def parser(model: str) -> Parser:
    """Builds the command line of a model."""
    return family_of(model).predict_parser()


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet predict``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv and argv[0].split("=")[0] == "--endpoint":
        argv = [ENDPOINT, *argv]
    if argv and (model := spelling(argv[0], MODELS)):
        family = family_of(model)
        inputs = lambda prediction: prediction.inputs  # noqa: E731
        return run_command(family.predict_parser(), argv[1:], family.prediction, build, report, inputs)
    return hand_over("parapet predict", "model", MODELS, "parapet.pipelines.predict", USAGE, argv)


def build(pipeline: beam.Pipeline, prediction: Prediction) -> None:
    """Wires the pipeline: splits files into chunks, predicts, and writes files of predictions."""
    from parapet.evaluation.models.inference import Predict
    from parapet.transforms.storage import files

    job = prediction.job
    files.prepare(job.output, f"predict_{job.model}")
    written, counts = pipeline | "Predict" >> Predict(job)
    check = partial(_check, asked=prediction.asked, answered=prediction.answered, max_bad=prediction.max_bad)
    _ = written | "Publish" >> files.Publish(job.output, prediction.header, counts, check)


def _check(counts: dict[str, int], max_bad: Fraction, **kinds: str) -> dict[str, int]:
    from parapet.evaluation.endpoint.outcomes import check_refusals
    from parapet.evaluation.models.inference import check_invariants

    check_refusals(counts, max_bad)
    return check_invariants(counts, **kinds)


def _report_requests(counts: dict[str, int], price: Callable[[int, int], float]) -> None:
    """Prints what a language model's answers cost, and warns about refused requests and parameters."""
    from parapet.evaluation.endpoint.outcomes import left_out, refusals, totals

    sums = totals(counts)
    sent, answered = (sums.get(kind, 0) for kind in TOKENS)
    if sent or answered:
        dollars = price(sent, answered)
        cost = f", ${dollars:,.2f}" if dollars else ""
        say(
            f"{sent:,} tokens of requests and {answered:,} tokens of answers{cost}, including those of answers "
            "that were kept from earlier runs"
        )
    else:
        say("tokens: not reported by the endpoint")
    if names := left_out(counts):
        logging.warning("left out of all requests, as the endpoint does not take it: %s", names)
    refused, requests, reason = refusals(counts)
    if refused:
        text = "%s of %s were refused and will not be scored: %s; run the same command again to ask for them again"
        logging.warning(text, f"{refused:,}", counted(requests, "request"), reason)


def report(prediction: Prediction, _: dict[str, int]) -> None:
    """Prints what was written, and warns about inputs that did not fit the model."""
    from parapet.schemas.layout import MANIFEST
    from parapet.transforms.storage.files import read_written

    for line in prediction.plan:
        print(line)
    if prediction.plan:
        return
    output = prediction.job.output
    counts: dict[str, int] = json.loads(read_written(output, MANIFEST))["counts"]
    for written in prediction.outputs:
        line = f"{output}/{written.path}: {counted(counts.get(written.count, 0), written.unit)}"
        if written.also:
            line += f", {counts.get(written.also[0], 0):,} {written.also[1]}"
        say(line)
        name = written.count.partition("/")[2]
        for kind, (unit, text) in prediction.warnings.items():
            if n := counts.get(f"{kind}/{name}".rstrip("/"), 0):
                logging.warning("%s: %s", name or written.path, text.replace("{n}", counted(n, unit)))
    if n := sum(n for name, n in counts.items() if name.partition("/")[0] == "written_calls"):
        say(f"{counted(n, 'call')} written as text, because the endpoint passed none in the form of its API")
    if prediction.cost:
        _report_requests(counts, prediction.cost)
    for note in prediction.notes:
        say(note)
