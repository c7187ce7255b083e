"""What the models need beside the core, said before it is missed."""

from __future__ import annotations

from importlib import import_module

from schemas.errors import InputError


def check_installed(*names: str) -> None:
    """Raises InputError where a package is not there, with how it is installed."""
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            reason = "is not installed" if error.name == name else f"cannot be imported ({error})"
            raise InputError(f"{name} {reason}: pip install 'parapet[local]'") from None
