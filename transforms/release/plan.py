"""The plan of a build: from ``release.toml`` to the files to read, and from these to rows, counts and problems."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas import dialogue_table, layout
from parapet.schemas.dialogue import Dialogue, Frame, Turn, check_no_id_twice, dialogue_folders, list_files, problems_of
from parapet.schemas.errors import InputError
from parapet.schemas.release import (
    CONFIG_NAME,
    RESERVED,
    Column,
    Config,
    Corpus,
    ReleaseConfig,
    TableInput,
    TasksInput,
)
from parapet.schemas.rows import RESPONSES
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
        pa.field("id", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("question", pa.string(), nullable=False),
        pa.field("function", pa.string(), nullable=False),
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
      bytes: its size.
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
    bytes: int = 0
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
    configs: dict[str, Config]
    columns: dict[str, pa.Schema]
    services: dict[str, dict[str, dict[str, Service]]]
    sources: list[Source]
    is_blind: bool = True


def make_plan(config: ReleaseConfig, base: str | Path) -> Plan:
    """Find and check the inputs. Reads the schemas, and only finds the other files.

    Args:
      config: the content of ``release.toml``.
      base: its folder; paths are relative to it.

    Raises:
      InputError: an input is missing or of another kind, or two inputs have the same corpus name.
    """
    plan = Plan([], {}, {}, {}, [])
    for i, corpus in enumerate(config.corpora):
        where = f"corpora[{i}]"
        for name, root in _roots(corpus, _below(base, corpus.path), where):
            if name in plan.services:
                raise InputError(f"two corpora are called {name!r}: set 'name', or leave one out", root, where)
            _add_corpus(plan, corpus, name, root)
    for i, tasks in enumerate(config.tasks):
        _add_tasks(plan, tasks, _below(base, tasks.path), f"tasks[{i}]")
    for i, audit in enumerate(config.audits):
        _add_audit(plan, _below(base, audit.path), f"audits[{i}]")
    for i, table in enumerate(config.tables):
        if table.name in plan.configs:
            raise InputError(
                f"a corpus is called {table.name!r}, too: give one of them another name", "", f"tables[{i}].name"
            )
        _add_table(plan, table, _below(base, table.path), f"tables[{i}]")
    plan.sources = _with_shards(plan.sources)
    return plan


def _below(base: str | Path, path: str) -> Path:
    return layout.as_path(path) if "://" in path else layout.as_path(base) / path


def _roots(corpus: Corpus, path: Path, where: str) -> Iterator[tuple[str, Path]]:
    if not layout.is_there(path):
        raise InputError("there is no such file or folder", path, f"{where}.path")
    if path.is_file() or layout.is_root(path) or layout.dialogue_files(path, ""):
        if not corpus.name:
            raise InputError("is a single corpus: give it a 'name'", path, where)
        yield corpus.name, path
        return
    roots = layout.variant_roots(path)
    if not roots:
        raise InputError(
            "contains neither a corpus nor folders of corpora: expected train/schema.json or v1/...", path, where
        )
    if corpus.name:
        raise InputError(f"{corpus.name!r} cannot be the name of several corpora: leave out 'name'", path, where)
    for name, root in roots.items():
        if not CONFIG_NAME.fullmatch(name) or name in RESERVED:
            raise InputError(f"the folder's name {name!r} cannot name a configuration", path, where)
        yield name, root


def _add_config(plan: Plan, name: str, kind: str, record: str, key: list[str], columns: pa.Schema) -> None:
    if name not in plan.configs:
        plan.columns[name] = columns
        plan.configs[name] = Config(kind, record, key, [Column(**column) for column in described(columns)], {})


def _add_corpus(plan: Plan, corpus: Corpus, name: str, root: Path) -> None:
    originals = layout.read_root(root)
    alone = (root.parent if root.is_file() else root).resolve().name  # a folder of dialogues may be a split's
    folders = {
        folder or (alone if alone in layout.SPLITS else WHOLE): (folder, schemas)
        for folder, schemas in dialogue_folders(root, originals).items()
    }
    is_single = originals[0].split == layout.SINGLE
    splits = {*folders, *(schemas.split for schemas in originals if not is_single)}
    if missing := set(corpus.splits) - splits:
        raise InputError(f"has no split {', '.join(sorted(missing))}", root, "splits")
    if missing := set(corpus.hide_labels) - set(corpus.splits or splits):
        raise InputError(f"has no split {', '.join(sorted(missing))}", root, "hide_labels")
    plan.inputs.append((name, corpus.kind))
    of_input = len(plan.inputs) - 1
    _add_config(plan, SCHEMAS, "schemas", "service", ["variant", "service_name"], dialogue_table.SERVICES)
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
        _add_config(plan, name, corpus.kind, "dialogue", ["dialogue_id"], dialogue_table.DIALOGUES)
        plan.sources += [
            Source("dialogue", name, name, split, file.path, of_input, file.relative, hidden=hidden) for file in files
        ]


def _add_tasks(plan: Plan, tasks: TasksInput, path: Path, where: str) -> None:
    if not layout.is_there(path):
        raise InputError("there is no such file or folder", path, f"{where}.path")
    sets = {tasks.name: path}
    if path.is_dir() and not layout.files_of_tasks(path):
        sets = {
            entry.name: entry for entry in sorted(path.iterdir()) if entry.is_dir() and layout.files_of_tasks(entry)
        }
        if tasks.name and sets:
            raise InputError(f"{tasks.name!r} cannot be the name of several sets: leave out 'name'", path, where)
    if not sets:
        raise InputError("contains no tasks: expected files of JSON lines", path, where)
    for name, folder in sets.items():
        if not CONFIG_NAME.fullmatch(name) or name in RESERVED:
            raise InputError("give it a 'name'" if not name else f"{name!r} cannot name a configuration", folder, where)
        if name in plan.configs:
            raise InputError(f"another configuration is called {name!r}: give this one another name", folder, where)
        _add_config(plan, name, tasks.kind, TASK, ["id"], TASK_COLUMNS)
        plan.inputs.append((name, tasks.kind))
        files = layout.files_of_tasks(folder) if folder.is_dir() else [folder]
        for file in files:
            for place in [file, *(answers for answers in [answers_beside(file)] if layout.is_there(answers))]:
                record = TASK if place is file else BESIDE
                relative = place.relative_to(file.parent).as_posix()
                plan.sources.append(Source(record, name, name, layout.TEST, str(place), len(plan.inputs) - 1, relative))
        if folder.is_dir() and layout.is_there(folder / layout.NAMES):
            names = str(folder / layout.NAMES)
            plan.sources.append(Source(BESIDE, name, name, layout.TEST, names, len(plan.inputs) - 1, layout.NAMES))


def _add_audit(plan: Plan, path: Path, where: str) -> None:
    path = path / "responses.parquet" if path.is_dir() else path
    columns = set(_columns(path, where).names)
    if missing := [name for name in PARAPHRASE_COLUMNS.names if name not in columns]:
        raise InputError(f"is not an audit of 'parapet compose': it has no column {missing[0]!r}", path, where)
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


def _add_table(plan: Plan, table: TableInput, path: Path, where: str) -> None:
    paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not paths:
        raise InputError("contains no .parquet files", path, f"{where}.path")
    columns = _columns(paths[0], where)
    if missing := [name for name in table.key if name not in columns.names]:
        raise InputError(f"has no column {missing[0]!r} (it has {', '.join(columns.names)})", path, f"{where}.key")
    for field in columns:
        if field.name.startswith("worker") or field.name in PRIVATE:
            raise InputError(f"the column {field.name!r} may identify a worker: leave it out", path, where)
    _add_config(plan, table.name, table.kind, "row", table.key, columns)
    plan.inputs.append((table.name, table.kind))
    plan.sources += [
        Source("row", table.name, table.name, WHOLE, str(file), len(plan.inputs) - 1, file.name) for file in paths
    ]


def _columns(path: Path, where: str) -> pa.Schema:
    try:
        with path.open("rb") as handle:
            return pq.read_schema(handle).remove_metadata()
    except FileNotFoundError:
        raise InputError("there is no such file", path, f"{where}.path") from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path, f"{where}.path") from None


def _with_shards(sources: Sequence[Source]) -> list[Source]:
    """Add the sizes of files, and from these the number of Parquet files of each split."""
    sources = [msgspec.structs.replace(source, bytes=layout.as_path(source.path).stat().st_size) for source in sources]
    sizes: Counter[tuple[str, str]] = Counter()
    for source in sources:
        sizes[source.config, source.split] += source.bytes

    def shards(source: Source) -> int:
        return max(1, -(-sizes[source.config, source.split] // SHARD_BYTES))

    return [msgspec.structs.replace(source, shards=shards(source)) for source in sources]


def described(columns: pa.Schema) -> list[dict[str, Any]]:
    """Describe the columns for the manifest, with Parquet's name for the items of a list instead of Arrow's."""
    return [{"name": field.name, "type": str(field.type).replace("list<item: ", "list<element: ")} for field in columns]


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
    path: str = ""
    dialogue_id: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.dialogue_id}: {self.where}: {self.reason}"


def without_labels(data: bytes) -> bytes:
    """Reduce a file of dialogues to what a model may see: the utterances, and the service of each frame.

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
    """Read the rows of a file.

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


@dialogue_table.collection_paused()
def _dialogues(source: Source, data: bytes, services: Mapping[str, Service]) -> tuple[pa.Table, Counts, list[Fault]]:
    rows = dialogue_table.dialogue_lines(data, source.relative.rpartition("/")[2], source.path)
    counts, faults = check_dialogues(source, rows.dialogues, services, rows.malformed)
    return table_of_lines(rows.ids, "dialogue_id", rows.lines), counts, faults


def check_dialogues(
    source: Source,
    dialogues: Sequence[Dialogue],
    services: Mapping[str, Service],
    malformed: Sequence[dialogue_table.Malformed] = (),
) -> tuple[Counts, list[Fault]]:
    """Count the dialogues and problems of a file, and return the first problems of each kind.

    Args:
      source: the file.
      dialogues: the valid dialogues.
      services: the services that its dialogues may refer to.
      malformed: the invalid dialogues.
    """
    counts: Counts = Counter()
    counts["dialogues", source.corpus, source.split] = len(dialogues) + len(malformed)
    counts["turns", source.corpus, source.split] = sum(len(dialogue.turns) for dialogue in dialogues)
    faults: list[Fault] = []

    def add(dialogue_id: str, fault: Fault) -> None:
        counts["fault", fault.kind, ""] += 1
        if counts["fault", fault.kind, ""] <= FAULTS_SHOWN:
            faults.append(msgspec.structs.replace(fault, path=source.path, dialogue_id=dialogue_id))

    for dead in malformed:
        add(dead.dialogue_id, Fault("format", dead.where, dead.reason))
    for dialogue in dialogues:
        for fault in dialogue_faults(dialogue, services):
            add(dialogue.dialogue_id, fault)
    return counts, faults


def _services(source: Source, data: bytes) -> tuple[pa.Table, Counts, list[Fault]]:
    raw = layout.parse_json(data, source.path)
    table = pa.Table.from_pylist(dialogue_table.service_rows(raw, source.corpus, data), dialogue_table.SERVICES)
    return table, count_services(source, raw), []


def _tasks(source: Source, data: bytes) -> tuple[pa.Table, Counts, list[Fault]]:
    """Return a row for each task, with its messages, tools and ground truth as JSON.

    Raises InputError with the line.
    """
    beside = answers_beside(layout.as_path(source.path))
    truths = by_id(beside.read_bytes(), beside) if beside.is_file() else {}
    rows, counts = [], Counts()
    for name, task in by_id(data, source.path).items():
        if not is_task(task):
            raise InputError(f"{name!r} is not a task: it has no functions", source.path)
        texts = {key: json.dumps(task.get(key, []), ensure_ascii=False) for key in ("question", "function")}
        counts["tools", source.corpus, source.split] += len(task.get("function", []))
        truth = json.dumps(truths[name]["ground_truth"], ensure_ascii=False) if name in truths else None
        rows.append({"id": name, "file": source.relative, **texts, "ground_truth": truth})
    table = pa.Table.from_pylist(rows, TASK_COLUMNS)
    counts["tasks", source.corpus, source.split] = len(rows)
    return table, counts, []


def count_services(source: Source, raw: Sequence[Mapping[str, Any]]) -> Counts:
    """Count the services of a schema file, their intents and their slots."""
    counts: Counts = Counter()
    counts["services", source.corpus, source.split] = len(raw)
    for unit in ("intents", "slots"):
        counts[unit, source.corpus, source.split] = sum(len(service[unit]) for service in raw)
    return counts


def _table(source: Source, data: bytes) -> tuple[pa.Table, Counts, list[Fault]]:
    try:
        table = pq.read_table(pa.BufferReader(data)).replace_schema_metadata()
        table.validate(full=True)  # a text may be invalid UTF-8
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet: {error}", source.path) from None
    counts: Counts = Counter()
    if source.record == "paraphrase":
        table = table.select(PARAPHRASE_COLUMNS.names).cast(PARAPHRASE_COLUMNS)
        counts = count_answers(table.select(["disposition", "reason", "source"]).to_pylist())
    return table, counts, []


def count_answers(rows: Iterable[Mapping[str, Any]]) -> Counts:
    """Count answers by disposition and source, and rejected ones by reason."""
    counts: Counts = Counter()
    for row in rows:
        counts["disposition", str(row["disposition"]), ""] += 1
        counts["source", str(row["source"]), ""] += 1
        if row["disposition"] == "rejected":
            counts["rejection", str(row["reason"]).partition(":")[0], ""] += 1
    return counts


# Problems of the annotation.


def dialogue_faults(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[Fault]:
    """Yield every problem of a dialogue's annotation.

    Args:
      dialogue: the dialogue.
      services: the services of its corpus and split by name.
    """
    for where, reason in problems_of(dialogue, services):
        yield Fault("span" if _SPAN.fullmatch(where) else "reference", where, reason)
    for t, turn in enumerate(dialogue.turns):
        for f, frame in enumerate(turn.frames):
            for i, text in _strangers(turn, frame):
                yield Fault("span_value", f"turns[{t}].frames[{f}].slots[{i}]", f"{text!r} is not a value of its slot")


def _strangers(turn: Turn, frame: Frame) -> Iterator[tuple[int, str]]:
    """Yield the spans whose text is not a value of the slot; frames without values are not checked."""
    if not frame.slots or (values := _values_of(frame)) is None:
        return
    for i, span in enumerate(frame.slots):
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int):
            text = turn.utterance[span.start : span.exclusive_end]
            if text and text not in values.get(span.slot, ()):
                yield i, text


def _values_of(frame: Frame) -> dict[str, set[str]] | None:
    if not frame.actions and not frame.state:
        return None
    values: dict[str, set[str]] = {}
    for action in frame.actions or []:
        slot_values = values.setdefault(action.slot, set())
        slot_values.update(action.values)
        slot_values.update(action.canonical_values or [])
    if frame.state:
        for slot, texts in frame.state.slot_values.items():
            values.setdefault(slot, set()).update(texts)
    return values
