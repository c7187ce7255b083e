"""``parapet release``: build, verify, diff, show and push versioned dataset releases."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from parapet.pipelines.dispatch import hand_over

ACTIONS = {
    "build": "outputs of the pipelines + release.toml -> OUT/NAME/VERSION, with card, manifest and checksums",
    "verify": "a release against its own checksums, manifest, schemas and JSON: what is wrong, by file and row",
    "diff": "two releases, row by row; the version number that the difference asks for",
    "show": "what a release holds, at a glance",
    "push": "a release to the Hugging Face Hub: verified, in one commit, tagged with its version",
}

USAGE = f"""usage: parapet release ACTION [flags]

Versioned dataset releases: Parquet for those who load it with 'datasets' or pandas, SGD JSON for the published
scripts, a dataset card, a manifest of all inputs, checksums. A release never changes; a new version is
written beside it.

actions:
{chr(10).join(f"  {name:8}{what}" for name, what in ACTIONS.items())}

example:
  parapet release build --config release.toml --output releases
  parapet release verify releases/my_dataset/1.0.0
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0
  parapet release push releases/my_dataset --repo ada/my_dataset --dry_run

'parapet release ACTION --help' shows the flags of one.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    return hand_over("parapet release", "action", ACTIONS, "parapet.pipelines.release", USAGE, argv)
