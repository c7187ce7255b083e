"""Characters that pages, XML and MTurk can carry. Any text of a schema may be hostile."""

from __future__ import annotations

import re

# Not allowed in XML 1.0: C0 controls but tab and line ends, surrogates, the two non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_LINE_ENDS = re.compile("\r\n?")


def shown(text: str) -> str:
    """A text of the schema as a page shows it: single spaces, no characters that XML forbids."""
    return " ".join(_FORBIDDEN.sub(" ", text).split())


def carriable(html: str) -> str:
    """HTML that survives the way through MTurk unchanged.

    Line ends become ``\\n`` (an XML parser would do the same), forbidden characters go, and characters beyond the
    basic plane become numeric references (MTurk refuses the four-byte ones). Not for scripts with such characters.
    """
    html = _FORBIDDEN.sub("", _LINE_ENDS.sub("\n", html))
    return _ASTRAL.sub(lambda found: f"&#{ord(found.group())};", html)


def without_variables(html: str) -> str:
    """HTML in which the requester site finds no ``${VAR}`` to fill in."""
    return html.replace("${", "&#36;{")
