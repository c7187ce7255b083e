"""Made-up annotators fill in what a collection server serves, and nothing on another machine."""

import csv
import json
from collections import Counter

import kit
import pytest
from collect_site import SCHEMA, site
from kit import cases, refused, rows_of, write

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.serving.practice import PageForm

RECORDED = {"intent_0": "hand over box", "slot_0": "  ", "slot_1": "receipt confirmed"}


@pytest.fixture(scope="module")
def hits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("practice")
    corpus = kit.corpus(folder / "corpus", SCHEMA, test=[])
    return kit.run("hits", schemas=corpus, output=folder / "hits", assignments=2).folder


def test_every_form_is_filled_in_and_counts(tmp_path, hits):
    line = {"AssignmentId": "3A", "WorkerId": "A1", "RequesterAnnotation": "Parcels_1:names", "Source": "in_house"}
    write(tmp_path / "recorded.jsonl", [{**line, "Answers": RECORDED}])
    with site(tmp_path, hits, people=4, platform="practice") as it:
        flags = ["--hits", hits, "--invitations", tmp_path / "links.csv", "--answers", tmp_path / "recorded.jsonl"]
        assert "4 forms filled in by 4 made-up annotators" in kit.run("collect", "practice", *flags).output
        assert kit.run("collect", "practice", *flags, status=1).output.startswith("0 forms")
        rows = [json.loads(text) for text in it.store.export().splitlines()]
    assert Counter(row["RequesterAnnotation"] for row in rows) == {"Parcels_1:descriptions": 2, "Parcels_1:names": 2}
    assert all(len(row["Answers"]) in (3, 4) and all(map(str.strip, row["Answers"].values())) for row in rows)
    (again,) = (row["Answers"] for row in rows if row["Answers"]["intent_0"] == "hand over box")
    assert again["slot_1"] == "receipt confirmed"
    assert len(again["slot_0"].split()) == 4
    write(tmp_path / "answers.jsonl", rows)
    responses = ["--responses", tmp_path / "answers.jsonl"]
    kit.run("compose", "--schemas", hits.parent / "corpus", *responses, output=tmp_path / "out", status=1)
    fates = {
        (row["disposition"], row["reason"], row["source"]) for row in rows_of(tmp_path / "out" / "responses.parquet")
    }
    assert fates == {("rejected", "practice", "practice")}
    as_people = [{**row, "Source": "in_house"} for row in rows]
    write(tmp_path / "converted.jsonl", as_people)
    flags = ["--schemas", hits.parent / "corpus", "--responses", tmp_path / "converted.jsonl"]
    printed = kit.run("compose", *flags, output=tmp_path / "converted", status=1).errors
    assert "4 assignments of simulated annotators were not used" in printed
    kit.run("compose", *flags, "--allow_practice", "--allow_partial", output=tmp_path / "allowed", status=None)
    reasons = {row["reason"] for row in rows_of(tmp_path / "allowed" / "responses.parquet")}
    assert not reasons & {"too_fast", "practice"}


def test_a_server_for_people_is_left_alone(tmp_path, hits):
    with site(tmp_path, hits, people=2) as it:
        flags = ["--hits", hits, "--invitations", tmp_path / "links.csv"]
        assert "runs without --practice" in kit.run("collect", "practice", *flags, status=(1, 2)).errors
        states = it.store.by_form()
    assert [(state, n) for (_, state), n in states.items()] == [("returned", 1)]


@cases("platform other", ("practice", "in_house"), ("in_house", "practice"))
def test_simulated_and_real_people_share_no_database(tmp_path, hits, platform, other):
    with site(tmp_path, hits, people=1, platform=platform):
        pass
    error = kit.raised(InputError, lambda: site(tmp_path, hits, people=1, platform=other).__enter__())
    assert error.reason == f"is of a collection with people from {platform}: give another file"


@cases(
    "link told",
    ("https://crowd.example.org/i/abc", "row 2: leads to another machine"),
    ("http://127.0.0.1.example.org/i/abc", "row 2: leads to another machine"),
    ("", "has no column 'link'"),
    ("http://127.0.0.1:9/i/abc", "no server is running: start 'parapet collect serve' first"),
)
def test_it_stays_on_this_machine(tmp_path, hits, link, told):
    with (tmp_path / "links.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([("person", "name", "link"), ("1", "a", link)])
    flags = ["--hits", hits, "--invitations", tmp_path / "links.csv"]
    assert told in kit.run("collect", "practice", *flags, status=(1, 2)).errors


def test_practice_is_not_served_to_others(tmp_path, hits):
    argv = ["collect", "serve", "--hits", str(hits), "--db", str(tmp_path / "a.sqlite"), "--practice"]
    assert "is for simulated annotators on this machine" in refused(*argv, "--public_url", "https://crowd.example.org")


def test_boxes_to_tick_are_choices():
    form = PageForm(
        '<form action="/x" method="POST"><input type=radio name=a value=yes><input type=radio name=a value=no>'
        "<textarea name=b>old</textarea><select name=c></select><button name=d>ok</button></form>"
        "<form action=/y><input name=e></form>"
    )
    assert (form.action, form.method) == ("/x", "post")
    assert PageForm(
        '<form action="/return"><input name=a></form><form action="/submit"><input name=b>', "/submit"
    ).fields == {"b": ""}
    assert (form.fields, form.choices) == ({"b": "old", "c": ""}, {"a": ["yes", "no"]})
