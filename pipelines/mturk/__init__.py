"""``parapet mturk``: publish, collect, status, pay, topup, stop. One process, journalled; no Beam."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from parapet.pipelines.dispatch import hand_over

ACTIONS = {
    "publish": "publish the HITs of 'parapet hits'; shows the cost first",
    "collect": "download what workers have submitted, for 'parapet compose'",
    "status": "what is published, submitted and paid, and its cost",
    "topup": "ask for more answers where too few are good",
    "pay": "approve or reject assignments, pay bonuses, keep a ledger",
    "stop": "withdraw all HITs: no further work, no further cost",
    "site-csv": "Approve and Reject columns for the requester site",
    "sandbox-server": "a local MTurk, for practice",
    "sandbox-workers": "simulated workers for it",
}

USAGE = f"""usage: parapet mturk ACTION [flags]

Publishes tasks on MTurk, in its sandbox unless --production is given. Everything
is kept in the folder of a batch. Run an interrupted command again: each HIT is
published once, each worker is paid once.

actions:
{chr(10).join(f"  {name:18}{what}" for name, what in ACTIONS.items())}

example:
  parapet hits --schemas my_corpus --output my_hits --sandbox --assignments 7
  parapet mturk publish --hits my_hits --batch my_batch --dry_run
  parapet mturk publish --hits my_hits --batch my_batch
  parapet mturk collect --batch my_batch
  parapet compose --schemas my_corpus --responses my_batch/assignments.jsonl \\
      --output my_variants
  parapet mturk topup --batch my_batch --shortfall my_variants/shortfall.csv
  parapet mturk pay --batch my_batch --audit my_variants

'parapet mturk ACTION --help' shows the flags of an action.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    return hand_over("parapet mturk", "action", ACTIONS, "parapet.pipelines.mturk", USAGE, argv)
