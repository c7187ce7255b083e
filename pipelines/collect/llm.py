"""``parapet collect llm``: a language model fills in the forms of ``parapet hits``."""

from __future__ import annotations

import argparse
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, counted, read_good, run_checked, say
from parapet.pipelines.endpoint_flags import NONE, add_endpoint_flags, endpoint_of
from parapet.pipelines.flags import (
    INPUT,
    OUTPUT,
    PARALLEL_CALLS,
    StrictParser,
    add_dry_run,
    add_max_bad,
    add_output,
    add_schemas,
    add_seed,
)
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import DEAD_LETTERS, sample_root, services_by_name

if TYPE_CHECKING:
    from parapet.transforms.crowd.collection.llm import Filled, Work
    from parapet.transforms.running.chat import Chat, Endpoint

NAME = "collect llm"
ANSWERS = "answers.jsonl"

DESCRIPTION = """\
Has a language model answer the forms of 'parapet hits', as annotators with different styles and temperatures. The
model reads what people see on the form, and nothing else; --schemas are those of the forms. Answers are marked as a
model's (llm) and are vetted as those of people are; a model never counts as a person.

Every answer is kept at once, so a rerun costs nothing; after a run that was cut off, at most the calls that were under
way (--parallel_calls) are paid twice."""

EXAMPLE = """\
  parapet collect llm --schemas my_corpus --hits my_hits --endpoint http://127.0.0.1:8080/v1 --model qwen3 \\
      --output my_llm
  parapet collect llm --schemas my_corpus --hits my_hits --endpoint https://api.openai.com/v1 \\
      --model gpt-4o-mini --price 0.15,0.60 --output my_llm --dry_run
  parapet compose --schemas my_corpus --responses my_llm/answers.jsonl --output my_variants"""

_GROUP = "language model"
_HIGHEST = 2.0  # highest temperature of the chat completions API
_MOST = {"annotators": 1_000, "first_annotator": 100_000, "parallel_calls": 32}


class Config(msgspec.Struct, frozen=True):
    """The settings of a run.

    Attributes:
      work: the forms, each for one annotator.
      cache: the file with the model's answers.
      max_bad: the share of forms for which requests may be refused.
    """

    hits: str
    output: str
    endpoint: Endpoint
    work: list[Work]
    cache: Path
    options: Mapping[str, object]
    max_bad: Fraction


def parser() -> StrictParser:
    """Builds the command line of ``parapet collect llm``."""
    parser = StrictParser(NAME, DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--hits", required=True, metavar="DIR", reads=True, help="output of 'parapet hits' for schemas")
    add_schemas(parser)
    add_output(parser)
    text = "file in which answers are kept (default: the name of --output with .sqlite)"
    parser.group(OUTPUT)("--cache", rare=True, metavar="FILE", help=text)
    add_endpoint_flags(parser, _GROUP, temperature=False)
    add = parser.group(_GROUP)
    add("--model", required=True, metavar="NAME", help="its name there")
    text = "annotators for each form (default: the assignments that the form wants)"
    add("--annotators", type=int, metavar="N", help=text)
    text = "number of the first annotator, after those of an earlier batch"
    add("--first_annotator", rare=True, type=int, default=1, metavar="N", help=text)
    text = "temperatures of the annotators, in turn; none: not sent"
    add("--temperatures", metavar="LIST", default="0.3,0.7,1.0", help=text)
    add("--parallel_calls", rare=True, type=int, default=4, metavar="N", help=PARALLEL_CALLS)
    add_seed(parser, "the model's answers", int, 0)
    add_max_bad(parser, "forms")
    add_dry_run(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet collect llm``. Returns the exit status."""
    stopped = "what was answered is kept, run the same command again"
    return run_checked(parser(), argv, check, lambda act: act(), stopped)


def check(args: argparse.Namespace) -> Callable[[], int]:
    """Reads the forms and returns a function that does the work. Raises InputError if a flag cannot be used."""
    from parapet.transforms.crowd.collection import llm
    from parapet.transforms.crowd.collection.sheet import read_sheets

    for flag, most in _MOST.items():
        value = getattr(args, flag)
        if value is not None and not 1 <= value <= most:
            raise InputError(f"must be a number from 1 to {most:,}", f"--{flag}")
    temperatures = _temperatures(args.temperatures)
    endpoint = endpoint_of(args, args.model, parallel=args.parallel_calls)
    if "://" in args.output and not args.cache:
        raise InputError("must name a local file for the answers, because --output is not on this machine", "--cache")
    sheets = read_sheets(args.hits, services_by_name(read_good(args.schemas or sample_root())))
    work = llm.plan(sheets, args.annotators, temperatures, args.seed, args.first_annotator)
    options = {
        "hits": [sheet.key for sheet in sheets],
        "model": args.model,
        "endpoint": args.endpoint,
        "annotators": args.annotators,
        "first_annotator": args.first_annotator,
        "temperatures": temperatures,
        "seed": args.seed,
        **{name: value for name, value in endpoint.parameters().items() if name != "temperature"},
    }
    cache = Path(args.cache or f"{args.output.rstrip('/')}.sqlite")
    config = Config(args.hits, args.output, endpoint, work, cache, options, args.max_bad)
    return partial(_dry_run if args.dry_run else _collect, config)


def _temperatures(text: str) -> tuple[float | None, ...]:
    try:
        values = tuple(None if part.strip() == NONE else float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(value is None or 0 <= value <= _HIGHEST for value in values):
        raise InputError(f"{text!r} is not a list of temperatures from 0 to 2 (example: 0.3,0.7,1.0)", "--temperatures")
    return values


def _open(config: Config, cache: Path | None) -> Chat:
    from parapet.transforms.running.chat import Chat

    chat = Chat(config.endpoint, cache)
    try:
        chat.open()
    except (sqlite3.Error, OSError) as error:
        raise InputError(f"cannot be used to store answers: {error}", config.cache, "--cache") from None
    return chat


def _dry_run(config: Config) -> int:
    from parapet.transforms.crowd.collection import llm

    chat = _open(config, config.cache if config.cache.exists() else None)
    try:
        used = llm.estimate(chat, config.work)
    finally:
        chat.close()
    annotators = len({item.annotator.number for item in config.work})
    say(
        f"{counted(len(config.work), 'form')} to fill in by {counted(annotators, 'annotator')}, simulated by "
        f"{config.endpoint.model}"
    )
    sent, answered = f"{used['sent']:,}", f"{used['answered']:,}"
    say(
        f"{counted(used['calls'], 'call')} to make ({used['kept']:,} more are answered already), about "
        f"{sent} tokens of requests and {answered} tokens of "
        f"answers{_dollars(config.endpoint, used) or '; --price says what they cost'}"
    )
    say(f"a form whose answers are invalid is tried up to {llm.TRIES} times; dry run: nothing was sent or written")
    return 0


def _dollars(endpoint: Endpoint, used: Counter[str]) -> str:
    if not any(endpoint.dollars):
        return ""
    cost = endpoint.cost(used["sent"], used["answered"])
    return f", ${cost:,.4f}" if cost < 1 else f", ${cost:,.2f}"


def _collect(config: Config) -> int:
    from parapet.evaluation.task import publish
    from parapet.pipelines.progress import running
    from parapet.transforms.crowd.collection import llm

    chat = _open(config, config.cache)
    try:
        with running(f"parapet {NAME}") as progress:
            results, why = llm.fill_in_all(chat, config.work, lambda done, total: progress.count(done, "forms", total))
    finally:
        chat.close()
    done = [(work, filled) for work, filled in zip(config.work, results, strict=True) if filled is not None]
    used = sum((filled.used for _, filled in done), Counter[str]())
    say(
        f"{config.endpoint.model}: {counted(used['calls'], 'call')}, {used['kept']:,} more were answered "
        f"already in {config.cache}; {used['sent']:,} tokens of requests and {used['answered']:,} tokens of "
        f"answers{_dollars(config.endpoint, used)}"
    )
    if why:
        left = len(config.work) - len(done)
        logging.error(
            "%s; %s left to fill in, the answers so far are kept in %s", why, counted(left, "form"), config.cache
        )
        return EXIT_FAILURE
    if chat.left_out:
        left_out = ", ".join(sorted(chat.left_out))
        logging.warning("left out of all requests, as the endpoint does not take it: %s", left_out)
    refused = [filled.failed for _, filled in done if filled.failed.partition(":")[0] not in ("", llm.UNPARSABLE)]
    if len(refused) > config.max_bad * len(done):
        text = "the requests for %s of %s were refused, more than --max_bad %.2f%%: %s; other answers are kept in %s"
        forms = counted(len(done), "form")
        logging.error(text, f"{len(refused):,}", forms, 100 * float(config.max_bad), refused[0], config.cache)
        return EXIT_FAILURE
    model = config.endpoint.model
    letters = llm.dead_letters(done, model)
    answered = list(llm.lines(done, model))
    if not answered:
        logging.error("no form was filled in; the first failed: %s", _first(done))
        return EXIT_FAILURE
    files = {
        ANSWERS: b"".join(answered),
        DEAD_LETTERS: b"".join(msgspec.json.encode(letter) + b"\n" for letter in letters),
    }
    counts = {"forms": len(done), "answered": len(answered), "dead_letters": len(letters)}
    publish(config.output, files, {**run_header(NAME, config.options), "counts": counts})
    if letters:
        reasons = Counter(letter.reason.partition(":")[0] for letter in letters)
        shown = ", ".join(f"{reason} {n:,}" for reason, n in reasons.most_common())
        logging.warning("some answers are missing: %s; see %s/%s", shown, config.output, DEAD_LETTERS)
    say(f"{counted(len(answered), 'assignment')} in {config.output}/{ANSWERS}")
    return 0


def _first(done: Sequence[tuple[Work, Filled]]) -> str:
    filled = done[0][1]
    return filled.failed or "; ".join(sorted({message for _, message, _ in filled.refused.values()}))
