"""What a model needs of the machine: packages, a device, memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.seeding import stable_hash

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda")
_OF_LOCAL = ("transformers", "tokenizers", "sentencepiece")  # packages of the extra "local"; others are of "models"


def check_installed(*names: str) -> None:
    """Raises InputError where a package is missing, with how to install it."""
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            reason = "is not installed" if error.name == name else f"cannot be imported ({error})"
            extra = "local" if name in _OF_LOCAL else "models"
            raise MissingExtra(name, extra, reason=reason) from None


def check_device(name: str) -> None:
    """Raises InputError for ``cuda`` without a GPU."""
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("torch finds no GPU here: give cpu, or install a torch for CUDA", "--device")


def device_of(name: str) -> torch.device:
    """``auto`` is the GPU where there is one. Raises InputError for ``cuda`` without a GPU."""
    import torch

    check_device(name)
    return torch.device("cuda" if torch.cuda.is_available() and name != "cpu" else "cpu")


def seed_all(*parts: str) -> None:
    """Seeds every generator of torch, on every device, from a key."""
    import torch

    torch.manual_seed(stable_hash(*parts) % 2**63)


@contextmanager
def enough_memory(lower: str) -> Iterator[None]:
    """Turns the many errors of torch for used up memory into one.

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


def _is_of_memory(message: str) -> bool:
    return any(sign in message for sign in ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED"))
