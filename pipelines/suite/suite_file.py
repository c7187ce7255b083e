"""The file of a suite, TOML with strict keys and values from ``--set``; and its steps.

A step is a ``parapet`` command with its own folder. In its options, ``@STEP/path`` refers to the output of another step
and ``@sample`` to the bundled sample. Its table makes the command, so all options are checked before anything runs.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from parapet.pipelines import app, main, perturb
from parapet.schemas.errors import InputError, install_line, no_such, pointer_of, reason_and_place
from parapet.schemas.layout import sample_root
from parapet.schemas.limits import read_text
from parapet.transforms.core import plugins
from parapet.transforms.report.text import counted

Options = dict[str, Any]

SAMPLE = "@sample"  # the bundled sample, usable as any path
TASKS = ("dst", "response", "generation", "intent", "ood", "ranking", "tool_calls")
COMPARISON = "comparison"
TABLES = ("table.csv", "table.parquet", "table.tex", "table.md")
# Files in the suite's folder; steps must not have these names, as each step has a folder there.
RESULTS = ("run.json", "index.html", "README.md", *TABLES, "release.toml", "release_licence.txt")
ENGINES = ("engine", "speaker", "listener")  # options that name an engine

# Options of which a command can have less, if inputs are missing.
_SCORED = ("sets", "variants", "classifier")
_REDUCIBLE = {"evaluate": _SCORED, "predict": _SCORED, "compare": ("systems",)}
_OF_SYSTEMS = ("scores", "models", "predictions")  # folders of steps that belong to a system
# At the beginning of a text, or after NAME=.
_REFERENCE = re.compile(r"(?:^|(?<==))@([\w.+\-/]+)")
# The extras that models of 'parapet train' need; the others need none.
_OF_MODELS = {
    **dict.fromkeys(("embeddings", "memn2n", "classifier", "damd"), "models"),
    **dict.fromkeys(("t5dst", "sgp_dst", "sgd_baseline", "ft_t5", "pt_t5", "soloist"), "local"),
}
_NOT_IN_SUITES = ("suite", "mturk", "doctor", "plan")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A command of a suite.

    Attributes:
      name: the name of the step, and of its folder below the output.
      command: the words of the command: ``("perturb", "typos")``, ``("evaluate", "dst")``.
      options: by the name of the flag.
      place: its position in the suite's file, for messages.
      about: describes the output; by default as its command is described.
      files: files to write below the output before it runs: path to content.
      reads: further inputs, in the notation of options.
    """

    name: str
    command: tuple[str, ...]
    options: Options
    place: str
    about: str = ""
    files: dict[str, str] = {}
    reads: Any = ()


def without(step: Step, lost: Collection[str]) -> Step | None:
    """Returns a step without its inputs from other steps that are lost; None if it cannot do without them."""

    def is_lost(value: object) -> bool:
        return any(owner(reference, lost) for reference in references(value))

    if not lost:
        return step
    options = dict(step.options)
    for key in options.keys() & _REDUCIBLE.get(step.command[0], ()):
        value = options.pop(key)
        if isinstance(value, dict):
            value = {name: item for name, item in value.items() if not is_lost(item)}
        elif isinstance(value, list):
            value = [item for item in value if not is_lost(item)]
        if value and not is_lost(value):
            options[key] = value
    if is_lost([options, step.reads]):
        return None
    if step.command[0] == "compare":
        systems = [str(system).partition("=")[0] for system in options.get("systems", ())]
        fewest = 1 if step.name == COMPARISON else 2
        if len(systems) < fewest or options.get("baseline", systems[0]) not in systems:
            return None
    return msgspec.structs.replace(step, options=options)


def replaced(value: Any, replacement: Callable[[str], Any]) -> Any:
    """Replaces the texts in the value of an option."""
    if isinstance(value, dict):
        return {key: replaced(item, replacement) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, replacement) for item in value]
    return replacement(value) if isinstance(value, str) else value


def texts(value: Any) -> list[str]:
    """Lists the texts in the value of an option."""
    result: list[str] = []
    replaced(value, result.append)
    return result


def references(value: Any) -> list[str]:
    """Lists the references in the value of an option, in full and without the ``@``."""
    return [_in_full(reference) for text in texts(value) for reference in _REFERENCE.findall(text)]


def owner(reference: str, steps: Collection[str]) -> str | None:
    """Returns the step that writes what a reference names: ``sets/typos`` for ``sets/typos/typos``."""
    words = reference.split("/")
    return next((name for n in range(len(words), 0, -1) if (name := "/".join(words[:n])) in steps), None)


def _in_full(reference: str) -> str:
    """Adds the default task to a reference: ``scores/ours`` becomes ``scores/ours/dst``."""
    kind, _, rest = reference.partition("/")
    name, _, below = rest.partition("/")
    if kind not in _OF_SYSTEMS or not name or below.partition("/")[0] in TASKS:
        return reference
    return f"{kind}/{name}/dst" + (f"/{below}" if below else "")


def resolved(value: Any, output: Path) -> Any:
    """Replaces the references in an option by paths."""
    return replaced(value, lambda text: _REFERENCE.sub(lambda match: place_of(match[1], output), text))


def place_of(reference: str, output: Path) -> str:
    """Returns the path that ``@reference`` names."""
    head, _, rest = reference.partition("/")
    return str(sample_root() / rest if head == SAMPLE[1:] else output / _in_full(reference))


def entry_of(name: str) -> str:
    """Returns the entry of the file that a step or reference belongs to: ``systems/ours`` for ``models/ours/dst``."""
    kind, _, rest = name.partition("/")
    if kind in _OF_SYSTEMS:
        return f"systems/{rest.partition('/')[0]}"
    return f"sets/{rest.partition('/')[0]}" if kind == "sets" else kind


def command_of(step: Step, output: Path) -> app.Command[Any]:
    """Makes the command of a step.

    Args:
      step: the step.
      output: the suite's output folder.

    Raises:
      InputError: there is no such command, it does not have an option, or does not accept its value. ``where`` is the
        option.
    """
    if "output" in step.options:
        raise InputError("the suite chooses the folder of each step", "", "output")
    return app.from_table(_kind_of(step), {**resolved(step.options, output), "output": str(output / step.name)})


def _kind_of(step: Step) -> type[app.Command[Any]]:
    pipeline, action, has_tasks = step.command[0], " ".join(step.command[1:]), "tasks" in step.options
    known = [name for name in main.PIPELINES if name not in _NOT_IN_SUITES]
    if pipeline not in known:
        raise InputError(no_such("pipeline", pipeline, known))
    if pipeline == "perturb" or (pipeline == "rewrite" and has_tasks):
        return perturb.command(action or pipeline, has_tasks)
    actions = main.actions_of(pipeline)
    if action not in (actions or [""]):
        raise InputError(no_such(f"kind of '{pipeline}'", action, actions))
    return main.command_of(pipeline, action)


def sets_of(step: Step, name: str) -> tuple[Sequence[str], bool]:
    """Returns the sets that a perturbation makes, and whether each has a folder.

    Raises InputError for wrong options.
    """
    from parapet.transforms.perturb.apply import complete

    if step.command[0] == "language_variations":  # which reads translations, which may not exist yet
        env = {key: value for key, value in step.options.items() if key == "env"}
        step = msgspec.structs.replace(step, command=("perturb", "verbose"), options=env)
        sets, in_folders = sets_of(step, "verbose")
        return [name + set_name.removeprefix("verbose") for set_name in sets], in_folders
    perturbation: Any = command_of(step, Path()).make()  # type: ignore[attr-defined]
    if name in perturb.TOOLKITS:
        return perturbation.sets, True
    return complete(perturbation).sets, perturbation.in_folders


def lacks(step: Step) -> str:
    """Names a missing extra that a step needs, with the command that installs it; empty if none is missing."""
    names = {step.command[-1], *(str(step.options.get(flag)) for flag in ENGINES)}
    extras = {"llm"} if step.options.get("endpoint") else set[str]()
    if step.command[0] in ("train", "predict") and step.command[-1] in _OF_MODELS:
        extras.add(_OF_MODELS[step.command[-1]])
    for group in (plugins.PERTURBATIONS, plugins.TRANSLATION_ENGINES, plugins.SPEECH_ENGINES):
        ours = [plugin for plugin in plugins.installed(group) if plugin.built_in]
        extras.update(*(plugin.extras for plugin in ours if plugin.name in names))
    missing = ",".join(extra for extra in sorted(extras) if not _is_installed(extra))
    return f"requires the extra {missing}: {install_line(missing)}" if missing else ""


@cache
def _is_installed(extra: str) -> bool:
    from parapet.pipelines.doctor import problems

    return not any(problems(extra))


SUITES = Path(__file__).parent / "suites"
SEED = "{seed}"  # a text with this placeholder is repeated for each seed of the suite
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.+\-]{0,63}"  # of what has a folder of its own
_LISTS = ("sets", "systems", "steps")
# The variants of tasks for which no answers have been collected.
_TRANSLATED = {"pivots": ["pt"], "needs": "the extra translate, or variants: --set variants.path=FOLDER"}

PerColumn = tuple[float, ...] | float  # a value for each column, or one for all
Pointer = Annotated[str, Meta(pattern=r"^(@[^#]+#/.+)?$")]  # @STEP/FILE.json#/KEY/KEY, or empty
Pointers = tuple[Pointer, ...] | Pointer


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
    columns: Annotated[tuple[str, ...], Meta(min_length=1)]
    rows: tuple[Row, ...]
    ours: Pointers = ""
    scale: PerColumn = 1.0
    digits: Annotated[int, Meta(ge=0, le=6)] = 1
    note: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError unless there is a value for each column."""
        for item in (self, *self.rows):
            for key in ("published", "ours", "relative_to", "scale"):
                values = getattr(item, key, ())
                if isinstance(values, tuple) and values and len(values) != len(self.columns):
                    columns = counted(len(self.columns), "column")
                    raise ValueError(f"{key}: {counted(len(values), 'value')} for {columns}")

    def cells(self, row: Row) -> Iterator[tuple[float, str, str, float]]:
        """Yields the published number (or NaN), ``ours``, ``relative_to`` and ``scale`` of each cell of a row."""
        ours = row.ours or (self.ours if row.fill else "")
        scale = self.scale if row.scale is None else row.scale
        columns = [
            value if isinstance(value, tuple) else (value,) * len(self.columns)
            for value in (row.published or float("nan"), ours, row.relative_to, scale)
        ]
        for column, published, own, base, factor in zip(self.columns, *columns, strict=True):
            fill = {"column": pointer_of(column)[1:], **row.fill}
            yield published, filled(own, fill), filled(base, fill), factor


def filled(value: Any, table: Mapping[str, Any]) -> Any:
    """Replaces ``{key}`` in the texts of a value."""
    return replaced(value, lambda text: re.sub(r"\{(\w+)\}", lambda match: str(table.get(match[1], match[0])), text))


class Corpus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[corpus]``: the corpus that everything is made from.

    Attributes:
      sgd: a corpus in the SGD layout, or ``@sample``.
      splits: the splits to perturb.
      tasks: a file of agents' tasks in BFCL's format, instead of a corpus; their tools are the schemas.
      description: what the corpus or the tasks are; shown below the description of the suite.
    """

    sgd: str = SAMPLE
    splits: Annotated[tuple[Literal["train", "dev", "test"], ...], Meta(min_length=1)] = ("test",)
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
    seeds: Annotated[tuple[int | str, ...], Meta(min_length=1)] = (0,)
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


def read_suite(given: str, settings: Sequence[str] = (), tasks: str = "") -> SuiteFile:
    """Reads a suite.

    Args:
      given: a file, or the name of a built-in suite.
      settings: ``KEY=VALUE`` of ``--set``: ``corpus.sgd=my_corpus``, ``systems.ours.model=tracker.py:Tracker``.
      tasks: replaces the suite's tasks. Variants from crowd answers are then replaced by back-translation.

    Raises:
      InputError: the file does not exist, is not TOML, or has an invalid key or value.
    """
    path, folder, shown = Path(given), Path(given).resolve().parent, given
    if not path.is_file():
        if given not in built_in():
            raise InputError(f"there is no such file, and {no_such('built-in suite', given, built_in())}", given)
        path, folder, shown = SUITES / f"{given}.toml", Path.cwd(), f"suite {given}"
    try:
        raw = tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not TOML: {error}", shown) from None
    _converted(raw, shown)
    if tasks:
        if "responses" in raw.get("variants", {}):
            raw["variants"] = {} if any(setting.startswith("variants.") for setting in settings) else dict(_TRANSLATED)
        settings = [f"corpus.tasks={tasks}", *settings]
    for key, _, data in (setting.partition("=") for setting in settings):
        if key in ("corpus.sgd", "corpus.tasks") and data and not data.startswith(SAMPLE):
            _forget_sample(raw, data)
    named = set(map(_name_of, raw.get("systems", [])))
    for setting in settings:
        _set(raw, setting)
    own = [name for name in map(_name_of, raw.get("systems", [])) if name not in named]
    for table in raw.get("tables", []):  # a row with {system} in its name is repeated for each system of the user's
        rows = ((row, own if "{system}" in row["name"] else [""]) for row in table["rows"])
        table["rows"] = [filled(row, {"system": name} if name else {}) for row, names in rows for name in names]
    keys = msgspec.structs.asdict(_converted(raw, shown))
    keys |= {"title": keys["title"] or path.stem, "seeds": tuple(map(str, keys["seeds"]))}
    suite = SuiteFile(path=shown, name=path.stem, folder=folder, **keys)
    if not suite.corpus.sgd:
        raise suite.error("names no corpus: give it in the file, or with --set corpus.sgd=PATH", "corpus.sgd")
    if not (suite.sets or suite.systems or suite.steps or suite.variants is not None):
        raise suite.error("is empty: give [variants], [[sets]], [[systems]] or [[steps]]", "")
    return msgspec.structs.replace(suite, **{level: list(_each(suite, level)) for level in _LISTS})


def _converted(raw: dict[str, Any], path: str) -> Tables:
    try:
        return msgspec.convert(raw, Tables)
    except msgspec.ValidationError as error:
        reason, place = reason_and_place(error)
        if unknown := re.search(r"unknown field `(.*)`", reason):
            kinds: dict[str, Any] = {"corpus": Corpus, "tables": Row if ".rows" in place else Table}
            reason = no_such("key", unknown[1], kinds.get(re.split(r"[.\[]", place)[0], Tables).__struct_fields__)
        raise InputError(reason, path, place) from None


def _forget_sample(raw: dict[str, Any], own: str) -> None:
    """Removes what a suite of the sample says about it, when the user's own data takes its place.

    The name of the release is made of the data's; its authors and licence are unknown.
    """
    corpus, name = raw.get("corpus", {}), Path(own).stem
    if not (corpus.get("tasks") or corpus.get("sgd", SAMPLE)).startswith(SAMPLE):
        return
    corpus.pop("description", None)
    if "sample" in raw.get("title", ""):
        raw["title"] = name
    if "release" in raw:
        slug = "_".join(re.findall("[a-z0-9]+", name.lower()))
        raw["release"] = {"name": slug if slug[:1].isalpha() else f"set_{slug}", "version": "1.0.0"}


def _each(suite: SuiteFile, level: str) -> Iterator[Options]:
    """Expands the entries of a list: one with ``each`` for each of its tables, one with ``{seed}`` for each seed."""
    for i, entry in enumerate(getattr(suite, level)):
        tables = entry.get("each", [{}])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise suite.error("expected a list of tables such as [{ size = 1 }, { size = 2 }]", f"{level}[{i}].each")
        plain = {key: value for key, value in entry.items() if key != "each"}
        if SEED in str(list(plain.values())):
            tables = [{**table, "seed": seed} for table in tables for seed in suite.seeds]
        for table in tables:
            options = filled(plain, table)
            name = options.get("name", "none")
            if not isinstance(name, str) or not re.fullmatch(_NAME, name):
                reason = "cannot be used as a name: use letters, digits, '_', '-', '+' and '.'"
                raise suite.error(f"{name!r} {reason}", f"{level}[{i}].name")
            yield options


def _set(raw: dict[str, Any], setting: str) -> None:
    """Sets the value of ``--set`` in the file's tables; a name that resembles no system's adds a system."""
    key, equals, text = setting.partition("=")
    *path, last = key.strip().split(".")
    place: Any = raw
    for i, part in enumerate(path):
        if isinstance(place, list):
            entries = {_name_of(entry): entry for entry in reversed(place)}
            if part not in entries:
                if path[0] != "systems" or difflib.get_close_matches(part, entries, cutoff=0.8):
                    raise InputError(no_such("entry", part, entries), f"--set {key}")
                place.append({"name": part})
            place = entries.get(part, place[-1])
        elif isinstance(place, dict):
            place = place.setdefault(part, [] if i == 0 and part in _LISTS else {})
    if not equals or not isinstance(place, dict):
        reason = "expected KEY=VALUE, such as corpus.sgd=my_corpus or systems.ours.model=tracker.py:Tracker"
        raise InputError(f"{setting!r}: {reason}", "--set")
    many = isinstance(place.get(last), list) or [*path, last] in (["corpus", "splits"], ["seeds"])
    place[last] = _value(text, many)


def _name_of(entry: Mapping[str, Any]) -> str:
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
