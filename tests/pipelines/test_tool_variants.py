"""Tools through ``hits``, ``compose`` and ``back_translate``; tasks of BFCL through ``rewrite --tasks``."""

import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit import THOROUGH, cases, json_of, lacking, refused, rows_of, run, write
from tool_files import ANSWERS, PARCEL, TASKS, TOOLS, toolset, write_answers, write_tasks, write_variants

from parapet.schemas.layout import sample_root
from parapet.schemas.tools import ToolFile, ToolVariant

STOP, PAYMENT = "stops/items/properties", "properties/payment/anyOf"
OF_TRIP = ("user_id", "stops", f"{STOP}/city", f"{STOP}/nights", "cabin")
OF_PARCEL = ("properties/payment", f"{PAYMENT}/0/properties/card", f"{PAYMENT}/1/properties/iban")
IDS = [
    *("trips/tool/book_trip", "trips/tool/send_parcel"),
    *(f"trips/parameter/book_trip/properties/{path}" for path in OF_TRIP),
    *(f"trips/parameter/send_parcel/{path}" for path in OF_PARCEL),
    *(f"trips/parameter/send_parcel/$defs/address/properties/{name}" for name in ("street", "town")),
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
    assert not run("hits", schemas=openai / "trips.json", output=tmp_path / "hits").errors.count("warning")
    pages = rows_of(tmp_path / "hits/manifest.jsonl")
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
        others = [of_parcel[f"/properties/{name}"] for name in ("sender", "receiver", "note")]
        assert others == [rows[element, "name", k] for element in NAMES_ONLY]
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


def plain(value):
    """Without descriptions."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key != "description" or isinstance(one, dict)}
        return {key: plain(one) for key, one in kept.items()}
    return [*map(plain, value)] if isinstance(value, list) else value


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
    memory = []
    for text, back in phrases.items():
        there = {"source": "en", "target": "pt", "text": text, "translation": f"pt {text}"}
        memory += [there, {"source": "pt", "target": "en", "text": f"pt {text}", "translation": back}]
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


BFCL = Path(os.environ.get("PARAPET_DATA", "/none")) / "agents/bfcl"


@pytest.fixture
def place(tmp_path):
    write_variants(tmp_path / "variants", write_tasks(tmp_path / "given").read_bytes())
    return tmp_path


def rewrite(place, *flags, status=0, out="out"):
    given = {"tasks": place / "given/tasks.jsonl", "variants": place / "variants", "output": place / out}
    return run("rewrite", *flags, status=status, **given)


def test_tasks_and_calls_have_the_names_of_each_variant(place):
    made = rewrite(place)
    assert made.output.splitlines() == ["v1: 2 tasks rewritten, 0 left out", "v2: 2 tasks rewritten, 0 left out"]
    names = [f"v{k}/{name}" for k in (1, 2) for name in ("names.json", "possible_answer/tasks.jsonl", "tasks.jsonl")]
    assert [*made.files] == ["dead_letters.jsonl", "run.json", *names]
    task, _ = rows_of(place / "out/v1/tasks.jsonl")
    tools = [tool["name"] for tool in task["function"]]
    assert (task["question"], tools) == (TASKS[0]["question"], ["travel.a_book_trip", "a_now"])
    stops = task["function"][0]["parameters"]["properties"]["a_stops"]["items"]
    nights = {"type": "integer", "description": "Another nights", "minimum": 1}
    assert (stops["required"], stops["properties"]["a_nights"]) == (["a_city"], nights)
    first, second = rows_of(place / "out/v2/possible_answer/tasks.jsonl")
    booked = {"b_user_id": ["u7"], "b_stops": [[{"b_city": ["Porto"], "b_nights": [2, ""]}]]}
    assert first["ground_truth"] == [{"travel.b_book_trip": booked}, {"b_now": {}}]
    assert second["ground_truth"][0]["b_send_parcel"]["b_receiver"] == [{"b_street": ["Oak Road 3"], "b_town": [""]}]


def inverse(names, file):
    """The original names, for the tools of a variant."""
    variants = {}
    for toolset_name in file.toolsets:
        back = {}
        for old, pointers in names[toolset_name]["parameters"].items():
            new = names[toolset_name]["tools"][old]
            back[f"tool/{new}"] = old
            for pointer in pointers:
                steps = pointer.split("/")
                parts = ["/".join(steps[:i]) for i in range(2, len(steps) + 1)]
                renamed = "/".join(pointers.get(part, part.rpartition("/")[2]) for part in parts)
                back[f"parameter/{new}/{renamed}"] = steps[-1]
        variants[toolset_name] = ToolVariant(back, {})
    return variants


def check_round_trip(place, tasks, answers):
    """Renamed back by ``names.json``, tasks (but for descriptions) and answers are what they were."""
    renamed = place / "out/v1" / tasks.name
    file = ToolFile(renamed.read_bytes(), renamed)
    for path, content in file.variant_files(inverse(json_of(place / "out/v1/names.json"), file)).items():
        write(place / "back/v1" / path, content)
    run("rewrite", tasks=renamed, variants=place / "back", output=place / "returned", max_bad="0%")
    returned = place / "returned/v1"
    assert plain(rows_of(returned / tasks.name)) == plain(rows_of(tasks))
    assert rows_of(returned / "possible_answer" / tasks.name) == rows_of(answers)


def test_names_json_leads_back_to_the_original(place):
    rewrite(place)
    check_round_trip(place, place / "given/tasks.jsonl", place / "given/possible_answer/tasks.jsonl")


@pytest.mark.skipif(not BFCL.is_dir(), reason="PARAPET_DATA has no agents")
@pytest.mark.parametrize("name", ["simple_python", "multiple", "parallel", "live_simple"])
def test_real_tasks_are_rewritten_and_come_back(name, tmp_path):
    name = f"BFCL_v4_{name}.json"
    for path in (name, f"possible_answer/{name}"):
        lines = (BFCL / path).read_text().split("\n")
        write(tmp_path / "given" / path, "\n".join(lines if THOROUGH else lines[:20]))
    tasks = tmp_path / "given" / name
    write_variants(tmp_path / "variants", tasks.read_bytes(), tasks.name, ("a",))
    made = run("rewrite", tasks=tasks, variants=tmp_path / "variants", output=tmp_path / "out", max_bad="0%")
    assert not made.dead_letters
    check_round_trip(tmp_path, tasks, tmp_path / "given/possible_answer" / name)


def test_tasks_take_the_names_of_a_toolset_that_has_their_tools(tmp_path):
    tasks = write_tasks(tmp_path / "given", TASKS[1:], ANSWERS[1:])
    write_variants(tmp_path / "variants", json.dumps(toolset("openai")).encode(), "travel.json")
    made = run("rewrite", "--variant", "v2", tasks=tasks, variants=tmp_path / "variants", output=tmp_path / "out")
    assert made.output.splitlines() == ["v2: 1 task rewritten, 0 left out"]
    assert rows_of(tmp_path / "out/v2/tasks.jsonl")[0]["function"][0]["description"] == "Another b_send_parcel"


def test_tasks_without_answers_are_rewritten_alone(tmp_path):
    tasks = write_tasks(tmp_path / "given", answers=None)
    variants = write_variants(tmp_path / "variants", tasks.read_bytes(), prefixes=("a",))
    made = run("rewrite", tasks=tasks, variants=variants, output=tmp_path / "out")
    assert [*made.files] == ["dead_letters.jsonl", "run.json", "v1/names.json", "v1/tasks.jsonl"]


OTHER = {"name": "other", "parameters": {"type": "dict", "properties": {}}}
TRUTHS = "possible_answer/tasks.jsonl"
# Lines after those of TASKS, the answers to their tasks, and the reason and place of the dead letter of each.
BAD = [
    ({"id": "x"}, "not_a_task: it defines no functions", ""),
    (7, "not_a_task: expected an object with an id", ""),
    (TASKS[0], "duplicate_id", ""),
    ({**TASKS[1], "id": "a", "function": [OTHER]}, "unknown_tool: variant v1 has no 'other' with these parameters", ""),
    ({**TASKS[1], "id": "b", "function": [3]}, "is not a tool", ": /function/0"),
    ({**TASKS[1], "id": "c", "function": [{**OTHER, "name": "send_parcel"}]}, "unknown_tool: variant v1 has no ", ""),
    ({**TASKS[1], "id": "d"}, f"no_answer: {TRUTHS} has no answer to this task", ""),
    ({**TASKS[1], "id": "e"}, "bad_answer: expected a list of calls", ": /ground_truth"),
    ({**TASKS[1], "id": "f"}, "unknown_tool: the answer calls 'f'", ": /ground_truth"),
]
BAD_ANSWERS = {"x": [], "a": [], "b": [], "c": [], "e": ["f()"], "f": [{"f": {}}]}


def test_what_cannot_be_renamed_is_a_dead_letter_of_each_variant(place):
    write(place / "given/tasks.jsonl", [*TASKS, *(record for record, _, _ in BAD)])
    more = [{"id": name, "ground_truth": calls} for name, calls in BAD_ANSWERS.items()]
    write(place / "given" / TRUTHS, [*ANSWERS, *more])
    assert not lacking(rewrite(place, "--max_bad", "0%", status=1).errors, "--max_bad", "tasks of v1")
    letters = rewrite(place, "--max_bad", "100%").dead_letters
    for k in (1, 2):
        of_variant = [letter for letter in letters if letter["variant"] == f"v{k}"]
        for number, (letter, (_, reason, where)) in enumerate(zip(of_variant, BAD, strict=True), 3):
            assert letter["where"] == f"line {number}{where}"
            assert letter["reason"].startswith(reason.replace("v1", f"v{k}"))
        tasks, answers = (rows_of(place / f"out/v{k}" / path) for path in ("tasks.jsonl", TRUTHS))
        assert [row["id"] for row in tasks] == [row["id"] for row in answers] == ["trips_0", "trips_1"]


def test_names_that_collide_in_a_task_are_not_used(place):
    for name in ("names.json", "tools.json"):
        path = place / "variants/v1" / name
        path.write_text(path.read_text().replace('"a_now"', '"travel.a_book_trip"'))
    assert "appears twice" in rewrite(place, status=2).errors


@cases(
    "change flags reason",
    ({"variants/v2/names.json": "[]"}, {}, "names.json: "),
    ({}, {"mapping": "position"}, "unknown flag --mapping"),
    ({"variants/v1/tools.json": TASKS}, {}, "does not belong to tools.json: toolset 'trips_0', tool 'travel.book_"),
    ({"given/tasks.jsonl": "\n"}, {}, "contains no tasks"),
    ({}, {"tasks": ["given/tasks.jsonl", f"given/{TRUTHS}"]}, "--tasks: two of the files have the same name"),
    ({}, {"variants": sample_root()}, "the variant has no names.json, as variants of tools have"),
)
def test_what_is_refused(change, flags, reason, place, monkeypatch):
    monkeypatch.chdir(place)
    for path, content in change.items():
        write(place / path, content)
    given = {"tasks": "given/tasks.jsonl", "variants": "variants", **flags}
    assert reason in refused("rewrite", **given, output=place / "out", status=(1, 2))
