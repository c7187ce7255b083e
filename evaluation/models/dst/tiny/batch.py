"""Tracks side by side as tensors: arrays of one kind filled up to the longest."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import torch
from torch import Tensor

from evaluation.models.dst.tiny.steps import Track
from evaluation.models.dst.tiny.targets import Target


class Batch(msgspec.Struct, frozen=True):
    """What a net reads: of each track what :class:`Track` and its schema say; the first dimension is the track.

    Attributes:
      vocabulary: the words that stand in the batch; all words here are numbers of these, 0 for none.
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
    keys: Tensor
    valid: Tensor
    value_keys: Tensor
    beside: Tensor
    acts: Tensor
    acts_at: Tensor
    slot_there: Tensor
    intent_there: Tensor
    value_there: Tensor
    mention_there: Tensor
    sentence_there: Tensor


class Wanted(msgspec.Struct, frozen=True):
    """Of each track what :class:`Target` says."""

    before: Tensor
    fixed: Tensor
    values: Tensor
    mentions: Tensor
    intent_before: Tensor
    intent: Tensor
    requested: Tensor
    known: Tensor
    owners: Tensor
    accepts: Tensor
    offered: Tensor


def batch_of(tracks: Sequence[Track], device: torch.device) -> Batch:
    """Some tracks, on a device."""
    longest = max(len(one.words) for one in tracks)  # its last word stands for none

    def places(name: str) -> np.ndarray:
        """What stands for no token is the last one of all."""
        found = []
        for one in tracks:
            array = getattr(one, name)
            found.append(np.where(array == len(one.words) - 1, longest - 1, array))
        return stacked(found, longest - 1)

    def plain(name: str, fill: int = 0) -> np.ndarray:
        return stacked([getattr(one, name) for one in tracks], fill)

    def schema(name: str) -> np.ndarray:
        return stacked([getattr(one.schema, name) for one in tracks], 0)

    def there(sizes: Sequence[int]) -> np.ndarray:
        return np.arange(max(1, *sizes, 1)) < np.array(sizes)[:, None]

    of_words = {
        "slots": schema("slots"),
        "intents": schema("intents"),
        "values": schema("values"),
        "words": plain("words"),
    }
    vocabulary, numbers = np.unique(
        np.concatenate([[0], *(of.ravel() for of in of_words.values())]), return_inverse=True
    )
    at = 1
    for name, of in of_words.items():
        of_words[name] = numbers[at : at + of.size].reshape(of.shape)
        at += of.size
    most = max(one.steps for one in tracks)
    nothing = np.zeros(0, dtype=np.int32)
    rows = [[*one.acts, *[nothing] * (2 * (most - one.steps))] for one in tracks]
    value_keys = plain("value_keys", -2)
    arrays = {
        "vocabulary": vocabulary,
        **of_words,
        "truth": schema("truth"),
        "categorical": schema("categorical"),
        **{
            name: plain(name)
            for name in ("step", "user", "asks", "last", "look", "sentence", "size", "begins", "whole")
        },
        "steps": np.array([one.steps for one in tracks]),
        **{name: places(name) for name in ("sentences", "own", "left", "right")},
        "keys": plain("keys", -3),
        "valid": plain("valid"),
        "value_keys": value_keys,
        "beside": plain("beside"),
        "acts": np.concatenate([row for one in rows for row in one]),
        "acts_at": np.cumsum([0, *(len(row) for one in rows for row in one)]),
        "slot_there": there([len(one.schema.slots) for one in tracks]),
        "intent_there": there([len(one.schema.intents) for one in tracks]),
        "value_there": value_keys > 0,
        "mention_there": there([len(one.keys) for one in tracks]),
        "sentence_there": there([len(one.step) for one in tracks]),
    }
    return Batch(**{name: _tensor(array, device) for name, array in arrays.items()})


def wanted_of(targets: Sequence[Target], device: torch.device) -> Wanted:
    """Some targets, on a device."""
    fills = {"before": -1, "intent_before": -1, "intent": -1}
    return Wanted(
        **{
            name: _tensor(stacked([getattr(one, name) for one in targets], fills.get(name, 0)), device)
            for name in Wanted.__struct_fields__
        }
    )


def stacked(arrays: Sequence[np.ndarray], fill: int) -> np.ndarray:
    """Arrays as one, each filled up; no dimension is empty."""
    shape = (
        [max(1, *sizes) for sizes in zip(*(one.shape for one in arrays), strict=True)]
        if len(arrays) > 1
        else [max(1, n) for n in arrays[0].shape]
    )
    found = np.full((len(arrays), *shape), fill, dtype=arrays[0].dtype)
    for i, one in enumerate(arrays):
        found[(i, *map(slice, one.shape))] = one
    return found


def _tensor(array: np.ndarray, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return (tensor if array.dtype == bool else tensor.long()).to(device, non_blocking=True)
