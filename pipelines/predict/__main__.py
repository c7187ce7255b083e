"""``python -m parapet.pipelines.predict``."""

import sys

from parapet.pipelines.predict import run

sys.exit(run())
