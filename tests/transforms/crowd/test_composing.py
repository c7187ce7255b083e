"""Nothing is lost: faults put into the composition must fail the run, unpublished; and how the audit is written."""

from kit import cases, run

from parapet.transforms.crowd import composing, services
from parapet.transforms.crowd.services import SchemaTask, settle_service


def losing(*args, **options):
    outcome = settle_service(*args, **options)
    del outcome.audit[3]
    return outcome


settle, merge = SchemaTask.settle, composing.merge


@cases(
    "holder name lossy balance",
    (services, "settle_service", losing, "answers_given"),
    (SchemaTask, "settle", lambda self, assignments, _: settle(self, assignments[1:], {}), "assignments"),
    (composing, "merge", lambda read, decisions: merge(read[1:], decisions), "assignments_read"),
)
def test_what_gets_lost_fails_the_run(holder, name, lossy, balance, tmp_path, monkeypatch):
    monkeypatch.setattr(holder, name, lossy)
    result = run("compose", output=tmp_path / "out", status=1)
    assert f"balance for {balance}" in result.errors
    assert not {"run.json", "responses.parquet"} & result.files.keys()
