"""Tool definitions: four dialects, names and descriptions replaced, nothing else; tasks under a variant's names."""

import copy
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, json_of, raised, refused, rows_of, run, write

from parapet.evaluation.tools.tasks import read_tasks
from parapet.schemas.errors import InputError
from parapet.schemas.tools import Names, Words, is_tools, read_tools, renamed_arguments, reworded, tools_of
from parapet.transforms.perturbation.task_corpus import corpus_of_tasks, reworded_tasks, values_in
from parapet.transforms.perturbation.toolkits import Catalogue, things_of
from parapet.transforms.variants.tasks import names_between, reversed_variant, rewritten, variant_of

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where", "enum": ["Oslo", "Rome"]},
        "guests": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "city": {"$ref": "#/$defs/Place"}},
                "required": ["name"],
            },
        },
        "when": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"from/to": {"type": "string"}}}]},
    },
    "required": ["city", "guests"],
    "$defs": {"Place": {"type": "object", "properties": {"name": {"type": "string", "description": "Of a city"}}}},
}
BOOK = {"name": "book_room", "description": "Books a room"}
DIALECTS = {
    "openai": [{"type": "function", "function": {**BOOK, "parameters": SCHEMA, "strict": True}}],
    "openai_flat": [{"type": "function", **BOOK, "parameters": SCHEMA}],
    "anthropic": [{**BOOK, "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}],
    "mcp": {"tools": [{**BOOK, "title": "Book", "inputSchema": SCHEMA, "annotations": {}}], "nextCursor": "x"},
    "bfcl": {**BOOK, "name": "hotel.book", "parameters": {**SCHEMA, "type": "dict"}},
}
POINTERS = [
    "/properties/city",
    "/properties/guests",
    "/properties/when",
    "/properties/guests/items/properties/name",
    "/properties/guests/items/properties/city",
    "/properties/when/anyOf/1/properties/from~1to",
    "/$defs/Place/properties/name",
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_read_and_written_back(tmp_path, dialect):
    raw, tools = read_tools(write(tmp_path / "tools.json", json.dumps(DIALECTS[dialect])))
    assert raw == DIALECTS[dialect]
    assert is_tools(raw)
    (tool,) = tools
    assert tool.description == "Books a room"
    assert sorted(parameter.pointer for parameter in tool.parameters) == sorted(POINTERS)
    assert json.dumps(reworded(raw, {}, {}, "x")) == json.dumps(raw)  # the order, too
    words = {pointer: Words(f"p{i}", f"text {i}") for i, pointer in enumerate(POINTERS)}
    before = copy.deepcopy(raw)
    new = reworded(raw, {tool.name: Words("reserve", "Reserves")}, {tool.name: words}, "x")
    assert raw == before
    text = json.dumps(new)
    assert all(f'"p{i}"' in text and f"text {i}" in text for i in range(len(POINTERS)))
    assert all(kept in text for kept in ('["Oslo", "Rome"]', '"$ref": "#/$defs/Place"', '["p0", "p1"]', '["p3"]'))
    names = names_between(raw, new, "x")
    back = names.reversed()
    assert names_between(new, raw, "x") == back
    assert back.reversed() == names


def schemas(depth=3):
    leaf = st.sampled_from([{"type": "string"}, {"type": "integer", "description": "n"}, True])
    if not depth:
        return leaf
    inner = st.deferred(lambda: schemas(depth - 1))
    names = st.sampled_from(["a", "b/c", "d~", "items", "properties", "ä"])
    of = st.dictionaries(names, inner, max_size=3).map(lambda found: {"type": "object", "properties": found})
    lists = inner.map(lambda item: {"type": "array", "items": item} if isinstance(item, dict) else {"type": "array"})
    return st.one_of(leaf, of, lists, st.lists(inner, max_size=2).map(lambda some: {"anyOf": some}))


@given(schemas())
def test_any_nesting_comes_back(schema):
    """New names everywhere, and the old ones again: the definition as it was."""
    raw = [{"name": "f", "input_schema": schema if isinstance(schema, dict) else {}}]
    (tool,) = tools_of(raw, "x")
    words = {parameter.pointer: Words(f"n{i}") for i, parameter in enumerate(tool.parameters)}
    new = reworded(raw, {"f": Words("g")}, {"f": words}, "x")
    names = Names({"f": "g"}, {"f": {pointer: str(of.name) for pointer, of in words.items()}}).reversed()
    parameters = {"g": {pointer: Words(name) for pointer, name in names.parameters["g"].items()}}
    assert json.dumps(reworded(new, {"g": Words("f")}, parameters, "x")) == json.dumps(raw)


def test_arguments_are_renamed_as_the_schema_nests():
    names = {pointer: f"p{i}" for i, pointer in enumerate(POINTERS)}
    call = {"city": "Oslo", "guests": [{"name": "Ann", "city": {"name": "Rome"}}], "when": {"from/to": "May"}, "x": 1}
    wanted = {"p0": "Oslo", "p1": [{"p3": "Ann", "p4": {"p6": "Rome"}}], "p2": {"p5": "May"}, "x": 1}
    assert renamed_arguments(SCHEMA, names, call, with_alternatives=False) == wanted
    right = {"city": ["Oslo", ""], "guests": [[{"name": ["Ann"], "city": [{"name": ["Rome", "Roma"]}]}]]}
    assert renamed_arguments(SCHEMA, names, right, with_alternatives=True) == {
        "p0": ["Oslo", ""], "p1": [[{"p3": ["Ann"], "p4": [{"p6": ["Rome", "Roma"]}]}]]
    }  # fmt: skip


@cases(
    "raw told",
    ([], "has no tools"),
    ({"a": 1}, "[0]: is no tool"),
    ([{"name": "f"}], "[0]: is no tool"),
    ({"tools": [{"name": "f", "inputSchema": {}}, 7]}, "tools[1]: is no tool"),
    ([{"name": "f", "parameters": {"properties": []}}], "/properties: expected an object"),
    ([{"name": "f", "parameters": {"properties": {"a": 7}}}], "/properties/a: expected an object"),
    ([{"name": " ", "parameters": {}}], "the name is empty"),
    ([{"name": "f", "parameters": {}}] * 2, "two tools are called 'f'"),
)
def test_what_is_no_definition(raw, told):
    assert told in str(raised(InputError, tools_of, raw, "tools.json"))


def test_two_of_one_name_are_refused():
    raw = DIALECTS["anthropic"]
    at = {"/properties/city": Words("guests")}
    raised(InputError, reworded, raw, {}, {"book_room": at}, "x", match="two parameters would be called 'guests'")
    two = [*raw, {"name": "find_room", "input_schema": {}}]
    raised(InputError, reworded, two, {"find_room": Words("book_room")}, {}, "x", match="two tools")
    raised(InputError, names_between, two, raw, "x", match="has 1 tools, and the original 2")


TASK = {
    "id": "simple_0",
    "question": [[{"role": "user", "content": "Oslo"}]],
    "function": [DIALECTS["bfcl"]],
    "more": 1,
}
TRUTH = {"id": "simple_0", "ground_truth": [{"hotel.book": {"city": ["Oslo"], "guests": [[{"name": ["Ann"]}]]}}]}


def variant():
    words = {pointer: Words(f"p{i}", f"text {i}") for i, pointer in enumerate(POINTERS)}
    return reworded(DIALECTS["bfcl"], {"hotel.book": Words("inn.reserve", "Reserves")}, {"hotel.book": words}, "x")


def test_tasks_are_rewritten_and_come_back(tmp_path):
    write(tmp_path / "tasks/simple.json", json.dumps(TASK))
    write(tmp_path / "tasks/possible_answer/simple.json", json.dumps(TRUTH))
    write(tmp_path / "variants/v1/tools.json", json.dumps(variant()))
    flags = {"tasks": tmp_path / "tasks", "variants": tmp_path / "variants", "output": tmp_path / "out"}
    assert "out/v1: 1 task" in run("rewrite", **flags).output
    (task,), (truth,) = (
        rows_of(tmp_path / "out/v1/simple.json"),
        rows_of(tmp_path / "out/v1/possible_answer/simple.json"),
    )
    assert task == {**TASK, "function": [variant()]}
    assert truth["ground_truth"] == [{"inn.reserve": {"p0": ["Oslo"], "p1": [[{"p3": ["Ann"]}]]}}]
    names = Names(**json_of(tmp_path / "out/v1/names.json"))
    there = variant_of(names, variant(), "x")
    assert rewritten(TASK, TRUTH, there, "x") == (task, truth)
    back, calls = rewritten(task, truth, reversed_variant(there, {"hotel.book": Words(None, "Books a room")}), "x")
    assert calls == TRUTH
    assert _names_of(back) == _names_of(TASK)


def _names_of(task):
    (tool,) = tools_of(task["function"], "x")
    return tool.name, tool.description, [parameter.pointer for parameter in tool.parameters]


@cases(
    "file text told",
    ("v1/tools.json", "{", "not JSON"),
    ("v1/tools.json", "[]", "has no tools"),
    ("v1/names.json", '{"tools": {}}', "parameters"),
    ("v1/none.json", "{}", "expected v1/tools.json"),
)
def test_variants_that_cannot_be(tmp_path, file, text, told):
    tasks = write(tmp_path / "tasks/simple.json", json.dumps(TASK))
    if "names" in file:
        write(tmp_path / "variants/v1/tools.json", json.dumps(variant()))
    write(tmp_path / "variants" / file, text)
    flags = {"tasks": tasks, "variants": tmp_path / "variants", "output": tmp_path / "out"}
    assert told in refused("rewrite", **flags)


DATA = Path(os.environ.get("PARAPET_DATA", "")) / "agents/bfcl"


@pytest.mark.skipif(not os.environ.get("PARAPET_DATA"), reason="PARAPET_DATA is not set: real definitions")
def test_real_definitions_come_back():
    tools = [tool for path in DATA.glob("BFCL*.json") for row in rows_of(path) for tool in row["function"]]
    assert len(tools) > 1600
    for tool in tools:
        assert json.dumps(reworded([tool], {}, {}, "x")) == json.dumps([tool])


@cases(
    "calls values",
    ([{"f": {"city": ["New York, NY"]}}], {"New York, NY", "New York", "NY", "New", "York"}),
    ([{"f": {"n": [2, 2.5, True], "of": [{"x": [["a b"]]}]}}], {"2", "2.5", "a b"}),
    ([], set()),
)
def test_what_right_calls_need(calls, values):
    assert set(values_in(calls)) == values


@given(st.text("ab 1,.'", min_size=1, max_size=40).filter(str.strip))
def test_tasks_are_a_corpus_and_come_back(text):
    task = {"id": "a_0", "question": [[{"role": "system", "content": "S"}, {"role": "user", "content": text}]]}
    truth = {"id": "a_0", "ground_truth": [{"f": {"x": ["a", "b 1"]}}]}
    corpus = corpus_of_tasks([task], {"a_0": truth})
    assert reworded_tasks([task], corpus) == ([task], 0)
    (dialogue,) = corpus.dialogues("test")
    frame = dialogue["turns"][0]["frames"][0]
    said = [text[span["start"] : span["exclusive_end"]].lower() for span in frame["slots"]]
    assert set(said) <= {"a", "b", "b 1", "1"}


def test_requests_are_perturbed_and_what_the_calls_need_stays(tmp_path):
    request = "Please find the cheapest room in New York for two people from Friday"
    task = {**TASK, "question": [[{"role": "user", "content": request}]]}
    truth = {"id": "simple_0", "ground_truth": [{"hotel.book": {"city": ["New York, NY"], "guests": [[]]}}]}
    write(tmp_path / "tasks/simple.json", json.dumps(task))
    write(tmp_path / "tasks/possible_answer/simple.json", json.dumps(truth))
    flags = {"tasks": tmp_path / "tasks", "output": tmp_path / "out"}
    assert "out/typos: 1 of 1 message changed" in run("perturb", "typos", **flags).output
    (found,) = rows_of(tmp_path / "out/typos/simple.json")
    said = found["question"][0][0]["content"]
    assert said != request
    assert "New York" in said
    assert {**found, "question": task["question"]} == task
    assert rows_of(tmp_path / "out/typos/possible_answer/simple.json") == [truth]
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    run("perturb", "typos", **flags)
    assert before == {path: path.read_bytes() for path in before}
    assert "single turn" in refused("perturb", "ood", tasks=tmp_path / "tasks", output=tmp_path / "foreign")


def tools_named(*names):
    return [{"name": name, "description": f"Does {name.replace('_', ' ')}", "parameters": {}} for name in names]


NAMES = ["find_room", "rooms.search", "get_room_details", "book_room", "room_price", "find_train", "book_train", "sum"]


def test_similar_tools_are_no_equivalent_ones():
    catalogue = Catalogue(tools_named(*NAMES))
    similar = catalogue.similar("book_room", ["room_price"])
    assert similar[:2] == ["find_train", "sum"] or similar[0] == "book_train"
    assert not {"book_room", "rooms.search", "find_room", "get_room_details", "room_price"} & set(similar)
    assert things_of("rooms.search") == things_of("get_room_details") == {"room"}


def test_distractors_and_missing_tools(tmp_path):
    tasks = [
        {"id": f"simple_{i}", "question": [[{"role": "user", "content": "Go"}]], "function": tools_named(name)}
        for i, name in enumerate(NAMES)
    ]
    truths = [{"id": f"simple_{i}", "ground_truth": [{name: {}}]} for i, name in enumerate(NAMES)]
    lines = lambda rows: "".join(f"{json.dumps(row)}\n" for row in rows)  # noqa: E731
    write(tmp_path / "tasks/simple.json", lines(tasks))
    write(tmp_path / "tasks/possible_answer/simple.json", lines(truths))
    flags = {"tasks": tmp_path / "tasks", "output": tmp_path / "out"}
    run("perturb", "distractors", "--count", "2", "3", **flags)
    found = rows_of(tmp_path / "out/distractors-2/simple.json")
    assert {len(task["function"]) for task in found} == {3}
    assert all(name in [tool["name"] for tool in task["function"]] for task, name in zip(found, NAMES, strict=True))
    places = {[tool["name"] for tool in task["function"]].index(name) for task, name in zip(found, NAMES, strict=True)}
    assert len(places) > 1
    assert rows_of(tmp_path / "out/distractors-3/possible_answer/simple.json") == truths
    assert {len(task["function"]) for task in rows_of(tmp_path / "out/distractors-3/simple.json")} <= {3, 4}
    run("perturb", "missing_tool", tasks=tmp_path / "tasks", output=tmp_path / "missing")
    left = rows_of(tmp_path / "missing/missing_tool/simple.json")
    assert all(name not in [tool["name"] for tool in task["function"]] for task, name in zip(left, NAMES, strict=True))
    assert all(one.calls == [] for one in read_tasks(str(tmp_path / "missing/missing_tool/simple.json")).values())
    assert "--count" in refused("perturb", "distractors", "--count", "0", **flags)
    write(tmp_path / "alone/simple.json", lines(tasks))
    assert (
        "nothing to take away"
        in run("perturb", "missing_tool", tasks=tmp_path / "alone", output=tmp_path / "no", status=(1, 2)).errors
    )
