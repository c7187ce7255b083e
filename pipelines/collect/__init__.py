"""``parapet collect``: collects answers to the forms of ``parapet hits`` without Mechanical Turk, and without Beam."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from parapet.pipelines.dispatch import hand_over

ACTIONS = {
    "serve": "serve the forms to your own annotators, or to Prolific",
    "llm": "have a language model fill them in, as further annotators",
}

USAGE = f"""usage: parapet collect ACTION [flags]

Collects answers to the forms of 'parapet hits', for --responses of 'parapet
compose' and other commands.

actions:
{chr(10).join(f"  {name:10}{what}" for name, what in ACTIONS.items())}

example:
  parapet hits --schemas my_corpus --output my_hits --assignments 4
  parapet collect serve --hits my_hits --db answers.sqlite --people 8
  parapet compose --schemas my_corpus --responses answers.jsonl --output my_variants

'parapet collect ACTION --help' shows the flags of an action.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet collect``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    return hand_over("parapet collect", "action", ACTIONS, __name__, USAGE, argv)
