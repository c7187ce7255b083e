"""No old name of a tool or parameter is left in a variant, wherever a model or a validator reads it."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.schemas.arguments import Mentions, Parameters, retitled
from parapet.schemas.tools import ToolFile, ToolVariant, mentions_of

TOOLS = {"list_issues": "enumerate_tickets", "search": "look_up", "get-docs": "read-manual", "notes.find": "notes.seek"}
OF_SEARCH = {"query": "words", "date": "day", "userId": "clientNo", "address": "place", "city": "town"}
OF_LIST = {"repo": "project", "date": "when", "open": "pending"}


@cases(
    "text replaced",
    ("Like list_issues, but get-docs.", "Like enumerate_tickets, but read-manual."),
    ("Search the city by date.", "Search the city by date."),
    ("Use `search`, 'search', \"search\", “search” or search.",
     "Use `look_up`, 'look_up', \"look_up\", “look_up” or search."),
    ("As in search(query='x', date=y).", "As in look_up(words='x', day=y)."),
    ("Any file(s), date(s) and city (optional)", "Any file(s), date(s) and city (optional)"),
    ("The city's date, userIds, my_userId, userId.", "The city's date, userIds, my_userId, clientNo."),
    ("Given address.city and {city} in `GET /x/{date}`", "Given place.town and {town} in `GET /x/{day}`"),
    ("See https://example.org/list_issues.", "See https://example.org/list_issues."),
    ("Args:\n    city: A city\n    date (str): A date", "Args:\n    town: A city\n    day (str): A date"),
    ("  :param city: A city\n  - `date` - x", "  :param town: A city\n  - `day` - x"),
    ("1. **city** (str): A city\n| date | str |", "1. **town** (str): A city\n| day | str |"),
    ("@param {string} city a city\n<date>a date</date>", "@param {string} town a city\n<day>a date</day>"),
    ("Its repo, 'repo' or 'open'; `repo`", "Its repo, 'repo' or 'open'; `project`"),
    ("list_issues gives 'date' and 'repo'", "enumerate_tickets gives 'day' and 'project'"),
    ("notes.find, not notes.finder", "notes.seek, not notes.finder"),
    ('{"city": "Paris"}', '{"town": "Paris"}'),
    ('search(query="date"), `"date"`, {"city": "date"}', 'look_up(words="date"), `"date"`, {"town": "date"}'),
    ('{"name": "search", "sort": "userId"}', '{"name": "look_up", "sort": "clientNo"}'),
)  # fmt: skip
def test_identifiers_are_replaced_and_words_are_not(text, replaced):
    assert Mentions(TOOLS, {"search": OF_SEARCH, "list_issues": OF_LIST}).replaced(text, OF_SEARCH) == replaced


def call(name, arguments):
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


@cases(
    "part renamed",
    (call("search", '{"city": "Åre"}'), call("look_up", '{"town": "Åre"}')),
    ({"role": "assistant", **call("search", '{"city"')}, {"role": "assistant", **call("look_up", '{"town"')}),
    (call("search", {"city": "city"}), call("look_up", {"town": "city"})),
    (call("search", ""), call("look_up", "")),
    (call("other", {"city": "city"}), call("other", {"city": "city"})),
    ({"function_call": {"name": "search", "arguments": 0}}, {"function_call": {"name": "look_up", "arguments": 0}}),
    ({"type": "tool_use", "name": "search", "input": {"city": "x"}},
     {"type": "tool_use", "name": "look_up", "input": {"town": "x"}}),
    ({"type": "function_call", "name": "search", "arguments": '{"city": 1}'},
     {"type": "function_call", "name": "look_up", "arguments": '{"town": 1}'}),
    ({"role": "tool", "name": "search", "content": '{"userId": 1}'},
     {"role": "tool", "name": "look_up", "content": '{"userId": 1}'}),
    ({"type": "tool_result", "content": "userId"}, {"type": "tool_result", "content": "userId"}),
    ({"type": "function_call_output", "output": "userId"}, {"type": "function_call_output", "output": "userId"}),
    ({"role": "user", "content": "userId"}, {"role": "user", "content": "userId"}),
    ({"role": "developer", "content": [{"text": "Like `search`"}]},
     {"role": "developer", "content": [{"text": "Like `look_up`"}]}),
    ({"role": "assistant", "content": "As list_issues"}, {"role": "assistant", "content": "As enumerate_tickets"}),
)  # fmt: skip
def test_earlier_calls_are_renamed_and_what_users_say_and_tools_return_stays(part, renamed):
    properties = {name: {} for name in OF_SEARCH}
    names = {f"/properties/{old}": new for old, new in OF_SEARCH.items()}
    mentions = mentions_of(TOOLS, {"search": Parameters({"properties": properties}).renaming(names)})
    assert mentions.task({"question": [[part]]}) == {"question": [[renamed]]}
    assert mentions.rest({"messages": [part]}) == {"messages": [renamed]}


@cases("choice", "auto", {"type": "function", "function": {"name": "search"}}, {"type": "tool", "name": "search"})
def test_the_choice_of_a_tool_is_renamed(choice):
    renamed = json.loads(json.dumps(choice).replace('"search"', '"look_up"'))
    task = {"question": [], "tool_choice": choice, "system": "Use `search`", "category": "list_issues"}
    assert Mentions(TOOLS, {}).task(task) == {**task, "tool_choice": renamed, "system": "Use `look_up`"}


def test_names_that_change_places_are_replaced_once():
    assert Mentions({"do_a": "do_b", "do_b": "do_a"}, {}).replaced("do_a, then do_b", {}) == "do_b, then do_a"


@cases(
    "title old new expected",
    ("User Id", "user_id", "client_number", "Client Number"),
    ("City", "city", "town_name", "Town Name"),
    ("book_tableArguments", "book_table", "seat_guests", "seat_guestsArguments"),
    ("FindRoomsOutput", "find_rooms", "list_of_rooms", "ListOfRoomsOutput"),
    ("Perform search", "search", "look_up", "Perform look up"),
    ("Where to", "city", "city", "Where to"),
    ("Ort", "city", "town", "Town"),
)
def test_titles_are_made_of_the_new_name(title, old, new, expected):
    assert retitled(title, old, new) == expected


def schema(new=""):
    """With ``new`` before the names of properties, wherever they are named, and nowhere else."""
    kind, pin, source, sort = (f"{new}{name}" for name in ("kind", "pin", "source", "sort"))
    of_kind = {"card": "#/$defs/Card", "bank": f"#/$defs/{source}"}
    described = {"enum": ["kind", "pin"], "description": f"Either 'kind' or 'pin', with `{source}`"}
    return {
        "$defs": {
            "Card": {"title": "Card", "properties": {kind: {"const": "card"}, pin: {}}, "required": [kind]},
            source: {"$comment": f"Of `{kind}`", "properties": {kind: {"const": "bank"}}},
        },
        "properties": {
            source: {
                "discriminator": {"propertyName": kind, "mapping": of_kind},
                "oneOf": [{"$ref": reference} for reference in of_kind.values()],
                "example": {kind: "card"},
            },
            sort: described,
        },
        **{"if": {"properties": {sort: {"const": "kind"}}}, "then": {"required": [source]}},
        **{"dependentRequired": {sort: [source]}, "propertyNames": {"enum": [source, sort]}, "x-order": [sort, source]},
    }


def test_keywords_that_name_properties_are_renamed_and_values_stay():
    parameters = Parameters(schema())
    names = {each.pointer: f"new_{each.name}" for each in parameters.all}
    assert parameters.renaming(names).schema() == schema("new_")


NAMES = ["list_issues", "get_issue", "userId", "page_size", "search", "date", "city", "id", "x_title"]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["Finds things.", "Of one city at a date.", "(optional)", "\n", "a search, an id"]),
        st.sampled_from(NAMES).flatmap(
            lambda name: st.sampled_from([f"`{name}`", f"'{name}'", f"{name}(x)", f'"{name}": 1', f"{{{name}}}"])
        ),
        st.sampled_from([name for name in NAMES if not name.islower() or "_" in name]),
    ),
    max_size=5,
).map(" ".join)


def in_words(name):
    return name.replace("_", " ").title()


@st.composite
def schemas(draw, depth=2):
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    properties = {}
    for name in names:
        below = draw(schemas(depth - 1)) if depth and draw(st.booleans()) else {"type": "string"}
        properties[name] = {**below, "title": in_words(name), "description": draw(TEXTS)}
    required = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    return {"type": "object", "properties": properties, "required": required, "x-order": names}


@st.composite
def toolsets(draw):
    tools = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=4)):
        schema = {**draw(schemas()), "title": f"{name}Arguments"}
        example = dict.fromkeys(schema["properties"], 1)
        tool = {"name": name, "title": in_words(name), "description": draw(TEXTS), "inputSchema": schema}
        tools.append({**tool, "annotations": {"title": in_words(name)}, "input_examples": [example]})
    return {"tools": tools, "instructions": draw(TEXTS)}


def strings(value, key=""):
    """All keys and texts below a value, with the key that each text is under."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield "key", name
            yield from strings(below, name)
    elif isinstance(value, list):
        for below in value:
            yield from strings(below, key)
    elif isinstance(value, str):
        yield key, value


def leaks(content, names):
    """Every place in a variant where an old name is left as an identifier or in a title."""
    for key, text in strings(content):
        for name in names:
            is_plain = name.islower() and "_" not in name
            bare = rf"(?<![\w]){name}(?![\w])"
            marked = rf"`{name}`|'{name}'|\"{name}\"|\{{{name}\}}|{bare}\(|^{name}$"
            if re.search(marked if is_plain else bare, text) or (key == "title" and in_words(name) in text):
                yield key, text, name


@given(toolsets())
def test_no_old_name_is_left_in_any_variant(content):
    file = ToolFile(json.dumps(content).encode(), "tools.json")
    (toolset,) = file.toolsets.values()
    names, used = {}, set()
    for tool in toolset.tools:
        names[f"tool/{tool.name}"] = f"zz{NAMES.index(tool.name)}_q"
        for each in tool.parameters.first():
            names[f"parameter/{tool.name}{each.pointer}"] = f"yy{NAMES.index(each.name)}_q"
            used.add(each.name)
    used |= {tool.name for tool in toolset.tools}
    variant = json.loads(file.variant_files({toolset.name: ToolVariant(names, {})})["tools.json"])
    old = [name for name in NAMES if name in used]
    # What only other tools have is left where it is merely quoted: it is rather a value.
    assert [leak for leak in leaks(variant, old) if leak[0] not in ("", "description", "instructions")] == []
    assert [*leaks(variant, [name for name in old if not name.islower() or "_" in name])] == []
    for before, after in zip(strings(content), strings(variant), strict=True):
        if before[0] == "description":
            assert before[1].count("Of one city at a date.") == after[1].count("Of one city at a date.")


def test_a_server_without_descriptions_of_parameters_leaves_no_old_name():
    """As FastMCP lists tools: titles everywhere, docstrings, names alone. Every name is asked for, and replaced."""
    file = ToolFile(json.dumps(SERVER).encode(), "server.json")
    (service,) = file.services()
    names = [element["name"] for kind in ("intents", "slots") for element in service[kind]]
    assert len(names) == len(set(names)) == 15
    assert service["tool_cues"]["slot_0"] == "Two letters"
    assert service["tool_cues"]["slot_2"] == "repo (a parameter of: List issues.)"
    for i, element in enumerate(element for kind in ("intents", "slots") for element in service[kind]):
        element["name"] = f"qq{i}"
    variant = json.loads(file.service_files([service])["tools.json"])
    assert [*leaks(variant, names)] == []
    assert variant["instructions"] == "Call qq1 before qq2."
    alerts, deletion = variant["tools"][0], variant["tools"][3]
    assert alerts["description"] == "Get alerts.\n\n    Args:\n        qq7: Two letters\n"
    assert deletion["description"] == "Deletes a user (qq6 must know the qq11)"
    assert (alerts["title"], alerts["inputSchema"]["title"]) == ("Qq 0", "qq0Arguments")
    assert alerts["outputSchema"] == {**SERVER["tools"][0]["outputSchema"], "title": "qq0Output"}
    titles = {name: of["title"] for name, of in deletion["inputSchema"]["properties"].items()}
    assert titles == {"qq11": "Qq 11", "qq12": "Qq 12"}


def listed(name, docstring, **parameters):
    properties = {key: {"title": in_words(key), "type": kind} for key, kind in parameters.items()}
    schema = {"properties": properties, "required": [*parameters], "title": f"{name}Arguments", "type": "object"}
    result = {"properties": {"result": {"title": "Result", "type": "string"}}, "title": f"{name}Output"}
    described = {"name": name, "title": in_words(name), "description": docstring}
    return {**described, "inputSchema": schema, "outputSchema": result}


SERVER = {
    "tools": [
        listed("get_alerts", "Get alerts.\n\n    Args:\n        us_state: Two letters\n", us_state="string"),
        listed("list_issues", "List issues. See also get_issue.", owner_name="string", repo="string"),
        listed("get_issue", "Get an issue by the `issue_number` that list_issues returns.", issue_number="integer"),
        listed("delete_user", "Deletes a user (get_user must know the user_id)", user_id="string", force="boolean"),
        listed("get_user", "", user_id="string"),
        listed("send_mail", "Send a mail, e.g. send_mail(to_whom='x')", to_whom="string", subject="string"),
        listed("ping", "Check that the server is alive."),
    ],
    "instructions": "Call list_issues before get_issue.",
}
