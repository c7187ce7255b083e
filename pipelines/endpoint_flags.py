"""Flags of commands that call a language model at an endpoint: address, key and cost limits."""

from __future__ import annotations

import argparse
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from parapet.pipelines.flags import PARALLEL_CALLS, StrictParser
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.transforms.running.chat import Endpoint

# without the model's name, as some commands have a --model already
FLAGS = ("endpoint", "key_variable", "max_calls", "price")
_KEY = "OPENAI_API_KEY"
_MOST_PARALLEL = 256


def add_endpoint_flags(parser: StrictParser, group: str = "language model", rare: bool = False) -> None:
    """Adds ``--endpoint``, ``--key_variable``, ``--max_calls`` and ``--price``.

    Args:
      parser: the command's parser.
      group: the help section.
      rare: whether only ``--help-all`` shows ``--endpoint``, too.
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
    """Reads the endpoint from the flags.

    Args:
      args: with the flags above.
      model: the model's name at the endpoint.
      more: further attributes of the endpoint.

    Raises:
      InputError: a flag is missing, or its value cannot be used.
    """
    from parapet.transforms.running.chat import Endpoint

    if not args.endpoint:
        raise InputError(
            "is required: give the address of the model's API, such as http://127.0.0.1:8080/v1", "--endpoint"
        )
    options = {
        "key_variable": args.key_variable,
        "max_calls": args.max_calls,
        "dollars": None if args.price is None else _price(args.price),
        **more,
    }
    endpoint = Endpoint(
        args.endpoint, model or "", **{name: value for name, value in options.items() if value is not None}
    )
    endpoint.check()
    return endpoint


def endpoint_or_embedded(args: argparse.Namespace, dry: bool = False) -> Endpoint:
    """Reads the endpoint from the flags; ``--endpoint embedded`` starts a local server.

    Args:
      args: with ``--model``, ``--parallel_calls``, ``--timeout`` and the flags of :func:`endpoint_of`.
      dry: whether nothing will be sent, so that no server is needed.

    Raises:
      InputError: as :func:`endpoint_of`; or a number is out of range.
    """
    from parapet.transforms.running import embedded

    if not 1 <= args.parallel_calls <= _MOST_PARALLEL:
        raise InputError(f"must be from 1 to {_MOST_PARALLEL}", "--parallel_calls")
    more = {"parallel": args.parallel_calls, "seconds": args.timeout}
    if args.endpoint != embedded.NAME:
        return endpoint_of(args, args.model, **more)
    args.endpoint = embedded.ADDRESS if dry else embedded.serve()
    more = {**more, "key_variable": "", "parallel": 1, "known_as": embedded.NAME}
    return endpoint_of(args, args.model or embedded.MODEL, **more)


def add_model_flags(parser: StrictParser, group: str, rare: bool = False) -> None:
    """Adds the flags that :func:`endpoint_or_embedded` reads; if ``rare``, only ``--help-all`` shows them."""
    add_endpoint_flags(parser, group, rare)
    add = parser.group(group)
    add("--model", rare=rare, metavar="NAME", help="its name there; 'embedded' has one of its own")
    text = "template of the prompt, with {%% block system %%} and {%% block user %%}"
    add("--prompt", rare=True, metavar="FILE", reads=True, help=text)
    add("--parallel_calls", rare=True, type=int, default=4, metavar="N", help=PARALLEL_CALLS)
    add("--timeout", rare=True, type=float, default=120.0, metavar="S", help="seconds that an answer may take")


def _price(given: str) -> tuple[float, float]:
    try:
        sent, answered = (Decimal(part.strip()) for part in given.split(","))
    except (InvalidOperation, ValueError):
        sent = answered = Decimal(-1)
    if not (sent.is_finite() and answered.is_finite()) or min(sent, answered) < 0:
        raise InputError(
            f"{given!r} is not a price: give US dollars for a million tokens of requests and of answers, such as "
            "0.15,0.60",
            "--price",
        )
    return float(sent), float(answered)
