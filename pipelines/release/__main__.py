"""``python -m parapet.pipelines.release``."""

import sys

from parapet.pipelines.release import run

sys.exit(run())
