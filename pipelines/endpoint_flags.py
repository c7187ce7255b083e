"""Options of commands that call a language model at an endpoint: address, key and cost limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.core.options import PARALLEL_CALLS, Options, option

if TYPE_CHECKING:
    from parapet.transforms.core.chat import Endpoint

ANSWERS = ".answers.sqlite"  # in the output
NONE = "none"  # a parameter that is not sent
_KEY = "OPENAI_API_KEY"
_rare = partial(option, rare=True)


def address(rare: bool = False) -> Any:
    """``--endpoint``; if ``rare``, only ``--help-all`` shows it."""
    return option("", "any OpenAI-compatible API, such as http://127.0.0.1:8080/v1", rare=rare, metavar="URL")


def model_name(rare: bool = False) -> Any:
    """``--model``; if ``rare``, only ``--help-all`` shows it."""
    return option("", "its name there; 'embedded' has one of its own", rare=rare, metavar="NAME")


def number_or_none(kind: type[float], least: int) -> Callable[[str], float | str]:
    """Makes the parser of a number that may also be ``none``."""

    def parse(text: str) -> float | str:
        if text == NONE:
            return NONE
        with suppress(ValueError):
            if least <= (number := kind(text)) < math.inf:
                return int(number) if number == int(number) else number  # 0.0 and 0 are the same request
        raise InputError(f"{text!r} must be a number of {least} or more, or {NONE}")

    return parse


def _extra_body(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise InputError(f'{text!r} is not a JSON object such as {{"reasoning_effort": "low"}}') from None
    if taken := sorted({"model", "messages", "tools", "stream", "n"} & value.keys()):
        raise InputError(f"{taken[0]!r} cannot be set: Parapet sets it")
    return value


class EndpointOptions(Options):
    """The endpoint, without the model's name, as some commands have a ``--model`` already."""

    endpoint: str = address()
    key_variable: str | None = _rare(None, f"environment variable with the key (default: {_KEY})", metavar="NAME")
    insecure_key: bool = _rare(False, "send the key over plain http to another machine, too")
    temperature: float | str | None = _rare(
        None,
        "temperature of the answers, or none: it is not sent (default: 0)",
        metavar="T",
        parse=number_or_none(float, 0),
    )
    max_tokens: int | str | None = _rare(
        None,
        "most tokens of an answer, or none: not sent (default: as the task needs)",
        metavar="N",
        parse=number_or_none(int, 1),
    )
    extra_body: dict[str, Any] | None = _rare(
        None,
        """further parameters of each request, such as '{"reasoning_effort": "low"}'""",
        metavar="JSON",
        parse=_extra_body,
    )
    max_calls: int | None = _rare(None, "stop after so many requests of a worker (default: no limit)", ge=0)
    price: tuple[float, ...] = _rare(
        (),
        "dollars for a million tokens of requests and of answers, such as 0.15,0.60, to know the cost",
        metavar="IN,OUT",
        commas=True,
        ge=0,
    )

    def endpoint_of(self, model: str, **more: object) -> Endpoint:
        """Makes the endpoint that the options describe.

        Args:
          model: the model's name at the endpoint.
          more: further attributes of the endpoint.

        Raises:
          InputError: an option is missing, or its value cannot be used.
        """
        from parapet.transforms.core.chat import Endpoint

        if not self.endpoint:
            reason = "is required: give the address of the model's API, such as http://127.0.0.1:8080/v1"
            raise InputError(reason, "--endpoint")
        if len(self.price) not in (0, 2):
            price = ",".join(f"{part:g}" for part in self.price)
            meaning = "give US dollars for a million tokens of requests and of answers, such as 0.15,0.60"
            raise InputError(f"{price!r} is not a price: {meaning}", "--price")
        options = {name: getattr(self, name) for name in FLAGS if name not in ("endpoint", "price")}
        values = {"url": self.endpoint, "model": model, **options, "dollars": self.price or None, **more}
        not_sent = {name: None for name in ("temperature", "max_tokens") if values[name] == NONE}
        endpoint = Endpoint(**{name: value for name, value in values.items() if value is not None} | not_sent)
        endpoint.check()
        return endpoint


def cache_in(output: str, cache: str | None) -> str:
    """Returns the file that keeps answers. Raises InputError if it is not given and the output is in a bucket."""
    if not cache and "://" in output:
        raise InputError("must be a local file, in which answers are kept", "--cache")
    return cache or f"{output}/{ANSWERS}"


def tokens_of(endpoint: Endpoint, sent: int, answered: int) -> str:
    """Describes the numbers of tokens, and their cost if --price is known."""
    cost = endpoint.cost(sent, answered)
    dollars = f", ${cost:,.{4 if cost < 1 else 2}f}" if any(endpoint.dollars) else ""
    return f"{sent:,} tokens of requests and {answered:,} tokens of answers{dollars}"


FLAGS = tuple(item.name for item in fields(EndpointOptions))


class ModelOptions(EndpointOptions):
    """The endpoint, the model and the requests; ``--endpoint embedded`` is a local server."""

    model: str = model_name()
    prompt: str | None = _rare(
        None, "template of the prompt, with {% block system %} and {% block user %}", metavar="FILE", reads=True
    )
    parallel_calls: int = _rare(4, PARALLEL_CALLS, ge=1, le=256)
    timeout: float = _rare(120.0, "seconds that an answer may take", metavar="S", gt=0)

    def endpoint_or_embedded(self, dry: bool = False) -> Endpoint:
        """Makes the endpoint that the options describe, and starts a local server if it is the embedded one.

        Args:
          dry: whether nothing will be sent, so that no server is needed.

        Raises:
          InputError: as :meth:`endpoint_of`.
        """
        from parapet.transforms.core import chat

        more: dict[str, Any] = {"parallel": self.parallel_calls, "seconds": self.timeout}
        if self.endpoint != chat.EMBEDDED:
            return self.endpoint_of(self.model, **more)
        url = chat.EMBEDDED_ADDRESS if dry else chat.serve_embedded()
        more |= {"url": url, "key_variable": "", "parallel": 1, "known_as": chat.EMBEDDED}
        return self.endpoint_of(self.model or chat.EMBEDDED_MODEL, **more)
