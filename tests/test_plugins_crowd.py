"""Plug-ins of ``compose``: distances and vetting rules, of docs/plugin_example and broken ones."""

from pathlib import Path

import pyarrow.parquet as pq
from kit import json_of, refused, run, write
from plugin_packages import record

import parapet
from parapet.transforms.core import plugins

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
    assert "is named twice" in refused("compose", vetting_rules="first_person,first_person", output=tmp_path / "twice")
    assert json_of(out / "statistics.json")["method"]["vetting rules"] == "first_person"
    parapet.compose(ROOT / "schemas" / "sample", files, vetting_rules="first_person").save(tmp_path / "saved")
    for name in ("review.csv", "report.html", "statistics.json", "responses.parquet"):
        assert (tmp_path / "saved" / name).read_bytes() == (out / name).read_bytes()
