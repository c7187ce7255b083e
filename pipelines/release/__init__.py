"""``parapet release``: build, verify, diff, show and push versioned dataset releases."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from parapet.pipelines.dispatch import hand_over

ACTIONS = {
    "build": "build a release from a release.toml: card, manifest, checksums",
    "verify": "check a release against its checksums, manifest and schemas",
    "sign": "sign a release with a key of yours",
    "diff": "compare two releases row by row, and suggest a version number",
    "show": "what a release contains",
    "push": "upload a release to the Hugging Face Hub",
}

USAGE = f"""usage: parapet release ACTION [flags]

Builds versioned dataset releases: Parquet for 'datasets' and pandas, SGD JSON for
the published scripts, a dataset card, a manifest of all inputs, checksums. A
release never changes; a new version is written beside it.

actions:
{chr(10).join(f"  {name:8}{what}" for name, what in ACTIONS.items())}

example:
  parapet release build --config release.toml --output releases
  parapet release verify releases/my_dataset/1.0.0
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0
  parapet release push releases/my_dataset --repo ada/my_dataset --dry_run

'parapet release ACTION --help' shows the flags of an action.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    return hand_over("parapet release", "action", ACTIONS, "parapet.pipelines.release", USAGE, argv)
