"""A small toolset of our own in every dialect, and tasks on it with their expected calls."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from kit import write

from parapet.schemas.tools import ToolFile, ToolVariant

TRIP = {
    "type": "object",
    "properties": {
        "user_id": {"type": "string", "description": "Who books the trip"},
        "stops": {
            "type": "array",
            "description": "Where the trip leads",
            "items": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name of the town"},
                    "nights": {"type": "integer", "description": "How long to stay there", "minimum": 1},
                },
                "required": ["city"],
            },
        },
        "cabin": {"type": "string", "enum": ["economy", "business"], "description": "Class of the seat"},
    },
    "required": ["user_id", "stops"],
}
PARCEL = {
    "type": "object",
    "properties": {
        "user_id": {"type": "string", "description": "Who books the trip"},
        "sender": {"$ref": "#/$defs/address"},
        "receiver": {"$ref": "#/$defs/address"},
        "payment": {
            "description": "How it is paid",
            "anyOf": [
                {"type": "object", "properties": {"card": {"type": "string", "description": "Number of the card"}}},
                {"type": "object", "properties": {"iban": {"type": "string", "description": "Number of the account"}}},
            ],
        },
        "note": {"type": ["string", "null"]},
    },
    "required": ["sender", "receiver"],
    "$defs": {
        "address": {
            "type": "object",
            "properties": {
                "street": {"type": "string", "description": "The road and the number of the house"},
                "town": {"type": "string", "description": "The place where the house is"},
            },
            "required": ["street"],
            "default": {"street": "Main Street 1"},
        }
    },
}
TOOLS: list[tuple[str, str, dict[str, Any]]] = [
    ("book_trip", "Reserves a journey over several places", TRIP),
    ("send_parcel", "Ships a box to somebody", PARCEL),
]

# Our own: no name of these is published anywhere.
TASKS = [
    {
        "id": "trips_0",
        "question": [[{"role": "user", "content": "Book me, u7, two nights in Porto."}]],
        "function": [
            {
                "name": "travel.book_trip",
                "description": "Reserves a journey over several places",
                "parameters": {"type": "dict", **{key: TRIP[key] for key in ("properties", "required")}},
            },
            {"name": "now", "description": "Tells the time", "parameters": {"type": "dict", "properties": {}}},
        ],
    },
    {
        "id": "trips_1",
        "question": [[{"role": "user", "content": "Send a box from Elm Road 2 to Oak Road 3, café and all."}]],
        "function": [{"name": "send_parcel", "description": "Ships a box to somebody", "parameters": PARCEL}],
    },
]
ANSWERS = [
    {
        "id": "trips_0",
        "ground_truth": [
            {"travel.book_trip": {"user_id": ["u7"], "stops": [[{"city": ["Porto"], "nights": [2, ""]}]]}},
            {"now": {}},
        ],
    },
    {
        "id": "trips_1",
        "ground_truth": [
            {
                "send_parcel": {
                    "sender": [{"street": ["Elm Road 2"]}],
                    "receiver": [{"street": ["Oak Road 3"], "town": [""]}],
                }
            }
        ],
    },
]


def toolset(dialect: str) -> Any:
    """The tools as a file of the dialect has them."""
    tools = copy.deepcopy(TOOLS)
    functions = [{"name": name, "description": text, "parameters": schema} for name, text, schema in tools]
    match dialect:
        case "openai":
            return [{"type": "function", "function": {**function, "strict": True}} for function in functions]
        case "responses":
            return [{"type": "function", **function} for function in functions]
        case "anthropic":
            return [{"name": name, "description": text, "input_schema": schema} for name, text, schema in tools]
        case "mcp":
            listed = [
                {"name": name, "title": "A tool", "description": text, "inputSchema": schema, "annotations": {}}
                for name, text, schema in tools
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
