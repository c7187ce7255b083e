"""File names for pages of dialogues, whose ids are anybody's: none leaves its folder, no two ids share one."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

# Most file systems take names of 255 bytes; the turn, the ending and a temporary name's are still to come.
MAX_NAME = 150


def page_name(dialogue_id: str) -> str:
    """The part of a file name that stands for a dialogue; different ids have different ones, letter case included.

    Letters, digits, ``_``, ``-`` and inner dots stay, all else is percent-encoded. A long one is cut, and
    a ``~``, which no other name has, begins the hash of the whole id.
    """
    name = quote(dialogue_id, safe="", errors="surrogatepass").replace("~", "%7E")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > MAX_NAME:
        digest = hashlib.sha256(dialogue_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        name = f"{name[: MAX_NAME - 33]}~{digest}"
    return name
