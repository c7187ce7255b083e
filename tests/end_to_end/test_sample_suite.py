"""``parapet suite sample`` and ``parapet suite tools``."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import datasets
import mlcroissant
import pytest
from chat_server import ChatServer
from commands import RELEASE
from kit import BUNDLED, SAMPLE, cases, json_of, refused, rows_of, run, write

from parapet.evaluation.tools.exports import right_calls
from parapet.evaluation.tools.tasks import read_tasks
from parapet.pipelines.main import main
from parapet.transforms.perturb.speech import CACHE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SAMPLE, "root", BUNDLED)
        run("suite", "sample", output=out)
    return out


@pytest.mark.thorough
def test_every_page_that_the_demo_links_is_there(demo):
    seen, todo = set(), [demo / "index.html"]
    while todo:
        page = todo.pop()
        links = re.findall(r"""\s(?:href|src)=["']([^"'#][^"']*)["']""", page.read_text(encoding="utf-8"))
        for link in map(html.unescape, links):
            assert not re.match(r"https?:|//", link), f"{page} needs the network: {link}"
            target = (page.parent / link).resolve()
            assert target.is_file(), f"{page} links {link}"
            if target not in seen and target.suffix == ".html":
                todo.append(target)
            seen.add(target)
    names = {str(path.relative_to(demo.resolve())) for path in seen}
    assert {"hits/index.html", "compose/report.html", "compose/review.html", "statistics/report.html"} <= names


@pytest.mark.thorough
def test_the_demo_warns_of_nothing(demo):
    logs = {path: path.read_text(encoding="utf-8") for path in (demo / ".suite/logs").rglob("*.log")}
    assert len(logs) > 15
    assert [line for text in logs.values() for line in text.splitlines() if line.startswith("warning")] == []


def test_the_process_that_steps_are_forked_from_warns_of_nothing():
    words = [sys.executable, "-c", "import parapet.pipelines.suite.preloaded"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.usefixtures("bundled_sample")
def test_the_sample_has_all_transcripts_of_its_speech_errors(tmp_path):
    """After a change of the sample, docs/perturbations.md says how to make them."""
    pytest.importorskip("hibari")
    run("suite", "sample", only="sets/speech_errors", output=tmp_path)
    assert not [*tmp_path.rglob(CACHE)]


@pytest.mark.thorough
@pytest.mark.parametrize("width", [1280, 390])
def test_the_table_scrolls_beside_its_first_column(demo, width, browser):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto((demo / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    first, folded = page.locator(".scroll").first, page.locator("details .scroll").first
    headings = [heading.inner_text() for heading in first.locator("thead th").all()]
    assert headings[2:8] == ["original", "v1", "v2", "v3", "v4", "v5"]
    assert not [heading for heading in headings if "-env" in heading]
    assert page.get_by_text(f"{len(headings)} columns: scroll sideways to see all of them").first.is_visible()
    left = first.locator("tbody th").first.bounding_box()["x"]
    first.evaluate("element => element.scrollLeft = element.scrollWidth")
    assert first.evaluate("element => element.scrollLeft") > 50
    assert first.locator("tbody th").first.bounding_box()["x"] == left
    last = first.locator("thead th").last.bounding_box()
    assert last["x"] + last["width"] <= width
    assert not folded.is_visible()
    page.locator("summary").first.click()
    assert folded.is_visible()
    page.locator('a[href="scores/names/dst/failures/v5.html"]').click()
    assert "Where names is wrong on v5" in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.locator("summary").first.click()
    assert page.locator("details[open] dt").first.is_visible()


@pytest.mark.thorough
def test_the_demos_numbers(demo):
    composed = json_of(demo / "compose/statistics.json")
    assert sum(service["composed"] for service in composed["services"].values()) == 6
    assert composed["answers"]["used"] == 710
    measured = json_of(demo / "statistics/statistics.json")
    assert measured["original"] == {"slot_names_seen": pytest.approx(6 / 19, abs=1e-6), "intent_names_seen": 0.2}
    distances = [measured["variants"][f"v{k}"]["name_distance"] for k in range(1, 6)]
    assert distances == sorted(distances)
    assert {k: v["name_distance"] for k, v in composed["variants"].items()} == pytest.approx(
        {k: v["name_distance"] for k, v in measured["variants"].items()}, abs=1e-6
    )
    assert composed["self_bleu"] == pytest.approx(measured["self_bleu"], abs=1e-6)


@pytest.mark.thorough
@pytest.mark.usefixtures("bundled_sample")
def test_a_second_run_makes_only_what_is_not_there(demo, capsys):
    before = {p.relative_to(demo): p.read_bytes() for p in demo.rglob("*") if p.is_file()}
    (demo / "statistics" / "report.html").unlink()
    assert main(["suite", "sample", "--output", str(demo)]) == 0
    after = {p.relative_to(demo): p.read_bytes() for p in demo.rglob("*") if p.is_file()}
    assert {path: data for path, data in after.items() if path.parts[0] != ".suite"} == {
        path: data for path, data in before.items() if path.parts[0] != ".suite"
    }
    assert "1 step run, 22 unchanged: " in capsys.readouterr().out


@pytest.mark.thorough
def test_every_file_that_the_pages_name_is_made(demo, sample, tmp_path):
    answers = [sample / "crowd/names.csv", sample / "crowd/descriptions.csv"]
    one = {"schemas": sample / "test/schema.json", "responses": answers}
    run("compose", **one, decisions=sample / "crowd" / "decisions.csv", output=tmp_path / "one")
    pages = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"))}
    named = {path for text in pages.values() for path in re.findall(r"\bOUT/(\w[\w./]*\w)", text)}
    named = {path.replace("/SET", "/original") for path in named} - {"NAME/VERSION", "NAME", "STEP", "SET"}
    named -= {"sets/NAME", "scores/SYSTEM/TASK"}
    named -= {"answers/original.jsonl", "predictions", "predictions/original/SPLIT", "predictions/run", "rules.toml"}
    named -= {"responses", "responses/original/SPLIT/responses.jsonl"}
    assert "responses.parquet" in named
    outputs = [demo, *(path.parent for folder in (demo, tmp_path) for path in folder.rglob("run.json"))]
    assert not [path for path in sorted(named) if not any((out / path).exists() for out in outputs)]
    files = [path.name for path in (tmp_path / "one").iterdir() if path.is_file()]
    assert not [name for name in files if f"`OUT/{name}`" not in pages["compose.md"]]


def test_without_a_place_for_the_key_there_is_no_traceback(tmp_path, monkeypatch, capfd):
    monkeypatch.delenv("PARAPET_WORKER_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/none")
    assert main(["suite", "sample", "--output", str(tmp_path / "out")]) == 2
    assert capfd.readouterr().err.splitlines()[-1].endswith("set PARAPET_WORKER_KEY instead")
    assert not (tmp_path / "out").exists()


# The sample's tools in other words, an agent that knows the calls, the release of it all. ``make test-all`` builds the
# whole suite of the sample; ``make test`` one of two tasks, whose tools keep their words.


TOOL_SETS = ["original", "v1", "v2", "v3", "v4", "v5", "typos", "verbose", "distractors-5", "missing_tool"]


def oracle(tasks, out):
    """Answers with the right calls of the set whose tools and request are sent."""
    known = {}

    def answer(body):
        if not known:
            for path in [tasks, *out.glob("rewrite/*/tasks.jsonl"), *out.glob("sets/*/*/*.jsonl")]:
                for one in read_tasks(str(path)).values():
                    known[one.task.request, *one.task.legal_names.values()] = right_calls(one)
        names = [tool["function"]["name"] for tool in body["tools"]]
        calls = []
        for call in known[body["messages"][-1]["content"], *names]:
            function = {"name": call["name"].replace(".", "_"), "arguments": json.dumps(call["arguments"])}
            calls.append({"id": f"c{len(calls)}", "type": "function", "function": function})
        return {"content": None if calls else "No tool fits.", "tool_calls": calls or None}

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
def tools(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SAMPLE, "root", BUNDLED)
        return run_suite(tmp_path_factory.mktemp("tools") / "out")


@pytest.mark.thorough
def test_who_knows_the_calls_is_right_whatever_the_words(tools):
    out = tools.folder
    scores = {name: json_of(out / f"scores/{name}/tool_calls/metrics.json") for name in ("model", "keywords")}
    assert set(scores["model"]) - {"#ALL", "#MEAN"} == set(TOOL_SETS)
    assert all(scores["model"][name]["accuracy"] == 1.0 for name in TOOL_SETS)
    assert scores["model"]["#ALL"]["schema_sensitivity"] == 0.0
    assert scores["keywords"]["original"]["accuracy"] > scores["keywords"]["v5"]["accuracy"]
    assert scores["keywords"]["#ALL"]["schema_sensitivity"] > 0.2
    assert "model" in tools.output
    page = (out / "index.html").read_text()
    assert "oracle" in page
    assert "distractors-5" in page


@pytest.mark.thorough
def test_every_variant_has_other_names_and_the_same_calls(tools):
    out = tools.folder
    originals = read_tasks(str(BUNDLED / "tools/tasks.jsonl"))
    names = {}
    for variant in TOOL_SETS[1:6]:
        tasks = read_tasks(str(out / f"rewrite/{variant}/tasks.jsonl"))
        assert [one.task.question for one in tasks.values()] == [one.task.question for one in originals.values()]
        names[variant] = {tool.name for one in tasks.values() for tool in one.task.function}
        assert len(names[variant]) == 12
        assert all("." not in name or name.startswith("cinema.") for name in names[variant])
    names["original"] = {tool.name for one in originals.values() for tool in one.task.function}
    assert len(set().union(*names.values())) == 12 * 6


@pytest.mark.thorough
def test_the_release_is_whole_and_is_loaded(tools, tmp_path):
    root = tools.folder / "release/parapet_tools/1.0.0"
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
    assert len(list(mlcroissant.Dataset(str(root / "croissant.json")).records("v5"))) == 40
    assert json.loads((root / "bfcl/v3/names.json").read_bytes()).keys() == {"choice_0", "choice_1", "choice_2"}


TASKS_OF_RELEASE = RELEASE.partition("[[corpora]]")[0] + '[[tasks]]\nkind = "original"\n'


def release_of(tmp_path, tasks):
    source = write(tmp_path / "release.toml", f'{TASKS_OF_RELEASE}path = "{tasks}"\nname = "original"\n')
    return run("release", "build", config=source, output=tmp_path / "out"), tmp_path / "out/sample/1.0.0"


def test_tasks_that_contradict_themselves_are_released_with_a_warning_and_their_number(tmp_path):
    parameters = {"type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2]}}}
    tasks = [{"id": f"x_{n}", "question": [], "function": [{"name": "f", "parameters": parameters}]} for n in range(4)]
    right = ([{"f": {"n": [3]}}], [{"f": {"n": ["1"]}}], [{"f": {"n": [2]}}], "unknown form")
    truth = [{"id": f"x_{n}", "ground_truth": calls} for n, calls in enumerate(right)]
    write(tmp_path / "possible_answer/tasks.jsonl", truth)
    built, root = release_of(tmp_path, write(tmp_path / "tasks.jsonl", tasks))
    assert "warning: 2 right values contradict the schemas of their tasks' tools: 'parapet check'" in built.errors
    assert json_of(root / "MANIFEST.json")["known_problems"] == {"value_of_other_type": 1, "value_outside_enum": 1}
    assert "every right value is outside the enum" in (root / "README.md").read_text()
    run("release", "verify", root)


def test_a_release_of_tasks_that_was_changed_is_found(tmp_path):
    built, root = release_of(tmp_path, BUNDLED / "tools/tasks.jsonl")
    assert "warning" not in built.errors
    path = root / "bfcl/original/tasks.jsonl"
    path.write_text(path.read_text().replace("KX20417", "KX20418"))
    assert "bfcl/original/tasks.jsonl" in run("release", "verify", root, status=1).output


@cases(
    "entry told",
    ('path = "none.jsonl"\nname = "a"', "there is no such file"),
    ('path = "empty"\nname = "a"', "contains neither train/schema.json, dialogues or tasks"),
    ('path = "tasks.jsonl"', "give it a 'name'"),
    ('path = "twice.jsonl"\nname = "a"', "appears twice"),
    ('path = "rows.jsonl"\nname = "a"', "is not a task"),
)
def test_tasks_that_cannot_be_released(tmp_path, entry, told):
    line = (BUNDLED / "tools/tasks.jsonl").read_text().splitlines(keepends=True)[0]
    write(tmp_path / "tasks.jsonl", line)
    write(tmp_path / "twice.jsonl", line * 2)
    write(tmp_path / "rows.jsonl", '{"id": "a"}\n')
    (tmp_path / "empty").mkdir()
    config = write(tmp_path / "release.toml", f"{TASKS_OF_RELEASE}{entry}\n")
    assert told in refused("release", "build", config=config, output=tmp_path / "out", status=(1, 2))


def test_tasks_of_ones_own_take_the_place_of_the_samples(tmp_path):
    """Nobody has reworded their tools: without the extra ``translate``, or variants, they stay as they are."""
    out, mine = tmp_path / "made", write(tmp_path / "mine.jsonl", rows_of(BUNDLED / "tools/tasks.jsonl")[:2])
    write(tmp_path / "possible_answer/mine.jsonl", rows_of(BUNDLED / "tools/possible_answer/tasks.jsonl")[:2])
    steps = run("suite", "tools", "--dry_run", tasks=mine, output=out)
    assert "back_translate" in steps.output + steps.errors
    assert "compose" not in steps.output
    assert "none.jsonl" in refused("suite", "tools", "--dry_run", tasks=tmp_path / "none.jsonl", output=out)
    run_suite(out, "--skip", "back_translate", "sets/verbose", "sets/distractors", "sets/typos", tasks=mine)
    # Neither the page nor the release says that they are ours.
    card, config = out / "release/mine/1.0.0/README.md", (out / "release.toml").read_text()
    for text in ((out / "index.html").read_text(), card.read_text(), config):
        assert not re.findall("CC0|[Pp]ublic domain|twelve tools|40 tasks|authors of Parapet|Parapet's tools", text)
    assert 'name = "Unnamed"' in config
    assert "LicenseRef-not-given" in card.read_text()
    scores = {name: json_of(out / f"scores/{name}/tool_calls/metrics.json") for name in ("model", "keywords")}
    sets = ["original", "missing_tool"]
    assert set(scores["keywords"]) == {"#ALL", "#MEAN", *sets}
    assert [scores["model"][name]["accuracy"] for name in sets] == [1.0] * 2
    assert "oracle" in (out / "index.html").read_text().partition("What the language models answered")[2]
