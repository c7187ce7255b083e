"""Plug-ins of ``compose``: distances and vetting rules, of docs/plugin_example and broken ones."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kit import json_of, raised, refused, run, write
from plugin_packages import bring, record

import parapet
from parapet.schemas.errors import InputError
from parapet.transforms.running import plugins

ROOT = Path(__file__).parents[1]
CROWD = ROOT / "schemas" / "sample" / "crowd"


def test_a_distance_ranks(example, tmp_path):
    import parapet_example

    names = ["city_of_show", "event_city", "town"]
    expected = sorted((parapet_example.Ngrams("3")("city_of_event", name), name) for name in names)
    assert parapet.rank("city_of_event", names, by="ngrams=3") == expected
    assert [name for _, name in expected] == ["city_of_show", "event_city", "town"]
    out = tmp_path / "out"
    run("compose", name_distance="ngrams=3", decisions=CROWD / "decisions.csv", output=out)
    rows = [row for row in pq.read_table(out / "responses.parquet").to_pylist() if row["disposition"] == "used"]
    originals = {
        f"{service['service_name']}/slot/{slot['name']}": slot["name"]
        for path in (ROOT / "schemas" / "sample").glob("*/schema.json")
        for service in json_of(path)
        for slot in service["slots"]
    }
    measured = 0
    for row in rows:
        if row["field"] == "name" and row["element_id"] in originals:
            measured += 1
            assert row["distance"] == parapet_example.Ngrams("3")(originals[row["element_id"]], row["canonical"])
    assert measured > 50
    assert record(out) == [(plugins.DISTANCES, "ngrams")]
    assert json_of(out / "run.json")["options"]["names"] == "ngrams distance"
    crowd = [CROWD / "names.csv", CROWD / "descriptions.csv"], CROWD / "decisions.csv"
    made = parapet.compose(ROOT / "schemas" / "sample", *crowd, name_distance="ngrams=3")
    for name, splits in made.variants.items():
        for split, services in splits.items():
            assert services == json_of(out / name / split / "schema.json")


WRONG_DISTANCES = {
    "nan": ("float('nan')", "returned nan for 'a' and 'b': expected a number of 0 or more"),
    "negative": ("-1", "returned -1 for "),
    "text": ("'far'", "returned 'far' for "),
    "fails": ("1 / 0", "failed: ZeroDivisionError: division by zero"),
}


@pytest.mark.parametrize("kind", WRONG_DISTANCES)
def test_a_distance_that_cannot_be_ranked_by(kind, site):
    value, reason = WRONG_DISTANCES[kind]
    code = f"def made():\n    return lambda first, second: {value}\n"
    bring(site, f"broken_{kind}", plugins.DISTANCES, f"odd_{kind}", f"broken_{kind}:made", code)
    caught = raised(InputError, parapet.rank, "a", ["b"], by=f"odd_{kind}")
    assert f"the plug-in 'odd_{kind}' (broken_{kind} 0.3) {reason}" in str(caught)


def test_a_distance_that_is_not_there(site):
    assert "invalid choice: 'cosine' (choose from " in refused("compose", name_distance="cosine", output=site / "out")
    told = refused("compose", name_distance="jaccard=x", output=site / "out")
    assert "name_distance: jaccard takes no argument: give jaccard alone" in told


def answers_with(place, text):
    """The sample's descriptions, of which one says something else; gives its file."""
    lines = (CROWD / "descriptions.csv").read_text(encoding="utf-8")
    before = next(row["text"] for row in composed(place / "before") if row["field"] == "description")
    assert before in lines
    path = write(place / "descriptions.csv", lines.replace(before, text, 1))
    return path


def composed(out, *flags):
    run("compose", *flags, output=out)
    rows = pq.read_table(out / "responses.parquet").to_pylist()
    return [row for row in rows if flags or row["disposition"] == "used"]


def test_a_vetting_rule_takes_part_when_it_is_named(example, tmp_path):
    text = "The thing that our company wants"
    files = [str(CROWD / "names.csv"), str(answers_with(tmp_path, text))]
    flags = ["--schemas", str(ROOT / "schemas" / "sample"), "--responses", *files]
    (row,) = [row for row in composed(tmp_path / "unasked", *flags) if row["text"] == text]
    assert row["disposition"] != "review"
    assert "plugins" not in json_of(tmp_path / "unasked" / "run.json")
    out = tmp_path / "out"
    (row,) = [row for row in composed(out, *flags, "--vetting_rules", "first_person") if row["text"] == text]
    assert (row["disposition"], row["reason"]) == ("review", "first_person")
    assert "Speaks of the worker: I, me, my, we, our." in (out / "review.csv").read_text()
    assert "Speaks of the worker" in (out / "report.html").read_text()
    assert record(out) == [(plugins.VETTING_RULES, "first_person")]
    assert json_of(out / "statistics.json")["method"]["vetting rules"] == "first_person"
    parapet.compose(ROOT / "schemas" / "sample", files, vetting_rules="first_person").save(tmp_path / "saved")
    for name in ("review.csv", "report.html", "statistics.json", "responses.parquet"):
        assert (tmp_path / "saved" / name).read_bytes() == (out / name).read_bytes()


WRONG_RULES = {
    "action": ("Rule", "action = 'drop'; explanation = 'x'", "has the action 'drop': must be 'reject' or 'review'"),
    "lacks": ("Rule", "action = 'reject'", "returned a Rule without explanation: see docs/plugins.md"),
    "blank": ("Rule", "action = 'reject'; explanation = 'x'", "has a name that cannot be used as a reason"),
    "Odd": ("Rule", "action = 'reject'; explanation = 'x'", "has a name that cannot be used as a reason"),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_a_vetting_rule_that_cannot_be_one(name, site):
    target, body, reason = WRONG_RULES[name]
    code = f"class Rule:\n    {body}\n    def applies(self, answer): return False\n"
    bring(site, f"broken_{name}", plugins.VETTING_RULES, name, f"broken_{name}:{target}", code)
    told = refused("compose", vetting_rules=name, output=site / "out")
    assert f"--vetting_rules: the plug-in '{name}' (broken_{name} 0.3) {reason}" in told


def test_a_vetting_rule_that_fails_ends_the_run(site):
    code = "class Rule:\n    action = 'reject'\n    explanation = 'x'\n    def applies(self, answer): return 1 / 0\n"
    bring(site, "broken_rule", plugins.VETTING_RULES, "divides", "broken_rule:Rule", code)
    reason = "the plug-in 'divides' (broken_rule 0.3) failed: ZeroDivisionError: division by zero"
    assert reason in run("compose", vetting_rules="divides", output=site / "out", status=1).errors
    assert "is named twice" in refused("compose", vetting_rules="divides,divides", output=site / "out")
