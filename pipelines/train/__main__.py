"""``python -m pipelines.train``."""

import sys

from pipelines.train import run

sys.exit(run())
