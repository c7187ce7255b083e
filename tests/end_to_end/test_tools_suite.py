"""``parapet suite tools``: the sample's tools in other words, an agent that knows the calls, the release of it all.

``make test-all`` builds the whole suite of the sample; ``make test`` one of six tasks, whose tools keep their words.
"""

import json
import re

import datasets
import mlcroissant
import pytest
from chat_server import ChatServer
from kit import BUNDLED, SAMPLE, json_of, refused, rows_of, run, write

from parapet.evaluation.tools.exports import right_calls
from parapet.evaluation.tools.tasks import read_tasks

SETS = ["original", "v1", "v2", "v3", "v4", "v5", "typos", "verbose", "distractors-5", "missing_tool"]


def oracle(tasks, out):
    """Answers with the right calls of the set whose tools and request are sent."""
    known = {}

    def key_of(request, names):
        return request, *names

    def answer(body):
        if not known:
            for path in [tasks, *out.glob("rewrite/*/tasks.jsonl"), *out.glob("sets/*/*/*.jsonl")]:
                for one in read_tasks(str(path)).values():
                    names = [*one.task.legal_names.values()]
                    known[key_of(one.task.request, names)] = [
                        {**call, "name": call["name"].replace(".", "_")} for call in right_calls(one)
                    ]
        names = [tool["function"]["name"] for tool in body["tools"]]
        calls = known[key_of(body["messages"][-1]["content"], names)]
        made = [{**call, "arguments": json.dumps(call["arguments"])} for call in calls]
        listed = [{"id": f"c{i}", "type": "function", "function": call} for i, call in enumerate(made)]
        return {"content": None if listed else "No tool fits.", "tool_calls": listed or None}

    return answer


def run_suite(out, *flags, **more):
    """Runs the suite with the oracle as a model behind an endpoint, twice: the second time nobody is asked."""
    with ChatServer(oracle(more.get("tasks", BUNDLED / "tools/tasks.jsonl"), out)) as server:
        model = {"endpoint": server.url, "model": "oracle", "style": "tools"}
        line = [part for key, value in model.items() for part in ("--set", f"systems.model.{key}={value}")]
        said = run("suite", "tools", *line, *flags, output=out, **more)
        asked = len(server.requests)
        again = run("suite", "tools", *line, *flags, output=out, **more)
        assert len(server.requests) == asked
        assert "0 steps run" in again.output
    return said


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("tools") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SAMPLE, "root", BUNDLED)
        return run_suite(out), out


@pytest.mark.thorough
def test_who_knows_the_calls_is_right_whatever_the_words(made):
    said, out = made
    scores = {name: json_of(out / f"scores/{name}/tool_calls/metrics.json") for name in ("model", "keywords")}
    assert set(scores["model"]) - {"#ALL", "#MEAN"} == set(SETS)
    assert all(scores["model"][name]["accuracy"] == 1.0 for name in SETS)
    assert scores["model"]["#ALL"]["schema_sensitivity"] == 0.0
    assert scores["keywords"]["original"]["accuracy"] > scores["keywords"]["v5"]["accuracy"]
    assert scores["keywords"]["#ALL"]["schema_sensitivity"] > 0.2
    assert "model" in said.output
    page = (out / "index.html").read_text()
    assert "oracle" in page
    assert "distractors-5" in page


@pytest.mark.thorough
def test_every_variant_has_other_names_and_the_same_calls(made):
    _, out = made
    originals = read_tasks(str(BUNDLED / "tools/tasks.jsonl"))
    names = {}
    for variant in SETS[1:6]:
        tasks = read_tasks(str(out / f"rewrite/{variant}/tasks.jsonl"))
        assert [one.task.question for one in tasks.values()] == [one.task.question for one in originals.values()]
        names[variant] = {tool.name for one in tasks.values() for tool in one.task.function}
        assert len(names[variant]) == 12
        assert all("." not in name or name.startswith("cinema.") for name in names[variant])
    names["original"] = {tool.name for one in originals.values() for tool in one.task.function}
    assert len(set().union(*names.values())) == 12 * 6


@pytest.mark.thorough
def test_the_release_is_whole_and_is_loaded(made, tmp_path):
    root = made[1] / "release/parapet_tools/1.0.0"
    assert "0 findings" in run("release", "verify", root).output
    rows = datasets.load_dataset(str(root), "v3", split="test", cache_dir=str(tmp_path))
    assert rows.column_names == ["id", "file", "question", "function", "ground_truth"]
    tasks = read_tasks(str(root / "bfcl/v3/tasks.jsonl"))
    for row in rows:
        expected = tasks[row["id"]]
        assert json.loads(row["ground_truth"]) == expected.calls
        assert [tool["name"] for tool in json.loads(row["function"])] == [tool.name for tool in expected.task.function]
    card = (root / "README.md").read_text()
    assert "| v3 | test | 40 | 160 |" in card
    assert "function-calling" in card
    records = mlcroissant.Dataset(str(root / "croissant.json")).records("v5")
    assert len(list(records)) == 40
    data = (root / "bfcl/v3/names.json").read_bytes()
    assert json.loads(data).keys() == {"choice_0", "choice_1", "choice_2"}


def test_a_release_of_tasks_that_was_changed_is_found(tmp_path):
    source = write(tmp_path / "release.toml", f"""
name = "little"
version = "1.0.0"
licence = "CC0-1.0"
description = "Tasks."
authors = [{{ name = "Ada" }}]
[[tasks]]
path = "{BUNDLED / 'tools/tasks.jsonl'}"
name = "original"
kind = "original"
""")  # fmt: skip
    run("release", "build", config=source, output=tmp_path / "out")
    root = tmp_path / "out/little/1.0.0"
    path = root / "bfcl/original/tasks.jsonl"
    path.write_text(path.read_text().replace("KX20417", "KX20418"))
    assert "bfcl/original/tasks.jsonl" in run("release", "verify", root, status=1).output


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ('path = "none.jsonl"\nname = "a"', "there is no such file"),
        ('path = "empty"\nname = "a"', "contains neither train/schema.json, dialogues or tasks"),
        ('path = "tasks.jsonl"', "give it a 'name'"),
        ('path = "twice.jsonl"\nname = "a"', "appears twice"),
        ('path = "rows.jsonl"\nname = "a"', "is not a task"),
    ],
)
def test_tasks_that_cannot_be_released(tmp_path, entry, told):
    line = (BUNDLED / "tools/tasks.jsonl").read_text().splitlines(keepends=True)[0]
    write(tmp_path / "tasks.jsonl", line)
    write(tmp_path / "twice.jsonl", line * 2)
    write(tmp_path / "rows.jsonl", '{"id": "a"}\n')
    (tmp_path / "empty").mkdir()
    head = 'name = "a"\nversion = "1.0.0"\nlicence = "CC0-1.0"\ndescription = "d"\nauthors = [{ name = "A" }]\n'
    config = write(tmp_path / "release.toml", f'{head}[[tasks]]\nkind = "k"\n{entry}\n')
    assert told in refused("release", "build", config=config, output=tmp_path / "out", status=(1, 2))


def test_tasks_of_ones_own_take_the_place_of_the_samples(tmp_path):
    """Nobody has reworded their tools: without the extra ``translate``, or variants, they stay as they are."""
    rows = [json.loads(line) for line in (BUNDLED / "tools/tasks.jsonl").read_text().splitlines()][:6]
    write(tmp_path / "mine.jsonl", rows)
    write(tmp_path / "possible_answer/mine.jsonl", rows_of(BUNDLED / "tools/possible_answer/tasks.jsonl")[:6])
    steps = run("suite", "tools", "--dry_run", tasks=tmp_path / "mine.jsonl", output=tmp_path / "out")
    assert "back_translate" in steps.output + steps.errors
    assert "compose" not in steps.output
    told = refused("suite", "tools", "--dry_run", tasks=tmp_path / "none.jsonl", output=tmp_path / "out")
    assert "none.jsonl" in told
    out = tmp_path / "made"
    run_suite(out, "--skip", "back_translate", "sets/verbose", "sets/distractors", tasks=tmp_path / "mine.jsonl")
    # Neither the page nor the release says that they are ours.
    card, config = out / "release/mine/1.0.0/README.md", (out / "release.toml").read_text()
    for text in ((out / "index.html").read_text(), card.read_text(), config):
        assert not re.findall("CC0|[Pp]ublic domain|twelve tools|40 tasks|authors of Parapet|Parapet's tools", text)
    assert 'name = "Unnamed"' in config
    assert "LicenseRef-not-given" in card.read_text()
    scores = {name: json_of(out / f"scores/{name}/tool_calls/metrics.json") for name in ("model", "keywords")}
    sets = ["original", "typos", "missing_tool"]
    assert set(scores["keywords"]) == {"#ALL", "#MEAN", *sets}
    assert [scores["model"][name]["accuracy"] for name in sets] == [1.0] * 3
    assert "oracle" in (out / "index.html").read_text().partition("What the language models answered")[2]
