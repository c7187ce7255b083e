"""Nothing is lost: faults put into the composition must fail the run, unpublished; and how the audit is written."""

from kit import cases, run

from parapet.transforms.crowd import schema_task
from parapet.transforms.crowd.vet import Vetting

vet_service, conclude_service = Vetting.vet_service, schema_task.conclude_service


def vet_all_but_one(*args):
    return vet_service(*args)[1:]


def conclude_all_but_one(raw, vetted, *args):
    return conclude_service(raw, vetted[1:], *args)


@cases(
    "holder name lossy balance",
    (Vetting, "vet_service", vet_all_but_one, "answers_given"),
    (schema_task, "conclude_service", conclude_all_but_one, "answers: "),
)
def test_what_gets_lost_fails_the_run(holder, name, lossy, balance, tmp_path, monkeypatch):
    monkeypatch.setattr(holder, name, lossy)
    result = run("compose", output=tmp_path / "out", status=1)
    assert f"balance for {balance}" in result.errors
    assert not {"run.json", "responses.parquet"} & result.files.keys()
