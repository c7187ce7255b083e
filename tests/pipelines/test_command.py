"""The command line that all pipelines share: strict flags, exit statuses, messages that say what to do."""

import kit
from kit import cases, files_of, refused, run, sample_dialogues

from parapet.pipelines import command
from parapet.schemas.layout import sample_root


@cases(
    "arguments status said",
    ([], 2, "usage: parapet COMMAND"),
    (["compse"], 2, "did you mean 'compose'?"),
    (["compose"], 2, "the following arguments are required: --output"),
    (["compose", "--output", "OUT", "--schemaz", "x"], 2, "unknown flag --schemaz: did you mean --schemas?"),
    (["compose", "--output", "OUT", "--direct_running_mod=x"], 2, "did you mean --direct_running_mode?"),
    (["compose", "--output", "OUT", "--mapping", "x"], 2, "unknown flag --mapping\n"),
    (["compose", "--output", "OUT", "--allow_partial=False"], 2, "ignored explicit argument 'False'"),
    (["compose", "--output", "OUT", "--seed", "many"], 2, "argument --seed: 'many' is not a whole number"),
    (["suite", "sample", "--output", "gs://bucket/out"], 2, "must be a local folder"),
    (["compose", "--output", "OUT", "--responses", __file__], 1, "no assignment could be read"),
    (["compose", "--output", "OUT*"], 2, "which Beam reads as patterns"),
    (["compose", "--output", "OUT", "--responses", "."], 2, "--responses assignments.jsonl: there is no such file"),
    (["compose", "--output", "OUT", "--encoding", "utf-9"], 2, "'utf-9' is not a text encoding that Python knows"),
    (["compose", "--output", "/dev/null/out"], 2, "/dev/null/out: cannot write here: [Errno 20] Not a directory"),
    (["compose", "--output", "OUT", "--schemas", "strange://x"], 2, "strange://x: cannot be read: Protocol not"),
)
def test_mistakes_end_with_a_status_and_one_line_that_says_what_to_do(arguments, status, said, tmp_path):
    arguments = [text.replace("OUT", str(tmp_path / "out")) for text in arguments]
    told = run(*arguments, status=status)
    assert said.replace("OUT", str(tmp_path / "out")) in told.errors + told.output
    assert "Traceback" not in told.errors


def test_version():
    assert run("--version").output.startswith("parapet 0.")


def test_a_worker_key_that_can_be_guessed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PARAPET_WORKER_KEY", "short")
    assert "PARAPET_WORKER_KEY: the key has fewer than 16 characters" in refused("compose", output=tmp_path / "out")


DATAFLOW = ["--runner=DataflowRunner", "--project=my-p1", "--region=r", "--temp_location=gs://bucket/t"]
DATAFLOW += ["--setup_file=./setup.py", "--output=gs://bucket/out"]


@cases(
    "changed said",
    ("--project=", "--project: is required by Dataflow"),
    ("--temp_location=", "--temp_location: is required by Dataflow"),
    (
        "--temp_location=/tmp",
        "--temp_location /tmp: is a local path, which Dataflow's workers cannot read: give a gs:// path",
    ),
    ("--output=/tmp/out", "--output /tmp/out: is a local path, which Dataflow's workers cannot read"),
    ("--setup_file=", "--setup_file=./setup.py: is required by Dataflow, whose workers need Parapet"),
    ("", f"--responses {sample_root() / 'crowd/names.csv'}: is a local path, which Dataflow's workers cannot read"),
)
def test_what_dataflow_lacks_is_said_before_anything_runs(changed, said):
    flag = changed.partition("=")[0]
    flags = [given for given in DATAFLOW if given.partition("=")[0] != flag] + [changed] * bool(changed)
    line, *_ = run("compose", *flags, status=2).errors.splitlines()
    assert line.startswith((f"error: {said}", f"parapet compose: {said}"))


def test_without_a_network_buckets_are_refused_at_once(monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr("socket.create_connection", refuse)
    for variable in ("STORAGE_EMULATOR_HOST", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(variable, raising=False)
    for flags in ({"sgd": "gs://bucket/sgd", "output": tmp_path / "out"}, {"output": "gs://bucket/out"}):
        said = run("perturb", "typos", **flags, status=2).errors
        assert "storage.googleapis.com cannot be reached (no route to host): check the network" in said


def test_outputs_and_inputs_are_apart_under_any_name(tmp_path):
    """The law of all commands, ``test_laws.py``, has paths as they are; here are links and other spellings."""
    corpus, link = tmp_path / "corpus", tmp_path / "link"
    kit.corpus(corpus, test=sample_dialogues()[:2])
    link.symlink_to(corpus)
    before = files_of(tmp_path)
    for sgd, output in ((link, corpus), (corpus, link / "train/deep/out/"), (f"{tmp_path}/./corpus", f"{corpus}/")):
        said = refused("perturb", "typos", sgd=sgd, output=output)
        assert "--output: is the same as --sgd or lies inside it: choose another folder" in said
    assert "--output: contains --sgd: choose a folder beside it" in refused("ood", sgd=link, output=tmp_path)
    assert files_of(tmp_path) == before


def test_the_reason_of_a_workers_error_is_no_line_of_its_traceback():
    text = """Traceback (most recent call last):
      File "worker.py", line 1, in process
    RuntimeError: Traceback (most recent call last):
      File "client.py", line 2, in get
    client.ServiceUnavailable: 503: come back later"""
    shown = "client.ServiceUnavailable: 503: come back later (PARAPET_DEBUG=1 shows the traceback)"
    assert command._reason(RuntimeError(text)) == shown


# ``--dry_run``: the cost of a pipeline; nothing is read, sent or written.


def test_it_shows_the_cost_and_changes_nothing(tmp_path):
    output = run("hits", "--dry_run", output=tmp_path / "out").output
    assert output.splitlines()[-1] == "dry run: nothing was written"
    assert not (tmp_path / "out").exists()
    run("hits", output=tmp_path / "out")
    before = files_of(tmp_path / "out")
    run("hits", "--dry_run", output=tmp_path / "out")
    assert files_of(tmp_path / "out") == before
