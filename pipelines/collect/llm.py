"""``parapet collect llm``: a language model fills in the forms of ``parapet hits``."""

from __future__ import annotations

import argparse
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines import flags
from parapet.pipelines.command import EXIT_FAILURE, counted, read_good, run_checked, say
from parapet.pipelines.endpoint_flags import NONE, add_endpoint_flags, endpoint_of
from parapet.pipelines.flags import INPUT, OUTPUT, PARALLEL_CALLS, StrictParser
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import DEAD_LETTERS, sample_root, services_by_name

if TYPE_CHECKING:
    from parapet.transforms.crowd.collection.llm import Work
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


def parser() -> StrictParser:
    """Builds the command line of ``parapet collect llm``."""
    parser = StrictParser(NAME, DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("--hits", required=True, metavar="DIR", reads=True, help="output of 'parapet hits' for schemas")
    flags.add_schemas(parser)
    flags.add_output(parser)
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
    flags.add_seed(parser, "the model's answers", int, 0)
    flags.add_max_bad(parser, "forms")
    flags.add_dry_run(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet collect llm``. Returns the exit status."""
    stopped = "what was answered is kept, run the same command again"
    return run_checked(parser(), argv, check, lambda act: act(), stopped)


def check(args: argparse.Namespace) -> Callable[[], int]:
    """Reads the forms and returns a function that does the work. Raises InputError if a flag cannot be used."""
    from parapet.transforms.crowd.collection import llm

    for flag, most in _MOST.items():
        value = getattr(args, flag)
        if value is not None and not 1 <= value <= most:
            raise InputError(f"must be a number from 1 to {most:,}", f"--{flag}")
    temperatures = _temperatures(args.temperatures)
    endpoint = endpoint_of(args, args.model, parallel=args.parallel_calls)
    if "://" in args.output and not args.cache:
        raise InputError("must name a local file for the answers, because --output is not on this machine", "--cache")
    cache = Path(args.cache or f"{args.output.rstrip('/')}.sqlite")
    sheets = llm.read_sheets(args.hits, services_by_name(read_good(args.schemas or sample_root())))
    work = llm.plan(sheets, args.annotators, temperatures, args.seed, args.first_annotator)
    if args.dry_run:
        return partial(_dry_run, endpoint, cache, work)
    options = {
        "hits": [sheet.record.sha256[:32] for sheet in sheets],
        **{flag: getattr(args, flag) for flag in ("model", "endpoint", "annotators", "first_annotator")},
        "temperatures": temperatures,
        "seed": args.seed,
        **{name: value for name, value in endpoint.parameters().items() if name != "temperature"},
    }
    return partial(_collect, endpoint, cache, work, args, options)


def _temperatures(text: str) -> tuple[float | None, ...]:
    try:
        values = tuple(None if part.strip() == NONE else float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(value is None or 0 <= value <= _HIGHEST for value in values):
        raise InputError(f"{text!r} is not a list of temperatures from 0 to 2 (example: 0.3,0.7,1.0)", "--temperatures")
    return values


@contextmanager
def _opened(endpoint: Endpoint, cache: Path | None) -> Iterator[Chat]:
    from parapet.transforms.running.chat import Chat

    with closing(Chat(endpoint, cache)) as chat:
        try:
            chat.open()
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"cannot be used to store answers: {error}", cache, "--cache") from None
        yield chat


def _tokens(endpoint: Endpoint, used: Counter[str]) -> str:
    """Describes the numbers of tokens, and their cost if --price is known."""
    text = f"{used['sent']:,} tokens of requests and {used['answered']:,} tokens of answers"
    cost = endpoint.cost(used["sent"], used["answered"])
    return f"{text}, ${cost:,.{4 if cost < 1 else 2}f}" if any(endpoint.dollars) else text


def _dry_run(endpoint: Endpoint, cache: Path, work: list[Work]) -> int:
    from parapet.transforms.crowd.collection import llm

    with _opened(endpoint, cache if cache.exists() else None) as chat:
        used = llm.estimate(chat, work)
    annotators = counted(len({item.annotator for item in work}), "annotator")
    say(f"{counted(len(work), 'form')} to fill in by {annotators}, simulated by {endpoint.model}")
    tokens = _tokens(endpoint, used) + ("" if any(endpoint.dollars) else "; --price says what they cost")
    say(f"{counted(used['calls'], 'call')} to make ({used['kept']:,} more are answered already), about {tokens}")
    say(f"a form whose answers are invalid is tried up to {llm.TRIES} times; dry run: nothing was sent or written")
    return 0


def _collect(
    endpoint: Endpoint, cache: Path, work: list[Work], args: argparse.Namespace, options: dict[str, object]
) -> int:
    from parapet.evaluation.task import publish
    from parapet.pipelines.progress import running
    from parapet.transforms.crowd.collection import llm

    with _opened(endpoint, cache) as chat, running(f"parapet {NAME}") as progress:
        done, reason = llm.fill_in_all(chat, work, lambda n, total: progress.count(n, "forms", total))
    used = sum((filled.used for _, filled in done), Counter[str]())
    calls = f"{counted(used['calls'], 'call')}, {used['kept']:,} more were answered already in {cache}"
    say(f"{endpoint.model}: {calls}; {_tokens(endpoint, used)}")
    if reason:
        left = counted(len(work) - len(done), "form")
        logging.error("%s; %s left to fill in, the answers so far are kept in %s", reason, left, cache)
        return EXIT_FAILURE
    if chat.left_out:
        left_out = ", ".join(sorted(chat.left_out))
        logging.warning("left out of all requests, as the endpoint does not take it: %s", left_out)
    refused = [filled.failed for _, filled in done if filled.failed.partition(":")[0] not in ("", llm.UNPARSABLE)]
    if len(refused) > args.max_bad * len(done):
        text = "the requests for %s of %s were refused, more than --max_bad %.2f%%: %s; other answers are kept in %s"
        forms = counted(len(done), "form")
        logging.error(text, f"{len(refused):,}", forms, 100 * float(args.max_bad), refused[0], cache)
        return EXIT_FAILURE
    letters, answers = llm.dead_letters(done, endpoint.model), list(llm.lines(done, endpoint.model))
    if not answers:
        logging.error("no form was filled in: %s", letters[0].reason)
        return EXIT_FAILURE
    files = {
        ANSWERS: b"".join(answers),
        DEAD_LETTERS: b"".join(msgspec.json.encode(letter) + b"\n" for letter in letters),
    }
    counts = {"forms": len(done), "answered": len(answers), "dead_letters": len(letters)}
    publish(args.output, files, {**run_header(NAME, options), "counts": counts})
    if letters:
        reasons = Counter(letter.reason.partition(":")[0] for letter in letters)
        shown = ", ".join(f"{reason} {n:,}" for reason, n in reasons.most_common())
        logging.warning("some answers are missing: %s; see %s/%s", shown, args.output, DEAD_LETTERS)
    say(f"{counted(len(answers), 'assignment')} in {args.output}/{ANSWERS}")
    return 0
