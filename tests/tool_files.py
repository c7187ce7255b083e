"""A small toolset of our own in every dialect, and tasks on it with their expected calls."""

import copy
from pathlib import Path
from typing import Any

from kit import write

from parapet.schemas.tools import ToolFile, ToolVariant


def text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def of_fields(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


NIGHTS = {"type": "integer", "description": "How long to stay there", "minimum": 1}
STOP = of_fields(["city"], city=text("Name of the town"), nights=NIGHTS)
TRIP = of_fields(
    ["user_id", "stops"],
    user_id=text("Who books the trip"),
    stops={"type": "array", "description": "Where the trip leads", "items": STOP},
    cabin={"type": "string", "enum": ["economy", "business"], "description": "Class of the seat"},
)
_WAYS = {"card": text("Number of the card"), "iban": text("Number of the account")}
PAID = [{"type": "object", "properties": {name: schema}} for name, schema in _WAYS.items()]
ADDRESS = of_fields(
    ["street"], street=text("The road and the number of the house"), town=text("The place where the house is")
)
PARCEL = {
    **of_fields(
        ["sender", "receiver"],
        user_id=text("Who books the trip"),
        sender={"$ref": "#/$defs/address"},
        receiver={"$ref": "#/$defs/address"},
        payment={"description": "How it is paid", "anyOf": PAID},
        note={"type": ["string", "null"]},
    ),
    "$defs": {"address": {**ADDRESS, "default": {"street": "Main Street 1"}}},
}
TOOLS: list[tuple[str, str, dict[str, Any]]] = [
    ("book_trip", "Reserves a journey over several places", TRIP),
    ("send_parcel", "Ships a box to somebody", PARCEL),
]

# Our own: no name of these is published anywhere.
BOOKED = {"type": "dict", **{key: TRIP[key] for key in ("properties", "required")}}
NOW = {"name": "now", "description": "Tells the time", "parameters": {"type": "dict", "properties": {}}}


def task(name: str, request: str, *functions: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "question": [[{"role": "user", "content": request}]], "function": list(functions)}


def function(name: str, description: str, parameters: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "parameters": parameters}


BOOKS = function("travel.book_trip", "Reserves a journey over several places", BOOKED)
SENDS = function("send_parcel", "Ships a box to somebody", PARCEL)
TASKS = [
    task("trips_0", "Book me, u7, two nights in Porto.", BOOKS, NOW),
    task("trips_1", "Send a box from Elm Road 2 to Oak Road 3, café and all.", SENDS),
]
STOPS = [[{"city": ["Porto"], "nights": [2, ""]}]]
SENT = {"sender": [{"street": ["Elm Road 2"]}], "receiver": [{"street": ["Oak Road 3"], "town": [""]}]}
ANSWERS = [
    {"id": "trips_0", "ground_truth": [{"travel.book_trip": {"user_id": ["u7"], "stops": STOPS}}, {"now": {}}]},
    {"id": "trips_1", "ground_truth": [{"send_parcel": SENT}]},
]


def toolset(dialect: str) -> Any:
    """The tools as a file of the dialect has them."""
    tools = copy.deepcopy(TOOLS)
    functions = [function(*tool) for tool in tools]
    match dialect:
        case "openai":
            return [{"type": "function", "function": {**one, "strict": True}} for one in functions]
        case "responses":
            return [{"type": "function", **one} for one in functions]
        case "anthropic":
            return [{"name": name, "description": said, "input_schema": schema} for name, said, schema in tools]
        case "mcp":
            more = {"title": "A tool", "annotations": {}}
            listed = [
                {"name": name, "description": said, "inputSchema": schema, **more} for name, said, schema in tools
            ]
            return {"tools": listed, "nextCursor": "page2"}
        case "mcp response":
            return {"jsonrpc": "2.0", "id": 1, "result": toolset("mcp")}
        case "single":
            return functions[0]
        case _:
            return functions


def variant_of(file: ToolFile, prefix: str) -> dict[str, ToolVariant]:
    """Every tool and parameter with something before its name, and other descriptions."""
    variants = {}
    for toolset_name, tools in file.toolsets.items():
        names, texts = {}, {}
        for tool in tools.tools:
            space, dot, last = tool.name.rpartition(".")
            names[f"tool/{tool.name}"] = f"{space}{dot}{prefix}_{last}"
            texts[f"tool/{tool.name}"] = f"Another {tool.name}"
            for each in tool.parameters.all:
                names[f"parameter/{tool.name}{each.pointer}"] = f"{prefix}_{each.name}"
                texts[f"parameter/{tool.name}{each.pointer}"] = f"Another {each.name}"
        variants[toolset_name] = ToolVariant(names, texts)
    return variants


def write_variants(place: Path, data: bytes, name: str = "tasks.json", prefixes: tuple[str, ...] = ("a", "b")) -> Path:
    """Variants v1 and so on, one for each prefix, as ``compose`` writes them."""
    file = ToolFile(data, name)
    for k, prefix in enumerate(prefixes, 1):
        for path, content in file.variant_files(variant_of(file, prefix)).items():
            write(place / f"v{k}" / path, content)
    return place


def write_tasks(place: Path, tasks: Any = TASKS, answers: Any = ANSWERS) -> Path:
    """The file of tasks; the answers are beside it."""
    write(place / "tasks.jsonl", tasks)
    if answers:
        write(place / "possible_answer/tasks.jsonl", answers)
    return place / "tasks.jsonl"


# Another word for each name, from which come five other names and five other descriptions, as annotators would give.
_WORDS = {
    **{"book_trip": "journey", "send_parcel": "package", "now": "clock", "user_id": "traveller", "stops": "waypoints"},
    **{"city": "municipality", "nights": "duration", "cabin": "comfort", "payment": "settlement", "card": "plastic"},
    **{"iban": "account", "street": "avenue", "town": "village"},
    **{"sender": "origin", "receiver": "target", "note": "remark"},
}
_NAMES = ("wanted {}", "{} chosen", "proper {}", "{} kept", "main {}")
_DESCRIPTIONS = (
    "Says what the {} shall be",
    "The {} that people asked for",
    "Whatever belongs to this {}",
    "Tells more about some {}",
    "Here is the {} of them all",
)
PARAPHRASES = {
    name: tuple([form.format(word) for form in forms] for forms in (_NAMES, _DESCRIPTIONS))
    for name, word in _WORDS.items()
}


def write_answers(place: Path, schemas: Path) -> None:
    """``names.csv`` and ``descriptions.csv``: answers of five annotators to each task of a file of tools.

    ``decisions.csv`` has a reviewer accept them: vetting holds some.
    """
    from parapet.schemas import layout
    from parapet.schemas.service import elements_of

    decisions = []
    for task in ("names", "descriptions"):
        rows = []
        for service in layout.read_root(schemas)[0].services:
            for n in range(5):
                words = {each.field: PARAPHRASES[each.name.rpartition(".")[2]] for each in elements_of(service, task)}
                answers = {f"Answer.{field}": both[task == "descriptions"][n] for field, both in words.items()}
                ids = [f"{service.service_name}{task}{n}:{field.partition('.')[2]}" for field in answers]
                decisions += [{"response_id": key, "decision": "accept", "text": "", "reason": ""} for key in ids]
                worked = {"WorkerId": f"{task}{n}", "WorkTimeInSeconds": "900"}
                task_id = {"Input.task_id": f"{service.service_name}:{task}"}
                rows.append({"AssignmentId": f"{service.service_name}{task}{n}", **worked, **task_id, **answers})
        columns = dict.fromkeys((column for row in rows for column in row), "")
        write(place / f"{task}.csv", [{**columns, **row} for row in rows])
    write(place / "decisions.csv", decisions)
