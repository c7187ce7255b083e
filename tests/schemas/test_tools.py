"""Tool definitions: every dialect and shape, what is refused, and the same schema under other names."""

import copy
import json
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import THOROUGH, cases, raised
from tool_files import ANSWERS, TASKS, TOOLS, toolset, variant_of

from parapet.schemas.arguments import Parameters
from parapet.schemas.errors import InputError
from parapet.schemas.tools import ToolFile, Toolset, ToolVariant, is_legal, legal_variant, parts_of

AGENTS = Path(os.environ.get("PARAPET_DATA", "/none")) / "agents"
LINES = "".join(json.dumps(task) + "\n" for task in TASKS).encode()


def read(content, name="trips.json"):
    return ToolFile(content if isinstance(content, bytes) else json.dumps(content).encode(), name)


@cases("dialect", "openai", "responses", "anthropic", "mcp", "mcp response", "bfcl", "single")
def test_every_dialect_is_recognised_and_written_as_it_was(dialect):
    content = toolset(dialect)
    file = pickle.loads(pickle.dumps(read(content)))
    assert [*file.toolsets] == ["trips"]
    tools = file.toolsets["trips"].tools
    expected = TOOLS[:1] if dialect == "single" else TOOLS
    assert [(tool.name, tool.description, tool.parameters.root) for tool in tools] == expected
    assert json.loads(file.written()) == content


def test_json_lines_and_tasks_keep_their_bytes():
    assert (read(LINES).written(), [*read(LINES).toolsets]) == (LINES, ["trips_0", "trips_1"])
    tools = "".join(json.dumps(tool) + "\n" for tool in toolset("openai")).encode()
    assert read(tools).written() == tools
    task = LINES.splitlines(keepends=True)[0]
    assert read(task).written() == task
    one = [{**TASKS[0], "id": "x"}]
    assert json.loads(read(one).written()) == one


def test_parameters_of_objects_lists_alternatives_and_references():
    parcel = read(toolset("openai")).toolsets["trips"].tools[1]
    assert [(each.pointer, each.scope, each.description) for each in parcel.parameters.all][1:-2] == [
        ("/properties/sender", "", ""),
        ("/properties/receiver", "", ""),
        ("/properties/payment", "", "How it is paid"),
        ("/properties/payment/anyOf/0/properties/card", "/properties/payment", "Number of the card"),
        ("/properties/payment/anyOf/1/properties/iban", "/properties/payment", "Number of the account"),
        ("/properties/note", "", ""),
    ]
    scopes = {each.name: each.scope for each in parcel.parameters.all}
    assert scopes["street"] == scopes["town"] != ""


BAD = [{"name": "t", "parameters": {"properties": {"a": {"type": "string"}}}}]


def bad(place, value):
    """A tool with another value at a JSON Pointer."""
    content = json.loads(json.dumps(BAD))
    holder = content[0]
    *above, last = place.split("/")[1:]
    for key in above:
        holder = holder[key]
    holder[last] = value
    return content


@cases(
    "content error",
    (b"", "f.json: the file is empty"),
    (b"[1,", "f.json: line 1 column 4: not JSON"),
    (b'{"name": "t", "parameters": {}}\n{"name"}\n', "f.json: line 2: not JSON"),
    ([], "f.json: has no list of tools"),
    ([3], "f.json: item 1: is not a tool: expected the shape of OpenAI"),
    ([{"type": "web_search", "name": "search"}], "f.json: has only tools that the API itself runs"),
    ([{"type": "function", "function": []}], "f.json: item 1: /function: expected an object"),
    ([*BAD, *BAD], "f.json: item 2: the name 't' appears twice, first in item 1"),
    (bad("/name", None), "f.json: item 1: /name: expected a string"),
    (bad("/name", " "), "f.json: item 1: /name: the name is empty"),
    (bad("/parameters", [1]), "f.json: item 1: /parameters: expected a JSON Schema, found a list"),
    (bad("/parameters/properties", [1]), "f.json: item 1: /parameters/properties: expected an object, found a list"),
    (bad("/parameters/required", [1]), "/parameters/required/0: expected a string, found a number"),
    (bad("/parameters/anyOf", [{}, 1]), "item 1: /parameters/anyOf/1: expected a JSON Schema, found a number"),
    (bad("/parameters/$ref", "#/$defs/x"), "item 1: /parameters/$ref: the parameters have no definition #/$defs/x, "),
    (LINES + b'{"id": "x"}\n', "f.json: line 3: expected a task with an id and a list of functions"),
    (LINES + LINES, "f.json: line 3: /id: the id 'trips_0' appears twice"),
    ([{"id": "../x", "function": []}], "f.json: item 1: /id: an id must consist of at most 100 letters, digits"),
)
def test_what_is_refused_is_named_with_its_place(content, error):
    assert error in str(raised(InputError, read, content, "f.json"))


@cases(
    "place value",
    *((f"/parameters{end}", None) for end in ("", "/required", *(f"/properties/a{of}" for of in ("", "/type")))),
    ("/parameters/properties/a/$ref", None),
    *(("/description", None), ("/parameters", []), ("/parameters/properties", [])),
    ("/parameters/properties/a/required", False),
)
def test_null_counts_as_absent_and_stays(place, value):
    content = bad(place, value)
    file = read(content)
    assert (file.bad, json.loads(file.written())) == ([], content)
    (written,) = json.loads(file.variant_files(variant_of(file, "x"))["tools.json"])
    assert written["name"] == "x_t"


HOSTED = [
    {"type": "web_search"},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    {"type": "computer_20250124", "name": "computer", "display_width_px": 1024},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "file_search", "vector_store_ids": ["vs_1"]},
    {"type": "mcp", "server_label": "docs", "server_url": "https://example.org/mcp", "allowed_tools": ["t"]},
    {"google_search": {}},
    {"type": "openrouter:web_search", "parameters": {"max_results": 5}},
]


def test_hosted_and_invalid_tools_stay_as_they_are_and_are_counted():
    """So does the file: one item does not refuse it."""
    wrong = {"name": "u", "parameters": {"properties": {"a": "text"}}}
    mixed = [*HOSTED, *BAD, wrong, {"type": "custom", "name": "run", "description": "Runs code."}]
    for content in (mixed, [{"id": "x", "function": mixed}]):
        file = read(content)
        assert file.hosted == len(HOSTED)
        assert [error.reason for error in file.bad] == ["expected a JSON Schema, found a string"]
        written = json.loads(file.variant_files(variant_of(file, "x"))["tools.json"])
        tools = written if content is mixed else written[0]["function"]
        assert [*tools[: len(HOSTED)], tools[-2]] == [*HOSTED, wrong]
        assert [tools[-3]["name"], tools[-1]["name"]] == ["x_t", "x_run"]


def test_no_tool_gets_the_name_of_a_hosted_one():
    file = read([HOSTED[1], *BAD])
    names = json.loads(file.variant_files({"trips": ToolVariant({"tool/t": "web_search"}, {})})["names.json"])
    assert names["trips"]["tools"] == {"t": "t"}


NAMES = {"city": "town", "street": "road", "nights": "length", "user_id": "client", "stops": "places"}


def renaming_of(tool, names=NAMES, text="Other words"):
    """A variant with the names wherever they are parameters, and a description for each that has one."""
    pointers = tool.parameters.all
    return tool.parameters.renaming(
        {each.pointer: names[each.name] for each in pointers if each.name in names},
        {each.pointer: text for each in pointers if each.description},
    )


def test_names_are_replaced_in_required_references_defaults_and_calls_alone():
    tools = read(toolset("mcp")).toolsets["trips"].tools
    trip, parcel = (renaming_of(tool, {**NAMES, "sender": "from"}) for tool in tools)
    written = trip.schema()
    assert (written["required"], [*written["properties"]]) == (["client", "places"], ["client", "places", "cabin"])
    stop = written["properties"]["places"]["items"]
    assert (stop["required"], stop["properties"]["length"]["minimum"]) == (["town"], 1)
    assert written["properties"]["cabin"] == {**TOOLS[0][2]["properties"]["cabin"], "description": "Other words"}
    address = parcel.schema()["$defs"]["address"]
    assert (address["required"], address["default"]) == (["road"], {"road": "Main Street 1"})
    renamed = {"from": [{"road": ["Elm Road 2"]}], "receiver": [{"road": ["Oak Road 3"], "town": [""]}]}
    assert parcel.arguments(ANSWERS[1]["ground_truth"][0]["send_parcel"]) == renamed
    plain = {"user_id": "u7", "stops": [{"city": "Porto", "nights": 2}], "unknown": {"city": 1}}
    assert trip.arguments(plain) == {"client": "u7", "places": [{"town": "Porto", "length": 2}], "unknown": {"city": 1}}


@cases(
    "schema names renamed",
    ({"$ref": "#/properties/a", "properties": {"a": {"properties": {"b": {}}}}}, {"a": "x"}, "#/properties/x"),
    ({"properties": {"a/b~": {}}, "$ref": "#/properties/a~1b~0"}, {"a/b~": "x~"}, "#/properties/x~0"),
    ({"$ref": "#"}, {}, "#"),
    ({"$ref": "https://example.org/x.json"}, {}, "https://example.org/x.json"),
    ({"$ref": "#/odd/0", "odd": [{"properties": {"a": {}}}]}, {"a": "x"}, "#/odd/0"),
)
def test_references_lead_to_the_renamed_place(schema, names, renamed):
    parameters = Parameters(schema)
    renaming = parameters.renaming({each.pointer: names.get(each.name, each.name) for each in parameters.all})
    assert renaming.schema()["$ref"] == renamed


def test_a_parameter_that_alternatives_share_has_one_name():
    def schema(a, deep):
        return {
            "properties": {a: {"type": "object", "properties": {deep: {}}}},
            "allOf": [{"properties": {a: {"properties": {deep: {}, "more": {}}}}}],
            "anyOf": [{"required": [a]}, {"required": ["b"], "properties": {"b": {}}}],
            "dependentRequired": {a: ["b", ["odd"]]},
        }

    names = {"/properties/a": "x", "/properties/a/properties/deep": "y"}
    written = Parameters(schema("a", "deep")).renaming(names)
    assert written.schema() == schema("x", "y")
    assert written.arguments({"a": {"deep": 1, "more": 2}}) == {"x": {"y": 1, "more": 2}}


def objects(children):
    properties = st.dictionaries(st.sampled_from("abcde/~"), children, max_size=3)
    return st.fixed_dictionaries(
        {"properties": properties},
        optional={
            "type": st.sampled_from(["object", "dict"]),
            "required": st.lists(st.sampled_from("abcde"), max_size=3, unique=True),
            "anyOf": st.lists(children, min_size=1, max_size=2),
            "additionalProperties": children,
            "dependentSchemas": st.dictionaries(st.sampled_from("ab/"), children, max_size=1),
            "$defs": st.just({"d": {"properties": {"a": {"type": "string"}}}}),
            "default": st.just({"a": {"b": [1]}}),
        },
    )


SCHEMAS = objects(
    st.recursive(
        st.one_of(st.just({"type": "string", "description": "A text"}), st.just({"$ref": "#"}), st.booleans()),
        lambda below: st.one_of(objects(below), st.fixed_dictionaries({"type": st.just("array"), "items": below})),
        max_leaves=8,
    )
)


@settings(max_examples=150 if THOROUGH else 40)
@given(SCHEMAS, st.recursive(st.integers(), lambda v: st.lists(v) | st.dictionaries(st.sampled_from("abcde"), v)))
def test_renamed_there_and_back_a_schema_and_its_arguments_are_the_same(schema, arguments):
    parameters = Parameters(schema)
    assert parameters.renaming({}).schema() == schema
    there = parameters.renaming({each.pointer: f"new_{each.name}" for each in parameters.all})
    renamed = Parameters(there.schema())
    back = renamed.renaming({there.pointer(each.pointer): each.name for each in parameters.all})
    assert (len(renamed.all), back.schema()) == (len(parameters.all), schema)
    assert back.arguments(there.arguments(arguments)) == arguments


@cases(
    "name original legal",
    ("find_it", "search", True),
    ("findIt-2", "search", True),
    ("", "search", False),
    ("a" * 65, "search", False),
    ("find it", "search", False),
    ("math.find", "search", False),
    ("math.find", "math.search", True),
    ("find", "math.search", False),
    ("a.b.find", "a.b.search", True),
)
def test_legal_names(name, original, legal):
    assert is_legal(name, original) == legal


def test_a_name_that_is_illegal_or_taken_is_not_used():
    file = read(toolset("openai"))
    variant = ToolVariant(
        {
            "tool/book_trip": "send_parcel",
            "parameter/book_trip/properties/user_id": "cabin",
            "parameter/book_trip/properties/stops": "bad name",
            "parameter/send_parcel/$defs/address/properties/street": "town",
            "parameter/send_parcel/$defs/address/properties/town": "street",
        },
        {},
    )
    swapped = {key: name for key, name in variant.names.items() if "address" in key}
    assert legal_variant(file.toolsets["trips"], variant).names == swapped
    files = file.variant_files({"trips": variant})
    names = json.loads(files["names.json"])["trips"]
    assert names["tools"] == {"book_trip": "book_trip", "send_parcel": "send_parcel"}
    assert names["parameters"]["send_parcel"]["/$defs/address/properties/street"] == "town"
    parcel = json.loads(files["tools.json"])[1]["function"]
    assert [*parcel["parameters"]["$defs"]["address"]["properties"]] == ["town", "street"]


def test_variants_are_valid_json_schema_with_the_same_types():
    jsonschema = pytest.importorskip("jsonschema")
    for tool in read(toolset("openai")).toolsets["trips"].tools:
        written = renaming_of(tool).schema()
        jsonschema.Draft202012Validator.check_schema(written)
    validator = jsonschema.Draft202012Validator(written)
    good = {"sender": {"road": "x"}, "receiver": {"road": "y", "town": "z"}}
    assert validator.is_valid(good)
    assert not validator.is_valid({**good, "sender": {"street": "x"}})


@pytest.mark.skipif(not AGENTS.is_dir(), reason="PARAPET_DATA has no agents")
def test_real_definitions_keep_their_bytes_and_come_back_from_other_names():
    files = sorted((AGENTS / "bfcl").glob("*.json"))
    assert files
    for path in files:
        file = ToolFile(path.read_bytes(), path)
        assert file.written().rstrip() == path.read_bytes().rstrip()
        for tools in file.toolsets.values():
            for tool in tools.tools:
                there = tool.parameters.renaming({each.pointer: f"x_{each.name}" for each in tool.parameters.all})
                pointers = {there.pointer(each.pointer): each.name for each in tool.parameters.all}
                assert Parameters(there.schema()).renaming(pointers).schema() == tool.parameters.root


def test_tasks_with_the_same_tools_are_one_toolset():
    """They are reworded together, and written each."""
    first, second = copy.deepcopy(TASKS)
    tasks = [first, {**first, "id": "trips_7", "question": []}, second]
    file = ToolFile("".join(f"{json.dumps(task)}\n" for task in tasks).encode(), "tasks.jsonl")
    assert list(file.toolsets) == ["trips_0", "trips_1"]
    assert file.of_tasks == {"trips_0": "trips_0", "trips_7": "trips_0", "trips_1": "trips_1"}
    assert [json.loads(line) for line in file.written().splitlines()] == tasks
    made = json.loads(file.written(variant_of(file, "x")))
    names = ["travel.x_book_trip", "x_now"]
    assert [[tool["name"] for tool in task["function"]] for task in made] == [names, names, ["x_send_parcel"]]
    assert made[1]["question"] == []
    only = file.written({"trips_1": variant_of(file, "x")["trips_1"]})
    assert [task["id"] for task in json.loads(only)] == ["trips_1"]


@cases(
    "description meaning reworded",
    ("The city.", "The city.", "X."),
    ("The city", "The city", "X"),
    ("The distance travelled in miles.", "The distance travelled.", "X (in miles)."),
    ("Acceleration of the object, m/s^2.", "Acceleration of the object.", "X (m/s^2)."),
    ("Points, rebounds, minutes.", "Points, rebounds, minutes.", "X."),
    ("The market. Default is 'NASDAQ'", "The market.", "X. Default is 'NASDAQ'"),
    ("The place, such as 'San Jose, CA'.", "The place.", "X (such as 'San Jose, CA')."),
    ("The day, in the format YYYY-MM-DD. It may lie in the past.", "The day. It may lie in the past.",
     "X (in the format YYYY-MM-DD)."),
    ("The amount of time (in minutes) it takes.", "The amount of time it takes.", "X (in minutes)."),
    ("The loss (optional). Default is 0", "The loss.", "X (optional). Default is 0"),
    ("The name (of the firm).", "The name (of the firm).", "X."),
    ("The type, e.g., 'a', 'b', etc. Default is 'all'.", "The type.", "X (e.g., 'a', 'b', etc). Default is 'all'."),
    ("Whether the song should be played.", "Whether the song should be played.", "X."),
    ("e.g. 7", "e.g. 7", "X"),
    ("Weather in a city. If using state, then use short form like CA.", "Weather in a city.",
     "X. If using state, then use short form like CA."),
    ("Default is 'a'.", "Default is 'a'.", "X."),
)  # fmt: skip
def test_what_stays(description, meaning, reworded):
    parts = parts_of(description)
    assert (parts.meaning, parts.reworded("X")) == (meaning, reworded)


@given(st.text("ab .,'(0)\n-eg/", max_size=60))
def test_any_text_has_a_meaning_and_nothing_that_stays_is_lost(text):
    parts = parts_of(text)
    assert parts.meaning or not text
    said = parts.reworded("X")
    assert all(part in said for part in (*parts.clauses, *parts.sentences))
    assert all(part in text for part in (*parts.clauses, *parts.sentences))


@pytest.mark.skipif(not os.environ.get("PARAPET_DATA"), reason="PARAPET_DATA is not set: real tools")
def test_defaults_and_quoted_values_of_real_tools_stay():
    """Of some sentences that say several things at once they go with the meaning: one in fifty at most."""
    lost, total = [], 0
    for path in (AGENTS / "bfcl").glob("BFCL*.json"):
        for line in path.read_text().splitlines():
            for tool in Toolset("t", json.loads(line)["function"], lambda i, pointer: "").tools:
                for text in (each.description for each in tool.parameters.all):
                    if "default" in text.lower() or "e.g." in text:
                        total += 1
                        said = parts_of(text).reworded("X").lower()
                        lost += [text] if "default" not in said and "e.g." not in said else []
    assert total > 1000
    assert len(lost) <= total / 50, lost
