"""Nothing is lost: faults put into the composition must fail the run, unpublished; and how the audit is written."""

from parapet.pipelines.main import main
from parapet.transforms.crowd import composing, services
from parapet.transforms.crowd.services import SchemaTask, settle_service


def fails_unpublished(out):
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
