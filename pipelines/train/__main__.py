"""``python -m parapet.pipelines.train``."""

import sys

from parapet.pipelines.train import run

sys.exit(run())
