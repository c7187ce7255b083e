"""What a training begins and ends with: the output folder, what ``run.json`` says, the model with its log."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import UsageError, counted
from parapet.schemas.distribution import parapet_version
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.evaluation.models.training import Trained


def begin(
    args: argparse.Namespace, options: Iterable[str], given: Iterable[tuple[str, str]], *packages: str
) -> dict[str, Any]:
    """Prepares the output folder.

    Args:
      args: with ``model``, and ``checkpoint`` where it begins with one.
      options: the flags that shape the content; a model has some of them.
      given: (flag, path) of the files that were read.
      packages: whose versions the result depends on.

    Returns:
      What ``run.json`` says besides the files, and what a training must agree in to go on.

    Raises:
      UsageError: the folder cannot be written, or is another command's.
    """
    from importlib.metadata import version

    from parapet.evaluation.writing import sha256_of
    from parapet.schemas.layout import as_path
    from parapet.transforms import checkpoints, files

    try:
        files.prepare(args.output, f"train_{args.model}")
    except InputError as error:
        raise UsageError(error.reason, error.path, error.where) from None
    head: dict[str, Any] = {
        "pipeline": f"train_{args.model}",
        "version": parapet_version(),
        "options": {flag: getattr(args, flag) for flag in sorted(options) if hasattr(args, flag)},
        "inputs": [
            {"flag": flag, "name": as_path(path).name, "sha256": sha256_of(as_path(path))} for flag, path in given
        ],
        **{name: version(name) for name in packages},
    }
    if getattr(args, "checkpoint", None):
        head["checkpoint"] = checkpoints.digest(args.checkpoint)
    return head


def end(
    args: argparse.Namespace,
    head: Mapping[str, Any],
    made: Mapping[str, bytes],
    trained: Trained,
    told: str = "",
    result: Mapping[str, Any] = {},
) -> None:
    """Publishes a model with its log, and says how good it is.

    Args:
      args: as :func:`begin` has them.
      head: what that gave.
      made: the model's files.
      trained: how it went.
      told: what is right on dev; nothing is said where it is empty.
      result: what ``run.json`` says of the result besides the best epoch.
    """
    from parapet.evaluation.models import resuming
    from parapet.evaluation.models.training import log_bytes
    from parapet.evaluation.writing import publish

    best = trained.best
    of_best = {"epoch": best.epoch, "epochs": len(trained.log), "dev": best.dev}
    publish(args.output, {**made, "log.jsonl": log_bytes(trained.log)}, {**head, "result": {**of_best, **result}})
    resuming.clear(args.output)
    if told and not args.quiet:
        print(f"{args.model}: {told} after {counted(best.epoch, 'epoch')}; the model is in {args.output}")
