"""Reads the file of a suite: TOML with strict keys, and values from ``--set``."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from parapet.pipelines.suite import gates
from parapet.pipelines.suite.steps import SAMPLE, Options, replaced, unknown_key
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import SPLITS
from parapet.schemas.limits import read_text
from parapet.transforms.reports.text import counted

SUITES = Path(__file__).parent / "suites"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+\-]{0,63}")  # of what has a folder of its own
NO_NAME = "cannot be used as a name: use letters, digits, '_', '-', '+' and '.'"
SEED = "{seed}"  # a text with this placeholder is repeated for each seed of the suite
_ALIASES = ("sample", "corpus", "variants")  # what '@' names besides inputs and steps
_LISTS = ("sets", "systems", "steps", "tables")

PerColumn = tuple[float, ...] | float  # a value for each column, or one for all
Pointers = tuple[str, ...] | str


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
    ours: Pointers = ""
    relative_to: Pointers = ""
    scale: PerColumn | None = None
    digits: int | None = None
    needs: str = ""
    fill: dict[str, str] = {}


class Cell(NamedTuple):
    """What a cell of a table shows: the published number, and pointers to ours; empty if there is none."""

    published: float | None
    ours: str
    relative_to: str
    scale: float


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
    columns: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    rows: tuple[Row, ...]
    ours: Pointers = ""
    scale: PerColumn = 1.0
    digits: Annotated[int, msgspec.Meta(ge=0, le=6)] = 1
    note: str = ""

    def cells(self, row: Row) -> Iterator[Cell]:
        """Yields the cells of a row."""

        def each(values: Any) -> Sequence[Any]:
            return values if isinstance(values, tuple) else (values,) * len(self.columns)

        published = (None if number != number else number for number in row.published or each(float("nan")))
        ours, scale = row.ours or (self.ours if row.fill else ""), self.scale if row.scale is None else row.scale
        values = zip(self.columns, published, each(ours), each(row.relative_to), each(scale), strict=True)
        for column, number, own, base, factor in values:
            fill = {"column": column.replace("~", "~0").replace("/", "~1"), **row.fill}
            yield Cell(number, filled(own, fill), filled(base, fill), factor)


def filled(value: Any, table: Mapping[str, Any]) -> Any:
    """Replaces ``{key}`` in a value; a text that consists of one placeholder becomes the value itself."""

    def fill(text: str) -> Any:
        for key, item in table.items():
            if text == f"{{{key}}}":
                return item
            text = text.replace(f"{{{key}}}", str(item))
        return text

    return replaced(value, fill)


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
    """A suite, with an entry for each seed and each table of ``each``.

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
    pairs = [setting.partition("=") for setting in settings]
    own = [path for key, _, path in pairs if key in ("corpus.sgd", "corpus.tasks") and not path.startswith(SAMPLE)]
    if tasks or any(own):
        _forget_sample(raw, tasks or next(filter(None, own)))
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
    lists = {level: list(_each(suite, level)) for level in ("sets", "systems", "steps")}
    for place, holds, reason in _rules(suite):
        if not holds:
            raise suite.error(reason, place)
    return msgspec.structs.replace(suite, **lists)


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


def _each(suite: SuiteFile, level: str) -> Iterator[Options]:
    """Expands the entries of a list: one with ``each`` for each of its tables, one with ``{seed}`` for each seed."""
    for i, entry in enumerate(getattr(suite, level)):
        tables = entry.get("each", [{}])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise suite.error("expected a list of tables such as [{ size = 1 }, { size = 2 }]", f"{level}[{i}].each")
        plain = {key: value for key, value in entry.items() if key != "each"}
        if SEED in str(list(plain.values())):
            if SEED not in _name_of(plain):
                raise suite.error(f"give it a name with {SEED}, such as 'model-{SEED}'", f"{level}[{i}].name")
            tables = [{**table, "seed": seed} for table in tables for seed in suite.seeds]
        yield from (filled(plain, table) for table in tables)


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
        if isinstance(place, list):
            names = list(map(_name_of, place))
            if part not in names:
                reason = unknown_key(part, names, "entry") if names else f"there is no entry {part!r}"
                raise InputError(reason, f"--set {key}")
            place = place[names.index(part)]
        else:
            place = place.setdefault(part, [] if i == 0 and part in _LISTS else {})
        if not isinstance(place, dict | list):
            raise InputError(f"{'.'.join(path[: i + 1])} is not a table", f"--set {key}")
    if isinstance(place, list):
        reason = "must name an entry and its key (example: systems.ours.model=tracker.py:Tracker)"
        raise InputError(reason, f"--set {key}")
    many = isinstance(place.get(last), list) or [*path, last] in (["corpus", "splits"], ["seeds"])
    place[last] = _value(text, many)


def _name_of(entry: object) -> str:
    if not isinstance(entry, dict):
        return ""
    return str(entry.get("name") or entry.get("perturbation") or entry.get("pipeline") or "")


def _value(text: str, many: bool) -> Any:
    """Parses a value of ``--set``: as TOML if possible, else as text. Paths are relative to the working directory."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = list(map(_path, text.split(","))) if many else _path(text)
    return value if not many or isinstance(value, list) else [value]


def _path(text: str) -> str:
    """Makes a text absolute if it names an existing file or folder, as a suite's paths start at its file."""
    if text and os.path.exists(text):
        return os.path.abspath(text)
    place, colon, rest = text.partition(":")
    return f"{os.path.abspath(place)}{colon}{rest}" if place.endswith(".py") and os.path.exists(place) else text


def _rules(suite: SuiteFile) -> Iterator[tuple[str, object, str]]:
    """Yields (place, whether what must hold of it holds, what is wrong with it otherwise)."""
    splits, seeds = suite.corpus.splits, suite.seeds
    no_corpus = "names no corpus: give it in the file, or with --set corpus.sgd=PATH"
    has_entries = suite.sets or suite.systems or suite.steps or suite.variants is not None
    yield "corpus.sgd", suite.corpus.sgd, no_corpus
    yield "corpus.splits", splits, "must name at least one split"
    for split in splits:
        yield "corpus.splits", split in SPLITS, f"{split!r} is not a split: must be one of {', '.join(SPLITS)}"
        yield "corpus.splits", splits.count(split) == 1, f"{split!r} appears twice"
    yield "seeds", seeds, "must have at least one seed"
    yield "seeds", len(set(seeds)) == len(seeds), "a seed appears twice"
    for seed in seeds:
        yield "seeds", NAME.fullmatch(seed), f"{seed!r} cannot be part of a name: use letters and digits"
    for name in suite.inputs:
        yield "inputs", NAME.fullmatch(name) and name not in _ALIASES, f"{name!r} {NO_NAME}; not {', '.join(_ALIASES)}"
    yield "", has_entries, "is empty: give [variants], [[sets]], [[systems]] or [[steps]]"
    for name, condition in suite.gates.items():
        reason = f'{condition!r}: expected a condition such as ">= 0.4"; metrics go from 0 to 1'
        yield f"gates.{name}", gates.CONDITION.fullmatch(condition), reason
    for i, table in enumerate(suite.tables):
        rows = [(f"tables[{i}].rows[{j}]", row) for j, row in enumerate(table.rows)]
        for place, item in [(f"tables[{i}]", table), *rows]:
            for key in ("published", "ours", "relative_to", "scale"):
                values, size = getattr(item, key, ()), len(table.columns)
                if isinstance(values, tuple) and values:
                    reason = f"{counted(len(values), 'value')} for {counted(size, 'column')}"
                    yield f"{place}.{key}", len(values) == size, reason
