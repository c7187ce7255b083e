"""``--dry_run``: the steps of a pipeline and, for Dataflow, what would be staged; nothing is read, sent or written."""

import socket
from pathlib import Path

import google.auth
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability import stager
from apache_beam.runners.portability.stager import Stager
from kit import cases, files_of, lacking, refused, run

from parapet.pipelines import dry_run

DATAFLOW = ["--runner=DataflowRunner", "--project=my-p1", "--region=r", "--temp_location=gs://bucket/t"]
DATAFLOW += ["--setup_file=./setup.py", "--output=gs://bucket/out", "--dry_run"]


@pytest.fixture
def _offline(monkeypatch):
    for owner, name in ((socket, "create_connection"), (socket.socket, "connect"), (google.auth, "default")):
        monkeypatch.setattr(owner, name, None)


def steps(output):
    """The lines of the steps, with their indentation."""
    lines = output.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("steps")) + 1
    return [line for line in lines[first : first + len(lines)] if line.startswith("  ") and ":" not in line]


@pytest.mark.usefixtures("_offline")
def test_on_dataflow_it_shows_flags_steps_and_what_is_staged_without_asking_the_cloud():
    output = run("rewrite", *DATAFLOW, sgd="gs://bucket/sgd", variants="gs://bucket/variants").output
    assert not lacking(output, "would run 'parapet rewrite' on Dataflow", "--project: my-p1", "--sgd: gs://bucket/sgd")
    assert "steps, for the bundled sample, because inputs in a bucket are not read" in output
    assert steps(output) == ["  Perturb", "    Dialogue files", "    Sets", "    Finish"]
    assert "would be staged in gs://bucket/t\n  pipeline.pb: these steps\n  workflow.tar.gz: the package that" in output


@pytest.mark.usefixtures("_offline")
@cases(
    "command step",
    (["compose", "--responses", "gs://bucket/a.csv", "gs://bucket/b.csv"], "  Compose"),
    (["few_shot", "--sgd", "gs://bucket/sgd"], "  Split"),
    (["hits", "--schemas", "gs://bucket/sgd"], "    Make HITs"),
    (["back_translate", "--schemas", "gs://bucket/sgd"], "  Back-translate"),
    (["statistics", "--sgd", "gs://bucket/sgd", "--variants", "gs://bucket/variants"], "  Measure"),
    (["anonymise", "--chats", "gs://bucket/chats"], "  Names"),
)
def test_the_sample_stands_in_for_inputs_in_a_bucket(command, step):
    output = run(*command, *DATAFLOW).output
    assert step in steps(output)
    assert not lacking(output, *(word for word in command if word.startswith("gs://")))


@pytest.mark.usefixtures("_offline")
def test_steps_that_need_the_inputs_are_not_shown():
    output = run("babi_task6", *DATAFLOW, logs="gs://bucket/logs").output
    assert "steps: not known without the inputs in the bucket (--logs: cannot be replaced by the sample)" in output
    assert steps(output) == []


@pytest.mark.usefixtures("_offline")
@cases(
    "flags said",
    (["--setup_file=a.py", "--sgd=gs://bucket/sgd"], "--setup_file a.py: there is no such file"),
    (["--ontology=nowhere"], "nowhere: --ontology: there is no such file"),
    (["--ontology=gs://bucket/o.toml", "--output=out"], "--output out: is a local path, which Dataflow's workers"),
)
def test_what_dataflow_cannot_run_is_refused(flags, said):
    command = "few_shot" if "--sgd=gs://bucket/sgd" in flags else "restaurants"
    assert said in refused(command, *DATAFLOW, *flags)


NO_LIST = "--experiments=disable_logging_submission_environment"


@cases(
    "flags",
    (["--setup_file=./setup.py"],),
    (["--sdk_container_image=image", NO_LIST],),
    (["--extra_package=parts-1.0.tar.gz", "--files_to_stage=words.txt", "--save_main_session", NO_LIST],),
)
def test_what_is_staged_is_what_beam_stages(flags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("setup.py", "parts-1.0.tar.gz", "words.txt"):
        (tmp_path / name).touch()
    monkeypatch.setattr(Stager, "_build_setup_package", lambda *_: "parts-1.0.tar.gz")
    monkeypatch.setattr(stager.pickler, "dump_session", lambda path: Path(path).touch())
    options = PipelineOptions(flags)
    planned = [line.partition(": ")[0] for line in dry_run.staged(options)]
    resources = Stager.create_job_resources(options, str(tmp_path))
    roles = [beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(part.role_payload) for part in resources]
    assert sorted(planned) == sorted(["pipeline.pb", *(role.staged_name for role in roles)])


def test_on_this_machine_it_shows_the_steps_and_the_cost_and_changes_nothing(tmp_path):
    output = run("hits", "--dry_run", output=tmp_path / "out").output
    assert steps(output)[:2] == ["  MakeHits", "    Units"]
    assert output.endswith("dry run: nothing was written\n")
    assert not (tmp_path / "out").exists()
    run("hits", output=tmp_path / "out")
    before = files_of(tmp_path / "out")
    run("hits", "--dry_run", output=tmp_path / "out")
    assert files_of(tmp_path / "out") == before
