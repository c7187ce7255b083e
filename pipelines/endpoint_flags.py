"""Options of commands that call a language model at an endpoint: address, key and cost limits."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from parapet.schemas.errors import InputError
from parapet.transforms.running.options import PARALLEL_CALLS, option

if TYPE_CHECKING:
    from parapet.transforms.running.chat import Endpoint

ANSWERS = ".answers.sqlite"  # in the output
NONE = "none"  # a parameter that is not sent
_MAY_BE_NONE = ("temperature", "max_tokens")
_KEY = "OPENAI_API_KEY"


def address(rare: bool = False) -> Any:
    """``--endpoint``; if ``rare``, only ``--help-all`` shows it."""
    return option("", "any OpenAI-compatible API, such as http://127.0.0.1:8080/v1", rare=rare, metavar="URL")


def model_name(rare: bool = False) -> Any:
    """``--model``; if ``rare``, only ``--help-all`` shows it."""
    return option("", "its name there; 'embedded' has one of its own", rare=rare, metavar="NAME")


def _temperature(text: str) -> float | str:
    with suppress(ValueError):
        if text == NONE:
            return NONE
        if 0 <= (number := float(text)) < math.inf:
            return int(number) if number.is_integer() else number  # 0.0 and 0 are the same request
    raise InputError(f"{text!r} must be a number of 0 or more, or {NONE}")


def _max_tokens(text: str) -> int | str:
    with suppress(ValueError):
        if text == NONE or int(text) > 0:
            return NONE if text == NONE else int(text)
    raise InputError(f"{text!r} must be a number of 1 or more, or {NONE}")


def _extra_body(text: str) -> dict[str, Any]:
    value = None
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    if not isinstance(value, dict):
        raise InputError(f'{text!r} is not a JSON object such as {{"reasoning_effort": "low"}}')
    if taken := sorted({"model", "messages", "tools", "stream", "n"} & value.keys()):
        raise InputError(f"{taken[0]!r} cannot be set: Parapet sets it")
    return value


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """The endpoint, without the model's name, as some commands have a ``--model`` already."""

    endpoint: str = address()
    key_variable: str | None = option(
        None, f"environment variable with the key (default: {_KEY})", rare=True, metavar="NAME"
    )
    insecure_key: bool = option(False, "send the key over plain http to another machine, too", rare=True)
    temperature: float | str | None = option(
        None,
        "temperature of the answers, or none: it is not sent (default: 0)",
        rare=True,
        metavar="T",
        parse=_temperature,
    )
    max_tokens: int | str | None = option(
        None,
        "most tokens of an answer, or none: not sent (default: as the task needs)",
        rare=True,
        metavar="N",
        parse=_max_tokens,
    )
    extra_body: dict[str, Any] | None = option(
        None,
        """further parameters of each request, such as '{"reasoning_effort": "low"}'""",
        rare=True,
        metavar="JSON",
        parse=_extra_body,
    )
    max_calls: int | None = option(
        None, "stop after so many requests of a worker (default: no limit)", rare=True, metavar="N", ge=0
    )
    price: tuple[float, ...] = option(
        (),
        "dollars for a million tokens of requests and of answers, such as 0.15,0.60, to know the cost",
        rare=True,
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
        from parapet.transforms.running.chat import Endpoint

        if not self.endpoint:
            raise InputError(
                "is required: give the address of the model's API, such as http://127.0.0.1:8080/v1", "--endpoint"
            )
        if len(self.price) not in (0, 2):
            price = ",".join(f"{part:g}" for part in self.price)
            raise InputError(
                f"{price!r} is not a price: give US dollars for a million tokens of requests and of answers, such as "
                "0.15,0.60",
                "--price",
            )
        names = ("key_variable", "insecure_key", "temperature", "max_tokens", "extra_body", "max_calls")
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        values = {name: None if value == NONE and name in _MAY_BE_NONE else value for name, value in values.items()}
        if self.price:
            values["dollars"] = self.price
        values |= {name: value for name, value in more.items() if value is not None}
        endpoint = Endpoint(**{"url": self.endpoint, "model": model, **values})
        endpoint.check()
        return endpoint


def cache_in(output: str, cache: str | None) -> str:
    """Returns the file that keeps answers. Raises InputError if it is not given and the output is in a bucket."""
    if not cache and "://" in output:
        raise InputError("must be a local file, in which answers are kept", "--cache")
    return cache or f"{output}/{ANSWERS}"


FLAGS = tuple(item.name for item in fields(EndpointOptions))


@dataclass(frozen=True, kw_only=True)
class ModelOptions(EndpointOptions):
    """The endpoint, the model and the requests; ``--endpoint embedded`` is a local server."""

    model: str = model_name()
    prompt: str | None = option(
        None,
        "template of the prompt, with {% block system %} and {% block user %}",
        rare=True,
        metavar="FILE",
        reads=True,
    )
    parallel_calls: int = option(4, PARALLEL_CALLS, rare=True, ge=1, le=256)
    timeout: float = option(120.0, "seconds that an answer may take", rare=True, metavar="S", gt=0)

    def endpoint_or_embedded(self, dry: bool = False) -> Endpoint:
        """Makes the endpoint that the options describe, and starts a local server if it is the embedded one.

        Args:
          dry: whether nothing will be sent, so that no server is needed.

        Raises:
          InputError: as :meth:`endpoint_of`.
        """
        from parapet.transforms.running import embedded

        more: dict[str, Any] = {"parallel": self.parallel_calls, "seconds": self.timeout}
        if self.endpoint != embedded.NAME:
            return self.endpoint_of(self.model, **more)
        url = embedded.ADDRESS if dry else embedded.serve()
        more |= {"url": url, "key_variable": "", "parallel": 1, "known_as": embedded.NAME}
        return self.endpoint_of(self.model or embedded.MODEL, **more)
