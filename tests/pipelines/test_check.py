"""``parapet check``: what files are recognised as, what is wrong with them, where, and the exit status."""

import json
import os
import shutil
from pathlib import Path

import kit
import pytest
from kit import BUNDLED, cases, json_of, refused, run, write
from multiwoz_corpus import write_corpus

HEADER = "HITId,AssignmentId,WorkerId,RequesterAnnotation,Answer.slot_0\n"


def findings(*paths, status=1):
    """The findings of each kind, as (position, pointer, message), and their severities."""
    made = run("check", "--json", *map(str, paths), status=status)
    kinds, severities = {}, {}
    for finding in map(json.loads, made.output.splitlines()):
        kinds.setdefault(finding["kind"], []).append((finding["position"], finding["pointer"], finding["message"]))
        severities[finding["kind"]] = finding["severity"]
    return kinds, severities


@pytest.fixture
def corpus(tmp_path):
    """A part of the sample; a function changes the dialogues and the schema of the split."""
    dialogues, schema = (json_of(BUNDLED / "train" / name) for name in ("dialogues_001.json", "schema.json"))

    def change(edit):
        edit(dialogues, schema)
        write(tmp_path / "corpus/train/dialogues_001.json", dialogues)
        write(tmp_path / "corpus/train/schema.json", schema)
        return tmp_path / "corpus"

    return change


def test_what_contradicts_the_schema_or_the_text_of_a_dialogue(corpus):
    def edit(dialogues, schema):
        frame = dialogues[0]["turns"][0]["frames"][0]
        (slots,) = (entry["slots"] for entry in schema if entry["service_name"] == frame["service"])
        open_slot, closed = (next(one["name"] for one in slots if one["is_categorical"] is of) for of in (False, True))
        frame["state"]["slot_values"] = {closed: ["purple"], open_slot: ["nobody's words", "of \x1b[31m red"]}
        frame["slots"] = [{"slot": open_slot, "start": 0, "exclusive_end": 2}]
        frame["actions"].append({"act": "INFORM", "slot": "ghost", "values": []})
        dialogues[1]["services"].append("Ghost_1")
        dialogues[1]["turns"][0]["frames"][0]["slots"] = [{"slot": open_slot, "start": 900, "exclusive_end": 901}]
        dialogues[2]["turns"].pop(1)
        dialogues[3]["dialogue_id"] = dialogues[2]["dialogue_id"]
        dialogues[4]["turns"][0]["utterance"] = 5
        system = next(turn for turn in dialogues[5]["turns"] if "service_call" in turn["frames"][0])
        system["frames"][0]["service_call"]["parameters"] = {}

    kinds, severities = findings(corpus(edit))
    turn = json_of(BUNDLED / "train/dialogues_001.json")[0]["turns"][0]
    text, last = turn["utterance"][:2], len(turn["frames"][0]["actions"])
    assert kinds["categorical_value"][0][:2] == ("1_00000, turn 0", "/0/turns/0/frames/0/state")
    assert kinds["categorical_value"][0][2].startswith("'purple' is not a possible value of slot ")
    assert len(kinds["categorical_value"]) == 1  # whose value later turns do not have
    assert kinds["value_not_said"][0][2].partition(" is ")[2] == '"nobody\'s words", which nobody has said so far'
    span = ("1_00000, turn 0", "/0/turns/0/frames/0/slots/0", f"{text!r} is not a value of its slot")
    assert kinds["span_value"] == [span]
    (ghost,) = (row for row in kinds["reference"] if "ghost" in row[2])
    assert ghost[1:] == (f"/0/turns/0/frames/0/actions/{last}/slot", "the service has no slot 'ghost'")
    assert any(row[2] == "no schema for service 'Ghost_1'" for row in kinds["reference"])
    assert kinds["span"][0][2] == "span 900-901 is not inside the utterance"
    speaker = ("/2/turns/1/speaker", "the speaker is the user, as the turn before")
    assert [row[1:] for row in kinds["speakers"]] == [speaker]
    assert kinds["duplicate_id"][0][1] == "/3"
    ((_, pointer, message),) = kinds["format"]
    assert (pointer, message) == ("/4/turns/0/utterance", "Expected `str`, got `int`")
    assert "requires slot" in kinds["call_incomplete"][0][2]
    warnings = {kind for kind, severity in severities.items() if severity == "warning"}
    assert warnings == {"value_not_said", "speakers", "call_incomplete"}


def test_a_bad_service_is_reported_once_and_not_again_for_each_dialogue(corpus):
    def edit(_, schema):
        schema[0]["intents"][0]["required_slots"].append("ghost")

    kinds, _ = findings(corpus(edit))
    assert [(len(rows), rows[0][1]) for rows in kinds.values()] == [(1, "/0/intents/0/required_slots")]
    assert list(kinds) == ["schema"]


def test_the_terminal_shows_the_first_of_each_kind_and_warnings_alone_are_no_failure(corpus):
    def edit(dialogues, _):
        for dialogue in dialogues[:5]:
            del dialogue["turns"][1]
        dialogues[0]["turns"][0]["frames"][0]["slots"] = []

    made = run("check", str(corpus(edit)), status=0)
    assert made.output.count("the speaker is the user, as the turn before") == 3
    assert "warning: speakers, 5 (turns whose speakers do not alternate" in made.output
    assert "  and 2 more: --json lists all" in made.output
    assert made.output.endswith("\n0 errors, 7 warnings\n")  # two values were said in turns that are gone


def test_hostile_text_does_not_reach_the_terminal(tmp_path):
    turn = kit.turn("USER", "In Oslo, please", kit.frame("A\x1b[2J\u202e", state=kit.state()))
    write(tmp_path / "schema.json", (BUNDLED / "test/schema.json").read_text("utf-8"))
    path = write(tmp_path / "dialogues_001.json", [{"dialogue_id": "1\x07\n", "services": [], "turns": [turn]}])
    for flags in ([], ["--json"]):
        output = run("check", str(path), *flags, status=1).output
        assert output.replace("\n", "").isprintable()
        assert "no schema for service" in output


def test_sound_data_has_no_findings(tmp_path):
    """The sample, SGD's layout with a schema beside the dialogues, and MultiWOZ's with one schema for all splits."""
    multiwoz = write_corpus(tmp_path / "multiwoz", {"train": [["hotel", "taxi"]] * 3, "test": [["train"]] * 3})
    shutil.copytree(BUNDLED / "test", tmp_path / "split")
    paths = [BUNDLED, BUNDLED / "crowd/rewrites.csv", BUNDLED / "tools", multiwoz, tmp_path / "split"]
    made = run("check", *map(str, paths))
    assert made.output.endswith("\n0 errors, 0 warnings\n")
    assert f"{multiwoz}: a corpus of 8 services and 2 files of dialogues" in made.output


TOOL = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]}}
TASK = {"id": "x_0", "question": [], "function": [TOOL]}


def test_tools_and_tasks(tmp_path):
    tools = write(tmp_path / "tools.json", [TOOL, {"name": "g", "parameters": 3}])
    kinds, _ = findings(tools)
    told = "expected a JSON Schema, found a number; it stays unchanged"
    assert kinds == {"schema": [("item 2", "/parameters", told)]}
    rows = [TASK, {**TASK, "id": "x_1"}, {**TASK, "id": "irrelevance_0"}, {**TASK, "id": "x_2"}]
    rows[1]["function"] = [TOOL, {"name": "g", "parameters": 3}]
    tasks = write(tmp_path / "t/tasks.jsonl", rows)
    truths = {"x_0": [{"f": {"a": ["one"], "b": [1]}}], "x_2": [{"h": {}}]}
    lines = [json.dumps({"id": name, "ground_truth": truth}) for name, truth in truths.items()]
    beside = write(tmp_path / "t/possible_answer/tasks.jsonl", "\n".join(lines))
    write(tmp_path / "t/tools.json", [TOOL])  # does not hide the tasks
    kinds, _ = findings(tmp_path / "t")
    assert kinds == {
        "schema": [("line 2", "/function/1/parameters", "expected a JSON Schema, found a number")],
        "value_of_other_type": [("x_0", "/ground_truth/0/f/a", "'a' must be 'one', but its type is 'integer'")],
        "unknown_parameter": [("x_0", "/ground_truth/0/f/b", "'b' is in the right call, but not in the schema")],
        "no_right_calls": [("x_1", "", f"{beside} has no right calls for 'x_1'")],
        "unknown_function": [("x_2", "/ground_truth/0/h", "the task has no function 'h'")],
    }
    write(beside, f'{lines[0]}\n{{"id": "x_2", "ground_truth": 3}}')
    assert findings(tasks)[0]["unreadable"] == [("x_2", "/ground_truth", "Expected `array`, got `int`")]
    write(tasks, [TASK, TASK])
    assert findings(tasks)[0] == {"unreadable": [("line 2", "/id", "the id 'x_0' appears twice")]}


def test_predictions_answers_and_decisions(tmp_path):
    lines = ['{"id": "a", "result": []}', '{"id": "a", "refused": true}', "{oops", "3", '{"id": "b", "unread": "cut"}']
    write(tmp_path / "predictions.jsonl", "\n".join(lines))
    write(tmp_path / "answers.csv", f"{HEADER}1,A1,W,Hotels_1:names,x\n1,,W,Hotels_1:names,x\n1,A2,W,nothing,x\n")
    write(tmp_path / "decisions.csv", "response_id,decision,text\nA1:slot_0,maybe,\n")
    kinds, severities = findings(tmp_path)
    assert kinds["duplicate_id"] == [("line 2", "", "id a appears twice")]
    assert [row[0] for row in kinds["unreadable"]] == ["line 3", "line 4"]
    assert [row[0] for row in kinds["no_answer"]] == ["line 2", "line 5"]
    assert [row[0] for row in (*kinds["no_assignment_id"], *kinds["no_task"])] == ["row 3", "row 4"]
    assert "bad_decision" in kinds
    assert severities["no_answer"] == "warning"


@cases(
    "name content told",
    ("api.yaml", "openapi: 3.0.0\npaths: {}\n", "OpenAPI description: write each operation as a tool"),
    ("chats.csv", "text,intent\nHi,greet\n", "is a table, but not of answers"),
    ("empty.json", "", "is empty: expected a corpus"),
    ("words.txt", "Hello there", "begins with 'Hello there': expected a corpus"),
    ("rows.json", '[{"id": "a", "result": []},\n{"id": "b"}]', "is JSON, but was not recognised"),
    ("broken.json", '[{"dialogue_id": 1,]', "not JSON"),
    ("data.json.gz", "\x1f\x8b", "gzip"),
)
def test_what_newcomers_have_is_named_with_what_to_do(tmp_path, name, content, told):
    path = tmp_path / name
    path.write_bytes(content.encode("latin-1"))
    ((_, _, message),) = (row for rows in findings(path)[0].values() for row in rows)
    assert told in message


def test_folders_and_paths_that_do_not_exist(tmp_path):
    (tmp_path / "empty").mkdir()
    assert findings(tmp_path / "empty")[0]["not_recognised"][0][2].startswith("is empty: expected a corpus (train/")
    write(tmp_path / "other/notes.md", "x")
    assert "has only notes.md: expected" in findings(tmp_path / "other")[0]["not_recognised"][0][2]
    write(tmp_path / "chat/a.jsonl", '{"messages": [{"role": "user", "content": "Hi"}]}\n')
    write(tmp_path / "chat/b.csv", "text,intent\nHi,greet\n")
    assert findings(tmp_path / "chat", status=0)[1] == {"not_recognised": "warning"}
    assert "there is no such file or folder" in refused("check", str(tmp_path / "nowhere"))


DATA = Path(os.environ.get("PARAPET_DATA", "")).resolve()


@pytest.mark.skipif(not os.environ.get("PARAPET_DATA"), reason="PARAPET_DATA is not set: real data")
def test_real_data_has_the_findings_that_were_read_one_by_one():
    """SGD calls a service 18 times without a slot that its intent requires; nothing else is wrong with it."""
    kinds, _ = findings(DATA / "sgd", DATA / "sgd_more", DATA / "mturk/names.csv", status=0)
    assert {kind: len(rows) for kind, rows in kinds.items()} == {"call_incomplete": 18}
    kinds, _ = findings(DATA / "agents")
    assert {kind: len({row[0] for row in rows}) for kind, rows in kinds.items()} == {
        "value_outside_enum": 20, "value_of_other_type": 1, "required_left_out": 2, "not_recognised": 1
    }  # fmt: skip
