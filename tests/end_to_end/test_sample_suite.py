"""``parapet suite sample``, and the way from a shortfall to a top-up."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kit import BUNDLED, SAMPLE, cases, json_of, refused, rows_of, run

from parapet.pipelines.main import main
from parapet.schemas import layout
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
    named -= {"answers/original.jsonl", "predictions", "predictions/original/SPLIT", "rules.toml"}  # of other models
    named -= {"responses", "responses/original/SPLIT/responses.jsonl"}
    assert "responses.parquet" in named
    outputs = [demo, *(path.parent for folder in (demo, tmp_path) for path in folder.rglob("run.json"))]
    assert not [path for path in sorted(named) if not any((out / path).exists() for out in outputs)]
    files = [path.name for path in (tmp_path / "one").iterdir() if path.is_file()]
    assert not [name for name in files if f"`OUT/{name}`" not in pages["compose.md"]]


def test_a_top_up_asks_only_for_what_is_missing(tmp_path):
    crowd = layout.sample_root() / "crowd"
    run("compose", decisions=crowd / "decisions.csv", output=tmp_path / "compose")
    shortfall = tmp_path / "compose/shortfall.csv"
    run("hits", output=tmp_path / "hits", shortfall=shortfall)
    lines = (tmp_path / "hits/manifest.jsonl").read_text().splitlines()
    asked = {(r["task_id"], field) for r in map(json.loads, lines) for field in r["fields"]}
    assert asked == {(f"{r['service_name']}:{r['task']}", r["field"]) for r in rows_of(shortfall)}
    plan = json_of(tmp_path / "hits/plan.json")
    assert plan["total"]["assignments"] == 8  # two HITs; 2 missing at an expected yield of a half


@cases(
    "text said",
    ("a,b\n1,2\n", "row 1: the header lacks service_name, task, field, have, need"),
    ("service_name,task,field,have,need\nNone_1,names,slot_0,1,5\n", "no such element: None_1:names, slot_0"),
    ("service_name,task,field,have,need\nGyms_1,names,slot_0,few,5\n", "row 2: 'have' and 'need' must be numbers"),
    ("service_name,task,field,have,need\n", "no answers are missing"),
)
def test_a_bad_shortfall_is_told_by_row(text, said, tmp_path):
    (tmp_path / "shortfall.csv").write_text(text)
    assert said in refused("hits", "--output", str(tmp_path / "out"), "--shortfall", str(tmp_path / "shortfall.csv"))


def test_without_a_place_for_the_key_there_is_no_traceback(tmp_path, monkeypatch, capfd):
    monkeypatch.delenv("PARAPET_WORKER_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/none")
    assert main(["suite", "sample", "--output", str(tmp_path / "out")]) == 2
    assert capfd.readouterr().err.splitlines()[-1].endswith("set PARAPET_WORKER_KEY instead")
    assert not (tmp_path / "out").exists()
