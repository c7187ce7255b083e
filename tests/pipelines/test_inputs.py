"""Every command reports a local input that does not exist at once; a missing extra ends with the status of usage."""

import json
import re
import shutil
from argparse import Namespace

import pytest
from kit import refused, run

from parapet.pipelines import compose
from parapet.pipelines.command import check_there, run_checked
from parapet.pipelines.dispatch import PIPELINES, actions_of, parser_of
from parapet.pipelines.flags import StrictParser, is_input
from parapet.pipelines.main import main
from parapet.schemas.errors import InputError, MissingExtra, install_line


@pytest.mark.parametrize(
    ("error", "status"), [(MissingExtra("boto3", "mturk"), 2), (InputError("no such key", "a.csv"), 1)]
)
def test_a_missing_extra_is_the_user_s_whenever_it_is_found(error, status, capsys):
    def act(*_):
        raise error

    def check(_):
        raise error

    parser = StrictParser("practice", "Nothing.", "  parapet practice")
    assert run_checked(parser, [], lambda args: args, act, "") == status
    assert run_checked(parser, [], check, act, "") == 2
    assert str(error) in capsys.readouterr().err
    if isinstance(error, MissingExtra):
        assert str(error) == f"boto3 is not installed: {install_line('mturk')}"


def test_a_folder_is_refused_where_a_file_is_read(tmp_path):
    """By every flag of every command whose value is a file: some ended with the system's own error."""
    told = {}
    for command in PIPELINES:
        for action in actions_of(command) or {"": ""}:
            parser = parser_of(command, action)
            for option in parser._actions:
                if is_input(option) and option.metavar == "FILE":
                    with pytest.raises(InputError) as refused:
                        check_there(parser, Namespace(**{option.dest: str(tmp_path)}))
                    told[command, action, option.dest] = (refused.value.reason, refused.value.path)
    assert len(told) > 30
    assert set(told.values()) == {("is a folder; give a file", str(tmp_path))}


@pytest.fixture(scope="module")
def typos(tmp_path_factory):
    out = tmp_path_factory.mktemp("typos") / "out"
    run("perturb", "typos", output=out, workers="1")
    return out


@pytest.mark.parametrize("below", ["", "typos"])
@pytest.mark.parametrize(
    "command",
    [
        "rewrite",
        "augment --sets oracle",
        "evaluate --task dst --model keywords",
        "evaluate --task response --predictions reference",
    ],
)
def test_sets_of_dialogues_are_no_schema_variants(typos, tmp_path, capfd, command, below):
    """They have the schemas of the corpus itself: distances were 0, dialogues were rewritten to the same names."""
    flag = "--oracle" if "oracle" in command else "--variants"
    assert main([*command.split(), flag, str(typos / below), "--output", str(tmp_path / "out"), "--quiet"]) == 2
    error = capfd.readouterr().err
    assert f"{typos / below}: holds what 'parapet perturb typos' wrote" in error
    assert f"{flag} takes variants of the schemas" in error


def test_statistics_are_of_schema_variants(typos, tmp_path):
    assert "holds what 'parapet perturb typos' wrote" in refused("statistics", variants=typos, output=tmp_path / "out")


def test_compose_takes_the_folder_of_a_batch(tmp_path, sample, capfd):
    """As compose_variations and evaluate do; it said that there is no such file."""
    (tmp_path / "batch").mkdir()
    batch = shutil.copy(sample / "crowd" / "assignments.jsonl", tmp_path / "batch")
    args, _ = compose.parser().parse(
        ["--responses", str(tmp_path / "batch"), "--schemas", str(sample), "--output", "out"]
    )
    assert compose.check(args).sources.responses == [str(batch)]
    flags = ["--schemas", str(sample), "--responses", batch, "--decisions", str(tmp_path)]
    assert main(["compose", *flags, "--output", str(tmp_path / "out"), "--quiet"]) == 2
    assert "is a folder; give a file" in capfd.readouterr().err


def test_what_does_not_match_is_said_in_a_few_lines(tmp_path, sample, capfd):
    for name in ("v1", "v2"):
        for split in ("train", "dev", "test"):
            schema = json.loads((sample / split / "schema.json").read_text())
            for i, service in enumerate(schema):
                service["service_name"] = f"Other{split}{i}_1"
            (tmp_path / name / split).mkdir(parents=True)
            (tmp_path / name / split / "schema.json").write_text(json.dumps(schema))
    assert main(["rewrite", "--variants", str(tmp_path), "--output", str(tmp_path / "out"), "--quiet"]) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 7
    assert re.fullmatch("and [0-9]+ more", lines[-1])


def test_a_file_without_dialogues_makes_no_tasks(tmp_path):
    (tmp_path / "examples.json").write_text("[]")
    flags = ["--task", "rewrites", "--dialogues", str(tmp_path / "examples.json"), "--workers", "1", "--quiet"]
    told = refused("hits", *flags, output=tmp_path / "out", status=1)
    assert "--dialogues: has no user turns, so nothing was written" in told
    assert not (tmp_path / "out" / "run.json").exists()


def test_a_folder_of_sets_says_what_is_in_it(typos, tmp_path, capfd):
    """One of its sets, or a corpus, is what is wanted; of other outputs it says which command wrote them."""
    assert main(["ood", "--sgd", str(typos), "--output", str(tmp_path / "out"), "--quiet"]) == 2
    assert "no schema here: " in (error := capfd.readouterr().err)
    assert "; there are in typos: give one of these folders" in error
    told = refused("ood", sgd=typos / "typos/turns", output=tmp_path / "out")
    assert "; 'parapet perturb typos' wrote this folder" in told


def test_pages_are_no_texts_and_no_variants(tmp_path, sample):
    """Files that some flag once took for lines of text, or never looked at."""
    page, out = tmp_path / "page.html", ["--output", str(tmp_path / "out"), "--quiet"]
    page.write_text("<!doctype html>\n<p>Hello there</p>\n", encoding="utf-8")
    chats = tmp_path / "chats.jsonl"
    chats.write_text('{"turns": [{"speaker": "USER", "text": "Hi"}]}\n', encoding="utf-8")
    told = refused("anonymise", *out, chats=chats, entities=page)
    assert f"{page}: --entities: is HTML or XML, and not plain text" in told
    assert "--source: has no utterances" in refused("ood", *out, sgd=sample, source=page, status=1)
    flags = ["--predictions", "reference", "--reference", str(sample), "--variants", str(page)]
    assert str(page) in refused("evaluate", *flags, *out, task="response")


READERS = [
    *("perturb typos --sgd X", "language_variations --sgd X", "unseen_entities --sgd X", "ood --sgd X"),
    *("augment --sgd X", "few_shot --sgd X", "unseen_services --sgd X", "hits --task rewrites --dialogues X"),
    *("evaluate --task dst --reference X --model keywords", "evaluate --task dst --reference X --predictions X"),
    *("evaluate --task generation --reference X --predictions reference", "evaluate --task validity --sets a=X"),
    *("evaluate --task intent --reference X --predictions X", "evaluate --task ood --reference X --predictions X"),
    *("evaluate --task response --reference X --predictions X", "train tiny_dst --train X"),
    "train classifier --train X",
]


@pytest.mark.parametrize("command", READERS)
def test_two_dialogues_of_a_file_with_one_id_are_refused(command, tmp_path, sample, capfd):
    corpus = tmp_path / "corpus"
    shutil.copytree(sample, corpus)
    for path in corpus.glob("*/dialogues_*.json"):
        dialogues = json.loads(path.read_bytes())
        dialogues[3]["dialogue_id"] = dialogues[1]["dialogue_id"]
        path.write_text(json.dumps(dialogues))
    line = [part.replace("X", str(corpus)) for part in command.split()]
    assert main([*line, "--output", str(tmp_path / "out"), "--quiet"]) in (1, 2)
    assert re.search(
        r"(test|train|dev)/dialogues_00\d\.json: (dialogue )?\[3\]: duplicate_id: dialogue '\d_0000\d' appears twice, "
        r"first at \[1\]: give each its own id",
        capfd.readouterr().err,
    )
    assert not (tmp_path / "out" / "run.json").exists()
