"""``parapet export``: tasks as bfcl-eval, inspect-ai and promptfoo read them."""

import json
import re
import shutil
import subprocess
from collections import Counter

import pytest
from kit import BUNDLED, json_of, refused, rows_of, run, write

from parapet.evaluation.tools.exports import is_right, right_calls
from parapet.evaluation.tools.tasks import read_tasks

TASKS = BUNDLED / "tools/tasks.jsonl"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    place = tmp_path_factory.mktemp("exports")
    for name in ("bfcl", "inspect", "promptfoo"):
        assert "original: 40 tasks" in run("export", reference=TASKS, to=name, output=place / name).output
    return place


@pytest.fixture(scope="module")
def tasks():
    return read_tasks(str(TASKS))


def test_files_of_bfcl_have_its_categories_and_types(exported, tmp_path):
    folder = exported / "bfcl/original"
    counts = {path.name: len(rows_of(path)) for path in folder.glob("BFCL*.json")}
    assert counts == {
        "BFCL_v4_irrelevance.json": 6, "BFCL_v4_multiple.json": 28, "BFCL_v4_parallel_multiple.json": 6
    }  # fmt: skip
    back = {row["id"]: row["of"] for row in rows_of(folder / "ids.jsonl")}
    assert back["multiple_0"] == "choice_0"
    # They are read again, and the same calls are right.
    again = read_tasks(str(folder / "BFCL_v4_multiple.json"))
    originals = read_tasks(str(TASKS))
    assert {back[key]: one.calls for key, one in again.items()} == {
        key: one.calls for key, one in originals.items() if key.startswith("choice")
    }
    schema = {"type": "object", "properties": {"type": {"type": ["number", "null"]}, "n": {"type": "integer"}}}
    task = {"id": "a_0", "question": [[{"role": "user", "content": "x"}]]}
    write(tmp_path / "a.jsonl", [{**task, "function": [{"name": "f", "description": "", "parameters": schema}]}])
    write(tmp_path / "possible_answer/a.jsonl", [{"id": "a_0", "ground_truth": [{"f": {"n": [1]}}]}])
    run("export", reference=tmp_path / "a.jsonl", to="bfcl", output=tmp_path / "out")
    (made,) = rows_of(tmp_path / "out/original/BFCL_v4_simple_python.json")
    assert made["function"][0]["parameters"] == {
        "type": "dict", "properties": {"type": {"type": "float"}, "n": {"type": "integer"}}
    }  # fmt: skip


def test_samples_of_inspect_score_their_own_target(exported, tasks):
    rows = rows_of(exported / "inspect/original.jsonl")
    assert [row["id"] for row in rows] == list(tasks)
    for row in rows:
        calls = [{one["name"]: one["arguments"]} for one in json.loads(row["target"])]
        assert is_right(row["metadata"], calls)
        assert is_right(row["metadata"], calls[1:]) == (not calls)
        names = {tool["name"] for tool in row["metadata"]["tools"]}
        assert {name for call in calls for name in call} <= names
        assert not any("." in name for name in names)


# What promptfoo's check is asked: (answer, whether it is right).
ANSWERS = """\
const check = require("./check_calls.cjs");
const config = JSON.parse(require("fs").readFileSync("promptfooconfig.yaml", "utf-8"));
const asked = JSON.parse(process.argv[2]);
console.log(JSON.stringify(asked.map(([id, output]) => {
  const test = config.tests.find((one) => one.description === id);
  return check(output, { vars: test.vars }).pass;
})));
"""


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed: promptfoo's check runs in it")
def test_the_check_of_promptfoo(exported, tasks):
    def calls(key, change=lambda name, arguments: (name, arguments)):
        made = []
        for one in right_calls(tasks[key]):
            name, arguments = change(one["name"].replace(".", "_"), dict(one["arguments"]))
            made.append({"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}})
        return made

    asked = [(key, calls(key)) for key in tasks if tasks[key].calls]
    asked += [(key, "I cannot do that.") for key in tasks if not tasks[key].calls]
    asked += [("parallel_1", calls("parallel_1")[::-1]), ("choice_4", json.dumps(calls("choice_4")))]
    asked += [("choice_3", calls("choice_3", lambda name, of: (name, {**of, "speed": "EXPRESS."})))]
    wrong = [
        ("choice_0", "I cannot do that."),
        ("choice_0", calls("choice_0", lambda name, of: ("f", of))),
        ("choice_0", calls("choice_0", lambda name, of: (name, {**of, "more": 1}))),
        ("choice_3", calls("choice_3", lambda name, of: (name, {**of, "weight": 3}))),
        ("choice_3", calls("choice_3", lambda name, of: (name, {**of, "receiver": {"name": "Nora Lind"}}))),
        ("choice_3", calls("choice_3", lambda name, of: (name, {"weight": 2.5}))),
        ("parallel_1", calls("parallel_1")[:1]),
        ("irrelevance_0", calls("choice_0")),
    ]
    folder = exported / "promptfoo/original"
    line = ["node", "-e", ANSWERS, "-", json.dumps([*asked, *wrong])]
    made = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(made.stdout) == [True] * len(asked) + [False] * len(wrong)
    (test,) = [one for one in json_of(folder / "promptfooconfig.yaml")["tests"] if one["description"] == "choice_4"]
    assert {one["function"]["name"] for one in test["options"]["tools"]} >= {"cinema_bookSeats"}


@pytest.mark.parametrize("to", ["inspect", "promptfoo"])
def test_names_that_would_be_equal_stay_apart(tmp_path, to):
    tools = [{"name": name, "description": "", "parameters": {}} for name in ("notes.search", "notes_search")]
    call = {"id": "c1", "type": "function", "function": {"name": "notes.search", "arguments": "{}"}}
    talk = [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    write(tmp_path / "a.jsonl", [{"id": "a_0", "question": [talk], "function": tools}])
    write(tmp_path / "possible_answer/a.jsonl", [{"id": "a_0", "ground_truth": [{"notes.search": {}}]}])
    run("export", reference=tmp_path / "a.jsonl", to=to, output=tmp_path / "out")
    text = "".join(path.read_text() for path in (tmp_path / "out").rglob("original*") if path.is_file())
    text += "".join(path.read_text() for path in (tmp_path / "out").rglob("promptfooconfig.yaml"))
    names = Counter(re.findall(r"notes[._]search\w*", text))
    assert names.pop("notes_search") == 1
    ((_, n),) = names.items()
    assert n == 3 + (to == "inspect")  # a tool, an earlier call and the right one, once more as the target


def test_tasks_of_one_id_in_two_files(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", TASKS.read_text().splitlines(keepends=True)[0])
        write(tmp_path / f"possible_answer/{name}.jsonl", (TASKS.parent / "possible_answer/tasks.jsonl").read_text())
    told = refused("export", reference=tmp_path, to="inspect", output=f"{tmp_path}-out", status=(1, 2))
    assert "are called 'choice_0'" in told
