"""What the models need beside the core, said before it is missed."""

from __future__ import annotations

from importlib import import_module

from parapet.schemas.errors import MissingExtra

_OF_LOCAL = ("transformers", "tokenizers", "sentencepiece")


def check_installed(*names: str) -> None:
    """Raises InputError where a package is not there, with how it is installed."""
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            reason = "is not installed" if error.name == name else f"cannot be imported ({error})"
            extra = "local" if name in _OF_LOCAL else "models"
            raise MissingExtra(name, extra, reason=reason) from None
