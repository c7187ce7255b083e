"""``parapet rewrite --tasks``: tasks of BFCL and their expected calls under the names of tool variants."""

import json
import os
from pathlib import Path

import pytest
from kit import THOROUGH, cases, json_of, lacking, refused, rows_of, run, write
from tool_files import ANSWERS, TASKS, toolset, write_tasks, write_variants

from parapet.schemas.tools import ToolFile, ToolVariant

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
    assert without_texts(rows_of(returned / tasks.name)) == without_texts(rows_of(tasks))
    assert rows_of(returned / "possible_answer" / tasks.name) == rows_of(answers)


def without_texts(value):
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key != "description" or isinstance(one, dict)}
        return {key: without_texts(one) for key, one in kept.items()}


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
    (
        {**TASKS[1], "id": "c", "function": [{**OTHER, "name": "send_parcel"}]},
        "unknown_tool: variant v1 has no 'send_parcel' with these parameters",
        "",
    ),
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
    ("names.json", {}, "names.json: "),
    ("", {"mapping": "position"}, "unknown flag --mapping"),
    ("tools.json", {}, "does not belong to tools.json: toolset 'trips_0', tool 'travel.book_trip'"),
    ("empty", {}, "contains no tasks"),
    ("", {"tasks": ["tasks.jsonl", "possible_answer/tasks.jsonl"]}, "--tasks: two of the files have the same name"),
)
def test_what_is_refused(change, flags, reason, place):
    if change == "names.json":
        (place / "variants/v2/names.json").write_text("[]")
    elif change == "tools.json":
        write(place / "variants/v1/tools.json", TASKS)
    elif change:
        write(place / "given/tasks.jsonl", "\n")
    if "tasks" in flags:
        flags = {"tasks": [place / "given" / name for name in flags["tasks"]]}
    given = {"tasks": place / "given/tasks.jsonl", "variants": place / "variants", **flags}
    assert reason in refused("rewrite", **given, output=place / "out", status=(1, 2))


def test_variants_of_schemas_are_refused(place, sample):
    told = refused("rewrite", tasks=place / "given/tasks.jsonl", variants=sample, output=place / "out")
    assert "the variant has no names.json, as variants of tools have" in told
