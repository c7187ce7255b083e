"""Docstrings as mkdocstrings reads them: a doctest stands in a section of its own, a role of Sphinx is code."""

from __future__ import annotations

import re
from typing import Any

import griffe

import parapet

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(?=`)")
_EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites the docstrings of the package once it is read, and says which names are public."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrites one."""
        if obj.docstring:
            obj.docstring.value = readable(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Sets ``__all__``, which is not written out."""
        pkg.exports = list(parapet.__all__)


def readable(text: str) -> str:
    """The docstring with ``Examples:`` above doctests, which are else taken for quotations."""
    text = _EXAMPLE.sub(r"\1Examples:", _ROLE.sub("", text))
    head, mark, doctest = text.partition("\n\n>>> ")
    if not mark:
        return text
    return f"{head}\n\nExamples:\n" + "\n".join(f"  {line}".rstrip() for line in f">>> {doctest}".splitlines())
