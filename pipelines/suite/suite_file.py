"""Reads the file of a suite: TOML with strict keys, and values from ``--set``."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from parapet.pipelines.suite import gates
from parapet.pipelines.suite.steps import SAMPLE, Options, Value, unknown_key
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import SPLITS
from parapet.schemas.limits import read_text

SUITES = Path(__file__).parent / "suites"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+\-]{0,63}")  # of what has a folder of its own
NO_NAME = "cannot be used as a name: use letters, digits, '_', '-', '+' and '.'"
HEADS = ("sample", "corpus", "variants")  # what '@' names besides inputs and steps
_LISTS = ("sets", "systems", "steps", "tables")
SEED = "{seed}"  # a text with this placeholder is repeated for each seed of the suite


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of published numbers.

    Attributes:
      name: the name of the row, such as the system.
      published: a number for each column, NaN where the paper has none; empty if only we have numbers.
      ours: JSON pointers to our numbers, ``@STEP/FILE.json#/KEY/{column}``, or one for each column; empty if we have
        none. ``{seed}`` stands for each seed.
      relative_to: pointers to other numbers, like ``ours``; the row then shows the relative change from them.
      scale: a factor for our numbers, such as 100 for a share; or one for each column.
      digits: decimal places, if they differ from the table's.
      needs: what the user must provide to get our numbers.
      fill: the value of each ``{key}`` in the table's ``ours``, for a row that uses it.
    """

    name: str
    published: tuple[float, ...] = ()
    ours: str | tuple[str, ...] = ""
    relative_to: str | tuple[str, ...] = ""
    scale: float | tuple[float, ...] | None = None
    digits: int | None = None
    needs: str = ""
    fill: dict[str, str] = {}


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[[tables]]``: a published table to show beside our numbers.

    Attributes:
      title: the title.
      source: where it was published.
      columns: the headings.
      rows: its rows.
      ours: ``ours`` of the rows with ``fill``.
      scale: the default of the rows.
      digits: decimal places.
      note: a sentence on how comparable the numbers are.
    """

    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    ours: str | tuple[str, ...] = ""
    scale: float | tuple[float, ...] = 1.0
    digits: Annotated[int, msgspec.Meta(ge=0, le=6)] = 1
    note: str = ""


def filled(value: Value, table: Mapping[str, Value]) -> Value:
    """Replaces ``{key}`` in a value; a text that consists of one placeholder becomes the value itself."""
    if isinstance(value, dict):
        return {key: filled(item, table) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, table) for item in value]
    if isinstance(value, str):
        for key, item in table.items():
            if value == f"{{{key}}}":
                return item
            value = value.replace(f"{{{key}}}", str(item))
    return value


def by_column(table: Table, place: str, error: Callable[[str, str], InputError]) -> Table:
    """Expands ``ours``, ``relative_to`` and ``scale`` of each row to one value for each column.

    Args:
      table: the table as in the file.
      place: its position in the file.
      error: makes an error from a reason and a place, raised if lengths differ or a pointer is invalid.
    """
    size = len(table.columns)
    if not size:
        raise error("must name at least one column", f"{place}.columns")
    keys = [column.replace("~", "~0").replace("/", "~1") for column in table.columns]

    def each(values: Any, where: str, what: str = "values") -> tuple[Any, ...]:
        values = values if isinstance(values, tuple) else (values,) * size
        if len(values) != size:
            raise error(f"{len(values)} {what} for {size} columns", where)
        return tuple(values)

    def pointers(values: tuple[str, ...], fill: Mapping[str, str], where: str) -> tuple[str, ...]:
        places = tuple(
            str(filled(value, {"column": key, **fill})) if value else ""
            for value, key in zip(values, keys, strict=True)
        )
        for pointer in places:
            if pointer and not re.fullmatch(r"@[^#]+#/.*", pointer):
                reason = f"{pointer!r}: expected @STEP/FILE.json#/KEY/KEY, a JSON pointer into a step's output"
                raise error(reason, where)
        return places

    ours, scale, rows = each(table.ours, f"{place}.ours"), each(table.scale, f"{place}.scale"), []
    for i, row in enumerate(table.rows):
        where = f"{place}.rows[{i}]"
        each(row.published or 0.0, f"{where}.published", "numbers")
        own = each(row.ours, f"{where}.ours")
        filling = bool(row.fill) and not row.ours
        rows.append(
            msgspec.structs.replace(
                row,
                ours=pointers(ours, row.fill, f"{where}.ours") if filling else pointers(own, {}, f"{where}.ours"),
                relative_to=pointers(each(row.relative_to, f"{where}.relative_to"), {}, f"{where}.relative_to"),
                scale=scale if row.scale is None else each(row.scale, f"{where}.scale"),
            )
        )
    return msgspec.structs.replace(table, rows=tuple(rows))


class Corpus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[corpus]``: the corpus that everything is made from.

    Attributes:
      sgd: a corpus in the SGD layout, or ``@sample``.
      splits: the splits to perturb.
      tasks: a file of agents' tasks in BFCL's format, instead of a corpus; their tools are the schemas.
      description: what the corpus or the tasks are; shown below the description of the suite.
    """

    sgd: str = SAMPLE
    splits: tuple[str, ...] = ("test",)
    tasks: str = ""
    description: str = ""

    @property
    def scored(self) -> str:
        """The split on which systems are scored: test if it is listed, else the last one."""
        return "test" if "test" in self.splits else self.splits[-1]


class Tables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of a suite's file.

    Attributes:
      title: the title of the page.
      description: the text below the title.
      seeds: entries with ``{seed}`` are repeated for each of them.
      inputs: ``[inputs]``: further files and folders, by name; options refer to them as ``@NAME/path``.
      variants: ``[variants]``; None without it.
      sets: ``[[sets]]``.
      systems: ``[[systems]]``.
      steps: ``[[steps]]``.
      compare: ``[compare]``: flags of the table of all systems.
      release: ``[release]``.
      gates: ``[gates]``: conditions on numbers.
      tables: ``[[tables]]``.
    """

    title: str = ""
    description: str = ""
    seeds: tuple[int | str, ...] = (0,)
    corpus: Corpus = Corpus()
    inputs: dict[str, str] = {}
    variants: dict[str, Any] | None = None
    sets: list[dict[str, Any]] = []
    systems: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    compare: dict[str, Any] = {}
    release: dict[str, Any] | None = None
    gates: dict[str, str] = {}
    tables: list[Table] = []


class SuiteFile(Tables, frozen=True, kw_only=True):
    """A suite, with an entry for each seed and each table of ``each``, and with expanded tables.

    Attributes:
      path: the path of the file.
      name: the name of a built-in suite, or the file's name without ``.toml``.
      folder: the folder from which relative paths start.
      seeds: as texts.
    """

    path: str
    name: str
    folder: Path
    seeds: tuple[str, ...]

    def error(self, reason: str, place: str) -> InputError:
        """Makes an error about the file."""
        return InputError(reason, self.path, place)


def built_in() -> list[str]:
    """Lists the names of the suites that come with Parapet."""
    return sorted(path.stem for path in SUITES.glob("*.toml"))


PARTS = ("corpora", "tasks", "audits", "statistics", "tables")  # of a release
# The variants of tasks for which no answers have been collected.
_TRANSLATED = {"pivots": ["pt"], "needs": "the extra translate, or variants: --set variants.path=FOLDER"}


def read_suite(given: str, settings: Sequence[str] = (), tasks: str = "") -> SuiteFile:
    """Reads a suite.

    Args:
      given: a file, or the name of a built-in suite.
      settings: ``KEY=VALUE`` of ``--set``: ``corpus.sgd=my_corpus``, ``systems.ours.model=tracker.py:Tracker``.
      tasks: replaces the suite's tasks. Variants from crowd answers are then replaced by back-translation.

    Raises:
      InputError: the file does not exist, is not TOML, or has an invalid key or value.
    """
    path, folder = _find(given)
    shown = given if path.parent != SUITES else f"suite {path.stem}"
    try:
        raw = tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not TOML: {error}", shown) from None
    except InputError as error:
        raise InputError(error.reason, shown) from None
    if own := tasks or _own_data(settings):
        _forget_sample(raw, own)
    if tasks:
        raw["corpus"] = {**raw.get("corpus", {}), "tasks": os.path.abspath(tasks)}
        if "responses" in raw.get("variants", {}):
            raw["variants"] = {} if any(setting.startswith("variants.") for setting in settings) else dict(_TRANSLATED)
    for setting in settings:
        _set(raw, setting)
    try:
        keys = msgspec.structs.asdict(msgspec.convert(raw, Tables))
    except msgspec.ValidationError as error:
        reason, place = reason_and_place(error)
        unknown = re.search(r"unknown field `(.*)`", reason)
        raise InputError(_unknown_field(unknown[1], place) if unknown else reason, shown, place) from None
    keys |= {"title": keys["title"] or path.stem, "seeds": tuple(map(str, keys["seeds"]))}
    suite = SuiteFile(path=shown, name=path.stem, folder=folder, **keys)
    lists = {level: _each(suite, getattr(suite, level), level) for level in ("sets", "systems", "steps")}
    tables = [by_column(table, f"tables[{i}]", suite.error) for i, table in enumerate(suite.tables)]
    suite = msgspec.structs.replace(suite, **lists, tables=tables)
    _check(suite)
    gates.check(suite.gates, shown)
    return suite


def _own_data(settings: Sequence[str]) -> str:
    """Returns the corpus or tasks that ``--set`` gives in place of the sample; empty if it gives none."""
    pairs = [setting.split("=", 1) for setting in settings if setting.startswith(("corpus.sgd=", "corpus.tasks="))]
    return next((path for _, path in pairs if not path.startswith(SAMPLE)), "")


def _forget_sample(raw: dict[str, Any], own: str) -> None:
    """Removes what a suite of the sample says about it, when the user's own data takes its place.

    The release keeps its parts; its name is made of the data's, and its authors and licence are unknown.
    """
    corpus, release = raw.get("corpus", {}), raw.get("release")
    if not str(corpus.get("tasks") or corpus.get("sgd") or SAMPLE).startswith(SAMPLE):
        return
    corpus.pop("description", None)
    if "sample" in str(raw.get("title", "")):
        raw["title"] = Path(own).stem
    if isinstance(release, dict):
        name = re.sub(r"[^a-z0-9]+", "_", Path(own).stem.lower()).strip("_")[:60]
        parts = {key: release[key] for key in ("version", "changes", *PARTS) if key in release}
        raw["release"] = {"name": name if name[:1].isalpha() else f"set_{name}", **parts}


def _find(given: str) -> tuple[Path, Path]:
    """Returns the path of the file, and the folder from which its relative paths start."""
    names = built_in()
    path = Path(given)
    if given in names and not path.is_file():
        return SUITES / f"{given}.toml", Path.cwd()
    if path.is_dir():
        raise InputError("a folder: give a suite's file", given)
    if not path.is_file():
        near = difflib.get_close_matches(given, names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"built-in suites are {', '.join(names)}"
        raise InputError(f"there is no such file, and no built-in suite of that name: {hint}", given)
    return path, path.resolve().parent


def _each(suite: SuiteFile, entries: Sequence[Options], level: str) -> list[Options]:
    """Expands the entries of a list: one with ``each`` for each of its tables, one with ``{seed}`` for each seed."""
    result: list[Options] = []
    for i, entry in enumerate(entries):
        tables = entry.get("each", [{}])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise suite.error("expected a list of tables such as [{ size = 1 }, { size = 2 }]", f"{level}[{i}].each")
        plain = {key: value for key, value in entry.items() if key != "each"}
        if SEED in str(list(plain.values())):
            if SEED not in _name_of(plain):
                raise suite.error(f"give it a name with {SEED}, such as 'model-{SEED}'", f"{level}[{i}].name")
            tables = [{**table, "seed": seed} for table in tables for seed in suite.seeds]
        result += [{key: filled(value, table) for key, value in plain.items()} for table in tables]
    return result


def _unknown_field(key: str, place: str) -> str:
    kinds: dict[str, type[msgspec.Struct]] = {"corpus": Corpus, "tables": Row if ".rows" in place else Table}
    return unknown_key(key, kinds.get(re.split(r"[.\[]", place)[0], Tables).__struct_fields__)


def _set(raw: dict[str, Any], setting: str) -> None:
    """Sets the value of ``--set`` in the file's tables."""
    key, equals, text = setting.partition("=")
    *path, last = key.strip().split(".")
    if not equals or not last or "" in path:
        raise InputError(f"{setting!r}: expected KEY=VALUE, such as corpus.sgd=my_corpus", "--set")
    levels = [name for name in Tables.__struct_fields__ if name not in ("title", "description", "seeds")]
    if path and path[0] not in levels:
        raise InputError(unknown_key(path[0], levels, "table"), f"--set {key}")
    place: Any = raw
    for i, part in enumerate(path):
        if isinstance(place, dict) and part in _LISTS and i == 0:
            place = place.get(part, [])
        elif isinstance(place, list):
            place = _entry(place, part, f"--set {key}")
        elif isinstance(place, dict):
            place = place.setdefault(part, {})
        if not isinstance(place, dict | list):
            raise InputError(f"{'.'.join(path[: i + 1])} is not a table", f"--set {key}")
    if isinstance(place, list):
        raise InputError(
            "must name an entry and its key (example: systems.ours.model=tracker.py:Tracker)", f"--set {key}"
        )
    many = isinstance(place.get(last), list) or [*path, last] in (["corpus", "splits"], ["seeds"])
    place[last] = _value(text, many)


def _entry(entries: list[Any], name: str, flag: str) -> dict[str, Any]:
    """Returns the entry of a list by its name."""
    names = [_name_of(entry) for entry in entries]
    if name not in names:
        raise InputError(unknown_key(name, names, "entry") if names else f"there is no entry {name!r}", flag)
    entry: dict[str, Any] = entries[names.index(name)]
    return entry


def _name_of(entry: object) -> str:
    if not isinstance(entry, dict):
        return ""
    return str(entry.get("name") or entry.get("perturbation") or entry.get("pipeline") or "")


def _value(text: str, many: bool) -> Value:
    """Parses a value of ``--set``: as TOML if possible, else as text. Paths are relative to the working directory."""
    try:
        value: Value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = [_path(part) for part in text.split(",")] if many else _path(text)
    return value if not many or isinstance(value, list) else [value]


def _path(text: str) -> str:
    """Makes a text absolute if it names an existing file or folder, as a suite's paths start at its file."""
    place, colon, rest = text.partition(":")
    if "://" in text or not place or os.path.isabs(place):
        return text
    if os.path.exists(text):
        return os.path.abspath(text)
    return f"{os.path.abspath(place)}{colon}{rest}" if place.endswith(".py") and os.path.exists(place) else text


def _check(suite: SuiteFile) -> None:
    splits = suite.corpus.splits
    if not suite.corpus.sgd:
        raise suite.error("names no corpus: give it in the file, or with --set corpus.sgd=PATH", "corpus.sgd")
    if not splits:
        raise suite.error("must name at least one split", "corpus.splits")
    for split in splits:
        if split not in SPLITS:
            raise suite.error(f"{split!r} is not a split: must be one of {', '.join(SPLITS)}", "corpus.splits")
    if len(set(splits)) < len(splits):
        raise suite.error("a split appears twice", "corpus.splits")
    if not suite.seeds:
        raise suite.error("must have at least one seed", "seeds")
    for seed, count in Counter(suite.seeds).items():
        if not NAME.fullmatch(seed) or count > 1:
            reason = "appears twice" if NAME.fullmatch(seed) else "cannot be part of a name: use letters and digits"
            raise suite.error(f"{seed!r} {reason}", "seeds")
    for name in suite.inputs:
        if not NAME.fullmatch(name) or name in HEADS:
            raise suite.error(f"{name!r} {NO_NAME}; not {', '.join(HEADS)}", "inputs")
    if not (suite.sets or suite.systems or suite.steps or suite.variants is not None):
        raise suite.error("is empty: give [variants], [[sets]], [[systems]] or [[steps]]", "")
