"""A language model as an annotator: it reads what people see, stays blind, pays once, and never counts as a person."""

import json
import re
from collections import defaultdict

import kit
import pytest
from chat_server import ChatServer
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, files_of, lacking, raised, rows_of, run, write
from local_http import Answer

from parapet.schemas.layout import SINGLE, parse_services, read_root, sample_root, services_by_name
from parapet.schemas.rows import Assignment
from parapet.schemas.service import elements_of
from parapet.transforms.core.replies import Unreadable
from parapet.transforms.crowd import llm
from parapet.transforms.crowd.schema_task import Options, SchemaTask

pytest.importorskip("httpx", reason="the extra llm is not installed")
_FIELD = re.compile(r"^((?:intent|slot)_\d+|service): (.+)$", re.M)


@pytest.fixture(scope="module")
def hits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hits") / "hits"
    run("hits", schemas=sample_root(), output=folder, assignments=2)
    return folder


@pytest.fixture(scope="module")
def sheets(hits):
    return llm.read_sheets(str(hits), services_by_name(read_root(sample_root())))


def said(body):
    """Answers in other words than the form's: what a field shows, turned round, with words of the style."""
    style = body["messages"][0]["content"].split()[-2:]
    asked = dict(_FIELD.findall(body["messages"][1]["content"]))
    return json.dumps({field: " ".join([*reversed(text.split()[:5]), *style]) for field, text in asked.items()})


def collect(hits, server, output, status=0, **flags):
    usual = {"hits": hits, "endpoint": server.url, "model": "m", "output": output, "parallel_calls": 1}
    return run("collect", "llm", status=status, **usual, **flags)


def test_the_prompt_is_what_people_see(hits, sheets):
    ambiguous = {row["task_id"]: row["ambiguous"] for row in rows_of(hits / "manifest.jsonl")}
    services = {service.service_name: service for split in read_root(sample_root()) for service in split.services}
    assert len(sheets) == 2 * len(services)
    for sheet in sheets:
        (work,) = llm.plan([sheet], 1, [0])
        prompt = "\n".join(message["content"] for message in work.messages())
        form, service = sheet.record, services[sheet.record.service_name]
        assert "mturk" not in prompt.lower()
        for element in elements_of(service, form.task):
            if element.kind != "service":
                assert f"{element.field}: {' '.join(element.prompt(form.task).split())}\n" in prompt
            hidden = element.name if form.task == "names" else element.description
            is_identifier = form.task == "descriptions" or re.search(r"_|[a-z][A-Z]", hidden)
            if is_identifier and element.id not in ambiguous[form.task_id]:
                assert not re.search(rf"(?<!\w){re.escape(hidden)}(?!\w)", prompt), element.id


def test_answers_are_found_in_what_a_model_says():
    for text, expected in (
        ('{"slot_0": "a b", "slot_1": "c"}', {"slot_0": "a b", "slot_1": "c"}),
        ('```json\n{"slot_0": "a"}\n```', {"slot_0": "a"}),
        ('Sure! Here {it} is:\n{"slot_0": "a", "other": "b", "slot_1": 3}\nDone.', {"slot_0": "a"}),
        ('{"answers": {"slot_0": "a"}}', {"slot_0": "a"}),
        ('{"x": 1} {"slot_1": "a"}', {"slot_1": "a"}),
    ):
        assert llm.parse(text, ["slot_0", "slot_1"]) == expected
    for text in ("", "no", "{", '{"slot_0": ', '{"slot_0": ["a"]}', "[1]", '{"a":' * 100_000):
        raised(Unreadable, llm.parse, text, ["slot_0", "slot_1"], match="JSON")


@cases(
    "answer reason",
    ("", "blank"),
    ("a" * 61, "too_long"),
    ("harbour FROM which the ferry, leaves", "copied"),
    ("casting off", "repeated"),
)
def test_the_form_refuses_what_it_refuses_people(answer, reason, sheets):
    sheet = next(sheet for sheet in sheets if sheet.record.task_id == "Ferries_1:names")
    assert sheet.fault("slot_0", answer, ["Casting off"])[0] == reason


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=4))
def test_no_annotator_sees_both_tasks_of_a_service(sheets, batches):
    tasks = defaultdict(set)
    for first, annotators in batches:
        for item in llm.plan(sheets, annotators, [0.3, 0.7, 1], first=first):
            tasks[item.annotator, item.sheet.record.service_name].add(item.sheet.record.task)
    assert all(len(seen) == 1 for seen in tasks.values())


def test_annotators_differ(sheets):
    plan = llm.plan(sheets[:1], 21, [0.3, 0.7, 1])
    ids = {work.worker_id("a, b") for work in plan}
    assert (len({(work.style, work.temperature) for work in plan}), len(ids), "," in "".join(ids)) == (21, 21, False)


def test_from_hits_to_composed_answers(hits, tmp_path):
    with ChatServer(said) as server:
        dry = collect(hits, server, tmp_path / "out", dry_run=True, price="1,2")
        assert ("24 calls to make (0 more are answered already)" in dry.output, server.requests) == (True, [])
        collect(hits, server, tmp_path / "out", max_calls=5, status=1)  # as if it was cut off
        assert not (tmp_path / "out" / "answers.jsonl").exists()
        result = collect(hits, server, tmp_path / "out", price="100,200")
        assert "m: 19 calls, 5 more were answered already in" in result.output
        assert "133 tokens of requests and 57 tokens of answers, $0.0247" in result.output
        assert len(server.requests) == 24  # nothing is paid for twice
        first = files_of(tmp_path / "out")
        collect(hits, server, tmp_path / "out")
        assert (len(server.requests), files_of(tmp_path / "out")) == (24, first)
        assert {len(body["response_format"]) for body in server.requests} == {2}
    rows = result.rows("answers.jsonl")
    assert [row["WorkerId"] for row in rows[:4]] == ["llm:m:1", "llm:m:3", "llm:m:2", "llm:m:4"]
    assert len({row["AssignmentId"] for row in rows}) == 24
    answers = tmp_path / "out/answers.jsonl"
    composed = run("compose", schemas=sample_root(), responses=answers, output=tmp_path / "v", status=None)
    answers = composed.rows("responses.parquet")
    assert len(answers) == sum(len(row["Answers"]) for row in rows)
    assert {(row["source"], row["work_seconds"]) for row in answers} == {("llm", None)}
    assert not {row["reason"] for row in answers} & {"not_blind", "too_fast", "pasted"}
    assert composed.rows("dead_letters.jsonl") == []


def test_what_the_form_refuses_is_asked_for_again(hits, tmp_path):
    def lazy(body):
        is_first = len(body["messages"]) == 2
        return said(body) if not is_first else json.dumps(dict(_FIELD.findall(body["messages"][1]["content"])))

    with ChatServer(lazy) as server:
        result = collect(hits, server, tmp_path / "out", annotators=1)
    again = [body["messages"][-1]["content"] for body in server.requests if len(body["messages"]) == 4]
    assert len(again) == 12
    assert all("slot_0: This only repeats the text above. Please use your own words." in text for text in again)
    assert result.dead_letters == []


def test_what_cannot_be_read_is_a_dead_letter(hits, tmp_path):
    def answer(body):
        return "I will not." if "Ferries" in body["messages"][1]["content"] else said(body)

    with ChatServer(answer) as server:
        result = collect(hits, server, tmp_path / "out", annotators=1)
        assert "1 answer missing: unparsable;" in result.errors
        ((stage, reason),) = [(letter["stage"], letter["reason"]) for letter in result.dead_letters]
        assert f"{stage}: {reason}" == "collect: unparsable: contains no JSON object with a field of the form"
        seeds = [body["seed"] for body in server.requests if "Ferries" in body["messages"][1]["content"]]
        assert len(set(seeds)) == len(seeds) == 3
        assert len(result.rows("answers.jsonl")) == 11
    with ChatServer(lambda _: "no") as server:
        errors = collect(hits, server, tmp_path / "none", annotators=1, status=1).errors
    assert "no form was filled in: unparsable: contains no JSON object" in errors


def test_refused_requests_end_the_run_in_the_endpoints_words(hits, tmp_path):
    def some(body):
        detail = [{"loc": ["body", "messages"], "msg": "not for Ferries"}]
        return Answer({"detail": detail}, 422) if "Ferries" in body["messages"][1]["content"] else said(body)

    with ChatServer(some) as server:
        errors = collect(hits, server, tmp_path / "out", annotators=1, status=1).errors
        assert not lacking(errors, "1 of 12 forms were refused, more than --max_bad 1.00%: invalid: HTTP 422: body.mes")
        made = collect(hits, server, tmp_path / "out", annotators=1, max_bad="20%")
        assert (len(made.rows("answers.jsonl")), len(made.dead_letters)) == (11, 1)


def test_temperatures_may_be_left_out(hits, tmp_path):
    with ChatServer(said) as server:
        collect(hits, server, tmp_path / "out", annotators=1, temperatures="none", max_tokens="none")
    assert not [body for body in server.requests if {"temperature", "max_tokens"} & body.keys()]


@cases(
    "flags place",
    ({"endpoint": None}, "--endpoint"),
    ({"temperatures": "0.3,warm"}, "--temperatures"),
    ({"temperatures": "-1"}, "--temperatures"),
    ({"annotators": 0}, "--annotators"),
    ({"price": "1"}, "--price"),
)
def test_mistakes(flags, place, hits, tmp_path):
    usual = {"hits": hits, "endpoint": "http://127.0.0.1:9/v1", "model": "m", "output": tmp_path / "out"}
    assert place in kit.refused("collect", "llm", **{**usual, **flags})


def test_a_cache_that_is_none_is_refused(hits, tmp_path):
    cache = write(tmp_path / "notes.txt", "no database, but a text that is long enough to be looked at" * 50)
    with ChatServer(said) as server:
        assert "--cache" in collect(hits, server, tmp_path / "out", cache=cache, status=1).errors
        assert not server.requests


@cases("platform held", ("in_house", False), ("llm", True))
def test_what_models_agree_on_is_held_all_the_same(platform, held):
    service = kit.service("Parks_1", [kit.slot("city", "City of the park"), kit.slot("day", "Day of the visit")])
    said = {"slot_0": "visit day"}
    forms = [Assignment(n, "Parks_1", "names", f"w{n}", said, asked=True, platform=platform) for n in "01"]
    batch = SchemaTask([parse_services([service], "", SINGLE)], Options()).compose(forms, [], [])
    assert all((answer.disposition == "review") == held for answer in batch.answers)
