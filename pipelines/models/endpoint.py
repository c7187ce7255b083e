"""``parapet predict llm``, or ``predict --endpoint``: dialogue states by a language model behind an endpoint."""

from __future__ import annotations

import argparse
import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.evaluation.models.configs import PredictionConfig
from parapet.pipelines.command import counted
from parapet.pipelines.endpoint_flags import add_endpoint_flags, endpoint_of
from parapet.pipelines.flags import OUTPUT, PARALLEL_CALLS, Parser, add_dry_run
from parapet.pipelines.models import family
from parapet.pipelines.sets import add_sets
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.evaluation.endpoint.tracking import Job

_GROUP = "language model"
_CACHE = ".answers.sqlite"
_ANSWER = 60  # tokens of an answer, where none has been counted yet
_MOST_PARALLEL = 256


class LanguageModel(family.Family):
    """A language model, asked for states."""

    prediction_config = PredictionConfig  # none of its flags
    predict_description = """\
Asks a language model behind an OpenAI-compatible API for the state of every service in every user turn, and writes
dialogues with predicted states for 'parapet evaluate --task dst'. Every answer is kept at once (in the output folder):
run the same command again after a stop, and nothing is paid twice. Answers that cannot be read count as wrong."""
    predict_example = """\
  parapet predict llm --endpoint embedded --reference my_corpus --output my_states
  parapet predict llm --endpoint https://api.openai.com/v1 --model gpt-4o-mini --style tools --price 0.15,0.60 \\
      --reference my_corpus --variants my_dialogues --output my_states --dry_run
  parapet evaluate --task dst --reference my_corpus --variants my_dialogues \\
      --predictions my_states/predictions --output my_scores"""

    def predict_parser(self) -> Parser:
        """The command line of ``parapet predict llm``."""
        parser = Parser("predict llm", self.predict_description, self.predict_example)
        add_sets(parser, names=("--sgd",))
        text = f"SQLite file in which answers are kept (default: OUT/{_CACHE})"
        parser.group(OUTPUT)("--cache", rare=True, metavar="FILE", help=text)
        add_endpoint_flags(parser, _GROUP)
        add = parser.group(_GROUP)
        add("--model", metavar="NAME", help="its name there; 'embedded' has one of its own")
        text = "how states are asked for: a function to call, a JSON Schema, or lines of text"
        add("--style", choices=("tools", "json", "text"), default="json", help=text)
        text = "take values as they are: do not spell them as the schema or the dialogue has them"
        add("--as_answered", action="store_true", help=text)
        add("--parallel_calls", rare=True, type=int, default=4, metavar="N", help=PARALLEL_CALLS)
        add("--timeout", rare=True, type=float, default=120.0, metavar="S", help="seconds that an answer may take")
        add_dry_run(parser)
        return parser

    def prediction(self, args: argparse.Namespace) -> family.Prediction:
        """Looks at the endpoint and the sets. Raises InputError for what cannot work."""
        from parapet.evaluation.endpoint.prompts import texts
        from parapet.evaluation.endpoint.tracking import Job

        if not 1 <= args.parallel_calls <= _MOST_PARALLEL:
            raise InputError(f"1 to {_MOST_PARALLEL}", "--parallel_calls")
        if not args.cache and "://" in args.output:
            raise InputError("answers are kept in a local file: name one", "--cache")
        plan = family.plan_sets(args)
        endpoint = self._endpoint(args)
        job = Job(
            output=args.output,
            model="llm",
            folder="",
            device="cpu",
            threads=1,
            batch_size=1,
            sets=plan.sets,
            inputs=plan.files,
            endpoint=endpoint,
            style=args.style,
            cache=args.cache or str(Path(args.output) / _CACHE),
            normalise=not args.as_answered,
        )
        header = plan.header("llm", "", style=args.style, normalised=job.normalise, prompt=texts()["version"])
        return family.Prediction(
            job=job,
            header={**header, "model": {"name": endpoint.model, "temperature": endpoint.temperature}},
            inputs=[("--reference", file.path) for file in plan.files],
            asked="asked",
            answered="predicted",
            outputs=tuple(map(_output, plan.sets)),
            notes=(f"answers as they came: {args.output}/answers",),
            cost=endpoint.cost,
            plan=_plan_of(job) if args.dry_run else (),
        )

    def _endpoint(self, args: argparse.Namespace) -> Any:
        from parapet.transforms.running import embedded

        more = {"parallel": args.parallel_calls, "seconds": args.timeout}
        if args.endpoint != embedded.NAME:
            return endpoint_of(args, args.model, **more)
        args.endpoint = embedded.ADDRESS if args.dry_run else embedded.serve()
        more = {**more, "key_variable": "", "parallel": 1, "known_as": embedded.NAME}
        return endpoint_of(args, args.model or embedded.MODEL, **more)


def _output(name: str) -> family.Output:
    unread = (f"unread/{name}", "answers not readable, which count as wrong")
    return family.Output(f"predictions/{name}", f"predicted/{name}", "frame", unread)


def _plan_of(job: Job) -> tuple[str, ...]:
    """The lines of ``--dry_run``: requests, tokens and dollars, by what answers have taken so far."""
    from parapet.evaluation.endpoint.tracking import estimate
    from parapet.transforms.running.chat import CHARACTERS_OF_TOKEN

    found = estimate(job)
    calls = found.calls - found.kept
    characters, answer = _measured(job.cache)
    sent, answered = round(found.characters / characters), calls * answer
    dollars = f"${job.endpoint.cost(sent, answered):,.2f}"
    cost = f", {dollars}" if any(job.endpoint.dollars) else "; --price says what they cost"
    lines = [f"{counted(calls, 'call')}, {found.kept:,} more are answered already"]
    lines += [f"about {sent:,} tokens sent and {answered:,} answered{cost}"]
    if characters == CHARACTERS_OF_TOKEN:
        lines.append("(guessed at four characters a token: after some answers, --dry_run knows better)")
    return (*lines, "dry run: nothing was sent, nothing was written")


def _measured(cache: str) -> tuple[float, int]:
    """Characters of a request for each token, and tokens of an answer, as far as the cache knows."""
    import msgspec

    from parapet.transforms.running.chat import CHARACTERS_OF_TOKEN, Reply

    if not Path(cache).exists():
        return CHARACTERS_OF_TOKEN, _ANSWER
    with contextlib.closing(sqlite3.connect(f"file:{cache}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT answer FROM answers LIMIT 2000").fetchall()
    replies = [reply for (text,) in rows if (reply := msgspec.json.decode(text, type=Reply)).characters]
    sent, answered = (sum(reply.tokens[i] for reply in replies) for i in (0, 1))
    if not sent:
        return CHARACTERS_OF_TOKEN, _ANSWER
    return sum(reply.characters for reply in replies) / sent, round(answered / len(replies))
