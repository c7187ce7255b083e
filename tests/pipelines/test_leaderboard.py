"""``parapet leaderboard``: submissions to a release that are good, incomplete or hostile."""

import copy
import json
import os
import shutil

import commands
import pytest
from kit import cases, edit, holding, json_of, lacking, refused, rows_of, run, write
from release_folder import sample_corpora, write_release

SETS = ("original", "noisy")
EVIL = "<script>alert(1)</script>"
JGA = "joint_goal_accuracy"


def submit(folder, corpora, toml="", name="right", wrong=0, states="states", second="response"):
    """Writes the reference's states and responses, with errors in the first ``wrong`` user turns of noisy dialogues."""
    for set_name in SETS:
        dialogues = copy.deepcopy(corpora[set_name]["test"]["dialogues_001.json"])
        rows = []
        for dialogue in dialogues:
            for i, turn in enumerate(dialogue["turns"]):
                is_wrong = set_name == "noisy" and i < 2 * wrong
                said = "what?" if is_wrong else turn["utterance"]
                rows += [{"dialogue_id": dialogue["dialogue_id"], "turn": i, "response": said}] * (i % 2)
                for state in [frame["state"] for frame in turn["frames"]] if is_wrong and not i % 2 else ():
                    state["slot_values"] = {}
        write(folder / "states" / set_name / "test" / "dialogues_001.json", dialogues)
        write(folder / "responses" / set_name / "test" / "all.jsonl", rows)
    start = toml or f'name = {json.dumps(name)}\nurl = "https://example.org/?a=1&b=%22"\n'
    write(folder / "submission.toml", f'{start}[predictions]\ndst = "{states}"\n{second} = "responses"\n')


@pytest.fixture(scope="module")
def board(place):
    with commands.alone(place):
        if not (place / "board").exists():
            write_board(place / "board")
    return place / "board"


def write_board(root):
    corpora = sample_corpora(3)
    release = write_release(root / "releases", corpora, {}).rename(root / "release")
    submissions = root / "submissions"
    submit(submissions / "good", corpora, name=f"=1+1 {EVIL}")
    submit(submissions / "weak", corpora, name="Weak", wrong=2)
    submit(submissions / "zz same name", corpora, name="Weak")
    submit(submissions / "incomplete", corpora, name="Incomplete")
    edit(submissions / "incomplete/states/noisy/test/dialogues_001.json", lambda dialogues: dialogues[:1])
    submit(submissions / "<img src=x onerror=alert(2)>", corpora, 'name = "Image"\nurl = "javascript:alert(3)"\n')
    submit(submissions / "linked", corpora, name="Linked")
    os.symlink("/etc/passwd", submissions / "linked/states/original/test/passwd.json")
    submit(submissions / "outside", corpora, name="Outside", states="../good/states")
    submit(submissions / "states", corpora, name="States", second="intent")
    for folder, toml in {"key": "system = 'x'", "blank": "name = ' '", "odd": "name = 'a\u202eb'"}.items():
        submit(submissions / folder, corpora, f"{toml}\n")
    (submissions / "empty").mkdir()
    (submissions / ".hidden").mkdir()
    metrics = [JGA, "combined"]
    run("leaderboard", release=release, submissions=submissions, tasks=["dst", "response"], metrics=metrics,
        output=root / "board")  # fmt: skip


def test_submissions_are_ranked_by_the_mean_of_the_metrics(board):
    content = json_of(board / "board/leaderboard.json")
    assert content["ranks"] == {f"=1+1 {EVIL}": "1", "Weak": "2"}
    averages = content["board"]["average"]
    assert averages[f"=1+1 {EVIL}"]["value"] == pytest.approx((100 + 100 + 200 + 200) / 4)
    assert 0 < averages["Weak"]["value"] < 150
    rows = rows_of(board / "board/table.csv")
    assert {row["system"] for row in rows} == {f"'=1+1 {EVIL}", "Weak"}
    assert {row["set"] for row in rows} == {"#ALL", *SETS}


def test_submissions_that_cannot_be_scored_are_listed_with_the_reason(board):
    reasons = json_of(board / "board/leaderboard.json")["refused"]
    expected = {
        "zz same name": "another submission is called 'Weak'",
        "incomplete": "dst: ",
        "<img src=x onerror=alert(2)>": "submission.toml: url: must begin with https://",
        "linked": "contains a link",
        "outside": "submission.toml: predictions.dst: '../good/states' is not in the folder of the submission",
        "states": "submission.toml: predictions: names no predictions of task response",
        "empty": "there is no submission.toml",
        "key": "submission.toml: Object contains unknown field `system`",
        **dict.fromkeys(("blank", "odd"), "submission.toml: name: must be one line"),
    }
    assert reasons.keys() == expected.keys()
    for folder, reason in expected.items():
        assert reasons[folder].startswith(reason), reasons[folder]


def test_sets_of_choice_and_schemas_without_dialogues(board, tmp_path):
    release = tmp_path / "release"
    shutil.copytree(board / "release", release)
    (schemas,) = release.rglob("sgd/original/test/schema.json")
    write(schemas.parents[2] / "pt/test/schema.json", schemas.read_text())  # back-translated schemas have no dialogues
    folder = tmp_path / "submissions/one"
    submit(folder, sample_corpora(3), name="One")
    shutil.rmtree(folder / "states/noisy")
    paths = {"release": release, "submissions": tmp_path / "submissions"}
    assert "dst: " in refused("leaderboard", "--quiet", **paths, output=tmp_path / "all", status=1)
    made = run("leaderboard", **paths, sets="original", output=tmp_path / "board")
    assert made.json("leaderboard.json")["ranks"] == {"One": "1"}


def test_the_page_escapes_what_submissions_say(board):
    page = (board / "board/index.html").read_text()
    assert not holding(page.replace("alert(3)", ""), "<script", "<img", "javascript:")
    assert not lacking(page, "&lt;img src=x onerror=alert(2)&gt;", 'href="https://example.org/?a=1&amp;b=%22"')


@cases(
    "flags reason",
    (["--tasks", "chess"], "invalid choice: 'chess'"),
    (["--tasks", "ood"], "task ood and the folder with its labels must be given together"),
    (["--split", "dev"], "the release has no dialogues in sgd/original/dev"),
    (["--sets", "loud"], "--sets: the release has no dialogues in sgd/loud/test"),
    (["--output", "submissions/board"], "is the same as --submissions or lies inside it"),
)
def test_flags_that_cannot_work(board, flags, reason, monkeypatch):
    monkeypatch.chdir(board)
    argv = ["--release", "release", "--submissions", "submissions", "--output", "none", *flags]
    assert reason in refused("leaderboard", *argv)


def test_where_none_is_scored_the_reason_is_an_error(board, tmp_path):
    paths = {"submissions": tmp_path / "submissions", "output": tmp_path / "board"}
    submit(paths["submissions"] / "bad", sample_corpora(1), "name = [[[\n")
    errors = refused("leaderboard", "--quiet", release=board / "release", **paths, status=1)
    assert "error: --submissions: no submission was scored; the first: bad: submission.toml: not TOML" in errors
    assert not (tmp_path / "board/run.json").exists()
