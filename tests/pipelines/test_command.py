"""What all commands share: strict flags, exit statuses, messages that say what to do, inputs that are there."""

import re
import shutil
from itertools import product

import kit
import pytest
from kit import cases, corpus, edit, files_of, json_of, lacking, refused, run, sample_dialogues, write

from parapet.pipelines import compose
from parapet.pipelines.app import Command, flags_of
from parapet.pipelines.command import _reason, check_there, execute
from parapet.pipelines.main import PIPELINES, actions_of, command_of
from parapet.schemas.errors import InputError, MissingExtra, install_line
from parapet.schemas.layout import sample_root
from parapet.transforms.core.options import REQUIRED


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
    ("--temp_location=/tmp", "--temp_location /tmp: is a local path, which Dataflow's workers cannot read: give a gs:"),
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
    assert _reason(RuntimeError(text)) == shown


# ``--dry_run``: the cost of a pipeline; nothing is read, sent or written.


def test_it_shows_the_cost_and_changes_nothing(tmp_path):
    output = run("hits", "--dry_run", output=tmp_path / "out").output
    assert output.splitlines()[-1] == "dry run: nothing was written"
    assert not (tmp_path / "out").exists()
    run("hits", output=tmp_path / "out")
    before = files_of(tmp_path / "out")
    run("hits", "--dry_run", output=tmp_path / "out")
    assert files_of(tmp_path / "out") == before


class Practice(Command[None]):
    """Raises an error when it is checked, or when it runs."""

    name = "practice"
    error: Exception
    at_once: bool

    def check(self):
        if self.at_once:
            raise self.error

    def act(self, settings):
        raise self.error


@cases("error status", (MissingExtra("boto3", "mturk"), 2), (InputError("no such key", "a.csv"), 1))
def test_a_missing_extra_is_the_user_s_whenever_it_is_found(error, status, capsys):
    assert execute(Practice(error=error, at_once=False)) == status
    assert execute(Practice(error=error, at_once=True)) == 2
    assert str(error) in capsys.readouterr().err
    if isinstance(error, MissingExtra):
        assert str(error) == f"boto3 is not installed: {install_line('mturk')}"


def test_a_folder_is_refused_where_a_file_is_read(tmp_path):
    """By every flag of every command whose value is a file: some ended with the system's own error."""
    told = {}
    for command in PIPELINES:
        for action in actions_of(command) or {"": ""}:
            kind = command_of(command, action)
            required = {flag.name: "" for flag in flags_of(kind) if flag.default is REQUIRED}
            for flag in flags_of(kind):
                if flag.reads and flag.facts["metavar"] == "FILE":
                    value = [str(tmp_path)] if flag.many else str(tmp_path)
                    with pytest.raises(InputError) as refused:
                        check_there(kind(**required | {flag.name: value}))
                    told[command, action, flag.name] = (refused.value.reason, refused.value.path)
    assert len(told) > 30
    assert set(told.values()) == {("is a folder: give a file", str(tmp_path))}


@pytest.fixture(scope="module")
def typos(tmp_path_factory):
    return run("perturb", "typos", output=tmp_path_factory.mktemp("typos") / "out", workers="1").folder


def test_compose_takes_the_folder_of_a_batch(tmp_path, sample):
    """As compose_variations and evaluate do; it said that there is no such file."""
    (tmp_path / "batch").mkdir()
    batch = shutil.copy(sample / "crowd" / "assignments.jsonl", tmp_path / "batch")
    command = compose.Compose(responses=[str(tmp_path / "batch")], schemas=str(sample), output="out")
    assert command.sources.responses == [str(batch)]
    told = refused("compose", schemas=sample, responses=batch, decisions=tmp_path, output=tmp_path / "out")
    assert "is a folder: give a file" in told


def test_a_file_without_dialogues_makes_no_tasks(tmp_path):
    flags = {"task": "rewrites", "dialogues": write(tmp_path / "examples.json", []), "workers": 1}
    told = refused("hits", **flags, output=tmp_path / "out", status=1)
    assert "--dialogues: contains no user turns, so nothing was written" in told
    assert not (tmp_path / "out" / "run.json").exists()


def test_a_folder_of_sets_says_what_is_in_it(typos, tmp_path):
    """One of its sets, or a corpus, is what is wanted; of other outputs it says which command wrote them."""
    error = refused("ood", sgd=typos, output=tmp_path / "out")
    assert not lacking(error, "contains no schema: ", "; these subfolders have one: typos: give one of them")
    told = refused("ood", sgd=typos / "typos/turns", output=tmp_path / "out")
    assert "; this folder is the output of 'parapet perturb typos'" in told


@cases(
    "command below",
    *(("rewrite", ""), ("rewrite", "typos"), ("augment --sets oracle", ""), ("statistics", "")),
    *(("evaluate --task dst --model names", ""), ("evaluate --task response --predictions reference", "")),
)
def test_sets_of_dialogues_are_no_schema_variants(typos, tmp_path, command, below):
    """They have the schemas of the corpus itself: distances were 0, dialogues were rewritten to the same names."""
    flag = "--oracle" if "oracle" in command else "--variants"
    error = refused(*command.split(), flag, typos / below, output=tmp_path / "out")
    assert not lacking(error, f"{typos / below}: contains the output of 'parapet perturb", f"{flag} takes variants of")


# Two dialogues of one id, in one file or in two of a split. The commands that are not here read as one of these.
READERS = [
    *("perturb typos --sgd X", "augment --sgd X --split test --sets none", "few_shot --sgd X"),
    *("ood --rates 0.1 --sgd X", "hits --task rewrites --dialogues X", "rewrite --sgd X --variants X/variants"),
    "evaluate --task dst --reference X --model names",
    "evaluate --task response --reference X --predictions reference",
    *("evaluate --task intent --reference X --predictions X", "evaluate --task ood --reference X --predictions X"),
]
OF_A_FILE = ["evaluate --task generation --reference X --predictions reference", "train damd --train X"]
OF_A_FILE.append("evaluate --task dst --reference X --predictions X")
TWICE = {
    1: r"dialogues_001\.json: (dialogue )?\[3\]: duplicate_id: dialogue '\d_0000\d' appears twice, first at \[1\]",
    2: r"dialogues_002\.json: (dialogue )?\[1\]: duplicate_id: dialogue '\d_0000\d' is in .*/dialogues_001\.json, too",
}


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """By the number of files that have the id: corpora, with their schemas as variants."""
    roots = {}
    for files in TWICE:
        splits = {split: sample_dialogues(split)[:4] for split in ("train", "dev", "test")}
        for split, dialogues in splits.items():
            dialogues[3] = {**dialogues[3], "dialogue_id": dialogues[1]["dialogue_id"]}
            splits[split] = dialogues if files == 1 else [dialogues[:2], dialogues[2:]]
        roots[files] = corpus(tmp_path_factory.mktemp("twice") / "corpus", **splits)
        for path in roots[files].glob("*/schema.json"):
            write(roots[files] / "variants/v1" / path.parent.name / path.name, path.read_bytes())
    return roots


@cases("command files", *product(READERS, TWICE), *((command, 1) for command in OF_A_FILE))
def test_two_dialogues_with_one_id_are_refused_with_both_places(command, files, twice, tmp_path):
    line = [part.replace("X", str(twice[files])) for part in command.split()]
    assert re.search(TWICE[files], refused(*line, output=tmp_path / "out", status=(1, 2)))
    assert not (tmp_path / "out/run.json").exists()
    if command.startswith(("perturb", "ood", "rewrite")):
        made = run(*line, output=tmp_path / "out", max_bad="100%", quiet=True)
        ids = [one["dialogue_id"] for path in made.folder.rglob("test/dialogues_*.json") for one in json_of(path)]
        assert ids.count("1_00001") == 1
        assert {letter["file"] for letter in made.dead_letters} == {f"dialogues_00{files}.json"}


def test_if_every_dialogue_is_bad_nothing_is_published(sample, tmp_path):
    root = shutil.copytree(sample, tmp_path / "sgd")
    for path in root.glob("*/dialogues_*.json"):
        edit(path, lambda dialogues: [{**dialogue, "turns": 7} for dialogue in dialogues])
    flags = {"kinds": "simple", "env": "none", "max_bad": "100%"}
    told = refused("language_variations", **flags, sgd=root, output=tmp_path / "out", status=1)
    assert re.search(r"(\d+) of \1 dialogues.* could not be \w+, so there is nothing to publish: not_sgd ", told), told
    assert not (tmp_path / "out/run.json").exists()


@cases(
    "share said",
    ("1", "'1' is ambiguous: write 1% or 100%"),
    ("101%", "'101%' is not a share: give a percentage from 0% to 100%, or a fraction such as 0.05"),
    ("-0.1", "'-0.1' is not a share"),
    ("few", "'few' is not a share"),
)
def test_what_is_no_share(share, said, tmp_path):
    assert f"argument --max_bad: {said}" in refused("few_shot", f"--max_bad={share}", output=tmp_path / "out")


@pytest.mark.parametrize("value", ["NaN", "-Infinity", '[1, {"b": NaN}]'])
def test_what_is_not_json_in_an_unknown_key_is_a_bad_record(value, sample, tmp_path):
    shutil.copytree(sample, tmp_path / "sgd")
    path = tmp_path / "sgd/test/dialogues_001.json"
    path.write_text(path.read_text().replace('"dialogue_id"', f'"note": {value}, "dialogue_id"', 1))
    flags = {"sgd": tmp_path / "sgd", "output": tmp_path / "out", "quiet": True}
    told = refused("perturb", "typos", **flags, status=1)
    assert "dialogues_001.json: dialogue [0]: not_sgd: Out of range float values are not JSON compliant" in told
    made = run("perturb", "typos", **flags, max_bad="100%")
    (letter,) = made.dead_letters
    assert letter["reason"].startswith("not_sgd: Out of range float values")
    assert not [name for name, data in made.files.items() if b"NaN" in data and name.endswith("json")]
