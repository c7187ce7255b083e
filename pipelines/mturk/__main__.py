"""``python -m pipelines.mturk``."""

import sys

from pipelines.mturk import run

sys.exit(run())
