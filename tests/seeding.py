"""The seed of whatever tests train or draw: PARAPET_TEST_SEED moves all of them at once, and no test may mind.

``make test-machines`` runs the tests that train under several, and with other threads, kernels and orders.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

SEED = int(os.environ.get("PARAPET_TEST_SEED", "0"))

DRAW_NOTHING = ("rules", "tfidf", "nearest")


def train(argv: Sequence[str]) -> int:
    """``parapet train`` with this run's seed; its exit status."""
    from parapet.pipelines.train import run

    seeded = argv and argv[0] not in DRAW_NOTHING and "--help" not in argv
    return run([*argv, "--seed", str(SEED)] if SEED and seeded else argv)
