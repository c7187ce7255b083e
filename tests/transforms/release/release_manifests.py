"""A small release: its manifest, and its Parquet files on disk."""

import hashlib
import io
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from kit import write

from parapet.schemas import release as model
from parapet.schemas.dialogue_table import DIALOGUES, SERVICES, dialogue_rows, service_rows
from parapet.schemas.layout import dialogue_bytes, dialogue_files, sample_root, schema_bytes
from parapet.schemas.release import Author, Source
from parapet.transforms.release.plan import PARAPHRASE_COLUMNS, described
from parapet.transforms.release.reading import logical_sha256, row_json, split_sha256

SGD = Source(
    "Schema-Guided Dialogue",
    "https://github.com/google-research-datasets/dstc8-schema-guided-dialogue",
    "CC-BY-SA-4.0",
    "Abhinav Rastogi, Xiaoxue Zang and Pranav Khaitan",
    "Rastogi et al., Towards Scalable Multi-Domain Conversational Agents, AAAI 2020",
)

MEMORY = pa.schema(
    [
        ("text", pa.string()),
        ("split", pa.string()),  # a column of the name that the splits' field would have
        ("a name, with: all of it", pa.int64()),
        ("seen", pa.timestamp("us", tz="UTC")),
        ("scores", pa.list_(pa.float64())),
        ("raw", pa.binary()),
        ("model", pa.struct([("name", pa.string()), ("sizes", pa.list_(pa.int32()))])),
        ("day", pa.date32()),
        ("good", pa.bool_()),
    ]
)
_FIRST = ["hallo", "a", 1, 1_700_000_000_000_000, [0.5, 1.0], b"\0", {"name": "m", "sizes": [1, 2]}, 20_000, True]
_MEMORY_ROWS = [dict(zip(MEMORY.names, _FIRST, strict=True)), dict.fromkeys(MEMORY.names) | {"text": "welt"}]


@cache
def _tables() -> dict[tuple[str, str], list[pa.Table]]:
    """Configuration and split to its shards."""
    root = sample_root()
    dialogues = {split: orjson.loads(dialogue_files(root, split)[0].read_bytes())[:3] for split in ("train", "test")}
    rows = {
        split: dialogue_rows(found, "dialogues_001.json", dialogue_bytes(found)) for split, found in dialogues.items()
    }
    services = orjson.loads((root / "train/schema.json").read_bytes())[:2]
    schemas = [row for name in ("original", "v1") for row in service_rows(services, name, schema_bytes(services))]
    text = {"element_id": "Banks_1/slot/amount", "field": "name", "text": "sum | total", "canonical": "sum_total"}
    used = {"disposition": "used", "reason": "", "work_seconds": 30, "source": "mturk"}
    answers = [
        {**text, **used, "response_id": f"A{i}:slot_0", "variant": i or None, "distance": i / 10 if i else None}
        for i in range(3)
    ]
    return {
        ("original", "train"): [
            pa.Table.from_pylist(part, DIALOGUES) for part in (rows["train"][:2], rows["train"][2:])
        ],
        ("original", "test"): [pa.Table.from_pylist(rows["test"], DIALOGUES)],
        ("v1", "test"): [pa.Table.from_pylist(rows["test"][:1], DIALOGUES)],
        ("schemas", "train"): [pa.Table.from_pylist(schemas, SERVICES)],
        ("paraphrases", "full"): [pa.Table.from_pylist(answers, PARAPHRASE_COLUMNS)],
        ("memory", "full"): [pa.Table.from_pylist(_MEMORY_ROWS, MEMORY)],
    }


_KEPT = {
    "original": ("original", "dialogue", ["dialogue_id"]),
    "v1": ("variants", "dialogue", ["dialogue_id"]),
    "schemas": ("schemas", "service", ["variant", "service_name"]),
    "paraphrases": ("paraphrases of crowdworkers", "paraphrase", ["response_id"]),
    "memory": ("translation memory", "row", ["text"]),
}


@cache
def data() -> dict[str, bytes]:
    """Path to Parquet."""
    found = {}
    for (config, split), tables in _tables().items():
        for i, table in enumerate(tables):
            out = io.BytesIO()
            pq.write_table(table, out)
            found[f"data/{config}/{split}-{i:05d}-of-{len(tables):05d}.parquet"] = out.getvalue()
    return found


def rows(config: str, split: str) -> list[dict[str, Any]]:
    """What a reader has to find there."""
    return [row for table in _tables()[config, split] for row in table.to_pylist()]


def write_data(root: Path) -> Path:
    """Writes the Parquet files below a folder."""
    for path, content in data().items():
        write(root / path, content)
    return root


def _files() -> list[model.File]:
    found = [
        model.File("sgd/original/train/schema.json", 2, hashlib.sha256(b"[]").hexdigest()),
        model.File("sgd/v1/test/dialogues_001.json", 2, hashlib.sha256(b"[]").hexdigest()),
    ]
    for path, content in data().items():
        table = pq.read_table(io.BytesIO(content))
        logical = logical_sha256(sorted(row_json(row) for row in table.to_pylist()))
        sha256 = hashlib.sha256(content).hexdigest()
        found.append(model.File(path, len(content), sha256, table.num_rows, logical))
    return sorted(found, key=lambda file: file.path)


def _configs(files: list[model.File]) -> dict[str, model.Config]:
    found: dict[str, model.Config] = {}
    for (name, split), tables in _tables().items():
        kind, record, key = _KEPT[name]
        columns = [model.Column(**column) for column in described(tables[0].schema)]
        config = found.setdefault(name, model.Config(kind, record, key, columns, {}))
        of_split = [file for file in files if file.path.startswith(f"data/{name}/{split}-")]
        config.splits[split] = model.SplitInfo(
            sum(file.rows or 0 for file in of_split),
            [file.path for file in of_split],
            split_sha256(file.logical_sha256 for file in of_split),
        )
    return found


def measures() -> dict[str, Any]:
    """As ``parapet statistics`` writes them."""
    row = {"slot_names_seen": 0.119, "intent_names_seen": 0.0, "name_distance": 0.281, "description_bleu": 17.76}
    far = {"slot_names_seen": 0.03, "intent_names_seen": 0.0, "name_distance": 0.545, "description_bleu": 2.32}
    return {
        "original": {"slot_names_seen": 0.627, "intent_names_seen": 0.8},
        "variants": {"v1": row, "v2": far},
        "average": {key: (row[key] + far[key]) / 2 for key in row},
        "self_bleu": 4.49,
        "split": "dev",
        "services": 34,
        "unseen_services": 8,
        "services_without_variants": [],
        "bleu_signature": "case:lc",
    }


def composed() -> dict[str, Any]:
    """As ``parapet compose`` writes them."""
    return {
        "answers": {"total": 120, "used": 60, "surplus": 20, "duplicate": 15, "rejected": 20, "review": 5},
        "reasons": {"rejected": {"blank": 20}},
        "services": {"Banks_1": {"composed": True}},
        "variants": {"v1": {"name_distance": 0.3, "description_bleu": 19.0}},
        "average": {"name_distance": 0.3, "description_bleu": 19.0},
        "self_bleu": None,
    }


def columns() -> dict[str, pa.Schema]:
    """The columns of the configurations."""
    return {config: tables[0].schema for (config, _), tables in _tables().items()}


def change(**more: Any) -> model.SplitChange:
    rows = {"config": "original", "split": "train", "level": "major", "added": 3, "removed": 0, "changed": 1200}
    return model.SplitChange(**{**rows, "columns_added": [], "columns_removed": [], **more})


def follows(*splits: model.SplitChange, level: str = "major") -> dict[str, Any]:
    """The fields of a manifest that has a parent, version 1.0.0."""
    return {"parent": model.Parent("1.0.0", "0" * 64), "changes": model.Changes(level, list(splits))}


def manifest(**more: Any) -> model.Manifest:
    """A release of all kinds of data; ``more`` replaces fields."""
    return msgspec.structs.replace(model.parse_manifest(_manifest(), model.MANIFEST), **more)


@cache
def _manifest() -> bytes:
    files = _files()
    inputs = [
        model.Input("original", "original", [model.InputFile("train/schema.json", 2000, "0" * 64)] * 2),
        model.Input("v1", "variants", [model.InputFile("test/dialogues_001.json", 300, "0" * 64)]),
        model.Input("paraphrases", "audit", [model.InputFile("responses.parquet", 70, "0" * 64)]),
        model.Input("memory", "translation memory", [model.InputFile("memory.parquet", 70, "0" * 64)]),
    ]
    found = model.Manifest(
        format=model.FORMAT,
        name="tiny-x",
        version="1.1.0",
        title="Tiny X: a release for tests",
        description="Dialogues and *variants* of their schemas.",
        licence="CC-BY-SA-4.0",
        language=["en"],
        created="2026-02-03",
        homepage="https://example.org/tiny-x",
        authors=[
            Author("Ada Lovelace", "Analytical Society", "0000-0002-1825-0097"),
            Author("Hopper, Grace Brewster"),
            Author("The Parapet authors"),
        ],
        sources=[SGD],
        release_notes="Mended *spans*.",
        parent=None,
        changes=None,
        code={"parapet": "0.1.0", "sha256": "0" * 64},
        libraries={"pyarrow": pa.__version__},
        configuration={},
        configuration_sha256="0" * 64,
        inputs=inputs,
        configs=_configs(files),
        counts={
            "services": {"original": {"train": 2, "test": 1}, "v1": {"train": 2}},
            "dialogues": {"original": {"test": 3, "train": 3}, "v1": {"test": 1}},
            "turns": {"original": {"test": 42, "train": 1234}, "v1": {"test": 12}},
        },
        statistics={"variants": measures()},
        dispositions={"used": 3, "rejected": 2, "review": 1},
        rejections={"blank": 1, "too_fast": 4},
        known_problems={"span": 7},
        files=files,
    )
    return model.manifest_bytes(found)
