"""What a ``release.toml`` comes to: files to read, configurations to make; and what is refused."""

import shutil

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit import cases, raised, write

from parapet.schemas.errors import InputError
from parapet.schemas.release import ReleaseConfig
from parapet.schemas.rows import RESPONSES
from parapet.transforms.release.plan import make_plan

MEMORY = pa.table({"source": ["a", "b"], "pivot": ["zh", "zh"], "text": ["x", None]})


@pytest.fixture
def place(tmp_path, sample):
    """``original`` with dialogues, ``many/v1`` with schemas alone, ``many/v10``; an audit, a table of two files."""
    shutil.copytree(sample, tmp_path / "original")
    for name in ("v10", "v2"):
        (tmp_path / "many" / name / "test").mkdir(parents=True)
        shutil.copy(sample / "test" / "schema.json", tmp_path / "many" / name / "test")
    (tmp_path / "compose").mkdir()
    pq.write_table(RESPONSES.empty_table(), tmp_path / "compose" / "responses.parquet")
    (tmp_path / "memory").mkdir()
    for name in ("b", "a"):
        pq.write_table(MEMORY, tmp_path / "memory" / f"{name}.parquet")
    return tmp_path


def config(*corpora, **more):
    about = {"name": "set", "version": "1.0.0", "licence": "CC0-1.0", "description": "A set."}
    raw = {**about, "authors": [{"name": "Ada"}], "corpora": corpora or ORIGINAL, **more}
    return msgspec.convert(raw, ReleaseConfig)


ORIGINAL = ({"path": "original", "name": "original", "kind": "original"},)
MANY = {"path": "many", "kind": "variants"}
TABLE = {"path": "memory", "name": "memory", "kind": "translation memory", "key": ["source", "pivot"]}


def test_nothing_of_workers_or_times_is_published(place):
    plan = make_plan(config(audits=[{"path": "compose/responses.parquet"}]), place)
    assert plan.is_blind
    write(place / "compose" / "run.json", {"options": {"blindness": "allowed"}})
    assert not make_plan(config(audits=[{"path": "compose/responses.parquet"}]), place).is_blind
    private = {"worker_hash", "accept_time", "submit_time"}
    assert set(RESPONSES.names) - set(plan.columns["paraphrases"].names) == private


@cases(
    "made said",
    (config({**ORIGINAL[0], "name": ""}), "original: corpora[0]: give it a 'name'"),
    (config({**MANY, "name": "x"}), "many: corpora[0]: 'x' cannot be the name of several"),
    (config({**MANY, "path": "memory"}), "memory: corpora[0]: contains neither train/schema.json,"),
    (config({**ORIGINAL[0], "name": "schemas"}), "corpora[0]: 'schemas' cannot name a configuration"),
    (config({**ORIGINAL[0], "name": "a b"}), "corpora[0]: 'a b' cannot name a configuration"),
    (config(*ORIGINAL, *ORIGINAL), "original: corpora[1]: two inputs are called 'original'"),
    (config({**ORIGINAL[0], "splits": ["dev", "tset"]}), "original: splits: has no split tset"),
    (
        config(audits=[{"path": "memory/a.parquet"}]),
        "audits[0]: is not an audit of 'parapet compose': it has no column",
    ),
    (config(audits=[{"path": "none.parquet"}]), "none.parquet: audits[0].path: there is no such file or folder"),
    (config(audits=[{"path": "original/test/schema.json"}]), "audits[0].path: cannot be read as Parquet"),
    (config(tables=[{**TABLE, "path": "many"}]), "many: tables[0].path: contains no .parquet files"),
    (config(tables=[{**TABLE, "key": ["id"]}]), "tables[0].key: has no column 'id' (it has source, pivot, text)"),
    (config(tables=[{**TABLE, "name": "original"}]), "tables[0]: two inputs are called 'original'"),
    (config(tables=[{**TABLE, "path": "worker.parquet"}]), "the column 'worker_id' may identify a worker"),
)
def test_what_cannot_be_is_said(made, said, place):
    pq.write_table(MEMORY.append_column("worker_id", pa.array(["A", "B"])), place / "worker.parquet")
    assert said in str(raised(InputError, make_plan, made, place)).replace(f"{place}/", "")
