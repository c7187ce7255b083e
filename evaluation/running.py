"""What the tasks of ``parapet evaluate`` say of themselves in ``run.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parapet.evaluation.writing import sha256_of
from parapet.schemas.distribution import parapet_version
from parapet.schemas.layout import as_path


def header(
    task: str, inputs: Mapping[str, str | None], options: Mapping[str, Any], counts: Mapping[str, int]
) -> dict[str, Any]:
    """The header.

    Args:
      task: its name.
      inputs: flag to the file that was read, or None; ``run.json`` has the hash of each.
      options: that shape the content.
      counts: of what was scored.
    """
    found = {}
    for flag, path in inputs.items():
        if path is not None and as_path(path).is_file():
            found[flag] = sha256_of(as_path(path))
    return {
        "pipeline": f"evaluate_{task}",
        "version": parapet_version(),
        "options": dict(options),
        "inputs": found,
        "counts": dict(counts),
    }
