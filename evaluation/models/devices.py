"""Where torch computes, with how many threads, and what is told where memory does not suffice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from parapet.schemas.errors import InputError
from parapet.transforms.seeding import stable_hash

DEVICES = ("auto", "cpu", "cuda")


def check_device(name: str) -> None:
    """Raises InputError for ``cuda`` without a GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("torch finds no GPU here: give cpu, or install a torch for CUDA", "--device")


def device_of(name: str) -> torch.device:
    """``auto`` is the GPU where there is one. Raises InputError for ``cuda`` without a GPU."""
    check_device(name)
    return torch.device("cuda" if torch.cuda.is_available() and name != "cpu" else "cpu")


def seed_all(*parts: str) -> None:
    """Seeds every generator of torch, on every device, from a key."""
    torch.manual_seed(stable_hash(*parts) % 2**63)


@contextmanager
def enough_memory(lower: str) -> Iterator[None]:
    """Turns torch's many ways to say that memory is used up into one.

    Args:
      lower: what to do about it, such as ``lower --batch_size``.

    Raises:
      InputError: memory is used up.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if not isinstance(error, MemoryError) and not _is_of_memory(str(error)):
            raise
        raise InputError(f"out of memory: {lower}") from None


def _is_of_memory(told: str) -> bool:
    return any(sign in told for sign in ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED"))
