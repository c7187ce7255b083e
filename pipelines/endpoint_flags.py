"""Flags of commands that call a language model at an endpoint: address, key and cost limits."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from parapet.pipelines.flags import PARALLEL_CALLS, StrictParser
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.transforms.running.chat import Endpoint

# without the model's name, as some commands have a --model already
FLAGS = ("endpoint", "key_variable", "insecure_key", "max_calls", "price", "temperature", "max_tokens", "extra_body")
_KEY = "OPENAI_API_KEY"
_MOST_PARALLEL = 256


def add_endpoint_flags(
    parser: StrictParser, group: str = "language model", rare: bool = False, temperature: bool = True
) -> None:
    """Adds :data:`FLAGS`.

    Args:
      parser: the command's parser.
      group: the help section.
      rare: whether only ``--help-all`` shows ``--endpoint``, too.
      temperature: whether ``--temperature`` is added; a command may have its own.
    """
    add = parser.group(group)
    text = "any OpenAI-compatible API, such as http://127.0.0.1:8080/v1"
    add("--endpoint", rare=rare, metavar="URL", help=text)
    add("--key_variable", rare=True, metavar="NAME", help=f"environment variable with the key (default: {_KEY})")
    text = "send the key over plain http to another machine, too"
    add("--insecure_key", rare=True, action="store_true", help=text)
    if temperature:
        text = "temperature of the answers, or none: it is not sent (default: 0)"
        add("--temperature", rare=True, type=temperature_of, metavar="T", help=text)
    text = "most tokens of an answer, or none: not sent (default: as the task needs)"
    add("--max_tokens", rare=True, metavar="N", help=text)
    text = """further parameters of each request, such as '{"reasoning_effort": "low"}'"""
    add("--extra_body", rare=True, metavar="JSON", help=text)
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
    parsers: dict[str, Callable[[Any], object]] = {
        "temperature": lambda value: None if value == NONE else value,
        "max_tokens": _max_tokens,
        "extra_body": _extra_body,
        "price": _price,
    }
    options = {name: value for name in FLAGS[1:] if (value := getattr(args, name, None)) is not None}
    options = {name: parsers[name](value) if name in parsers else value for name, value in options.items()}
    if "price" in options:
        options["dollars"] = options.pop("price")
    options |= {name: value for name, value in more.items() if value is not None}
    endpoint = Endpoint(args.endpoint, model or "", **options)
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


NONE = "none"  # a parameter that is not sent


def temperature_of(text: str) -> float | str:
    """Parses a temperature, or ``none``, for argparse."""
    with suppress(ValueError):
        if text == NONE:
            return NONE
        if 0 <= (number := float(text)) < math.inf:
            return int(number) if number.is_integer() else number  # 0.0 and 0 are the same request
    raise argparse.ArgumentTypeError(f"{text!r} must be a number of 0 or more, or {NONE}")


def _max_tokens(text: str) -> int | None:
    with suppress(ValueError):
        if text == NONE or int(text) > 0:
            return None if text == NONE else int(text)
    raise InputError(f"{text!r} must be a number of 1 or more, or none", "--max_tokens")


def _extra_body(text: str) -> dict[str, object]:
    value = None
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    if not isinstance(value, dict):
        raise InputError(f'{text!r} is not a JSON object such as {{"reasoning_effort": "low"}}', "--extra_body")
    if taken := sorted({"model", "messages", "tools", "stream", "n"} & value.keys()):
        raise InputError(f"{taken[0]!r} cannot be set: Parapet sets it", "--extra_body")
    return value


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
