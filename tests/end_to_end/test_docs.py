"""The README and ``docs/``: their examples run, their links lead somewhere, their tables are complete."""

from __future__ import annotations

import setup as packaging  # noqa: F401  (only where it can be imported without building)
