"""Flags of commands that ask a language model behind an endpoint: where it answers, its key, what it may cost."""

from __future__ import annotations

import argparse
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from parapet.pipelines.flags import StrictParser
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.transforms.running.chat import Endpoint

FLAGS = ("endpoint", "key_variable", "max_calls", "price")  # all but the model's name, which some commands have already
_KEY = "OPENAI_API_KEY"


def add_endpoint_flags(parser: StrictParser, group: str = "language model", rare: bool = False) -> None:
    """Adds ``--endpoint``, ``--key_variable``, ``--max_calls`` and ``--price``.

    Args:
      parser: of the command.
      group: in which the help has them.
      rare: whether only ``--help-all`` shows the first, too.
    """
    add = parser.group(group)
    text = "any OpenAI-compatible API, such as http://127.0.0.1:8080/v1"
    add("--endpoint", rare=rare, metavar="URL", help=text)
    add("--key_variable", rare=True, metavar="NAME", help=f"environment variable with the key (default: {_KEY})")
    add(
        "--max_calls",
        rare=True,
        type=int,
        metavar="N",
        help="stop after so many requests of a worker (default: no limit)",
    )
    text = "dollars for a million tokens of requests and of answers, such as 0.15,0.60, to know the cost"
    add("--price", rare=True, metavar="IN,OUT", help=text)


def endpoint_of(args: argparse.Namespace, model: str | None, **more: object) -> Endpoint:
    """Where the flags say that a model answers.

    Args:
      args: with the flags above.
      model: its name there.
      more: further attributes of the endpoint.

    Raises:
      InputError: a flag is missing, or has a value that cannot be used.
    """
    from parapet.transforms.running.chat import Endpoint

    if not args.endpoint:
        raise InputError("give the address of the model's API, such as http://127.0.0.1:8080/v1", "--endpoint")
    given = {
        "key_variable": args.key_variable,
        "max_calls": args.max_calls,
        "dollars": None if args.price is None else _price(args.price),
        **more,
    }
    endpoint = Endpoint(
        args.endpoint, model or "", **{name: value for name, value in given.items() if value is not None}
    )
    endpoint.check()
    return endpoint


def _price(given: str) -> tuple[float, float]:
    try:
        sent, answered = (Decimal(part.strip()) for part in given.split(","))
    except (InvalidOperation, ValueError):
        sent = answered = Decimal(-1)
    if not (sent.is_finite() and answered.is_finite()) or min(sent, answered) < 0:
        raise InputError(f"{given!r} is no price: give dollars for a million tokens, such as 0.15,0.60", "--price")
    return float(sent), float(answered)
