"""The plan of a build: from ``release.toml`` to the files to read, and from these to rows, counts and problems."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas import errors, layout, release, tools
from parapet.schemas.dialogue import Dialogue, Frame, Turn, check_no_id_twice, dialogue_folders, list_files, problems_of
from parapet.schemas.rows import DIALOGUES, RESPONSES, SERVICES, collection_paused, dialogue_lines, service_rows
from parapet.schemas.service import Service
from parapet.schemas.tasks import answers_beside, by_id, is_task
from parapet.transforms.release.reading import table_of_lines

SCHEMAS = "schemas"
PARAPHRASES = "paraphrases"
OF_PARAPHRASES = "answers to paraphrasing tasks"
SHARD_BYTES = 64 * 2**20  # of JSON per Parquet file
WHOLE = "full"  # the split of inputs without splits; ``datasets`` reserves ``all``

TASK, BESIDE = "task", "beside"
OF_TASKS = (TASK, BESIDE)
TASK_COLUMNS = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("id", "file", "question", "function")),
        pa.field("ground_truth", pa.string()),
    ]
)

# Columns that could identify a worker, or the time of their work.
PRIVATE = ("worker_hash", "accept_time", "submit_time")
PARAPHRASE_COLUMNS = pa.schema([field for field in RESPONSES if field.name not in PRIVATE])


class Source(msgspec.Struct, frozen=True):
    """A file to read.

    Attributes:
      record: the kind of its records: ``dialogue``, ``service``, ``task``, ``paraphrase`` or ``row``; ``beside`` for a
        file without rows.
      config: the configuration of its rows.
      corpus: the name of its corpus or table.
      split: the split.
      path: its path.
      input: the index of its input in ``Plan.inputs``.
      relative: its path below that input.
      shards: the number of Parquet files of its configuration and split.
      hidden: whether its dialogues are published without annotation.
    """

    record: str
    config: str
    corpus: str
    split: str
    path: str
    input: int
    relative: str
    shards: int = 1
    hidden: bool = False

    @property
    def copy(self) -> str:
        """The path of the file's copy below the release; only corpora and tasks are copied."""
        return f"{'bfcl' if self.record in OF_TASKS else 'sgd'}/{self.corpus}/{self.relative}"


class Plan(msgspec.Struct):
    """The files to read, and the configurations of the release.

    Attributes:
      inputs: (name, kind) of each input.
      configs: the configurations by name, without splits, which are known once rows are read.
      columns: the columns of each configuration.
      is_blind: whether all audits rejected answers of workers who had seen the sibling task.
      services: corpus -> split -> the services that its dialogues may refer to.
      sources: the files to read.
    """

    inputs: list[tuple[str, str]]
    configs: dict[str, release.Config]
    columns: dict[str, pa.Schema]
    services: dict[str, dict[str, dict[str, Service]]]
    sources: list[Source]
    is_blind: bool = True


def make_plan(config: release.ReleaseConfig, base: str | Path) -> Plan:
    """Finds and checks the inputs. Reads the schemas, and only finds the other files.

    Args:
      config: the content of ``release.toml``.
      base: its folder; paths are relative to it.

    Raises:
      InputError: an input is missing or of another kind, or two inputs have the same corpus name.
    """
    plan = Plan([], {}, {}, {}, [])
    for i, corpus in enumerate(config.corpora):
        path = _place(base, corpus.path, where := f"corpora[{i}]")
        is_one = path.is_file() or layout.is_root(path) or bool(layout.dialogue_files(path, ""))
        for name, root in _members(corpus, path, is_one, layout.variant_roots, where).items():
            _add_corpus(plan, corpus, name, root, where)
    for i, tasks in enumerate(config.tasks):
        path = _place(base, tasks.path, where := f"tasks[{i}]")
        is_one = path.is_file() or bool(layout.files_of_tasks(path))
        for name, folder in _members(tasks, path, is_one, _folders_of_tasks, where).items():
            _add_tasks(plan, tasks, name, folder, where)
    for i, audit in enumerate(config.audits):
        _add_audit(plan, _place(base, audit.path, where := f"audits[{i}]"), where)
    for i, table in enumerate(config.tables):
        _add_table(plan, table, _place(base, table.path, where := f"tables[{i}]"), where)
    plan.sources = _with_shards(plan.sources)
    return plan


def _place(base: str | Path, path: str, where: str) -> Path:
    place = layout.as_path(path) if "://" in path else layout.as_path(base) / path
    if not layout.is_there(place):
        raise errors.InputError("there is no such file or folder", place, f"{where}.path")
    return place


def _members(
    entry: release.Corpus | release.TasksInput,
    path: Path,
    is_one: bool,
    members_of: Callable[[Path], dict[str, Path]],
    where: str,
) -> dict[str, Path]:
    """Returns what an entry names: itself, or the corpora or sets of tasks in its folder."""
    if is_one:
        return {entry.name: path}
    if not (members := members_of(path)):
        reason = "contains neither train/schema.json, dialogues or tasks, nor folders of these, such as v1"
        raise errors.InputError(reason, path, where)
    if entry.name:
        raise errors.InputError(f"{entry.name!r} cannot be the name of several: leave out 'name'", path, where)
    return members


def _folders_of_tasks(path: Path) -> dict[str, Path]:
    return {entry.name: entry for entry in sorted(path.iterdir()) if entry.is_dir() and layout.files_of_tasks(entry)}


def _add_input(plan: Plan, name: str, kind: str, path: Path, where: str) -> int:
    """Adds an input whose configuration has its name, and returns its index."""
    if not name:
        raise errors.InputError("give it a 'name'", path, where)
    if not release.can_name(name):
        reason = "a name starts with a letter, consists of letters, digits, '_' and '-', and is not reserved"
        raise errors.InputError(
            f"{name!r} cannot name a configuration: {reason} ({', '.join(release.RESERVED)})", path, where
        )
    if name in {other for other, _ in plan.inputs}:
        raise errors.InputError(f"two inputs are called {name!r}: give one of them another 'name'", path, where)
    plan.inputs.append((name, kind))
    return len(plan.inputs) - 1


def _add_config(plan: Plan, name: str, kind: str, record: str, key: list[str], columns: pa.Schema) -> None:
    if name not in plan.configs:
        plan.columns[name] = columns
        plan.configs[name] = release.Config(kind, record, key, described(columns), {})


def _add_corpus(plan: Plan, corpus: release.Corpus, name: str, root: Path, where: str) -> None:
    of_input = _add_input(plan, name, corpus.kind, root, where)
    originals = layout.read_root(root)
    alone = (root.parent if root.is_file() else root).resolve().name  # a folder of dialogues may be a split's
    folders = {
        folder or (alone if alone in layout.SPLITS else WHOLE): (folder, schemas)
        for folder, schemas in dialogue_folders(root, originals).items()
    }
    is_single = originals[0].split == layout.SINGLE
    splits = {*folders, *(schemas.split for schemas in originals if not is_single)}
    if missing := set(corpus.splits) - splits:
        raise errors.InputError(f"has no split {', '.join(sorted(missing))}", root, "splits")
    if missing := set(corpus.hide_labels) - set(corpus.splits or splits):
        raise errors.InputError(f"has no split {', '.join(sorted(missing))}", root, "hide_labels")
    _add_config(plan, SCHEMAS, "schemas", "service", ["variant", "service_name"], SERVICES)
    plan.services[name] = {}
    for schemas in originals:
        if is_single or not corpus.splits or schemas.split in corpus.splits:
            relative = schemas.relative_path
            plan.sources.append(Source("service", SCHEMAS, name, schemas.split, schemas.path, of_input, relative))
    for split, (folder, schemas) in folders.items():
        if corpus.splits and split not in corpus.splits:
            continue
        plan.services[name][split] = {service.service_name: service for service in schemas.services}
        hidden = split in corpus.hide_labels
        files = sorted(list_files(root, [folder]), key=lambda file: file.name)
        check_no_id_twice(files)
        _add_config(plan, name, corpus.kind, "dialogue", ["dialogue_id"], DIALOGUES)
        plan.sources += [
            Source("dialogue", name, name, split, file.path, of_input, file.relative, hidden=hidden) for file in files
        ]


def _add_tasks(plan: Plan, tasks: release.TasksInput, name: str, path: Path, where: str) -> None:
    of_input = _add_input(plan, name, tasks.kind, path, where)
    _add_config(plan, name, tasks.kind, TASK, ["id"], TASK_COLUMNS)
    folder = path if path.is_dir() else path.parent
    files = layout.files_of_tasks(path) if path.is_dir() else [path]
    places = [place for file in files for place in ((TASK, file), (BESIDE, answers_beside(file)))]
    if path.is_dir():
        places.append((BESIDE, path / layout.NAMES))
    plan.sources += [
        Source(record, name, name, layout.TEST, str(place), of_input, place.relative_to(folder).as_posix())
        for record, place in places
        if layout.is_there(place)
    ]


def _add_audit(plan: Plan, path: Path, where: str) -> None:
    path = path / "responses.parquet" if path.is_dir() else path
    columns = set(_columns(path, where).names)
    if missing := [name for name in PARAPHRASE_COLUMNS.names if name not in columns]:
        raise errors.InputError(f"is not an audit of 'parapet compose': it has no column {missing[0]!r}", path, where)
    _add_config(plan, PARAPHRASES, OF_PARAPHRASES, "paraphrase", ["response_id"], PARAPHRASE_COLUMNS)
    plan.inputs.append((PARAPHRASES, "audit"))
    plan.is_blind = plan.is_blind and not _allows_not_blind(path.parent / "run.json")
    plan.sources.append(
        Source("paraphrase", PARAPHRASES, PARAPHRASES, WHOLE, str(path), len(plan.inputs) - 1, path.name)
    )


def _allows_not_blind(manifest: Path) -> bool:
    """Whether a run of ``compose`` accepted answers of workers who had seen the sibling task."""
    try:
        return "blindness" in orjson.loads(manifest.read_bytes())["options"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _add_table(plan: Plan, table: release.TableInput, path: Path, where: str) -> None:
    paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not paths:
        raise errors.InputError("contains no .parquet files", path, f"{where}.path")
    columns = _columns(paths[0], where)
    if missing := [name for name in table.key if name not in columns.names]:
        raise errors.InputError(
            f"has no column {missing[0]!r} (it has {', '.join(columns.names)})", path, f"{where}.key"
        )
    for field in columns:
        if field.name.startswith("worker") or field.name in PRIVATE:
            raise errors.InputError(f"the column {field.name!r} may identify a worker: leave it out", path, where)
    of_input = _add_input(plan, table.name, table.kind, path, where)
    _add_config(plan, table.name, table.kind, "row", table.key, columns)
    plan.sources += [Source("row", table.name, table.name, WHOLE, str(file), of_input, file.name) for file in paths]


def _columns(path: Path, where: str) -> pa.Schema:
    try:
        with path.open("rb") as handle:
            return pq.read_schema(handle).remove_metadata()
    except (OSError, pa.ArrowException) as error:
        raise errors.InputError(f"cannot be read as Parquet: {error}", path, f"{where}.path") from None


def _with_shards(sources: Sequence[Source]) -> list[Source]:
    """Adds the number of Parquet files of each split, by the sizes of its inputs."""
    sizes: Counter[tuple[str, str]] = Counter()
    for source in sources:
        sizes[source.config, source.split] += layout.as_path(source.path).stat().st_size
    shards = {place: max(1, -(-size // SHARD_BYTES)) for place, size in sizes.items()}
    return [msgspec.structs.replace(source, shards=shards[source.config, source.split]) for source in sources]


def described(columns: pa.Schema) -> list[release.Column]:
    """Describes the columns for the manifest, with Parquet's name for the items of a list instead of Arrow's."""
    return [release.Column(field.name, str(field.type).replace("list<item: ", "list<element: ")) for field in columns]


_SPAN = re.compile(r".*\.slots\[\d+\]")
FAULTS_SHOWN = 20  # per kind and file

Counts = Counter[tuple[str, str, str]]  # kind of count, corpus, split


class Fault(msgspec.Struct, frozen=True, order=True):
    """A record that fails a check.

    Attributes:
      kind: one of KINDS.
      where: the place in the dialogue: ``turns[3].frames[0].slots[1]``.
      reason: the problem.
      path: the file.
      dialogue_id: the dialogue.
    """

    kind: str
    where: str
    reason: str
    path: str
    dialogue_id: str

    def __str__(self) -> str:
        return f"{self.path}: {self.dialogue_id}: {self.where}: {self.reason}"


def without_labels(data: bytes) -> bytes:
    """Reduces a file of dialogues to what a model may see: the utterances, and the service of each frame.

    Other programs' keys are removed, because they may contain annotation.
    """
    shown = []
    for dialogue in msgspec.json.decode(data, type=list[Dialogue]):
        turns = []
        for turn in dialogue.turns:
            frames = [{"service": frame.service, "slots": []} for frame in turn.frames]
            turns.append({"speaker": turn.speaker, "utterance": turn.utterance, "frames": frames})
        shown.append({"dialogue_id": dialogue.dialogue_id, "services": dialogue.services, "turns": turns})
    return layout.dialogue_bytes(shown)


def read_source(source: Source, data: bytes, services: Mapping[str, Service]) -> tuple[pa.Table, Counts, list[Fault]]:
    """Reads the rows of a file.

    Args:
      source: the file.
      data: its bytes.
      services: the services that its dialogues may refer to.

    Returns:
      The rows (of dialogues as lines, see ``parapet.transforms.release.reading``); the counts by (kind of count,
        corpus, split); the first problems of each kind, all of which are counted as ``("fault", kind, "")``.

    Raises:
      InputError: the file is not a valid file of its kind.
    """
    if source.record == "dialogue":
        return _dialogues(source, data, services)
    if source.record == "service":
        return _services(source, data)
    if source.record == TASK:
        return _tasks(source, data)
    if source.record == BESIDE:
        return TASK_COLUMNS.empty_table(), Counter(), []
    return _table(source, data)


@collection_paused()
def _dialogues(source: Source, data: bytes, services: Mapping[str, Service]) -> tuple[pa.Table, Counts, list[Fault]]:
    """Returns the rows, all counts, and the first faults of each kind."""
    rows = dialogue_lines(data, source.relative.rpartition("/")[2], source.path)
    counts: Counts = Counter()
    counts["dialogues", source.corpus, source.split] = len(rows.dialogues) + len(rows.malformed)
    counts["turns", source.corpus, source.split] = sum(len(dialogue.turns) for dialogue in rows.dialogues)
    malformed = [Fault("format", dead.where, dead.reason, source.path, dead.dialogue_id) for dead in rows.malformed]
    of_dialogues = (dialogue_faults(dialogue, services, source.path) for dialogue in rows.dialogues)
    faults = []
    for fault in itertools.chain(malformed, *of_dialogues):
        counts["fault", fault.kind, ""] += 1
        if counts["fault", fault.kind, ""] <= FAULTS_SHOWN:
            faults.append(fault)
    return table_of_lines(rows.ids, "dialogue_id", rows.lines), counts, faults


def _services(source: Source, data: bytes) -> tuple[pa.Table, Counts, list[Fault]]:
    raw = layout.parse_json(data, source.path)
    table = pa.Table.from_pylist(service_rows(raw, source.corpus, data), SERVICES)
    counts: Counts = Counter()
    counts["services", source.corpus, source.split] = len(raw)
    for unit in ("intents", "slots"):
        counts[unit, source.corpus, source.split] = sum(len(service[unit]) for service in raw)
    return table, counts, []


def _tasks(source: Source, data: bytes) -> tuple[pa.Table, Counts, list[Fault]]:
    """Returns a row for each task, with its messages, tools and ground truth as JSON.

    Raises InputError with the line.
    """
    beside = answers_beside(layout.as_path(source.path))
    truths = by_id(beside.read_bytes(), beside) if beside.is_file() else {}
    rows, counts = [], Counts()
    for name, task in by_id(data, source.path).items():
        if not is_task(task):
            raise errors.InputError(f"{name!r} is not a task: it has no functions", source.path)
        texts = {key: json.dumps(task.get(key, []), ensure_ascii=False) for key in ("question", "function")}
        counts["tools", source.corpus, source.split] += len(task.get("function", []))
        truth = json.dumps(truths[name]["ground_truth"], ensure_ascii=False) if name in truths else None
        for contradiction in tools.task_contradictions(task, truths.get(name, {}).get("ground_truth")):
            counts["fault", contradiction.kind, ""] += 1
        rows.append({"id": name, "file": source.relative, **texts, "ground_truth": truth})
    table = pa.Table.from_pylist(rows, TASK_COLUMNS)
    counts["tasks", source.corpus, source.split] = len(rows)
    return table, counts, []


def _table(source: Source, data: bytes) -> tuple[pa.Table, Counts, list[Fault]]:
    try:
        table = pq.read_table(pa.BufferReader(data)).replace_schema_metadata()
        table.validate(full=True)  # a text may be invalid UTF-8
    except (pa.ArrowException, OSError) as error:
        raise errors.InputError(f"cannot be read as Parquet: {error}", source.path) from None
    counts: Counts = Counter()
    if source.record == "paraphrase":
        table = table.select(PARAPHRASE_COLUMNS.names).cast(PARAPHRASE_COLUMNS)
        counts = count_answers(table.select(["disposition", "reason", "source"]).to_pylist())
    return table, counts, []


def count_answers(rows: Iterable[Mapping[str, Any]]) -> Counts:
    """Counts answers by disposition and source, and rejected ones by reason."""
    counts: Counts = Counter()
    for row in rows:
        counts["disposition", str(row["disposition"]), ""] += 1
        counts["source", str(row["source"]), ""] += 1
        if row["disposition"] == "rejected":
            counts["rejection", str(row["reason"]).partition(":")[0], ""] += 1
    return counts


# Problems of the annotation.


def dialogue_faults(dialogue: Dialogue, services: Mapping[str, Service] | None, path: str) -> Iterator[Fault]:
    """Yields every problem of a dialogue's annotation.

    Args:
      dialogue: the dialogue.
      services: the services of its corpus and split by name; None if unknown.
      path: the file of the dialogue.
    """
    for where, reason in problems_of(dialogue, services):
        yield Fault("span" if _SPAN.fullmatch(where) else "reference", where, reason, path, dialogue.dialogue_id)
    for t, turn in enumerate(dialogue.turns):
        for f, frame in enumerate(turn.frames):
            for i, text in _strangers(turn, frame):
                where, reason = f"turns[{t}].frames[{f}].slots[{i}]", f"{text!r} is not a value of its slot"
                yield Fault("span_value", where, reason, path, dialogue.dialogue_id)


def _strangers(turn: Turn, frame: Frame) -> Iterator[tuple[int, str]]:
    """Yields the spans whose text is not a value of the slot in any letter case; frames without values are not checked.

    Transcripts of speech have no capitals, and states keep those of the original.
    """
    if not frame.slots or (values := _values_of(frame)) is None:
        return
    for i, span in enumerate(frame.slots):
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int):
            text = turn.utterance[span.start : span.exclusive_end]
            if text and text.casefold() not in values.get(span.slot, ()):
                yield i, text


def _values_of(frame: Frame) -> dict[str, set[str]] | None:
    if not frame.actions and not frame.state:
        return None
    values: dict[str, set[str]] = {}
    for action in frame.actions or []:
        slot_values = values.setdefault(action.slot, set())
        slot_values.update(map(str.casefold, [*action.values, *(action.canonical_values or [])]))
    if frame.state:
        for slot, texts in frame.state.slot_values.items():
            values.setdefault(slot, set()).update(map(str.casefold, texts))
    return values
