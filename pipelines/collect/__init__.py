"""``parapet collect``: collects answers to the forms of ``parapet hits`` without Mechanical Turk, and without Beam."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from parapet.transforms.core import options

if TYPE_CHECKING:
    from parapet.pipelines.app import Command

ACTIONS = {
    "serve": "serve the forms to your own annotators, or to Prolific",
    "llm": "have a language model fill them in, as further annotators",
}

ABOUT = """\
Collects answers to the forms of 'parapet hits', for --responses of 'parapet
compose' and other commands."""
EXAMPLE = """\
  parapet hits --schemas my_corpus --output my_hits --assignments 4
  parapet collect serve --hits my_hits --db answers.sqlite --people 8
  parapet compose --schemas my_corpus --responses answers.jsonl --output my_variants"""


def command(action: str) -> type[Command[Any]]:
    """Returns the declaration of an action."""
    declared: type[Command[Any]] = import_module(f"{__name__}.{action}").COMMAND
    return declared


def output_file(text: str, default: Any = "", rare: bool = False) -> Any:
    """A file that an action writes."""
    return options.option(default, text, group=options.OUTPUT, rare=rare, metavar="FILE")
