"""Which version number a change of the data asks for (the rules of TensorFlow Datasets, "Datasets versioning").

PATCH: the rows are the same. MINOR: columns, splits, configurations or corpora were added; the rows of existing splits
are unchanged. MAJOR: rows of an existing split were added, removed or changed, or a column, split or configuration was
removed.
"""

from __future__ import annotations

LEVELS = ("patch", "minor", "major")


def parse(version: str) -> tuple[int, int, int]:
    """``1.2.3`` as numbers."""
    major, minor, patch = (int(part) for part in version.split("."))
    return major, minor, patch


def bumped(version: str, level: str) -> str:
    """The next version at a level: ``bumped("1.2.3", "minor") == "1.3.0"``."""
    major, minor, patch = parse(version)
    if level == "major":
        return f"{major + 1}.0.0"
    return f"{major}.{minor + 1}.0" if level == "minor" else f"{major}.{minor}.{patch + 1}"


def level_between(old: str, new: str) -> str:
    """The level at which ``new`` follows ``old``; nothing where it does not follow."""
    before, after = parse(old), parse(new)
    if after <= before:
        return ""
    changed = next(i for i in range(3) if after[i] != before[i])
    return LEVELS[2 - changed]


def contradiction(old: str, new: str, level: str) -> str:
    """Why a version number cannot follow another, given the level that the data asks for; nothing where it can."""
    given = level_between(old, new)
    if not given:
        return f"version {new} does not come after {old}"
    if LEVELS.index(given) < LEVELS.index(level):
        return f"{new} is a {given} version after {old}, but the data has changed at the {level} level"
    return ""
