"""Nothing is lost: faults put into the pipeline must fail the run, unpublished."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from apache_beam.pvalue import TaggedOutput

from parapet.pipelines.main import main
from parapet.schemas.responses import Assignment
from parapet.transforms.counts import Counts, check_invariants
from parapet.transforms.crowd import reading, settle
from parapet.transforms.crowd.ingest import files
from parapet.transforms.crowd.settle import settle_service
from parapet.transforms.crowd.summary import INVARIANTS, RECORDED


def fails_unpublished(out: Path) -> bool:
    status = main(["compose", "--output", str(out)])
    return status == 1 and not (out / "run.json").exists() and not (out / "responses.parquet").exists()


def test_an_answer_that_a_service_loses_fails_the_run(tmp_path: Path, capsys, monkeypatch) -> None:
    def losing(*args):
        outcome = settle_service(*args)
        del outcome.audit[3]
        return outcome

    monkeypatch.setattr(settle, "settle_service", losing)
    assert fails_unpublished(tmp_path / "out")
    assert "balance for answers_given" in capsys.readouterr().err


def test_assignments_lost_on_the_way_to_their_service_fail_the_run(tmp_path: Path, capsys, monkeypatch) -> None:
    def losing(self, element):
        outputs = list(process(self, element))
        first = next(output for output in outputs if not isinstance(output, TaggedOutput))
        return [output for output in outputs if output is not first]

    process = reading.MergeBucket.process
    monkeypatch.setattr(reading.MergeBucket, "process", losing)
    assert fails_unpublished(tmp_path / "out")
    assert "balance for assignments" in capsys.readouterr().err


def test_assignments_lost_after_reading_fail_the_run(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(reading, "_unpack_assignments", lambda batch: unpack(batch)[1:])
    unpack = msgspec.msgpack.Decoder(list[Assignment]).decode
    assert fails_unpublished(tmp_path / "out")
    assert "balance for assignments_read" in capsys.readouterr().err


def test_a_disk_that_fails_while_reading_fails_the_run(tmp_path: Path, capsys, monkeypatch) -> None:
    def failing(*_args):
        raise OSError("the disk went away")
        yield

    monkeypatch.setattr(files, "read_batch", failing)
    assert fails_unpublished(tmp_path / "out")
    told = capsys.readouterr().err
    assert "the disk went away" in told
    assert "Traceback" not in told


GOOD = {
    "assignments_read": 5,
    "assignments_merged": 5,
    "assignments": 4,
    "assignments_settled": 4,
    "answers_given": 9,
    "answers_audited": 7,
    "answers_dead": 2,
}


def test_counts_that_balance_are_recorded_without_how_often_things_were_read() -> None:
    counts = Counts.named(**GOOD)
    check_invariants(counts, INVARIANTS)
    assert counts.as_json(RECORDED) == {"answers_given": 9, "assignments": 4}
    check_invariants(Counts(), INVARIANTS)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_any_count_that_is_off_is_a_failure(name: str) -> None:
    with pytest.raises(RuntimeError, match="do not balance"):
        check_invariants(Counts.named(**{**GOOD, name: GOOD[name] - 1}), INVARIANTS)


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_buckets_part_by_assignment_alone(buckets: int) -> None:
    ids = [f"3{i:05}" for i in range(200)]
    found = {i: reading.bucket_of(i, buckets) for i in ids}
    assert set(found.values()) == {str(n) for n in range(buckets)}
    assert found == {i: reading.bucket_of(i, buckets) for i in reversed(ids)}
