"""``python -m parapet`` is the program ``parapet``."""

import sys

from parapet.pipelines.main import main

sys.exit(main())
