"""The file of a suite: TOML, strict keys, and values given on the command line by ``--set``."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import SPLITS
from parapet.schemas.limits import read_text

SUITES = Path(__file__).parent / "suites"
SAMPLE = "@sample"  # the bundled sample, wherever a path is expected
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+\-]{0,63}")  # of what has a folder of its own
HEADS = ("sample", "corpus", "variants")  # what '@' names besides inputs and steps
TASKS = ("dst", "response", "generation", "intent", "ood", "ranking")
SEED = "{seed}"  # in an entry's texts: it is repeated for each of the suite's seeds
_LEVELS = ("corpus", "inputs", "variants", "sets", "systems", "steps", "compare", "release", "tables")
_LISTS = ("sets", "systems", "steps", "tables")

Value = str | bool | int | float | list[Any] | dict[str, Any]
Options = dict[str, Value]


class Corpus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[corpus]``: what everything is made from.

    Attributes:
      sgd: a corpus in the SGD layout, or ``@sample``.
      splits: whose dialogues are perturbed.
    """

    sgd: str = SAMPLE
    splits: tuple[str, ...] = ("test",)

    @property
    def scored(self) -> str:
        """The split on which systems are scored: test if it is among them, else the last."""
        return "test" if "test" in self.splits else self.splits[-1]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of published numbers.

    Attributes:
      name: of the row, such as the system.
      published: a number for each column, NaN where the paper has none; nothing where the row is ours alone.
      ours: where our numbers are: a JSON pointer into a file of a step, ``@STEP/FILE.json#/KEY/{column}``, or one for
        each column; empty where we have none. With ``{seed}`` in it, it is one for each seed.
      relative_to: where other numbers are, as ``ours``: the row shows the relative change from them.
      scale: what ours is multiplied by, such as 100 for a share; or one for each column.
      digits: decimal places, where they are not those of the table.
      needs: what must be given to get ours.
      fill: where our numbers are as the table's ``ours`` has it: the value of each of its ``{key}``.
    """

    name: str
    published: tuple[float, ...] = ()
    ours: str | tuple[str, ...] = ""
    relative_to: str | tuple[str, ...] = ""
    scale: float | tuple[float, ...] | None = None
    digits: int | None = None
    needs: str = ""
    fill: dict[str, str] = {}

    def pointers(self, columns: Sequence[str]) -> list[str]:
        """The place of our number, for each column."""
        return _by_column(self.ours, columns)

    def bases(self, columns: Sequence[str]) -> list[str]:
        """The place of the number that ours is relative to, for each column; empty where it is relative to none."""
        return _by_column(self.relative_to, columns)

    def named(self, columns: Sequence[str], seeds: Sequence[str]) -> list[tuple[str, str]]:
        """(key, pointer) of all places that are given, for each seed."""
        keyed = (("ours", self.pointers(columns)), ("relative_to", self.bases(columns)))
        return [
            (key, one) for key, pointers in keyed for pointer in pointers if pointer for one in of_seeds(pointer, seeds)
        ]


def of_seeds(pointer: str, seeds: Sequence[str]) -> list[str]:
    """A place for each seed, where the seed is part of it; else the place alone."""
    return [pointer.replace(SEED, seed) for seed in seeds] if SEED in pointer else [pointer]


def _by_column(pointers: str | tuple[str, ...], columns: Sequence[str]) -> list[str]:
    each = [pointers] * len(columns) if isinstance(pointers, str) else pointers
    keys = [column.replace("~", "~0").replace("/", "~1") for column in columns]
    return [pointer.replace("{column}", key) for pointer, key in zip(each, keys, strict=False)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[[tables]]``: a published table, to be shown beside ours.

    Attributes:
      title: what it shows.
      source: where it was published.
      columns: the headings.
      rows: its rows.
      ours: of the rows with ``fill``.
      scale: of the rows that have none.
      digits: decimal places.
      note: a sentence on how the two compare.
    """

    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    ours: str | tuple[str, ...] = ""
    scale: float | tuple[float, ...] = 1.0
    digits: int = 1
    note: str = ""

    def whole(self) -> Table:
        """The table, each row with its own ``ours`` and ``scale``."""
        return msgspec.structs.replace(self, rows=tuple(map(self._whole, self.rows)))

    def _whole(self, row: Row) -> Row:
        ours = row.ours
        if row.fill and not ours:
            pointers = [str(_filled(pointer, row.fill)) for pointer in _by_column(self.ours, self.columns)]
            ours = tuple(pointers)
        return msgspec.structs.replace(row, ours=ours, scale=self.scale if row.scale is None else row.scale)


class SuiteFile(msgspec.Struct, frozen=True, kw_only=True):
    """A suite, as its file has it.

    Attributes:
      path: of the file.
      name: of a built-in suite, or the file's without ``.toml``.
      folder: where relative paths start.
      title: of the page.
      description: below the title.
      seeds: of what is made once for each of them.
      inputs: ``[inputs]``: further files and folders, by the name under which options have them: ``@NAME/path``.
      variants: ``[variants]``; None where there is none.
      sets: ``[[sets]]``.
      systems: ``[[systems]]``.
      steps: ``[[steps]]``.
      compare: ``[compare]``: flags of the table of all systems.
      release: ``[release]``.
      tables: ``[[tables]]``.
    """

    path: str
    name: str
    folder: Path
    title: str
    description: str
    seeds: tuple[str, ...]
    corpus: Corpus
    inputs: dict[str, str]
    variants: Options | None
    sets: list[Options]
    systems: list[Options]
    steps: list[Options]
    compare: Options
    release: dict[str, Any] | None
    tables: list[Table]

    def error(self, reason: str, place: str) -> InputError:
        """An error in the file."""
        return InputError(reason, self.path, place)


class _Raw(msgspec.Struct, forbid_unknown_fields=True):
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
    tables: list[Table] = []


def built_in() -> list[str]:
    """The names of the suites that come with Parapet."""
    return sorted(path.stem for path in SUITES.glob("*.toml"))


def read_suite(given: str, settings: Sequence[str] = ()) -> SuiteFile:
    """Reads a suite.

    Args:
      given: a file, or the name of a built-in suite.
      settings: ``KEY=VALUE`` of ``--set``: ``corpus.sgd=my_corpus``, ``systems.ours.model=tracker.py:Tracker``.

    Raises:
      InputError: there is none, it is not TOML, or it has a key or a value that it cannot have.
    """
    path, folder = _find(given)
    shown = given if path.parent != SUITES else f"suite {path.stem}"
    try:
        raw = tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not TOML: {error}", shown) from None
    except InputError as error:
        raise InputError(error.reason, shown) from None
    for setting in settings:
        _set(raw, setting)
    try:
        parsed = msgspec.convert(raw, _Raw)
    except msgspec.ValidationError as error:
        reason, place = reason_and_place(error)
        unknown = re.search(r"unknown field `(.*)`", reason)
        raise InputError(_unknown_key(unknown[1], place) if unknown else reason, shown, place) from None
    seeds = tuple(map(str, parsed.seeds))
    suite = SuiteFile(
        path=shown,
        name=path.stem,
        folder=folder,
        title=parsed.title or path.stem,
        description=parsed.description,
        seeds=seeds,
        corpus=parsed.corpus,
        inputs=parsed.inputs,
        variants=parsed.variants,
        sets=_each(parsed.sets, "sets", shown, seeds),
        systems=_each(parsed.systems, "systems", shown, seeds),
        steps=_each(parsed.steps, "steps", shown, seeds),
        compare=parsed.compare,
        release=parsed.release,
        tables=[table.whole() for table in parsed.tables],
    )
    _check(suite)
    return suite


def _find(given: str) -> tuple[Path, Path]:
    """The file, and the folder at which its relative paths start."""
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


def _each(entries: Sequence[Options], level: str, path: str, seeds: Sequence[str]) -> list[Options]:
    """The entries of a list; one with ``each`` once for each of its tables, one with ``{seed}`` once for each seed."""
    result: list[Options] = []
    for i, entry in enumerate(entries):
        tables = entry.get("each", [{}])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise InputError(
                "expected a list of tables such as [{ size = 1 }, { size = 2 }]", path, f"{level}[{i}].each"
            )
        plain = {key: value for key, value in entry.items() if key != "each"}
        if _has_seed(plain):
            if SEED not in _name_of(plain):
                raise InputError(f"give it a name with {SEED}, such as 'model-{SEED}'", path, f"{level}[{i}].name")
            tables = [{**table, "seed": seed} for table in tables for seed in seeds]
        result += [{key: _filled(value, table) for key, value in plain.items()} for table in tables]
    return result


def _has_seed(value: Value) -> bool:
    if isinstance(value, dict):
        return any(map(_has_seed, value.values()))
    if isinstance(value, list):
        return any(map(_has_seed, value))
    return isinstance(value, str) and SEED in value


def _filled(value: Value, table: Mapping[str, Value]) -> Value:
    """A value with ``{key}`` replaced; a text that is nothing else becomes the value itself."""
    if isinstance(value, dict):
        return {key: _filled(item, table) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, table) for item in value]
    if isinstance(value, str):
        for key, item in table.items():
            if value == f"{{{key}}}":
                return item
            value = value.replace(f"{{{key}}}", str(item))
    return value


def _unknown_key(key: str, place: str) -> str:
    if place.startswith("tables") and ".rows" in place:
        keys: Iterable[str] = Row.__struct_fields__
    elif place.startswith("tables"):
        keys = Table.__struct_fields__
    elif place.startswith("corpus"):
        keys = Corpus.__struct_fields__
    else:
        keys = _Raw.__struct_fields__
    return unknown_key(key, keys)


def unknown_key(key: str, keys: Iterable[str], what: str = "key", of: str = "") -> str:
    """The reason of an error: an unknown key, with the nearest one."""
    known = list(keys)
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"unknown {what} {key!r}{of and f' of {of}'}: {hint}"


def _set(raw: dict[str, Any], setting: str) -> None:
    """Puts the value of ``--set`` into the file's tables."""
    key, equals, text = setting.partition("=")
    *path, last = key.strip().split(".")
    if not equals or not last or "" in path:
        raise InputError(f"{setting!r}: expected KEY=VALUE, such as corpus.sgd=my_corpus", "--set")
    if path and path[0] not in _LEVELS:
        raise InputError(unknown_key(path[0], _LEVELS, "table"), f"--set {key}")
    place: Any = raw
    for i, part in enumerate(path):
        if isinstance(place, dict) and part in _LISTS and i == 0:
            place = place.get(part, [])
        elif isinstance(place, list):
            place = _entry(place, part, f"--set {key}")
        elif isinstance(place, dict):
            place = place.setdefault(part, {})
        if not isinstance(place, dict | list):
            raise InputError(f"{'.'.join(path[: i + 1])} is no table", f"--set {key}")
    if isinstance(place, list):
        raise InputError("name an entry and its key, such as systems.ours.model=tracker.py:Tracker", f"--set {key}")
    many = isinstance(place.get(last), list) or [*path, last] in (["corpus", "splits"], ["seeds"])
    place[last] = _value(text, many)


def _entry(entries: list[Any], name: str, flag: str) -> dict[str, Any]:
    """The entry of a list by its name."""
    names = [_name_of(entry) for entry in entries]
    if name not in names:
        raise InputError(unknown_key(name, names, "entry") if names else f"there is no entry {name!r}", flag)
    found: dict[str, Any] = entries[names.index(name)]
    return found


def _name_of(entry: object) -> str:
    if not isinstance(entry, dict):
        return ""
    return str(entry.get("name") or entry.get("perturbation") or entry.get("pipeline") or "")


def _value(text: str, many: bool) -> Value:
    """A value of ``--set``: TOML where it is (numbers, true, lists), else text. Paths start where the command runs."""
    try:
        value: Value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = [_path(part) for part in text.split(",")] if many else _path(text)
    return value if not many or isinstance(value, list) else [value]


def _path(text: str) -> str:
    """A text; absolute where it names a file or folder here: a suite's paths start at its file."""
    place, colon, rest = text.partition(":")
    if "://" in text or not place or os.path.isabs(place):
        return text
    if os.path.exists(text):
        return os.path.abspath(text)
    return f"{os.path.abspath(place)}{colon}{rest}" if place.endswith(".py") and os.path.exists(place) else text


def _check(suite: SuiteFile) -> None:
    corpus = suite.corpus
    if not corpus.sgd:
        raise suite.error("which corpus? Give it in the file, or --set corpus.sgd=PATH", "corpus.sgd")
    if not corpus.splits:
        raise suite.error("name at least one split", "corpus.splits")
    for split in corpus.splits:
        if split not in SPLITS:
            raise suite.error(f"{split!r} is no split: there are {', '.join(SPLITS)}", "corpus.splits")
    if len(set(corpus.splits)) < len(corpus.splits):
        raise suite.error("a split appears twice", "corpus.splits")
    if not suite.seeds:
        raise suite.error("give at least one seed", "seeds")
    counts = Counter(suite.seeds)
    for seed in suite.seeds:
        if not NAME.fullmatch(seed) or counts[seed] > 1:
            reason = "appears twice" if NAME.fullmatch(seed) else "cannot be part of a name: letters and digits"
            raise suite.error(f"{seed!r} {reason}", "seeds")
    for name in suite.inputs:
        if not NAME.fullmatch(name) or name in HEADS:
            raise suite.error(
                f"{name!r} cannot be a name: letters, digits, '_', '-', '+' and '.'; not {', '.join(HEADS)}", "inputs"
            )
    for level in ("sets", "systems", "steps"):
        for i, entry in enumerate(getattr(suite, level)):
            _check_entry(suite, entry, f"{level}[{i}]")
    if suite.variants is not None:
        _check_needs(suite, suite.variants, "variants")
    for i, table in enumerate(suite.tables):
        _check_table(suite, table, f"tables[{i}]")
    if not (suite.sets or suite.systems or suite.steps or suite.variants):
        raise suite.error("is empty: give [variants], [[sets]], [[systems]] or [[steps]]", "")


def _check_entry(suite: SuiteFile, entry: Mapping[str, Any], place: str) -> None:
    name = entry.get("name")
    if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
        raise suite.error(f"{name!r} cannot be a name: letters, digits, '_', '-', '+' and '.'", f"{place}.name")
    _check_needs(suite, entry, place)


def _check_needs(suite: SuiteFile, entry: Mapping[str, Any], place: str) -> None:
    if not isinstance(entry.get("needs", ""), str):
        raise suite.error("expected a text: what must be given", f"{place}.needs")


def _check_table(suite: SuiteFile, table: Table, place: str) -> None:
    if not table.columns:
        raise suite.error("name at least one column", f"{place}.columns")
    if not 0 <= table.digits <= 6:
        raise suite.error("0 to 6", f"{place}.digits")
    size = len(table.columns)
    given: list[tuple[str, object]] = [(f"{place}.ours", table.ours), (f"{place}.scale", table.scale)]
    for i, row in enumerate(table.rows):
        where = f"{place}.rows[{i}]"
        if row.published and len(row.published) != size:
            raise suite.error(f"{len(row.published)} numbers for {size} columns", f"{where}.published")
        given += [(f"{where}.{key}", getattr(row, key)) for key in ("ours", "relative_to", "scale")]
    for where, values in given:
        if isinstance(values, tuple) and len(values) != size:
            raise suite.error(f"{len(values)} values for {size} columns", where)
    for i, row in enumerate(table.rows):
        where = f"{place}.rows[{i}]"
        for key, pointer in row.named(table.columns, suite.seeds):
            if not re.fullmatch(r"@[^#]+#/.*", pointer):
                raise suite.error(
                    f"{pointer!r}: expected @STEP/FILE.json#/KEY/KEY, a JSON pointer into a step's output",
                    f"{where}.{key}",
                )
