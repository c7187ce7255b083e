"""A small corpus with variants, an audit and a table, and the ``release.toml`` that makes a release of them."""

import json
import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from kit import Result, run

import parapet
from parapet.schemas import layout
from parapet.schemas.rows import RESPONSES, AuditRow
from parapet.transforms.variants.matching import compose_variant

TOML = """
name = "small"
version = "1.0.0"
licence = "CC0-1.0"
title = "A small set"
description = "Dialogues and *variants*."
changes = "First."
date = 2026-01-02

[[authors]]
name = "Ada Example"

[[sources]]
title = "The sample"
url = "https://example.org/sample"
licence = "CC0-1.0"

[[corpora]]
path = "sgd"
name = "original"
kind = "original"

[[corpora]]
path = "variants"
kind = "variants"

[[audits]]
path = "compose"

[[tables]]
path = "memory.parquet"
name = "memory"
kind = "translation memory"
key = ["source", "pivot"]

[[statistics]]
path = "statistics.json"
name = "sgd_x"
"""

# What a suite adds: a perturbed corpus, and the rows that say what was changed.
SET = """
[[corpora]]
path = "typos"
name = "typos"
kind = "language variations"
splits = ["test"]

[[tables]]
path = "typos/turns/test"
name = "typos_turns"
kind = "turns with typos"
key = ["dialogue_id", "turn"]
"""

MEMORY = [{"source": f"text {i}", "pivot": pivot, "text": "x" * i} for i in range(5) for pivot in ("ja", "zh")]
AUDIT = [
    AuditRow(f"3A{i}:slot_{i}", "S_1/slot/x", "name", "t", "t", disposition, reason, None, None, "0a1b2c", 1, 2, i)
    for i, (disposition, reason) in enumerate([("used", ""), ("rejected", "too_short: 1"), ("review", "copy")])
]


def make(folder: Path, sample: Path) -> Path:
    """Everything below ``folder``; gives the TOML."""
    shutil.copytree(sample, folder / "sgd", ignore=shutil.ignore_patterns("crowd"))
    for path in (folder / "sgd").glob("*/dialogues_*.json"):
        path.write_bytes(layout.dialogue_bytes(json.loads(path.read_bytes())[:6]))
    for split in layout.read_root(sample):
        for k in (1, 2):
            place = folder / "variants" / f"v{k}" / split.split
            place.mkdir(parents=True)
            (place / "schema.json").write_bytes(layout.schema_bytes([variant(raw, k) for raw in split.raw]))
            if k == 1:
                for path in layout.dialogue_files(folder / "sgd", split.split):
                    (place / path.name).write_bytes(path.read_bytes())
    # v1 has the dialogues of the original: under its own names its schemas are not asked here.
    for split in layout.SPLITS:
        shutil.copy(folder / "sgd" / split / "schema.json", folder / "variants" / "v1" / split / "schema.json")
    (folder / "compose").mkdir()
    audit = [{**msgspec.to_builtins(row), "accept_time": 1_000, "submit_time": 2_000} for row in AUDIT]
    pq.write_table(pa.Table.from_pylist(audit, RESPONSES), folder / "compose" / "responses.parquet")
    pq.write_table(pa.Table.from_pylist(MEMORY), folder / "memory.parquet")
    (folder / "statistics.json").write_text(json.dumps({"self_bleu": 4.5}))
    (folder / "release.toml").write_text(TOML)
    return folder / "release.toml"


def add_set(toml: Path) -> None:
    """Adds a perturbed corpus with its rows, and a repository of the Hub, to what :func:`make` has made."""
    parapet.perturb(parapet.load_corpus(toml.parent / "sgd"), "typos", seed=1).save(toml.parent / "typos")
    edit(toml, ('title = "A small set"', 'title = "A small set"\nhub = "ada/sets"'))
    with toml.open("a") as handle:
        handle.write(SET)


def variant(raw: dict, k: int) -> dict:
    """The service with new names for slots and intents."""
    names = {f"slot_{i}": f"other_{slot['name']}" for i, slot in enumerate(raw["slots"])}
    names |= {f"intent_{i}": f"Other{intent['name']}" for i, intent in enumerate(raw["intents"])}
    return compose_variant(raw, k, names, dict.fromkeys((*names, "service"), "what it is"))


def edit(toml: Path, *changes: tuple[str, str]) -> None:
    """Replaces texts in the TOML."""
    text = toml.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    toml.write_text(text)


class Built(msgspec.Struct):
    """A release that was built once for all tests that only look at it."""

    toml: Path
    root: Path


def build(toml: Path, output: Path, *flags: str, status: int = 0) -> Result:
    """Runs ``parapet release build``."""
    return run("release", "build", *flags, config=toml, output=output, status=status)
