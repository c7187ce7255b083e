"""The ``parapet`` program: finds the pipeline and hands over. Imports nothing heavy, so that help is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from parapet.pipelines.dispatch import PIPELINES, hand_over

USAGE = f"""usage: parapet PIPELINE [flags]

Builds robustness test data for schema-guided dialogue systems.

pipelines:
{chr(10).join(f"  {name:20}{what}" for name, what in PIPELINES.items())}

Without --schemas or --sgd a pipeline runs on the bundled sample. Runner flags (--runner, --project, ...)
go through to Apache Beam.

  parapet demo --output demo-output
  parapet hits --schemas my_corpus --output my_hits
  parapet PIPELINE --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one pipeline. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    if argv is None and "_ARGCOMPLETE" in os.environ:  # a shell asks, by the script of 'parapet completion'
        from parapet.pipelines.completion import answer

        answer()
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["--version"]:
        from parapet.schemas.distribution import parapet_version

        print(f"parapet {parapet_version()}")
        return 0
    return hand_over("parapet", "pipeline", PIPELINES, "parapet.pipelines", USAGE, argv)


if __name__ == "__main__":
    sys.exit(main())
