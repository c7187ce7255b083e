"""What ``run.json`` says of a prediction."""

from __future__ import annotations

import argparse
import json
from typing import Any

from parapet.pipelines.command import run_header


def model_of(folder: str) -> dict[str, str]:
    """The hash of a model's own ``run.json``, which has those of all that it has."""
    from parapet.evaluation.writing import sha256_of
    from parapet.schemas.layout import as_path
    from parapet.transforms.files import MANIFEST

    path = as_path(folder) / MANIFEST
    return {path.name: sha256_of(path)} if path.is_file() else {}


def header_of_sets(args: argparse.Namespace, **options: Any) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts, of a model that writes dialogues with states.

    Args:
      args: as :func:`parapet.pipelines.predict.flags.plan_sets` leaves them.
      options: that shape the content, besides the sets.
    """
    from parapet.evaluation.writing import sha256_of
    from parapet.schemas.layout import as_path

    read = [(name, as_path(path)) for name, path, _ in args.inputs]
    return {
        **run_header(f"predict_{args.name}", {"split": args.split, "sets": list(args.plan.sets), **options}),
        "model": model_of(args.model),
        "inputs": [{"set": name, "name": path.name, "sha256": sha256_of(path)} for name, path in read],
    }


def counts_of(args: argparse.Namespace) -> dict[str, int]:
    """The counts in the ``run.json`` that was written."""
    from parapet.transforms.files import MANIFEST, read_written

    found: dict[str, int] = json.loads(read_written(args.output, MANIFEST))["counts"]
    return found
