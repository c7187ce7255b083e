"""Runs the program ``parapet`` by ``python -m parapet``."""

import sys

from parapet.pipelines.main import main

sys.exit(main())
