"""The manifest of a small release."""

import hashlib
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa

from parapet.schemas import release as model
from parapet.schemas.release import Author, Source
from parapet.schemas.rows import DIALOGUES, SERVICES
from parapet.transforms.release.plan import PARAPHRASE_COLUMNS, described
from parapet.transforms.release.reading import split_sha256

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
_KEPT = {
    "original": ("original", "dialogue", ["dialogue_id"], DIALOGUES),
    "v1": ("variants", "dialogue", ["dialogue_id"], DIALOGUES),
    "schemas": ("schemas", "service", ["variant", "service_name"], SERVICES),
    "paraphrases": ("paraphrases of crowdworkers", "paraphrase", ["response_id"], PARAPHRASE_COLUMNS),
    "memory": ("translation memory", "row", ["text"], MEMORY),
}
# The numbers of rows in the shards of each configuration and split.
_ROWS = {
    **{("original", "train"): [2, 1], ("original", "test"): [3], ("v1", "test"): [1], ("schemas", "train"): [4]},
    **{("paraphrases", "full"): [3], ("memory", "full"): [2]},
}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _contents() -> tuple[dict[str, model.Config], list[model.File]]:
    """The configurations and files; nothing reads the files, so their sizes and hashes are invented."""
    configs: dict[str, model.Config] = {}
    paths = ("sgd/original/train/schema.json", "sgd/v1/test/dialogues_001.json")
    files = [model.File(path, 2, _sha256("[]")) for path in paths]
    for (name, split), shards in _ROWS.items():
        own = []
        for i, rows in enumerate(shards):
            path = f"data/{name}/{split}-{i:05d}-of-{len(shards):05d}.parquet"
            own.append(model.File(path, 4_000 + 100 * len(path), _sha256(path), rows, _sha256(f"rows of {path}")))
        kind, record, key, schema = _KEPT[name]
        described_columns = described(schema)
        config = configs.setdefault(name, model.Config(kind, record, key, described_columns, {}))
        logical = split_sha256(file.logical_sha256 for file in own)
        config.splits[split] = model.SplitInfo(sum(shards), [file.path for file in own], logical)
        files += own
    return configs, sorted(files, key=lambda file: file.path)


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
    return {name: schema for name, (*_, schema) in _KEPT.items()}


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
    configs, files = _contents()
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
        configs=configs,
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
