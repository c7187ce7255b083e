"""``python -m pipelines.predict``."""

import sys

from pipelines.predict import run

sys.exit(run())
