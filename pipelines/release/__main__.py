"""``python -m pipelines.release``."""

import sys

from pipelines.release import run

sys.exit(run())
