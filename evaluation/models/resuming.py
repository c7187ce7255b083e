"""A training on disk while it runs: all that it needs to go on after a kill, in one file that is there whole."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import torch
from apache_beam.io.filesystems import FileSystems

from parapet.schemas.errors import InputError
from parapet.transforms import files

FOLDER = ".training"  # below the output folder, while a training is not done
STATE = f"{FOLDER}/state.pt"
LOG = f"{FOLDER}/log.jsonl"

State = dict[str, Any]


def save(output: str, state: Mapping[str, Any], log: bytes) -> None:
    """Writes a state and the log so far; each replaces the one before when it is whole.

    The log goes first: what a kill between the two leaves is a log that is an epoch ahead, and written again.
    """
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    files.make_folder(files.join(output, FOLDER))
    for relative, data in ((LOG, log), (STATE, buffer.getvalue())):
        with files.whole(files.join(output, relative)) as handle:
            handle.write(data)


def load(output: str, header: Mapping[str, Any], device: torch.device) -> State | None:
    """The state that a training left, or None.

    Args:
      output: the output folder.
      header: what the training depends on; that of the state must be the same.
      device: where its tensors go.

    Raises:
      InputError: it is damaged, or of a training with other flags or files.
    """
    place = files.join(output, STATE)
    if not FileSystems.exists(place):
        return None
    undo = f"delete {files.join(output, FOLDER)} to begin anew"
    try:
        # Nothing but tensors and plain values: a file cannot run code of its own.
        state = torch.load(io.BytesIO(files.read_bytes(place)), map_location=device, weights_only=True)
        saved = json.loads(state["header"])
    except Exception as error:  # of zip files, pickles, torch: whatever a damaged file leads to
        raise InputError(f"is damaged ({type(error).__name__}): {undo}", place) from None
    if saved != header:
        found = ", ".join(differing(saved, header))
        reason = f"an unfinished training with other {found} stands here: give those, another --output, or {undo}"
        raise InputError(reason, place)
    return dict(state)


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """What differs in two headers, as flags and versions are called."""
    found = []
    for key in sorted({*first, *second}):
        one, other = first.get(key), second.get(key)
        if one == other:
            continue
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += [f"--{name}" for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
        else:
            found.append(key)
    return found


def clear(output: str) -> None:
    """Deletes the state, when all that the training made is published."""
    files.clear(files.join(output, FOLDER))
