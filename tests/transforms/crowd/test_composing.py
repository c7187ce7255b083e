"""Nothing is lost: faults put into the pipeline must fail the run, unpublished."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.pvalue import TaggedOutput
from folders import files_of

from parapet.pipelines.main import main
from parapet.transforms import sorted_runs
from parapet.transforms.counts import Counts, check_invariants
from parapet.transforms.crowd import reading, settle
from parapet.transforms.crowd.ingest import files, parts
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
    def losing(runs):
        for read, decisions in batches(runs):
            yield read[1:], decisions

    batches = reading._batches
    monkeypatch.setattr(reading, "_batches", losing)
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


@pytest.mark.parametrize("command", ["compose", "compose_variations"])
def test_runs_in_files_and_files_in_parts_give_the_same_bytes(tmp_path: Path, monkeypatch, command: str) -> None:
    assert main([command, "--quiet", "--output", str(tmp_path / "in_memory")]) == 0
    monkeypatch.setattr(parts, "_STEP", 10_000)
    open_file = sorted_runs.RunWriter._open
    monkeypatch.setattr(reading, "_SMALL", 0)
    monkeypatch.setattr(reading, "_BUCKET_BYTES", 20_000)
    monkeypatch.setattr(reading, "_BATCH_SIZE", 10)
    monkeypatch.setattr(sorted_runs, "_GATHERED", 30_000)
    monkeypatch.setattr(sorted_runs, "_LEAST", 100)
    monkeypatch.setattr(sorted_runs, "_BUFFERS", 100)
    opened: list[str] = []
    monkeypatch.setattr(sorted_runs.RunWriter, "_open", lambda self: opened.append(self._output) or open_file(self))
    assert main([command, "--quiet", "--output", str(tmp_path / "in_files")]) == 0
    assert len(set(opened)) == 1 < len(opened)
    assert files_of(tmp_path / "in_files") == files_of(tmp_path / "in_memory")
