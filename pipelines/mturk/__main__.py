"""``python -m parapet.pipelines.mturk``."""

import sys

from parapet.pipelines.mturk import run

sys.exit(run())
