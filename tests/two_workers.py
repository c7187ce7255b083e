"""Flags for a run on two workers, which must write what one writes.

Two threads, each a worker of its own, divide the work as two processes do. In processes of their own nothing is shared
that was not sent, and sets have another order: ``test_language_variations`` and ``dataflow`` run there always, and
``dataflow/test_buckets`` compares a pipeline of each kind with a fresh process. ``make test-all``, which sets
PARAPET_THOROUGH, compares the others too, and runs every test with these flags on processes; each costs a dozen
seconds.
"""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("PARAPET_THOROUGH"))
TWO_PROCESSES = ["--workers=2"]
TWO_THREADS = ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]
TWO_WORKERS = TWO_PROCESSES if THOROUGH else TWO_THREADS
