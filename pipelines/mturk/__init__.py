"""``parapet mturk``: publish, collect, status, pay, topup, stop. One process, journalled; no Beam."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from parapet.pipelines.dispatch import hand_over

ACTIONS = {
    "publish": "the HITs of a 'hits' folder, each once; shows the cost first",
    "collect": "what workers have handed in so far, as the lines that 'compose' reads",
    "status": "what is out, in, paid and about to end, and what it has cost; needs no network",
    "topup": "more workers, or new HITs, where 'compose' found elements short of answers",
    "pay": "approve (or, where asked, reject) what compose has audited; bonuses; a ledger",
    "stop": "every HIT off offer: no further work, no further cost",
    "site-csv": "the Approve/Reject file for a batch of the requester site",
    "sandbox-server": "a local MTurk on this machine, to practise with",
    "sandbox-workers": "workers for it, who fill in the forms",
}

USAGE = f"""usage: parapet mturk ACTION [flags]

The crowd side with boto3 against MTurk: its sandbox, unless --production says otherwise. Everything is kept in the
folder of a batch; a run that was cut off anywhere is simply run again: each HIT exists once, each worker is paid once.

actions:
{chr(10).join(f"  {name:17}{what}" for name, what in ACTIONS.items())}

example:
  parapet hits --schemas my_corpus --output my_hits --sandbox --assignments 7
  parapet mturk publish --hits my_hits --batch my_batch --dry_run
  parapet mturk publish --hits my_hits --batch my_batch
  parapet mturk collect --batch my_batch
  parapet compose --schemas my_corpus --responses my_batch/assignments.jsonl --output my_variants
  parapet mturk topup --batch my_batch --shortfall my_variants/shortfall.csv
  parapet mturk pay --batch my_batch --audit my_variants

'parapet mturk ACTION --help' shows the flags of one.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    return hand_over("parapet mturk", "action", ACTIONS, "parapet.pipelines.mturk", USAGE, argv)
