"""Names: of authors, taken apart for those who ask for the family name, and in one line; of the release itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from parapet.schemas.release_config import Author
from parapet.schemas.release_manifest import Manifest
from parapet.transforms.markdown import one_line

# Words that groups have in their names, and people hardly.
_GROUP = re.compile(
    r"the\b.*|.*\b(?:authors|collaboration|college|community|company|consortium|contributors|corporation|department"
    r"|developers|foundation|group|inc|institute|lab|laboratory|labs|llc|ltd|maintainers|network|organi[sz]ation"
    r"|project|research|team|university)\b.*",
    re.IGNORECASE,
)
_ORCID = re.compile(r"(?:https?://orcid\.org/)?([0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{3}[0-9X])")


class Name(msgspec.Struct, frozen=True):
    """A person's family and given names; of a group the family name alone is there."""

    family: str
    given: str = ""


def name_of(name: str, is_person: bool = False) -> Name:
    """Takes a name apart: ``Family, Given``, or ``Given Family`` at the last space.

    One word, or words such as Team, are a group's.

    Args:
      name: as it is written.
      is_person: whether that is known, say from an ORCID.
    """
    name = one_line(name) or "anonymous"
    family, comma, given = (part.strip() for part in name.partition(","))
    if not is_person and _GROUP.fullmatch(name):
        return Name(name)
    if comma and family and given:
        return Name(family, given)
    given, _, family = name.rpartition(" ")
    return Name(family, given)


def author_name(author: Author) -> Name:
    """An author's name; one with an ORCID is a person."""
    return name_of(author.name, bool(_ORCID.fullmatch(author.orcid.strip())))


def orcid_url(author: Author) -> str:
    """The address of an author's ORCID; nothing where there is none, or what is given is none."""
    found = _ORCID.fullmatch(author.orcid.strip())
    return f"https://orcid.org/{found[1]}" if found else ""


def names_of(line: str) -> list[Name]:
    """The names of one line of authors, as they are cited.

    ``A B and C D``, ``A B, C D``, ``B, A and D, C``, ``A B; C D``; a line that is none of these ("A B et al.") is one
    name.
    """
    line = one_line(line)
    if not line or re.search(r"\bet al\b", line):
        return [name_of(line) if not line else Name(line)]
    parts = [part.strip(" ,") for part in re.split(r";|,?(?<!\s)\s+(?:and|&)\s+", line)]
    # A comma separates people where each side has a given and a family name.
    parts = [name for part in parts for name in (part.split(",") if _lists_people(part) else [part])]
    return [name_of(part) for part in parts if part.strip()] or [Name(line)]


def _lists_people(part: str) -> bool:
    found = part.split(",")
    return len(found) > 1 and all(" " in name.strip() for name in found)


def title_of(manifest: Manifest) -> str:
    """What a release is called, in one line."""
    return one_line(manifest.title) or manifest.name


def in_line(authors: Sequence[Author]) -> str:
    """Authors in one line: ``A``, ``A and B``, ``A, B and C``."""
    found = [author_name(author) for author in authors]
    names = [f"{name.given} {name.family}".strip() for name in found]
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])
