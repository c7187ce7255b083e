"""``parapet evaluate``: scores predictions by the metrics of the papers, and makes pages; one task at a time.

``dst``, a Beam pipeline, and ``ratings`` have modules of their own.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from parapet.evaluation.models.configs import knowledge_base
from parapet.pipelines import app, endpoint_flags, main
from parapet.pipelines.command import say
from parapet.pipelines.corpora import BabiOptions, SetOptions, TaskOptions, of_run
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, as_path, find_output
from parapet.transforms.core import options
from parapet.transforms.core.options import INPUT, REQUIRED, folder, option

if TYPE_CHECKING:
    from parapet.evaluation.sets import Sources
    from parapet.evaluation.task import Task
    from parapet.evaluation.user_code import UserCode


_GOALS = "goals, instead of a corpus"  # a section of the help
TASKS = {
    "dst": "dialogue states: official SGD metrics, schema sensitivity",
    "intent": "intents of user turns: accuracy and macro-F1",
    "ood": "out-of-domain turns: precision, recall, F1, AUROC, AUPR, FPR95",
    "ranking": "answers to bAbI dialog tasks: accuracy by response and dialogue",
    "response": "responses: Inform, Success, BLEU and Combined, as for MultiWOZ",
    "generation": "utterances from dialogue acts: slot error rate, BLEU, SGSAcc",
    "tool_calls": "calls of functions by agents: accuracy as BFCL's, kinds of error",
    "ratings": "what people say of such utterances: agreement with SGSAcc",
}

ABOUT = """\
Scores the predictions of a dialogue system on a corpus and its perturbed sets:
metrics.json, a row for every prediction, and a page."""
EXAMPLE = "  parapet evaluate --task dst --predictions my_predictions --output my_scores"


def run(argv: Sequence[str]) -> int:
    """Runs ``parapet evaluate``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    task, rest = split_task(argv)
    if task is None and argv and not {"-h", "--help", "--help-all", "--help_all"} & {*argv}:
        print(f"parapet evaluate: --task is required: must be one of {', '.join(TASKS)}", file=sys.stderr)
        return 2
    return main.run_action("evaluate", [task, *rest] if task is not None else argv[:1] and ["--help"])


def command(task: str) -> type[app.Command[Any]]:
    """Returns the declaration of a task."""
    return COMMANDS.get(task) or importlib.import_module(f"{__name__}.{task}").COMMAND


def split_task(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """Splits the value of ``--task`` off the other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--task", nargs="?")
    known, rest = parser.parse_known_args(argv)
    return known.task, rest


Prepared = tuple["Task[Any]", Any]  # a task with its inputs, which have been read


class Evaluation(app.Command[Prepared]):
    """A command that scores its inputs in one process."""

    stopped = "nothing was published, run the same command again"
    output: str = options.output_folder()

    def task(self) -> Task[Any]:
        """Makes the task. Raises InputError if the options cannot be used."""
        raise NotImplementedError

    def check(self) -> Prepared:
        """Reads the inputs. Raises InputError if one cannot be used."""
        task = self.task()
        return task, task.read()

    def act(self, prepared: Prepared) -> None:
        """Scores the inputs, publishes the result and prints the summary."""
        from parapet.evaluation.task import publish, refused_notes
        from parapet.pipelines.progress import running

        task, inputs = prepared
        with running(f"parapet {self.name}") as run:
            result = task.score(inputs, run.stage)
        publish(self.output, result.files, task.header(result))
        for warning in [*refused_notes(result.refused), *result.warnings]:
            logging.warning("%s", warning)
        for line in result.summary:
            say(line)


class PredictionOptions(options.Options):
    """The predictions of a system."""

    name: ClassVar[str]
    predictions_text: ClassVar[str]
    predictions: str = folder("{predictions_text}", "PATH", REQUIRED)

    @property
    def predicted(self) -> Any:
        """The predictions; of an output of ``parapet predict``, the folder with those of this task."""
        return self.predictions and of_run(self.predictions, self.name.split()[-1])

    @property
    def is_deterministic(self) -> bool:
        """Whether the system is known to predict the same in each run: our rules and trained models, a user's class."""
        if not self.predictions:
            return True
        output = find_output(self.predictions)
        return output is not None and output.pipeline.startswith("predict_") and "prompt" not in (output.manifest or {})

    def with_repeats(self: Any, runner_flags: tuple[str, ...]) -> app.Command[Any]:
        """Returns one evaluation for each run if the predictions are in folders ``run-0``, ``run-1`` …"""
        from parapet.evaluation.sets import run_folders
        from parapet.pipelines.evaluate.runs import Runs

        folders = run_folders(self.predicted) if self.predictions else []
        return Runs.of(self, [{"predictions": folder} for folder in folders], runner_flags) if folders else self


class UserModel(PredictionOptions):
    """A user's model, or its predictions."""

    group_of_model: ClassVar[str] = "model, instead of --predictions"
    model_text: ClassVar[str] = "FILE.py:NAME or MODULE:NAME"
    predictions: str | None = None  # type: ignore[assignment]
    model: str | None = option(
        None, "class with predict(batch), or function: {model_text}", group=group_of_model, metavar="FILE.py:NAME"
    )
    model_args: list[str] = option(
        [], "its arguments: checkpoint=my_model beams=4", group=group_of_model, metavar="KEY=VALUE", extend=True
    )

    repeats: int = options.repeats("runs of the model, with seed=0, 1, ... if its class takes a seed")

    def with_repeats(self: Any, runner_flags: tuple[str, ...]) -> app.Command[Any]:
        """Returns one evaluation for each repeat of the model, or each run of the predictions."""
        from parapet.evaluation.user_code import takes
        from parapet.pipelines.evaluate.runs import Runs

        if self.repeats == 1:
            return super().with_repeats(runner_flags)
        code = self.user_code()
        if code is None:
            raise InputError("requires --model; several runs of predictions are folders run-0, run-1, ...", "--repeats")
        first = code.arguments.get("seed", 0)
        if not isinstance(first, int):
            raise InputError(f"seed={first} must be a whole number with --repeats: each run adds 1", "--model_args")
        others = [pair for pair in self.model_args if not pair.startswith("seed=")]
        seeds = range(first, first + self.repeats) if takes(code, "seed") else [None] * self.repeats
        arguments = [self.model_args if seed is None else [*others, f"seed={seed}"] for seed in seeds]
        return Runs.of(self, [{"repeats": 1, "model_args": of_run} for of_run in arguments], runner_flags)

    def user_code(self) -> UserCode | None:
        """Reads what names the model. Raises InputError unless either a model or predictions are given."""
        from parapet.evaluation.user_code import UserCode, parse_arguments

        if (self.predictions is None) == (self.model is None):
            raise InputError("give exactly one of the two: predictions, or a model", "--predictions, --model")
        arguments = parse_arguments(self.model_args, "--model_args")
        return UserCode(self.model, arguments, os.getcwd()) if self.model else None


class LabelledPredictions(SetOptions, PredictionOptions):
    """The predictions of a system, and a reference unless they have labels themselves."""

    reference: str | None = folder("{reference_text} (default: the labels in the predictions)", "PATH", None)

    def sources(self, predictions: str | None = None) -> Sources:
        """Reads what the options name; without a reference, the labels are in the file of predictions."""
        if self.reference is None and (self.sets or self.variants):
            raise InputError("require --reference: add it", "--sets, --variants")
        if self.reference is None and as_path(self.predicted).is_dir():
            raise InputError("is a folder, whose predictions have no labels: add --reference", self.predicted)
        return SetOptions.sources(replace(self, reference=self.reference or self.predicted), predictions)


class Intent(LabelledPredictions, Evaluation):
    """``parapet evaluate --task intent``."""

    name = "evaluate --task intent"
    description = """\
Scores predicted intents by accuracy and macro-F1, for each set and intent: of utterances with labels, or of the user
turns of a corpus with their active intents."""
    example = "  parapet evaluate --task intent --reference my_corpus --predictions my_intents --output my_scores"
    note = """\
A row of the predictions: {"id": "7", "predicted": "book_flight"}, or with "dialogue_id" and "turn" for a corpus; with
"label" where there is no --reference."""
    reference_text = "corpus, release, or JSON lines with label"
    predictions_text = "JSON lines with predicted; or a folder with original/, typos/, ..."

    def task(self) -> Task[Any]:
        """Makes the task."""
        from parapet.evaluation.intent import Intent

        return Intent(predictions=self.predicted, sources=self.sources())


class Ood(LabelledPredictions, Evaluation):
    """``parapet evaluate --task ood``."""

    name = "evaluate --task ood"
    description = """\
Scores the detection of out-of-domain turns by precision, recall, F1, AUROC, AUPR and FPR95, for each set. The threshold
is tuned on --dev; without it, the predicted labels are scored."""
    example = "  parapet evaluate --task ood --reference my_turns --predictions turns.jsonl --output my_scores"
    note = """\
A row of the predictions: {"set": "ood-10", "dialogue_id": "1_00000", "turn": 4, "score": 0.93}; "predicted", ood or
in_domain, instead of a score or beside it; or a system's "response", of which a fallback says ood."""
    reference_text = "output of 'ood', a corpus (all in-domain), or JSON lines with label"
    sets_text = "sets: ood-10=foreign/ood-10"
    predictions_text = "JSON lines with score or predicted; or a folder with ood-10/, ood-20/, ..."
    dev: str | None = folder("predictions on other turns, on which the threshold is tuned", "PATH", None)
    dev_split: str = option("dev", "split of --dev", group=INPUT, rare=True, choices=SPLITS)

    def task(self) -> Task[Any]:
        """Makes the task."""
        from parapet.evaluation.ood import OodDetection

        return self.settings_of(OodDetection, predictions=self.predicted, sources=self.sources())


_own = "JSON lines, a folder with original/, ..., or 'reference' for what the corpus has"
_predictions = partial(folder, _own, "PATH|reference", REQUIRED)


class Response(SetOptions, PredictionOptions, Evaluation):
    """``parapet evaluate --task response``."""

    name = "evaluate --task response"
    description = """\
Scores responses by Inform, Success, BLEU and Combined = (Inform + Success) / 2 + BLEU, as for MultiWOZ: against a
corpus in the SGD format, or against goals and a knowledge base. docs/metrics.md says what counts."""
    example = "  parapet evaluate --task response --reference my_corpus --predictions said.jsonl --output my_scores"
    note = """\
A row of the predictions: {"dialogue_id": "1_00000", "turn": 3, "response": "..."}. A delexicalised response, with
placeholders such as [restaurant_name], has the "state" too: {"Restaurants_1": {"city": ["San Jose"]}}."""
    variants_text = "schema variants whose responses were predicted; scored as the original's"
    predictions: str = _predictions()
    knowledge_base: str | None = knowledge_base()
    goals: str | None = folder("goals, as MultiWOZ has them", "FILE", None, _GOALS)
    responses: str | None = folder("with --goals: reference responses, for BLEU", "FILE", None, _GOALS)
    tokenizer: Literal["13a", "none", "intl", "char"] = option("13a", "sacrebleu's tokenizer", group="scoring")

    def task(self) -> Task[Any]:
        """Makes the task."""
        from parapet.evaluation.response.task import ResponseTask

        if self.goals and (self.reference or self.sets or self.variants):
            raise InputError("give only one of the two: a corpus and its sets, or goals", "--reference, --goals")
        if (self.responses is None) != (self.goals is None):
            raise InputError("must be given together", "--goals, --responses")
        sources = None if self.goals else self.sources()
        return self.settings_of(ResponseTask, predictions=self.predicted, sources=sources)


class Ranking(PredictionOptions, BabiOptions, Evaluation):
    """``parapet evaluate --task ranking``."""

    name = "evaluate --task ranking"
    description = """\
Scores a system's answers to bAbI dialog tasks: accuracy by response and by dialogue for each file or set, OOV next to
plain; API calls by field (Bordes et al. 2017, Table 2)."""
    example = """\
  parapet evaluate --task ranking --reference babi/*-tst.txt --sets OOV=babi_oov --predictions my_answers \\
      --output my_scores                  # my_answers/original/..., my_answers/OOV/..."""
    note = """\
A row of the answers: {"dialogue": 0, "turn": 2, "answer": "api_call french london four cheap"}, counted from 0 in the
file. With --top a row has "answers", too: up to K candidates, the best first."""
    reference_text = "test files in the bAbI format"
    predictions_text = "a folder with FILE.jsonl, or original/FILE.jsonl, ...; or the answers to a single file"
    candidates: str | None = folder("all possible answers, '1 text' a line", "FILE", None)
    top: int = option(1, "also score the first 2, 3, ... K answers", group=INPUT, metavar="K", ge=1, le=100)

    def task(self) -> Task[Any]:
        """Makes the task."""
        from parapet.evaluation.ranking import Ranking
        from parapet.evaluation.sets import parse_sets

        references, sets = tuple(self.reference), parse_sets(self.sets)
        return self.settings_of(Ranking, references=references, predictions=self.predicted, sets=sets)


_scoring = partial(option, group="scoring")


class _Scoring(SetOptions):
    """What judges utterances; these options precede those of the language model in the help."""

    scorer: Literal["lexical", "nli", "llm"] = _scoring("lexical", "judge of entailment: rules, NLI, or --endpoint")
    nli_model: str | None = _scoring(None, "model of --scorer nli, such as roberta-large-mnli", metavar="DIR")
    metrics: list[str] = _scoring([], "metrics of plug-ins, on pairs of utterances", metavar="NAME")
    batch: int = _scoring(32, "pairs in a batch", rare=True)
    cache: str | None = _scoring(None, "file of judgements that are kept for other runs", rare=True, metavar="FILE")
    rules: Literal["paper", "extended"] = _scoring("paper", "rules of references: the paper's, or better English")
    templates: str | None = _scoring(
        None, "templates in T2G2's format as references: a folder with SERVICE.tsv", rare=True, metavar="DIR"
    )
    no_validation: bool = _scoring(False, "count turns whose ground truth is not validated, too", rare=True)
    seed: str = options.seed("the tampered values")


class Generation(endpoint_flags.ModelOptions, _Scoring, PredictionOptions, Evaluation):
    """``parapet evaluate --task generation``."""

    name = "evaluate --task generation"
    description = """\
Scores utterances that a system made from dialogue acts, by schema-guided semantic accuracy (SGSAcc), slot error rate
and BLEU; with variants, also how well true references are distinguished from tampered ones in each schema's words."""
    example = "  parapet evaluate --task generation --reference my_corpus --predictions said.jsonl --output my_scores"
    note = """\
A row of the predictions: {"dialogue_id": "1_00000", "turn": 1, "utterance": "Which city?"}. The lexical scorer is a set
of rules: use --scorer nli for numbers to compare with others."""
    group = "language model of --scorer llm"
    variants_text = options.SCHEMA_VARIANTS
    sets_text = "other corpora: entities=unseen"
    predictions: str = _predictions()
    endpoint: str = endpoint_flags.address(rare=True)
    model: str = endpoint_flags.model_name(rare=True)

    def task(self) -> Task[Any]:
        """Makes the task."""
        from parapet.evaluation.generation.task import Generation

        endpoint, cache = None, self.cache
        if self.scorer == "llm":
            endpoint, cache = self.endpoint_or_embedded(), endpoint_flags.cache_in(self.output, self.cache)
        elif self.endpoint:
            raise InputError("requires --scorer llm: add it", "--endpoint")
        return self.settings_of(
            Generation,
            predictions=self.predicted,
            sources=self.sources(),
            metrics=tuple(self.metrics),
            validation=not self.no_validation,
            endpoint=endpoint,
            cache=cache,
        )


class ToolCalls(UserModel, TaskOptions, Evaluation):
    """``parapet evaluate --task tool_calls``."""

    name = "evaluate --task tool_calls"
    description = """\
Scores the function calls of an agent as BFCL's AST checker does, task by task: accuracy by set and category, kinds of
error; with variants of the tools the schema sensitivity of SGD-X."""
    example = "  parapet evaluate --task tool_calls --reference tasks --predictions my_calls --output my_scores"
    note = """\
A row of the predictions: {"id": "multiple_0", "result": [{"triangle.get": {"side": 5}}]}. An empty list or a text as
the result calls nothing."""
    predictions_text = "JSON lines with id and result, a folder with original/FILE.jsonl, ..., or bfcl-eval's results"
    exclude_contradictions: bool = _scoring(False, "leave out tasks whose right calls contradict their own schema")
    by_meaning: bool = _scoring(False, "a second accuracy, where values may be written in another way")

    def task(self) -> Task[Any]:
        """Makes the task."""
        from parapet.evaluation.tools.task import ToolCalls

        sets, variants = self.task_sets()
        return self.settings_of(
            ToolCalls,
            references=tuple(self.reference),
            predictions=self.predicted or "",
            model=self.user_code(),
            sets=sets,
            variants=variants,
            is_deterministic=self.is_deterministic,
        )


COMMANDS = {kind.name.split()[-1]: kind for kind in (Intent, Ood, Ranking, Response, Generation, ToolCalls)}
