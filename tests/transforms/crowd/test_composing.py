"""Nothing is lost: faults put into the composition must fail the run, unpublished; and how the audit is written."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from parapet.pipelines.main import main
from parapet.schemas.rows import RESPONSES
from parapet.transforms.crowd import composing, ingest, services
from parapet.transforms.crowd.services import SchemaTask, settle_service


def fails_unpublished(out: Path) -> bool:
    status = main(["compose", "--output", str(out)])
    return status == 1 and not (out / "run.json").exists() and not (out / "responses.parquet").exists()


def test_an_answer_that_a_service_loses_fails_the_run(tmp_path, capsys, monkeypatch):
    def losing(*args, **options):
        outcome = settle_service(*args, **options)
        del outcome.audit[3]
        return outcome

    monkeypatch.setattr(services, "settle_service", losing)
    assert fails_unpublished(tmp_path / "out")
    assert "balance for answers_given" in capsys.readouterr().err


def test_assignments_lost_on_the_way_to_their_service_fail_the_run(tmp_path, capsys, monkeypatch):
    settle = SchemaTask.settle
    monkeypatch.setattr(SchemaTask, "settle", lambda self, assignments, decisions: settle(self, assignments[1:], {}))
    assert fails_unpublished(tmp_path / "out")
    assert "balance for assignments" in capsys.readouterr().err


def test_assignments_lost_after_reading_fail_the_run(tmp_path, capsys, monkeypatch):
    merge = composing.merge
    monkeypatch.setattr(composing, "merge", lambda read, decisions: merge(read[1:], decisions))
    assert fails_unpublished(tmp_path / "out")
    assert "balance for assignments_read" in capsys.readouterr().err


def test_a_disk_that_fails_while_reading_fails_the_run(tmp_path, capsys, monkeypatch):
    def failing(*_args):
        raise OSError("the disk went away")
        yield

    monkeypatch.setattr(ingest, "read_batch", failing)
    assert fails_unpublished(tmp_path / "out")
    told = capsys.readouterr().err
    assert "the disk went away" in told
    assert "Traceback" not in told


def test_the_audit_has_the_columns_and_row_groups_of_64_k_rows():
    one = {field.name: None if field.nullable else "x" for field in RESPONSES}
    for rows, groups in ((0, []), (2, [2]), ((1 << 16) + 5, [1 << 16, 5])):
        handle = io.BytesIO()
        composing.write_audit(pa.Table.from_pylist([{**one, "text": str(i)} for i in range(rows)], RESPONSES), handle)
        file = pq.ParquetFile(handle)
        assert file.schema_arrow.names == RESPONSES.names
        assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == groups
        assert file.read(["text"]).column("text").to_pylist() == [str(i) for i in range(rows)]
