"""A run on Dataflow as far as it goes without the cloud: built, staged, submitted, run as staged, waited for."""

import fcntl
import io
import json
import os
import signal
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.portability.python_urns import EMBEDDED_PYTHON
from apache_beam.runners.dataflow import dataflow_runner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from commands import RELEASE, ended, lines, write_inputs
from google.cloud.dataflow import JobType
from kit import THOROUGH, cases, corpus, files_of, json_of, refused, run, sample_dialogues, write

from dataflow.service import HURRIED, JOB, Dataflow, install, run_staged, staged
from parapet.pipelines.main import main
from parapet.schemas.layout import sample_root

ROOT = Path(__file__).parents[3]
IMAGE = "us-central1-docker.pkg.dev/p-x/images/parapet:1"
CONTAINER = [
    f"--sdk_container_image={IMAGE}",
    "--sdk_location=container",
    # Beam asks pip what is installed, which takes a second; the job of the staged package does so.
    "--experiments=disable_logging_submission_environment",
]
NOWHERE = "http://localhost:9"


def flags(bucket, prefix, endpoint):
    """What every job has."""
    places = [f"--{name}_location={bucket.url}/{prefix}/{name}" for name in ("temp", "staging")]
    job = ["--runner=DataflowRunner", "--project=p-x", "--region=us-central1", "--no_auth"]
    return [*job, f"--dataflow_endpoint={endpoint}", *places]


@pytest.fixture(autouse=True, scope="module")
def _hurried():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataflow_runner, "time", HURRIED)
        yield


@pytest.fixture(scope="module")
def job(bucket, tmp_path_factory):
    """``rewrite`` on the service, which runs the staged pipeline with the staged package; and on this machine.

    What was asked for and staged, where that is installed, what the command said and wrote.
    """
    here = tmp_path_factory.mktemp("job")
    run("compose", "--allow_partial", "--output", here / "variants", "--quiet")
    rewrite = ["rewrite", "--variants", str(here / "variants")]
    run(*rewrite, "--output", here / "expected", "--quiet")

    def work(_):
        package, pipeline = (staged(bucket, "job/staging", name) for name in ("workflow.tar.gz", "pipeline.pb"))
        (here / "worker").mkdir()
        site = install(package, here / "worker")
        return "" if run_staged(pipeline, site, here / "worker").state == "DONE" else "it did not end well"

    there = ["--sgd", f"{bucket.url}/sgd", "--output", f"{bucket.url}/job/out", f"--setup_file={ROOT / 'setup.py'}"]
    lock = (tmp_path_factory.getbasetemp().parent / "package.lock").open("w")
    with lock, Dataflow(work) as service:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be packing in this checkout
        service.counters = {"dialogues": 40}
        ended = run(*rewrite, *there, *flags(bucket, "job", service.url), status=None)
    with tarfile.open(fileobj=io.BytesIO(staged(bucket, "job/staging", "workflow.tar.gz"))) as archive:
        package = {member.name.partition("/")[2] for member in archive if member.isfile()}
    both = {"wrote": bucket.tree("job/out"), "expected": files_of(here / "expected")}
    site = here / "worker" / "site"
    return SimpleNamespace(request=service.submitted[0], package=package, site=site, ended=ended, **both)


@pytest.mark.thorough
def test_the_staged_package_alone_writes_what_a_local_run_writes(job):
    assert (job.ended.status, job.wrote) == (0, job.expected)
    assert len(job.wrote) > 30
    # The command waits and reports.
    assert "v5: 40 dialogues rewritten, 0 left out" in job.ended.output
    page = f"https://console.cloud.google.com/dataflow/jobs/us-central1/{JOB}?project=p-x"
    assert f"job {JOB}: {page}\n" in job.ended.errors
    assert f"Job {JOB} is in state JOB_STATE_DONE\n" in job.ended.errors
    assert job.ended.errors.rstrip().endswith(": dialogues 40")


@pytest.mark.thorough
def test_the_staged_package_has_all_that_workers_load(job):
    package = ROOT / "parapet"
    folders = [package, *(path for path in package.iterdir() if path.is_symlink())]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    wanted = {name for path in files if "__pycache__" not in (name := str(path.relative_to(ROOT)))}
    assert {"parapet/crowd_templates/hit_page.html.jinja", "parapet/schemas/sample/train/schema.json"} <= wanted
    assert not wanted - job.package


@pytest.mark.thorough
def test_the_request(job):
    assert job.request["path"].startswith("/v1b3/projects/p-x/locations/us-central1/jobs")
    assert job.request["type"] == JobType.JOB_TYPE_BATCH
    options = job.request["environment"]["sdkPipelineOptions"]["options"]
    assert options["pipelineUrl"].endswith("/pipeline.pb")
    assert options["pickle_library"] == "cloudpickle"
    assert "save_main_session" not in {name for name, value in options.items() if value is True}


PERTURBED = ["Perturb/Sets/Write file", "Perturb/Finish/Publish"]
STEPS = {
    **dict.fromkeys(("rewrite", "language_variations", "unseen_entities", "ood", "speech_errors"), PERTURBED),
    "compose": ["Compose"],
    "compose_variations": ["Dedupe", "RewriteTurns", "WriteComposition/Publish"],
    "hits": ["MakeHits/Make HITs/Write file", "MakeHits/Finish/Publish"],
    "statistics": ["Measure", "Write/Write file", "Publish/Publish"],
    "back_translate": ["Back-translate/There", "Back-translate/Back", "Make files", "Publish/Publish"],
    "augment": ["Sets/Augment/Write file", "Sets/Finish/Publish"],
    "few_shot": ["Split/Read/Write file", "Split/Write sets/Write file", "Split/Finish/Publish"],
    "reminders": ["Attempts", "Dialogues/Write file", "Finish/Publish"],
    "restaurants": ["Dialogues/Write file", "Finish/Publish"],
    "anonymise": ["Names", "Chats/Write file", "Finish/Publish"],
}


@pytest.fixture(scope="module")
def inputs(bucket, tmp_path_factory):
    """A prefix with the inputs of all lines: a variant is the original under another suffix, enough to build on."""
    folder = tmp_path_factory.mktemp("inputs") / "inputs"
    write_inputs(folder)
    run(*ended(lines(str(folder), "")["hits"], folder / "made" / "hits"))
    for path in sample_root().glob("*/schema.json"):
        renamed = [{**service, "service_name": service["service_name"] + "1"} for service in json_of(path)]
        for name in ("compose/v1", "back_translate/de"):
            write(folder / "made" / name / path.parent.name / path.name, renamed)
    bucket.put("inputs", folder)
    return f"{bucket.url}/inputs"


@pytest.mark.parametrize("name", STEPS if THOROUGH else ["rewrite", "anonymise"])
def test_the_job_of_each_pipeline(name, bucket, inputs, tmp_path):
    """Built as a template, for a container that has Parapet in it: nothing is staged but the graph."""
    out = ["--output", f"{bucket.url}/{name}/out", f"--template_location={tmp_path}/job.json"]
    told = run(*lines(inputs, f"{inputs}/made")[name], *out, *flags(bucket, name, NOWHERE), *CONTAINER).errors
    assert f"wrote the template {tmp_path}/job.json" in told
    graph = beam_runner_api_pb2.Pipeline.FromString(staged(bucket, f"{name}/staging", "pipeline.pb"))
    assert set(STEPS[name]) <= {transform.unique_name for transform in graph.components.transforms.values()}
    (environment,) = graph.components.environments.values()
    assert beam_runner_api_pb2.DockerPayload.FromString(environment.payload).container_image == IMAGE
    names = {path.rpartition("/")[2] for path in bucket.tree(f"{name}/staging")}
    assert names <= {"pipeline.pb", "submission_environment_dependencies.txt"}
    (pool,) = json_of(tmp_path / "job.json")["environment"]["workerPools"]
    assert [image["containerImage"] for image in pool["sdkHarnessContainerImages"]] == [IMAGE]
    assert {path.rpartition(".")[0] for path in bucket.tree(f"{name}/out")} <= {".incomplete/.owner"}


def test_a_template_runs_again_on_the_files_that_it_lists(bucket, tmp_path):
    """The list of files is that of the day on which it was made; what is in them is read by each run."""
    first, *others = sample_dialogues()[:4]
    corpus(tmp_path / "sgd", test=[first])
    bucket.put("again/sgd", tmp_path / "sgd")
    typos = ["perturb", "typos", "--quiet"]
    paths = ["--sgd", f"{bucket.url}/again/sgd", "--output", f"{bucket.url}/again/out"]
    template = f"--template_location={bucket.url}/templates/typos"
    run(*typos, *paths, template, *flags(bucket, "again", NOWHERE), *CONTAINER)
    job = json.loads(bucket.tree("templates")["typos"])
    assert job["environment"]["sdkPipelineOptions"]["options"]["template_location"] == template.partition("=")[2]
    pipeline = beam_runner_api_pb2.Pipeline.FromString(staged(bucket, "again/staging", "pipeline.pb"))
    for environment in pipeline.components.environments.values():
        environment.CopyFrom(beam_runner_api_pb2.Environment(urn=EMBEDDED_PYTHON))
    for dialogues in ([first], others):
        corpus(tmp_path / "changed", test=dialogues)
        run(*typos, sgd=tmp_path / "changed", output=tmp_path / "out")
        bucket.put("again/sgd", tmp_path / "changed")
        bucket.put("again/sgd/test/dialogues_002.json", tmp_path / "sgd/test/dialogues_001.json")  # not listed
        assert FnApiRunner().run_via_runner_api(pipeline, PipelineOptions([])).state == "DONE"
        assert bucket.tree("again/out") == files_of(tmp_path / "out")


@pytest.mark.thorough
def test_a_release_is_made_by_the_job_and_finished_by_the_command(bucket, job, tmp_path):
    """The job's workers have the staged package of the other job, and no other Parapet."""
    bucket.write("release.toml", RELEASE.encode())

    def work(_):
        result = run_staged(staged(bucket, "release/staging", "pipeline.pb"), job.site, tmp_path)
        return "" if result.state == "DONE" else "it did not end well"

    command = ["release", "build", "--config", f"{bucket.url}/release.toml", "--output", f"{bucket.url}/releases"]
    with Dataflow(work) as service:
        run(*command, *flags(bucket, "release", service.url), *CONTAINER, "--quiet")
    run(*command, "--quiet", status=2)  # it is there
    run(*command[:-1], f"{bucket.url}/whole", "--quiet")
    assert bucket.tree("releases") == bucket.tree("whole")


def test_a_release_cannot_be_a_template(bucket, tmp_path):
    bucket.write("release.toml", RELEASE.encode())
    command = ["release", "build", "--config", f"{bucket.url}/release.toml", "--output", f"{bucket.url}/template"]
    job = ["--template_location", f"{tmp_path}/job.json", *flags(bucket, "template", NOWHERE), *CONTAINER]
    assert "error: --template_location: cannot be used here" in refused(*command, *job)
    assert bucket.tree("template") == {}


def submit(bucket, prefix, service):
    """Submits a small job."""
    command = ["hits", "--schemas", f"{bucket.url}/sgd", "--output", f"{bucket.url}/{prefix}/out"]
    return main([*command, *flags(bucket, prefix, service.url), *CONTAINER])


TRACEBACK = "Traceback (most recent call last):\n  File ...\nparapet.schemas.errors.InputError: x.json: not JSON"


@pytest.mark.thorough
@cases(
    "message said",
    (f"{TRACEBACK} [while running 'Rewrite']\n", "error: x.json: not JSON\n"),
    ("Startup of the worker pool failed: quota 'CPUS' exceeded", "quota 'CPUS' exceeded (PARAPET_DEBUG=1"),
)
def test_a_job_that_fails(bucket, message, said, capsys):
    with Dataflow(lambda _: message) as service:
        assert submit(bucket, "failing", service) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err
    assert "Traceback" not in told.err
    assert f"/jobs/us-central1/{JOB}?project=p-x" in told.err


def test_ctrl_c_leaves_the_job_and_says_how_to_stop_it(bucket, capsys):
    with Dataflow() as service:
        service.work = lambda _: "" if service.stopped.wait(30) else "it was not stopped"
        once = iter([True])  # the runner's thread goes on asking

        def stop():
            if next(once, False):
                os.kill(os.getpid(), signal.SIGINT)

        service.on_poll = stop
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            assert submit(bucket, "left", service) == 1
        finally:
            signal.signal(signal.SIGINT, previous)
            service.stopped.set()
        told = capsys.readouterr().err  # before Beam's thread says how the job ends
    assert told.splitlines()[-1] == (
        f"error: stopped; job {JOB} continues without this command; to stop it, run: "
        f"gcloud dataflow jobs cancel {JOB} --region=us-central1 --project=p-x"
    )
