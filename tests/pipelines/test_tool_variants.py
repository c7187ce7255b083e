"""Tool definitions through ``hits``, ``compose`` and ``back_translate``, and the variants on to ``rewrite --tasks``."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit import cases, json_of, lacking, refused, rows_of, run, write
from tool_files import PARCEL, TOOLS, toolset, write_answers, write_tasks

from parapet.schemas.tools import ToolFile

IDS = [
    "trips/tool/book_trip",
    "trips/tool/send_parcel",
    "trips/parameter/book_trip/properties/user_id",
    "trips/parameter/book_trip/properties/stops",
    "trips/parameter/book_trip/properties/stops/items/properties/city",
    "trips/parameter/book_trip/properties/stops/items/properties/nights",
    "trips/parameter/book_trip/properties/cabin",
    "trips/parameter/send_parcel/properties/payment",
    "trips/parameter/send_parcel/properties/payment/anyOf/0/properties/card",
    "trips/parameter/send_parcel/properties/payment/anyOf/1/properties/iban",
    "trips/parameter/send_parcel/$defs/address/properties/street",
    "trips/parameter/send_parcel/$defs/address/properties/town",
]
NAMES_ONLY = [f"trips/parameter/send_parcel/properties/{name}" for name in ("sender", "receiver", "note")]


@pytest.fixture(scope="session")
def openai(tmp_path_factory):
    """The toolset as OpenAI's API takes it, and answers to its tasks."""
    place = tmp_path_factory.mktemp("tools")
    write(place / "trips.json", toolset("openai"))
    write_answers(place, place / "trips.json")
    return place


@pytest.fixture(scope="session")
def composed(openai):
    return compose(openai / "trips.json", openai, openai / "out")


def compose(schemas, answers, output):
    responses = [answers / "names.csv", answers / "descriptions.csv"]
    return run("compose", schemas=schemas, responses=responses, decisions=answers / "decisions.csv", output=output)


def test_hits_ask_for_each_tool_and_parameter(openai, tmp_path):
    made = run("hits", schemas=openai / "trips.json", output=tmp_path / "hits")
    assert not made.errors.count("warning")
    pages = [json.loads(line) for line in (tmp_path / "hits/manifest.jsonl").read_text().splitlines()]
    assert {page["task_id"] for page in pages} == {"trips:names", "trips:descriptions"}
    assert [page["element_ids"] for page in pages] == [IDS + NAMES_ONLY, IDS]
    names, descriptions = (tmp_path / f"hits/pages/trips.{task}.html" for task in ("names", "descriptions"))
    shown = ["Number of the account", "Reserves a journey over several places"]
    assert not lacking(names.read_text(), *shown, "sender (a parameter of: Ships a box to somebody)")
    assert not lacking(descriptions.read_text(), "book_trip", "Possible values: ", "economy, business")


def test_variants_have_the_dialect_and_nothing_but_other_names_and_descriptions(composed, openai):
    assert "1 of 1 services composed" in composed.output
    jsonschema = pytest.importorskip("jsonschema")
    rows = {(row["element_id"], row["field"], row["variant"]): row["canonical"] for row in composed.rows()}
    for k in range(1, 6):
        names = composed.json(f"v{k}/names.json")["trips"]
        assert {re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", name) for name in names["tools"].values()} != {None}
        trip, parcel = composed.json(f"v{k}/tools.json")
        assert (trip["type"], trip["function"]["strict"]) == ("function", True)
        assert trip["function"]["name"] == names["tools"]["book_trip"] == rows[IDS[0], "name", k]
        assert trip["function"]["description"] == rows[IDS[0], "description", k]
        schema = parcel["function"]["parameters"]
        jsonschema.Draft202012Validator.check_schema(schema)
        of_parcel = names["parameters"]["send_parcel"]
        assert [*schema["properties"]] == [of_parcel[f"/properties/{name}"] for name in PARCEL["properties"]]
        assert [of_parcel[f"/properties/{name}"] for name in ("sender", "receiver", "note")] == [
            rows[element, "name", k] for element in NAMES_ONLY
        ]
        user = rows[IDS[2], "name", k]
        assert user == of_parcel["/properties/user_id"] == names["parameters"]["book_trip"]["/properties/user_id"]
        assert schema["properties"][user]["description"] == rows[IDS[2], "description", k]
        # Renamed back, only descriptions differ.
        for (name, _, original), tool in zip(TOOLS, (trip, parcel), strict=True):
            file = ToolFile(json.dumps([tool]).encode(), "trips.json")
            there = ToolFile(json.dumps(toolset("bfcl")).encode(), "x").toolsets["x"]
            parameters = next(one for one in there.tools if one.name == name).parameters
            renaming = parameters.renaming(names["parameters"][name])
            (again,) = file.toolsets["trips"].tools
            back = again.parameters.renaming({renaming.pointer(each.pointer): each.name for each in parameters.all})
            assert plain(back.schema()) == plain(original)


def plain(schema):
    if isinstance(schema, dict):
        return {key: plain(value) for key, value in schema.items() if key != "description"}
    return [*map(plain, schema)] if isinstance(schema, list) else schema


@cases("dialect", "anthropic", "mcp")  # test_tools.py has the others
def test_every_dialect_gives_the_same_names(dialect, composed, openai, tmp_path):
    made = compose(write(tmp_path / "trips.json", toolset(dialect)), openai, tmp_path / "out")
    for k in range(1, 6):
        assert made.json(f"v{k}/names.json") == composed.json(f"v{k}/names.json")
        tools = made.json(f"v{k}/tools.json")
        assert plain(tools).keys() == {"tools", "nextCursor"} if dialect == "mcp" else len(tools) == 2
    assert (tmp_path / "out/responses.parquet").read_bytes() == (openai / "out/responses.parquet").read_bytes()


def test_tasks_are_composed_one_by_one_and_rewritten(tmp_path):
    tasks = write_tasks(tmp_path / "given")
    write_answers(tmp_path, tasks)
    made = compose(tasks, tmp_path, tmp_path / "variants")
    assert "2 of 2 services composed" in made.output
    assert made.json("v1/names.json")["trips_0"]["tools"]["travel.book_trip"].startswith("travel.")
    run("rewrite", tasks=tasks, variants=tmp_path / "variants", output=tmp_path / "out", max_bad="0%")
    for k in range(1, 6):
        variant = tmp_path / f"out/v{k}"
        assert rows_of(variant / "tasks.jsonl") == json_of(tmp_path / f"variants/v{k}/tools.json")
        call = rows_of(variant / "possible_answer/tasks.jsonl")[0]["ground_truth"][0]
        (name,) = call
        tool = rows_of(variant / "tasks.jsonl")[0]["function"][0]
        assert name == tool["name"]
        assert call[name].keys() <= tool["parameters"]["properties"].keys()


def test_back_translation_of_tools(openai, tmp_path):
    phrases = {"book trip": "reserve a journey", "user id": "Client ID", "send parcel": "sending of the parcel"}
    memory = [("en", "pt", text, f"pt {text}") for text in phrases]
    memory += [("pt", "en", f"pt {text}", back) for text, back in phrases.items()]
    keys = ("source", "target", "text", "translation")
    memory = [dict(zip(keys, row, strict=True)) for row in memory]
    table = pa.Table.from_pylist([{**row, "provider": "test", "model": ""} for row in memory])
    pq.write_table(table, tmp_path / "memory.parquet")
    flags = {"memory": tmp_path / "memory.parquet", "pivots": "pt", "max_bad": "100%"}
    made = run("back_translate", schemas=openai / "trips.json", output=tmp_path / "out", **flags)
    assert not [name for name in made.files if name.endswith(("mapping.json", "schema.json"))]
    names = made.json("pt/names.json")["trips"]
    assert names["tools"] == {"book_trip": "reserve_journey", "send_parcel": "send_parcel"}
    assert names["parameters"]["send_parcel"]["/properties/user_id"] == "client_id"
    assert made.json("pt/tools.json")[0]["function"]["parameters"]["required"] == ["client_id", "stops"]


def test_a_bad_tool_is_named_by_its_place_and_stays(tmp_path):
    content = toolset("anthropic")
    content[1]["input_schema"]["properties"]["note"] = []
    place = write(tmp_path / "tools.json", [*content, {"type": "web_search_20250305", "name": "web_search"}])
    made = run("back_translate", schemas=place, output=tmp_path / "out", status=None)
    assert "tools.json: item 2: /input_schema/properties/note: expected a JSON Schema, found a list" in made.errors
    assert "1 tool that the API runs will stay unchanged" in made.errors
    assert made.json("pt/tools.json")[1:] == [content[1], {"type": "web_search_20250305", "name": "web_search"}]
    write(place, content[1:])
    for command in ("hits", "compose", "back_translate"):
        flags = {"responses": [place]} if command == "compose" else {}
        said = refused(command, schemas=place, output=tmp_path / "no", **flags)
        assert "tools.json: item 1: /input_schema/properties/note: expected a JSON Schema, found a list" in said
