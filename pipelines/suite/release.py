"""The ``release.toml`` of a suite: what the file's ``[release]`` has, and everything that the suite makes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from parapet.pipelines.suite.steps import SAMPLE, place_of
from parapet.pipelines.suite.suite_file import SuiteFile
from parapet.schemas.errors import InputError
from parapet.schemas.release import NO_LICENCE, parse_config
from parapet.transforms.release.citation import problems
from parapet.transforms.toml import toml_of

LICENCE_FILE = "release_licence.txt"
# Of a release whose licence nobody gave: nobody shall take its absence for a permission.
_NO_LICENCE_TEXT = (
    "No licence was given for this dataset. It is made from another corpus, whose terms apply: do not publish it\n"
    'before you have named a licence in the file of the suite ([release] licence = "...") and built it again.\n'
)


def release_files(suite: SuiteFile, sets: Iterable[tuple[str, str]], steps: Collection[str]) -> dict[str, str]:
    """``release.toml``, and the licence's text where none was given: path to content.

    Args:
      suite: the file.
      sets: name to folder of what is released besides the original; ``@STEP/path`` is relative to ``release.toml``.
      steps: of the suite; the audit of compose and the statistics are released, too.

    Raises:
      InputError: ``[release]`` has no name or no version, or something that ``release.toml`` cannot have.
    """
    given = dict(suite.release or {})
    for key in ("name", "version"):
        if not given.get(key):
            raise suite.error(f"give the release a {key}", f"release.{key}")
    files = {}
    if not given.get("licence"):
        given["licence"] = "CC0-1.0" if suite.corpus.sgd == SAMPLE else NO_LICENCE
        if given["licence"] == NO_LICENCE:
            given["licence_file"] = LICENCE_FILE
            files[LICENCE_FILE] = _NO_LICENCE_TEXT
    given.setdefault("description", suite.description or f"Robustness sets of the suite {suite.title}.")
    given.setdefault("authors", [{"name": "Unnamed"}])
    corpora = [{"path": suite.corpus.sgd, "name": "original", "kind": "original"}]
    for name, root in sets:
        if name == "variants":
            corpora.append({"path": root, "kind": "variants"})
        else:
            corpora.append({"path": root, "name": re.sub(r"[^A-Za-z0-9_\-]", "_", name), "kind": "robustness set"})
    own = {"corpora": corpora}
    if "compose" in steps:
        own["audits"] = [{"path": "@compose"}]
    if "statistics" in steps:
        own["statistics"] = [{"path": "@statistics", "name": "table_1"}]
    if own_text := given.get("licence_file") if LICENCE_FILE not in files else None:
        given["licence_file"] = _from_release(suite, str(own_text), "licence_file")
    for key in ("corpora", "audits", "statistics", "tables"):
        entries = [*own.get(key, []), *given.get(key, [])]
        if not all(isinstance(entry, dict) and isinstance(entry.get("path"), str) for entry in entries):
            raise suite.error("expected tables with a path", f"release.{key}")
        if entries:
            places = [_from_release(suite, entry["path"], f"{key}[{i}].path") for i, entry in enumerate(entries)]
            given[key] = [{**entry, "path": place} for entry, place in zip(entries, places, strict=True)]
    text = toml_of(msgspec.to_builtins(given))
    try:
        config = parse_config(text, suite.path)
    except InputError as error:
        raise suite.error(error.reason, f"release.{error.where}") from None
    for problem in problems(config.licence, config.sources, bool(config.licence_file)):
        raise suite.error(problem, "release.licence")
    return {"release.toml": text, **files}


def _from_release(suite: SuiteFile, path: str, where: str) -> str:
    """A path as ``release.toml`` has it, which lies in the folder of the steps. Raises InputError for a missing one."""
    if path.startswith("@"):
        return place_of(path[1:], Path())
    if "://" in path:
        return path
    place = (suite.folder / path).absolute()
    if not place.exists():
        raise suite.error(f"{path}: there is no such file or folder", f"release.{where}")
    return str(place)
