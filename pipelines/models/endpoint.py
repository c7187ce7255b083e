"""``parapet predict llm`` and its siblings, or ``predict --endpoint``: language models behind an endpoint.

They predict states, out-of-domain turns, utterances of acts and answers of bAbI dialogues, and read and write the same
files as the trained models of each task.
"""

from __future__ import annotations

import argparse
import contextlib
import sqlite3
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from parapet.evaluation.models.configs import PredictionConfig
from parapet.pipelines.app import add_flags, read_config
from parapet.pipelines.command import counted
from parapet.pipelines.endpoint_flags import ModelOptions
from parapet.pipelines.flags import INPUT, OUTPUT, SCHEMA_VARIANTS, Parser, add_dry_run, add_max_bad
from parapet.pipelines.models import family
from parapet.pipelines.sets import add_sets, add_tasks, sources_of, task_sets
from parapet.schemas.errors import InputError, run_header

if TYPE_CHECKING:
    from parapet.evaluation.endpoint.asking import Job
    from parapet.evaluation.endpoint.prompting import Prompt

_GROUP = "language model"
_CACHE = ".answers.sqlite"
_ANSWER = 60  # tokens of an answer, where none has been counted yet
_UNREAD = "answers that could not be read count as wrong"


class Task(NamedTuple):
    """A task's part of a prediction.

    Attributes:
      of: the job whose files are read and written.
      make: makes the object that asks the model, from a client.
      asked, answered: the kinds of counts that must be equal.
      options: the header's options, with the sets.
      inputs: (flag, path) of the files.
      outputs: (path, name of the counts) of each output.
      unit: the unit of the counts.
    """

    of: Any
    make: Any
    asked: str
    answered: str
    options: dict[str, Any]
    inputs: family.Inputs
    outputs: Sequence[tuple[str, str]]
    unit: str


class LanguageModel(family.Family):
    """A language model that is asked as a subclass defines.

    Attributes:
      task: the task of the prompt.
    """

    prediction_config = PredictionConfig  # adds no flags
    task: str

    def predict_parser(self) -> Parser:
        """Builds the command line of ``parapet predict llm``."""
        parser = Parser(f"predict {self.model}", self.predict_description, self.predict_example)
        self.add_inputs(parser)
        text = f"SQLite file in which answers are kept (default: OUT/{_CACHE})"
        parser.group(OUTPUT)("--cache", rare=True, metavar="FILE", help=text)
        add_flags(parser, ModelOptions, _GROUP)
        self.add_styles(parser)
        add_max_bad(parser, "requests")
        add_dry_run(parser)
        return parser

    @abstractmethod
    def add_inputs(self, parser: Parser) -> None:
        """Adds the flags that name the inputs."""

    def add_styles(self, parser: Parser) -> None:
        """Adds the flags of the prompt's style, if there are several styles."""

    @abstractmethod
    def plan(self, args: argparse.Namespace, prompt: Prompt) -> Task:
        """Checks the input files. Raises InputError if they cannot be used."""

    def prediction(self, args: argparse.Namespace) -> family.Prediction:
        """Checks the endpoint and the files. Raises InputError if they cannot be used."""
        from parapet.evaluation.endpoint.asking import Job
        from parapet.evaluation.endpoint.prompting import prompt_of

        if not args.cache and "://" in args.output:
            raise InputError("must be a local file, in which answers are kept", "--cache")
        prompt = prompt_of(self.task, args.prompt)
        task = self.plan(args, prompt)
        endpoint = read_config(ModelOptions, args).endpoint_or_embedded(dry=args.dry_run)
        cache = args.cache or str(Path(args.output) / _CACHE)
        job = Job(
            output=args.output,
            model=self.model,
            of=task.of,
            make=task.make,
            endpoint=endpoint,
            cache=cache,
            counted=task.answered,
        )
        named = [family.named_digest(path) for _, path in task.inputs]
        about = {"name": endpoint.model, **endpoint.parameters(), "dollars": list(endpoint.dollars)}
        if not endpoint.known_as:
            about["endpoint"] = endpoint.url
        return family.Prediction(
            job=job,
            header={
                **run_header(f"predict_{self.model}", task.options),
                "model": about,
                "prompt": prompt.about,
                "inputs": named,
            },
            inputs=[*task.inputs, *([("--prompt", args.prompt)] if args.prompt else [])],
            asked=task.asked,
            answered=task.answered,
            outputs=tuple(
                family.Output(path, f"{task.answered}/{name}".rstrip("/"), task.unit, (_key("unread", name), _UNREAD))
                for path, name in task.outputs
            ),
            notes=(f"answers: {args.output}/answers",),
            cost=endpoint.cost,
            max_bad=args.max_bad,
            plan=_plan_of(job) if args.dry_run else (),
        )


def _key(kind: str, name: str) -> str:
    return f"{kind}/{name}".rstrip("/")


class States(LanguageModel):
    """Predicts dialogue states."""

    task = "states"
    predict_description = """\
Asks a language model behind an OpenAI-compatible API for the state of every service in every user turn, and writes
dialogues with predicted states for 'parapet evaluate --task dst'. Every answer is kept at once (in the output folder):
run the same command again after a stop. At most the calls under way, --parallel_calls for each worker, are paid twice.
Answers that cannot be read count as wrong; refused requests are not scored."""
    predict_example = """\
  parapet predict llm --endpoint embedded --output my_states             # the sample, a small local model
  parapet predict llm --endpoint https://api.openai.com/v1 --model gpt-4o-mini --style tools --price 0.15,0.60 \\
      --reference my_corpus --variants my_dialogues --output my_states --dry_run
  parapet evaluate --task dst --reference my_corpus --variants my_dialogues \\
      --predictions my_states/predictions --output my_scores"""

    def add_inputs(self, parser: Parser) -> None:
        """Adds the flags of a corpus, its variants and sets."""
        add_sets(parser, names=("--sgd",))

    def add_styles(self, parser: Parser) -> None:
        """Adds the flags for the style of the prompt, and for keeping values as answered."""
        add = parser.group(_GROUP)
        text = "how states are asked for: a function to call, a JSON Schema, or lines of text"
        add("--style", choices=("tools", "json", "text"), default="json", help=text)
        text = "take values as they are: do not spell them as the schema or the dialogue has them"
        add("--as_answered", action="store_true", help=text)

    def plan(self, args: argparse.Namespace, prompt: Prompt) -> Task:
        """Lists the sets of dialogues."""
        from parapet.evaluation.endpoint.tracking import LanguageModel as Tracker
        from parapet.evaluation.models.dst.data import Job

        plan = family.plan_sets(args)
        return Task(
            of=Job(output=args.output, model="llm", sets=plan.sets, inputs=plan.files),
            make=partial(Tracker, style=args.style, normalise=not args.as_answered, prompt=prompt),
            asked="asked",
            answered="predicted",
            options={
                "split": plan.split, "sets": list(plan.sets), "style": args.style, "normalised": not args.as_answered
            },
            inputs=[("--reference", file.path) for file in plan.files],
            outputs=[(f"predictions/{name}", name) for name in plan.sets],
            unit="frame",
        )  # fmt: skip


class OutOfDomain(LanguageModel):
    """Predicts whether turns are out of domain."""

    task = "ood"
    predict_description = """\
Asks a language model of each user turn whether it is in the domain of the services, and how sure it is: scores and
decisions for 'parapet evaluate --task ood'. Answers are kept, and count, as those of 'predict llm'."""
    predict_example = """\
  parapet ood --output my_foreign_turns
  parapet predict llm_ood --endpoint embedded --reference my_foreign_turns --output my_scores
  parapet evaluate --task ood --reference my_foreign_turns --predictions my_scores/predictions --output my_metrics"""

    def add_inputs(self, parser: Parser) -> None:
        """Adds the flags of the turns and of the domains."""
        add_sets(parser, reference="corpus, output of 'ood', or JSON lines with utterance")
        text = "schemas of what is in the domain (default: those of the reference)"
        parser.group(INPUT)("--domains", metavar="PATH", reads=True, help=text)

    def plan(self, args: argparse.Namespace, prompt: Prompt) -> Task:
        """Lists the turns. Raises InputError if they cannot be used, or if nothing defines the domains."""
        from parapet.evaluation.endpoint.tasks import Router
        from parapet.evaluation.models import turns
        from parapet.evaluation.ood import is_of_ood
        from parapet.schemas.layout import as_path, read_root

        sources = sources_of(args)
        reference = turns.find(sources, "ood")
        root = as_path(args.domains or sources.reference)
        if root.is_file() and not args.domains:
            raise InputError("lines of turns do not say what is in the domain: give its schemas", "--domains")
        if is_of_ood(str(root)) and not args.domains:
            root = sorted(path for path in root.iterdir() if (path / "turns").is_dir())[0]
        services = {
            service.service_name: service for split in read_root(root, leave_out_bad=True) for service in split.services
        }
        job = turns.Job(output=args.output, model="llm_ood", task="ood", threshold=0.5, reference=reference)
        return Task(
            of=job,
            make=partial(Router, services=tuple(services.values()), prompt=prompt),
            asked="asked",
            answered="answered",
            options={"task": "ood", "split": sources.split, "threshold": 0.5},
            inputs=[
                ("--reference", path) for files in reference.sources for _, path in files if as_path(path).is_file()
            ],
            outputs=[(turns.PREDICTIONS if reference.in_folders else job.path_of(""), "")],
            unit="turn",
        )


class Utterances(LanguageModel):
    """Generates utterances from dialogue acts."""

    task = "utterances"
    predict_description = """\
Asks a language model for an utterance of the acts of each system turn, given as the stiff sentences that a T5 gets
('train ft_t5'), for 'parapet evaluate --task generation': SGSAcc and slot error rate. Answers are kept as those of
'predict llm'."""
    predict_example = """\
  parapet predict llm_utterances --endpoint embedded --output my_utterances
  parapet evaluate --task generation --predictions my_utterances/predictions --output my_scores"""

    def add_inputs(self, parser: Parser) -> None:
        """Adds the flags of a corpus, its variants and sets."""
        add_sets(parser, variants=SCHEMA_VARIANTS, sets="other corpora: entities=unseen")

    def plan(self, args: argparse.Namespace, prompt: Prompt) -> Task:
        """Lists the system turns."""
        from parapet.evaluation.endpoint.tasks import Speaker
        from parapet.evaluation.models.generation import data
        from parapet.evaluation.models.generation.inference import Job, Search, relative_of

        sources = sources_of(args)
        sets = tuple(data.sources(sources))
        return Task(
            of=Job(
                output=args.output, model="llm_utterances", checkpoint=None, search=Search(1, 1, 0), sets=sets,
                split=sources.split, reranker=None,
            ),
            make=partial(Speaker, prompt=prompt),
            asked="turns",
            answered="said",
            options={"split": sources.split, "sets": [source.name for source in sets]},
            inputs=[("--reference", file.path) for source in sets for file in source.files],
            outputs=[(relative_of(source.name, sources.split), source.name) for source in sets],
            unit="turn",
        )  # fmt: skip


class BabiAnswers(LanguageModel):
    """Predicts the bot's lines in bAbI dialogues."""

    task = "babi"
    predict_description = """\
Asks a language model for the bot's line at each turn of dialogues in the bAbI format, for 'parapet evaluate --task
ranking'. With --candidates the one most like its answer is taken. Answers are kept as those of 'predict llm'."""
    predict_example = """\
  parapet predict llm_babi --endpoint embedded --reference babi/task1-tst.txt --examples babi/task1-trn.txt \\
      --candidates babi/candidates.txt --output my_answers
  parapet evaluate --task ranking --reference babi/task1-tst.txt --predictions my_answers/predictions \\
      --candidates babi/candidates.txt --output my_scores"""

    def add_inputs(self, parser: Parser) -> None:
        """Adds the flags of test files and of examples in the prompt."""
        add = parser.group(INPUT)
        text = "dialogues in the bAbI format"
        add("--reference", nargs="+", default=[], metavar="FILE", reads=True, help=text)
        text = "further sets, files or folders: OOV=babi/task1-tst-OOV.txt"
        add("--sets", nargs="+", default=[], metavar="NAME=PATH", reads=True, help=text)
        text = "dialogues of the same task, of which the prompt shows the first --shots"
        add("--examples", metavar="FILE", reads=True, help=text)
        add("--shots", type=int, default=3, metavar="N", help="how many examples the prompt shows")
        add("--candidates", metavar="FILE", reads=True, help="what may be answered (default: anything)")
        text = "write the K best answers at each turn, for 'parapet evaluate --task ranking --top K'"
        parser.group(OUTPUT)("--top", type=int, default=1, metavar="K", help=text)

    def plan(self, args: argparse.Namespace, prompt: Prompt) -> Task:
        """Lists the test files. Raises InputError if one cannot be used."""
        from parapet.evaluation.endpoint.tasks import Bot
        from parapet.evaluation.models.babi.data import read_candidates, read_dialogues
        from parapet.evaluation.models.babi.inference import BabiFile, Job
        from parapet.evaluation.ranking import list_tests, stem_of
        from parapet.evaluation.sets import parse_sets

        if args.top < 1 or args.shots < 0:
            raise (
                InputError("must be 1 or more", "--top") if args.top < 1 else InputError("must be 0 or more", "--shots")
            )
        if args.top > 1 and not args.candidates:
            raise InputError("requires --candidates, which are ranked: add them", "--candidates")
        others = parse_sets(args.sets)
        tests = list_tests(args.reference, others)
        shown = tuple(read_dialogues(args.examples)[: args.shots]) if args.examples else ()
        candidates = tuple(read_candidates(args.candidates)) if args.candidates else ()
        files = tuple(
            BabiFile(path, f"predictions/{name}/{stem_of(path)}.jsonl")
            for name, paths in tests.items()
            for path in sorted(paths, key=stem_of)
        )
        more = [(flag, path) for flag in ("examples", "candidates") if (path := getattr(args, flag))]
        return Task(
            of=Job(output=args.output, model="llm_babi", memory=None, inputs=files, top=args.top),
            make=partial(Bot, examples=shown, candidates=candidates, prompt=prompt),
            asked="turns",
            answered="answers",
            options={"top": args.top, "shots": len(shown)},
            inputs=[*(("--reference", file.path) for file in files), *((f"--{flag}", path) for flag, path in more)],
            outputs=[(file.answers, file.answers) for file in files],
            unit="answer",
        )


class ToolCalls(LanguageModel):
    """Predicts calls of tools."""

    task = "tools"
    predict_description = """\
Asks a language model for the tool calls of tasks in BFCL's format, for 'parapet evaluate --task tool_calls'. Answers
are kept, and count, as those of 'predict llm'."""
    predict_example = """\
  parapet predict llm_tools --endpoint https://api.openai.com/v1 --model gpt-4o-mini \\
      --reference BFCL_v4_multiple.json --output my_calls
  parapet evaluate --task tool_calls --reference BFCL_v4_multiple.json --predictions my_calls/predictions \\
      --output my_scores"""

    def add_inputs(self, parser: Parser) -> None:
        """Adds the flags of tasks and their variants."""
        add_tasks(parser)

    def add_styles(self, parser: Parser) -> None:
        """Adds the flag for function calling or a JSON list of calls."""
        text = "how calls are asked for: the API's function calling, or a list of calls as JSON"
        parser.group(_GROUP)("--style", choices=("tools", "json"), default="tools", help=text)

    def plan(self, args: argparse.Namespace, prompt: Prompt) -> Task:
        """Lists the files of tasks."""
        from parapet.evaluation.tools.agent import Job, TaskFile, ToolCaller
        from parapet.evaluation.tools.tasks import list_files
        from parapet.schemas.layout import as_path

        sets, _ = task_sets(args)
        files = tuple(
            TaskFile(name, path, f"predictions/{name}/{as_path(path).stem}.jsonl")
            for name, paths in list_files(args.reference, sets).items()
            for path in paths
        )
        return Task(
            of=Job(output=args.output, model="llm_tools", inputs=files),
            make=partial(ToolCaller, style=args.style, prompt=prompt),
            asked="asked",
            answered="called",
            options={"style": args.style, "sets": list(dict.fromkeys(file.set for file in files))},
            inputs=[("--reference", file.path) for file in files],
            outputs=[(file.answers, file.answers) for file in files],
            unit="task",
        )


def _plan_of(job: Job) -> tuple[str, ...]:
    """Formats the plan of ``--dry_run``: requests, tokens and dollars, estimated from the answers in the cache."""
    from parapet.evaluation.endpoint.asking import estimate
    from parapet.transforms.running.chat import CHARACTERS_OF_TOKEN

    estimates = estimate(job)
    calls = estimates.calls - estimates.kept
    characters, answer = _measured(job.cache)
    sent, answered = round(estimates.characters / characters), calls * answer
    dollars = f"${job.endpoint.cost(sent, answered):,.2f}"
    cost = f", {dollars}" if any(job.endpoint.dollars) else "; add --price to see the cost"
    lines = [f"{counted(calls, 'call')} to make, {estimates.kept:,} more are answered already"]
    lines += [f"about {sent:,} tokens of requests and {answered:,} tokens of answers{cost}"]
    if characters == CHARACTERS_OF_TOKEN:
        lines.append("(estimated at four characters per token; the estimate is better once some answers are there)")
    return (*lines, "dry run: nothing was sent or written")


def _measured(cache: str) -> tuple[float, int]:
    """Measures characters per token of requests and tokens per answer in the cache; defaults for an empty cache."""
    import msgspec

    from parapet.transforms.running.chat import CHARACTERS_OF_TOKEN
    from parapet.transforms.running.replies import Reply

    if not Path(cache).exists():
        return CHARACTERS_OF_TOKEN, _ANSWER
    with contextlib.closing(sqlite3.connect(f"file:{cache}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT answer FROM answers LIMIT 2000").fetchall()
    replies = [reply for (text,) in rows if (reply := msgspec.json.decode(text, type=Reply)).characters]
    sent, answered = (sum(reply.tokens[i] for reply in replies) for i in (0, 1))
    if not sent:
        return CHARACTERS_OF_TOKEN, _ANSWER
    return sum(reply.characters for reply in replies) / sent, round(answered / len(replies))
