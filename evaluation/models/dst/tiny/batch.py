"""Tracks side by side as tensors: arrays of one kind filled up to the longest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parapet.evaluation.models.dst.tiny.steps import Track
from parapet.evaluation.models.dst.tiny.targets import Target

Array = NDArray[Any]

_OF_SERVICE = ("slots", "intents", "values", "truth", "categorical")
_OF_TRACK = ("step", "user", "asks", "last", "look", "sentence", "size", "begins", "whole", "beside", "valid")
_PLACES = ("sentences", "own", "left", "right")
_WORDS = ("slots", "intents", "values", "words")
_NO_VALUE, _NO_MENTION = -2, -3  # keys that are none, and are not the same
_FILLS = {"before": -1, "intent_before": 0, "intent": 0}


class Batch(msgspec.Struct, frozen=True):
    """What a net reads: of each track what :class:`Track` and its service say; the first dimension is the track.

    Attributes:
      vocabulary: the words of the batch, the first none; all words here are numbers of these.
      acts, acts_at: the rows of all tracks and steps one behind the other, and where those of each begin.
      slot_there, intent_there, value_there, mention_there, sentence_there: what is not filled up.
    """

    vocabulary: Tensor
    slots: Tensor
    intents: Tensor
    values: Tensor
    truth: Tensor
    categorical: Tensor
    words: Tensor
    sentences: Tensor
    step: Tensor
    user: Tensor
    asks: Tensor
    last: Tensor
    steps: Tensor
    look: Tensor
    sentence: Tensor
    size: Tensor
    begins: Tensor
    whole: Tensor
    own: Tensor
    left: Tensor
    right: Tensor
    beside: Tensor
    keys: Tensor
    valid: Tensor
    value_keys: Tensor
    acts: Tensor
    acts_at: Tensor
    slot_there: Tensor
    intent_there: Tensor
    value_there: Tensor
    mention_there: Tensor
    sentence_there: Tensor


class Wanted(msgspec.Struct, frozen=True):
    """Of each track what :class:`Target` says; the number of intents in a batch means none of them."""

    before: Tensor
    fixed: Tensor
    values: Tensor
    mentions: Tensor
    intent_before: Tensor
    intent: Tensor
    requested: Tensor
    known: Tensor
    owners: Tensor
    offered: Tensor
    accepts: Tensor


def batch_of(tracks: Sequence[Track], device: torch.device) -> Batch:
    """Some tracks, on a device."""
    arrays = {name: stacked(getattr(one.schema, name) for one in tracks) for name in _OF_SERVICE}
    arrays |= {name: stacked(getattr(one, name) for one in tracks) for name in (*_OF_TRACK, "words")}
    arrays |= {name: _places(tracks, name) for name in _PLACES}
    arrays |= _numbered({name: arrays[name] for name in _WORDS})
    arrays["keys"] = stacked((one.keys for one in tracks), _NO_MENTION)
    arrays["value_keys"] = stacked((one.value_keys for one in tracks), _NO_VALUE)
    arrays["steps"] = np.array([one.steps for one in tracks])
    most = max(one.steps for one in tracks)
    nothing = np.zeros(0, dtype=np.int32)
    acts = [rows for one in tracks for rows in (*one.acts, *[nothing] * (2 * (most - one.steps)))]
    arrays["acts"] = np.concatenate([nothing, *acts])
    arrays["acts_at"] = np.cumsum([0, *map(len, acts)])
    arrays["slot_there"] = _there([len(one.schema.slots) for one in tracks])
    arrays["intent_there"] = _there([len(one.schema.intents) for one in tracks])
    arrays["mention_there"] = _there([len(one.keys) for one in tracks])
    arrays["sentence_there"] = _there([len(one.step) for one in tracks])
    arrays["value_there"] = arrays["value_keys"] > 0
    return Batch(**{name: _tensor(array, device) for name, array in arrays.items()})


def wanted_of(targets: Sequence[Target], tracks: Sequence[Track], device: torch.device) -> Wanted:
    """Some targets and their tracks, on a device."""
    arrays = {
        name: stacked((getattr(one, name) for one in targets), _FILLS.get(name, 0)) for name in Wanted.__struct_fields__
    }
    sizes = np.array([len(one.schema.intents) for one in tracks])[:, None]
    none = max(1, int(sizes.max()))
    for name in ("intent_before", "intent"):
        arrays[name] = np.where(arrays[name] == sizes, none, arrays[name])
    return Wanted(**{name: _tensor(array, device) for name, array in arrays.items()})


def _places(tracks: Sequence[Track], name: str) -> Array:
    """Places in the dialogue; "no token" is the last place of the longest track."""
    nowhere = max(len(one.words) for one in tracks) - 1
    arrays = ((getattr(one, name), len(one.words) - 1) for one in tracks)
    return stacked((np.where(array == last, nowhere, array) for array, last in arrays), nowhere)


def _numbered(words: Mapping[str, Array]) -> dict[str, Array]:
    """The vocabulary of some arrays, and they as numbers of its words."""
    flat = [np.zeros(1, dtype=np.int32), *(array.ravel() for array in words.values())]
    vocabulary, numbers = np.unique(np.concatenate(flat), return_inverse=True)
    parts = np.split(numbers, np.cumsum([len(one) for one in flat[:-1]]))[1:]
    found = {name: part.reshape(array.shape) for (name, array), part in zip(words.items(), parts, strict=True)}
    return {"vocabulary": vocabulary, **found}


def stacked(arrays: Iterable[Array], fill: int = 0) -> Array:
    """Arrays as one, each filled up; no dimension is empty."""
    rows = list(arrays)
    shape = [max(1, *sizes, 0) for sizes in zip(*(one.shape for one in rows), strict=True)]
    found: Array = np.full((len(rows), *shape), fill, dtype=rows[0].dtype)
    for i, one in enumerate(rows):
        found[i][tuple(slice(size) for size in one.shape)] = one
    return found


def _there(sizes: Sequence[int]) -> Array:
    there: Array = np.arange(max(1, *sizes, 0)) < np.array(sizes)[:, None]
    return there


def _tensor(array: Array, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return (tensor if array.dtype == bool else tensor.long()).to(device, non_blocking=True)
