"""``parapet compose_variations`` as a person runs it: the sample, odd answers, other corpora, the same bytes."""

import csv
import json
from xml.sax.saxutils import escape

import pytest
from kit import TWO_WORKERS, cases, corpus, files_of, refused, rows_of, run, sample_dialogues, write

from parapet.schemas.layout import sample_root
from parapet.transforms.crowd.hits.page import read_shortfall

CROWD = sample_root() / "crowd"
COLUMNS = ["AssignmentId", "WorkerId", "RequesterAnnotation", "Answer.paraphrase", "Answer.typos", "Answer.simplified"]


def compose(out, *flags, **how):
    return run("compose_variations", *flags, output=out, **how)


def write_batch(path, *rows, columns=COLUMNS):
    with path.open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([columns, *rows])
    return path


def as_api(row):
    """A row of the requester site as the API would give it."""
    fields = {name.removeprefix("Answer."): text for name, text in row.items() if name.startswith("Answer.")}
    answer = "<Answer><QuestionIdentifier>{}</QuestionIdentifier><FreeText>{}</FreeText></Answer>"
    answers = "".join(answer.format(name, escape(text)) for name, text in fields.items())
    item = {name: row[name] for name in ("AssignmentId", "WorkerId", "HITId", "AssignmentStatus", "AcceptTime")}
    item |= {"SubmitTime": row["SubmitTime"], "RequesterAnnotation": row["Input.task_id"]}
    return json.dumps({**item, "Answer": f"<QuestionFormAnswers>{answers}</QuestionFormAnswers>"}) + "\n"


@pytest.fixture(scope="module")
def composed(tmp_path_factory):
    """The sample."""
    return compose(tmp_path_factory.mktemp("composed") / "out").folder


def test_what_is_short_can_be_asked_again(composed):
    [row] = rows_of(composed / "shortfall.csv")
    assert (row["task_id"], row["kind"], row["in_review"]) == ("1_00001:8:rewrites", "simple", "0")
    assert read_shortfall(str(composed / "shortfall.csv")) == {("1_00001:8:rewrites", "simplified"): 1}
    held = {row["response_id"] for row in rows_of(composed / "responses.parquet") if row["disposition"] == "review"}
    assert {row["response_id"] for row in rows_of(composed / "review.csv")} == held
    page = (composed / "review.html").read_text()
    assert "parapet compose_variations --decisions" in page
    assert all(response in page for response in held)


def test_the_same_bytes_from_the_api_twice_in_pieces_and_on_two_workers(composed, tmp_path):
    rows = rows_of(CROWD / "rewrites.csv")
    folder = tmp_path / "batch"
    write(folder / "assignments.jsonl", "".join(as_api(row) for row in reversed(rows[10:])))
    first = write_batch(tmp_path / "b.csv", *(list(row.values()) for row in rows[30:]), columns=list(rows[0]))
    last = write_batch(tmp_path / "a.csv", *(list(row.values()) for row in rows[:30]), columns=list(rows[0]))
    assert compose(tmp_path / "out", "--responses", folder, last, first, last, *TWO_WORKERS).files == files_of(composed)


def test_decisions_and_require_complete(tmp_path):
    decisions = CROWD / "rewrites_decisions.csv"
    composed = compose(tmp_path / "out", "--decisions", decisions, "--require_complete")
    assert composed.rows("shortfall.csv") == []
    rows = {row["response_id"]: row for row in composed.rows("responses.parquet")}
    for decision in rows_of(decisions):
        row = rows[decision["response_id"]]
        if decision["decision"] == "reject":
            assert (row["disposition"], row["reason"]) == ("rejected", f"reviewer: {decision['reason']}")
        else:
            assert (row["disposition"], row["canonical"]) == ("used", decision["text"] or row["text"])
    assert composed.json("statistics.json")["decisions"] == {"accept": 1, "fix": 1, "reject": 1}


def test_what_cannot_be_used_is_a_dead_letter(tmp_path):
    batch = write_batch(
        tmp_path / "batch.csv",
        ["A1", "AWORKER000001", "1_00001:8:rewrites", "What it has: a cracked screen.", "", ""],
        ["A2", "AWORKER000001", "9_00001:8:rewrites", "Hello", "", ""],
        ["A3", "AWORKER000001", "1_00001:9:rewrites", "Hello", "Helo", ""],
        ["A4", "AWORKER000001", "1_00001:99:rewrites", "Hello", "", ""],
        ["A5", "AWORKER000001", "Gyms_1:names", "Hello", "", ""],
        ["A6", "AWORKER000001", "1_00001:8:rewrites", "x" * 20_001, "", "A cracked screen."],
        ["A7", "AWORKER000001", "../../1_00001:8:rewrites", "Hello", "", ""],
        ["A8", "AWORKER000001", "1_00000:12:rewrites", "Thank you, that was stellar.", "", ""],
        ["A8", "AWORKER000001", "1_00000:12:rewrites", "Something else entirely.", "", ""],
    )
    columns, reviewed = ["response_id", "decision", "text"], [["A2:paraphrase", "accept", ""]]
    reviewed.append(["A9:paraphrase", "reject", ""])
    decisions = write_batch(tmp_path / "decisions.csv", *reviewed, columns=columns)
    composed = compose(tmp_path / "out", responses=batch, decisions=decisions)
    assert {(letter["key"], letter["reason"].partition(":")[0]) for letter in composed.dead_letters} == {
        ("A2", "unknown_dialogue"),
        ("A3", "unknown_turn"),
        ("A4", "unknown_turn"),
        ("A5", "no_task"),
        ("A6:paraphrase", "too_large"),
        ("A7", "unknown_dialogue"),
        ("A8", "conflicting_assignment"),
        ("A2:paraphrase", "unused_response"),
        ("A9:paraphrase", "unknown_response"),
    }
    answered = {row["response_id"]: row["reason"] for row in composed.rows("responses.parquet") if row["text"]}
    assert answered == {"A1:paraphrase": "", "A6:simplified": ""}
    assert "10 records could not be used" in composed.errors
    only_bad = write_batch(tmp_path / "bad.csv", ["A5", "AWORKER000001", "Gyms_1:names", "Hello", "", ""])
    compose(tmp_path / "none", responses=only_bad, status=1)


def test_the_tasks_say_what_nobody_answered_and_whether_the_corpus_is_the_same(tmp_path):
    tasks = tmp_path / "tasks"
    asked = run("hits", task="rewrites", split="test", output=tasks).rows("manifest.jsonl")
    out = compose(tmp_path / "out", hits=tasks)
    assert out.json("statistics.json")["turns"] == len(asked)
    answered = {(line["dialogue_id"], line["turn"], line["kind"]) for line in out.rows("rewritten.jsonl")}
    short = {(row["dialogue_id"], int(row["turn"]), row["kind"]) for row in out.rows("shortfall.csv")}
    kinds = ("paraphrase", "typos", "verbose", "simple")
    assert short == {(task["dialogue_id"], task["turn"], kind) for task in asked for kind in kinds} - answered
    text = json.dumps(sample_dialogues()).replace("cracked screen.", "cracked screen!")
    flags = {"sgd": corpus(tmp_path / "corpus", test=json.loads(text)), "responses": CROWD / "rewrites.csv"}
    told = compose(tmp_path / "other", **flags, hits=tasks, status=1).errors
    assert "1_00001:8:rewrites has changed: workers saw 'It has a cracked screen.'" in told
    assert not (tmp_path / "other" / "run.json").exists()


@cases(
    "flags told",
    (["--sgd", str(sample_root())], "is required: give the files with the answers"),
    (["--split", "all"], "there are no dialogues in 'all'"),
    (["--hits", str(sample_root())], "manifest.jsonl: --hits: not the output of 'parapet hits'"),
    (["--decisions", str(CROWD / "rewrites.csv")], "missing columns: response_id, decision"),
)
def test_flags_that_cannot_work(flags, told, tmp_path):
    assert told in refused("compose_variations", *flags, output=tmp_path / "out")
