"""Dialogues in tables of the Hugging Face hub (Parquet, Arrow or JSON lines), converted to the SGD format.

The hub's ``schema_guided_dstc8`` has a row for each dialogue. It stores lists of objects as objects of lists, objects
whose keys are data as two lists, and missing parts of a frame as empty ones. Rows of Parapet's own releases are read,
too. Arrow files are those written by ``save_to_disk``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.json_text import parse_line_exactly
from parapet.schemas.layout import SINGLE, SPLITS, SplitSchemas, as_path, parse_services
from parapet.schemas.limits import lines_of, open_path

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "hf:"  # before the name of a data set on the hub
PART = 1_000  # rows read as one dialogue file, which is the unit of work
_DIALOGUES, _SERVICES = ("dialogue_id", "turns"), ("service_name", "intents")  # columns
SUFFIXES = (".parquet", ".arrow", ".jsonl")
_SPLIT_NAMES = {**{name: name for name in SPLITS}, "validation": "dev", "valid": "dev", "val": "dev"}
_PARQUET_BRANCH = "refs/convert/parquet"  # the branch with the hub's conversion of every data set

# Names of the two columns for the keys and values of an object.
_PAIRS = (
    *(("slot_name", "slot_value_list"), ("slot", "slot_value_list"), ("slot_name", "slot_value"), ("key", "value")),
    *(("parameter_slot_name", "parameter_canonical_value"), ("service_slot_name", "service_canonical_value")),
    ("slots_values_name", "slots_values_list"),
)
# Labels of columns with numbers, for files that do not contain the labels.
_LABELS = {
    "speaker": ["USER", "SYSTEM"],
    "act": [
        *("AFFIRM", "AFFIRM_INTENT", "CONFIRM", "GOODBYE", "INFORM", "INFORM_COUNT", "INFORM_INTENT", "NEGATE"),
        *("NEGATE_INTENT", "NOTIFY_FAILURE", "NOTIFY_SUCCESS", "OFFER", "OFFER_INTENT", "REQUEST", "REQUEST_ALTS"),
        *("REQ_MORE", "SELECT", "THANK_YOU"),
    ],
}
_OF_FRAMES = ("slots", "actions", "state", "service_call", "service_results")
Labels = Mapping[str, Sequence[str]]


def is_dialogue_table(path: Path) -> bool:
    """Whether a file is a table of dialogues."""
    return path.suffix in SUFFIXES and path.is_file() and _has(path, _DIALOGUES)


def dialogue_tables(root: Path) -> dict[str, list[Path]]:
    """Return the tables of dialogues in a folder, or the file itself, by split; ``""`` if no name tells the split.

    Raises:
      InputError: the tables belong to several data sets.
    """
    return {"": [root]} if is_dialogue_table(root) else _tables(root, _DIALOGUES)


def parts_of(path: Path) -> list[tuple[int, int]]:
    """Return (first row, end) of each part of a file, without the row ``end``; JSON lines have a single part."""
    if path.suffix == ".jsonl":
        return [(0, -1)]
    rows = _parquet(path).metadata.num_rows if path.suffix == ".parquet" else sum(map(len, _batches(path, 0, -1)))
    return [(start, min(start + PART, rows)) for start in range(0, rows, PART)] or [(0, 0)]


def read_rows(path: str, first: int, end: int) -> Iterator[Any]:
    """Yield the dialogues in a part of a file in the SGD format, or an ``InputError`` for an invalid row.

    Raises:
      InputError: the file cannot be read.
    """
    for row, labels in _rows(as_path(path), first, end):
        try:
            yield row if isinstance(row, InputError) else dialogue_of(row, labels)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            yield InputError(f"not_sgd: the row has another shape than schema_guided_dstc8: {error!r}")


def read_schemas(root: Path) -> list[SplitSchemas]:
    """Read the schemas of a folder with tables of dialogues; they are tables, too, such as configuration ``schema``.

    Returns:
      The schemas of each split; empty if the folder has no tables of dialogues.

    Raises:
      InputError: there are dialogues without schemas, or the schemas cannot be read.
    """
    if not (dialogues := dialogue_tables(root)):
        return []
    folder = root.parent if root.is_file() else root
    splits = []
    for split, paths in _tables(folder, _SERVICES).items():
        services = []
        for path in paths:
            for row, _ in _rows(path, 0, -1):
                if isinstance(row, InputError):
                    raise InputError(row.reason, path, row.where)
                services.append(service_of(row))
        if split in dialogues or not split or root.is_file():
            splits.append(parse_services(services, paths[0], split or SINGLE))
    if not splits or {split_schemas.split for split_schemas in splits} - {SINGLE} not in (set(), set(dialogues)):
        reason = "dialogues and no schemas of all splits: put schema.json beside them, or the rows of the data set's"
        raise InputError(f"{reason} configuration 'schema' into the folder schema (schema/train/0000.parquet)", root)
    return splits


def download(name: str) -> Path:
    """Download a data set of the hub and return its folder. Existing files are not downloaded again.

    Args:
      name: ``hf:NAME`` or ``hf:OWNER/NAME``.

    Raises:
      MissingExtra: huggingface_hub is not installed; installing ``datasets`` also installs it.
      InputError: there is no such data set, or the hub cannot be reached.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RevisionNotFoundError
    except ImportError:
        raise MissingExtra("huggingface_hub", "hub", name) from None
    fetch = partial(snapshot_download, name.removeprefix(PREFIX), repo_type="dataset")
    try:
        try:
            return Path(fetch(revision=_PARQUET_BRANCH, allow_patterns=["*.parquet"]))
        except RevisionNotFoundError:
            return Path(fetch(allow_patterns=[f"*{suffix}" for suffix in SUFFIXES] + ["*schema.json"]))
    except Exception as error:  # errors of the network, the hub, or the file system
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"cannot be downloaded from the Hugging Face hub: {reason}", name) from None


def dialogue_of(row: Mapping[str, Any], labels: Labels = _LABELS) -> dict[str, Any]:
    """Convert a row to a dialogue in the SGD format."""
    turns = [
        {**turn, "speaker": _name(turn["speaker"], labels["speaker"])}
        | {"frames": [_frame(frame, labels) for frame in _listed(turn["frames"])]}
        for turn in _listed(row["turns"])
    ]
    return {**_present(row), "services": list(row["services"]), "turns": turns}


def service_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row to a service in the SGD format."""
    intents = [
        {**_present(intent), "optional_slots": _object(intent.get("optional_slots"))}
        for intent in _listed(row["intents"])
    ]
    return {**_present(row), "slots": [_present(slot) for slot in _listed(row["slots"])], "intents": intents}


def _frame(row: Mapping[str, Any], labels: Labels) -> dict[str, Any]:
    frame = {key: value for key, value in _present(row).items() if key not in _OF_FRAMES}
    frame["slots"] = [_span(span) for span in _listed(row.get("slots"))]
    if row.get("actions") is not None:
        actions = [_present(action) for action in _listed(row["actions"])]
        frame["actions"] = [{**action, "act": _name(action["act"], labels["act"])} for action in actions]
    state, call = row.get("state") or {}, row.get("service_call") or {}
    if state.get("active_intent"):
        values = state.get("slot_values", state.get("slots_values"))
        frame["state"] = {
            "active_intent": state["active_intent"],
            "requested_slots": list(state.get("requested_slots") or []),
            "slot_values": _object(values),
        }
    results = row.get("service_results") or []
    if isinstance(results, dict):
        results = _listed(results["service_results_list"])
    if call.get("method"):
        frame["service_call"] = {"method": call["method"], "parameters": _object(call.get("parameters"))}
    if call.get("method") or results:
        frame["service_results"] = [_object(result.get("service_results_list", result)) for result in results]
    return frame


def _span(row: Mapping[str, Any]) -> dict[str, Any]:
    span = {key: value for key, value in _present(row).items() if value not in (-1, "", [])}
    if copied := span.pop("copy_from_value", None):
        span["value"] = copied
    if "start" in span and span["start"] > span.get("exclusive_end", span["start"]):
        # The hub's multi_woz_v22 has the two fields swapped.
        span["start"], span["exclusive_end"] = span["exclusive_end"], span["start"]
    return span


def _listed(rows: Any) -> list[dict[str, Any]]:
    """Return a list of objects, which may be stored as an object of lists."""
    if not isinstance(rows, dict):
        return list(rows or [])
    columns = zip(*rows.values(), strict=True)
    return [dict(zip(rows, values, strict=True)) for values in columns]


def _object(pairs: Any) -> dict[str, Any]:
    """Return an object, which may be stored as two columns of keys and values, or as a list of such pairs."""
    for key, value in _PAIRS:
        if isinstance(pairs, dict) and set(pairs) == {key, value} and isinstance(pairs[key], list):
            return dict(zip(pairs[key], pairs[value], strict=True))
        if isinstance(pairs, list) and pairs and set(pairs[0]) == {key, value}:
            return {pair[key]: pair[value] for pair in pairs}
    return dict(pairs or {})


def _present(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value is not None}


def _name(label: Any, names: Sequence[str]) -> Any:
    return names[label] if isinstance(label, int) and 0 <= label < len(names) else label


def _tables(root: Path, columns: Collection[str]) -> dict[str, list[Path]]:
    """Return the files with these columns in a folder and below it, sorted, by split."""
    tables: dict[str, list[Path]] = {}
    configurations = {}
    paths = (path for depth in ("*", "*/*", "*/*/*") for path in root.glob(depth) if path.suffix in SUFFIXES)
    for path in sorted(paths):
        parts = [*path.relative_to(root).parts[:-1], path.name.replace("_", "-").partition("-")[0].partition(".")[0]]
        if path.name.startswith((".", "cache-")) or not path.is_file() or not _has(path, columns):
            continue
        split = next((_SPLIT_NAMES[part] for part in reversed(parts) if part in _SPLIT_NAMES), "")
        tables.setdefault(split, []).append(path)
        configurations["/".join(part for part in parts[:-1] if part not in _SPLIT_NAMES)] = path
    if len(configurations) > 1 and columns == _DIALOGUES:
        names = ", ".join(sorted(configurations))
        raise InputError(f"there are dialogues of several data sets: {names}; give one of these folders", root)
    return tables


def _has(path: Path, columns: Collection[str]) -> bool:
    """Whether a file has these columns. Raises InputError for an unreadable file, so that its rows are not ignored."""
    try:
        if path.suffix == ".parquet":
            names = _parquet(path).schema_arrow.names
        elif path.suffix == ".arrow":
            names = _stream(path).schema.names
        else:
            with open_path(path) as handle:
                head = handle.read(1 << 20).split(b"\n", 1)[0]
            names = [column for column in columns if b'"%b"' % column.encode() in head]
    except (OSError, ValueError) as error:  # includes Arrow's errors
        raise _unreadable(path, error) from None
    return set(columns) <= set(names)


def _rows(path: Path, first: int, end: int) -> Iterator[tuple[Any, Labels]]:
    """Yield (row, names of labels) for the rows from ``first`` up to, but not including, ``end`` (-1 for no limit)."""
    if path.suffix == ".jsonl":
        yield from ((row, _LABELS) for row in _lines(path))
        return
    try:
        for batch in _batches(path, first, end):
            labels = _labels(batch.schema)
            yield from ((row, labels) for row in batch.to_pylist())
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    reason = str(error).partition("\n")[0]
    return InputError(f"cannot be read ({reason}): it is damaged or no {path.suffix} file; download it again", path)


def _lines(path: Path) -> Iterator[Any]:
    with open_path(path) as handle:
        for number, line in lines_of(handle):
            if line is None:
                yield InputError("too_large: the line is too long", "", f"line {number}")
            elif line.strip():
                try:
                    row = parse_line_exactly(line, "not_sgd")
                    yield row if isinstance(row, dict) else InputError("not_sgd: no object", "", f"line {number}")
                except InputError as error:
                    yield InputError(error.reason, "", f"line {number}")


def _batches(path: Path, first: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows from ``first`` up to, but not including, ``end`` in batches."""
    at = 0
    for size, batches in _groups(path):
        if at + size > first and (end < 0 or at < end):
            inside = at
            for batch in batches():
                start, stop = max(first - inside, 0), len(batch) if end < 0 else min(end - inside, len(batch))
                if start < stop:
                    yield batch.slice(start, stop - start)
                inside += len(batch)
        at += size


def _groups(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number of rows, function that reads them in batches) for each group of a file."""
    if path.suffix == ".parquet":
        file = _parquet(path)
        for i in range(file.num_row_groups):
            yield file.metadata.row_group(i).num_rows, partial(file.iter_batches, 64, row_groups=[i])
        return
    for batch in _stream(path):
        yield len(batch), partial(iter, [batch])


def _labels(schema: pa.Schema) -> Labels:
    """Return the names of labels by column from the metadata that ``datasets`` writes."""
    labels = dict(_LABELS)

    def walk(feature: Any, name: str) -> None:
        if isinstance(feature, dict):
            if feature.get("_type") == "ClassLabel" and name in labels:
                labels[name] = feature["names"]
            for key, value in feature.items():
                walk(value, name if key == "feature" else key)

    walk(orjson.loads((schema.metadata or {}).get(b"huggingface", b"{}")), "")
    return labels


def _parquet(path: Path) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(_source(path))


def _stream(path: Path) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(_source(path))


def _source(path: Path) -> Any:
    import pyarrow as pa

    if "://" not in str(path):
        return pa.memory_map(str(path))
    return pa.BufferReader(path.read_bytes())
