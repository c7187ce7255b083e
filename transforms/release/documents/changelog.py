"""CHANGELOG.md: what each version changed, newest first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from parapet.schemas.release_manifest import Manifest, SplitChange
from parapet.transforms.markdown import Markdown, bullets, code, one_line, prose, text
from parapet.transforms.release.documents.citation import release_date
from parapet.transforms.release.documents.names import title_of
from parapet.transforms.text import counted

# What the level of a change says of the rows.
LEVELS = {
    "major": "rows of an existing split were added, removed or changed, or a column or split was removed",
    "minor": "columns or splits were added; the rows of existing splits are unchanged",
    "patch": "the rows are the same",
}


def changelog(manifest: Manifest, previous: str) -> str:
    """The whole file.

    Args:
      manifest: of the version that is added at the top.
      previous: CHANGELOG.md of the release that it follows, or nothing.
    """
    date = release_date(manifest)
    heading = f"## {manifest.version}" + (f" ({date})" if date else "")
    parts = [f"# Changelog of {text(title_of(manifest))}", heading]
    parts += [part for part in (prose(manifest.release_notes, 2), summary(manifest)) if part]
    before = re.search(r"^## ", previous, re.MULTILINE)
    parts.append(previous[before.start() :].strip() if before else previous.strip())
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(manifest: Manifest) -> Markdown:
    """What changed against the parent, in Markdown."""
    parent, changes = manifest.parent, manifest.changes
    if parent is None:
        return Markdown("The first version.")
    if changes is None:
        return Markdown(f"Follows {text(parent.version)}.")
    if not changes.splits:
        return Markdown(f"The same rows as {text(parent.version)}.")
    meaning = LEVELS.get(changes.level, "")
    head = f"Against {text(parent.version)}, {text(changes.level)}" + (f" ({meaning}):" if meaning else ":")
    return Markdown(f"{head}\n\n{bullets(change_line(change) for change in changes.splits)}")


def change_line(change: SplitChange) -> Markdown:
    """A split's changes in one line: rows added, removed and changed, and columns."""
    rows = [f"{counted(n, 'row')} {word}" for word, n in row_changes(change).items() if n]
    columns = [_columns("new", change.columns_added), _columns("removed", change.columns_removed)]
    changes = "; ".join(filter(None, [", ".join(rows), *columns])) or "other files"
    return Markdown(f"{code(change.config)}, {code(change.split)}: {changes}")


def row_changes(change: SplitChange) -> dict[str, int]:
    """How many rows were ``added``, ``removed`` and ``changed``."""
    return {"added": change.added, "removed": change.removed, "changed": change.changed}


def _columns(word: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"{word} {'column' if len(names) == 1 else 'columns'} {', '.join(code(one_line(name)) for name in names)}"
