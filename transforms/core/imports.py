"""Imports libraries without the optional packages that they would import, too, and that would take most of the time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder


@contextmanager
def without(*packages: str) -> Iterator[None]:
    """Makes packages that are not imported yet look as if they were not installed, while the block runs."""

    class Missing(MetaPathFinder):
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name in packages:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    finder = Missing()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
