"""Tools with random parameters in two wordings, and calls of them."""

import random
import string

from parapet.schemas.tools import Tool
from parapet.transforms.variants.tool_variants import TaskVariant, VariantTool, renamings_of

WORDS = ("city", "id", "date", "items", "address", "name", "value", "note", "größe", "a b", "x-y", "$id", "type")
SCALARS = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": ["string", "null"]}, {}]


def schema_of(draw, depth=3):
    """An object with nested objects, lists, alternatives, references and free members."""
    defs = {}
    schema = _object(draw, depth, defs)
    return {**schema, "$defs": defs} if defs else schema


def _object(draw, depth, defs):
    names = draw.sample(WORDS, draw.randint(1, 4))
    schema = {"type": "object", "properties": {name: _value(draw, depth - 1, defs) for name in names}}
    if draw.random() < 0.5:
        schema["required"] = draw.sample(names, draw.randint(0, len(names)))
    if draw.random() < 0.5:
        schema["additionalProperties"] = draw.choice([False, True, {"type": "string"}])
    return schema


def _value(draw, depth, defs):
    kind = draw.choice(["scalar", "object", "list", "anyOf", "$ref", "again", "nested list"]) if depth > 0 else "scalar"
    if kind == "object":
        return _object(draw, depth, defs)
    if kind == "list":
        return {"type": "array", "items": _value(draw, depth - 1, defs)}
    if kind == "nested list":
        return {"type": "array", "items": {"type": "array", "items": _object(draw, depth, defs)}}
    if kind == "anyOf":
        return {"anyOf": [_object(draw, depth, defs), _object(draw, depth, defs), {"type": "null"}]}
    if kind == "$ref":
        name = f"d{len(defs)}"
        defs[name] = {}
        defs[name] |= _object(draw, depth, defs)
        return {"$ref": f"#/$defs/{name}"}
    if kind == "again" and defs:  # also a definition within itself
        return {"$ref": f"#/$defs/{draw.choice([*defs])}"}
    return dict(draw.choice(SCALARS))


def arguments_of(draw, schema, root, depth=6):
    """Arguments that the schema describes; some with members that it does not name."""
    if not isinstance(schema, dict):
        return None
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return arguments_of(draw, draw.choice(schema["anyOf"]), root, depth)
    if "properties" in schema:
        chosen = [name for name in schema["properties"] if draw.random() < 0.8] if depth > 0 else []
        content = {name: arguments_of(draw, schema["properties"][name], root, depth - 1) for name in chosen}
        if schema.get("additionalProperties") not in (None, False) and draw.random() < 0.3:
            content["further " + _text(draw)] = _text(draw)
        return content
    if "items" in schema:
        return [arguments_of(draw, schema["items"], root, depth - 1) for _ in range(draw.randint(0, 3))]
    return draw.choice([_text(draw), draw.randint(-9, 10**20), draw.random(), True, None, ["a", "b"], ""])


def _text(draw):
    return "".join(draw.choice(string.ascii_letters + '"\\/{}[],: \n\té漢😀') for _ in range(draw.randint(0, 12)))


def reworded(tool, name, description, names, descriptions=None):
    """A tool in a variant; new names and descriptions of its parameters by pointer in the original."""
    renaming = tool.parameters.renaming(names, descriptions or {}, is_final=True)
    return VariantTool(Tool(tool.renamed(name, description, renaming, is_final=True)), names)


def reworded_at_random(tool, name, draw):
    """Other names for a tool and its parameters; some of them are names of others in the original."""
    names = {}
    taken = {}
    for each in tool.parameters.all:
        if (each.scope, each.name) not in names:
            rest = [w for w in (*WORDS, *(f"{w}_2" for w in WORDS)) if w not in taken.setdefault(each.scope, set())]
            names[each.scope, each.name] = new = draw.choice(rest)
            taken[each.scope].add(new)
    pointers = {each.pointer: names[each.scope, each.name] for each in tool.parameters.all}
    return reworded(tool, name, f"Reworded: {tool.description}", pointers)


def toolset(seed, count=3):
    """Definitions ``{name, description, parameters}``, and a variant of all but the last."""
    draw = random.Random(seed)
    functions = [{"name": f"tool_{i}", "description": f"Does {i}", "parameters": schema_of(draw)} for i in range(count)]
    tools = {each["name"]: reworded_at_random(Tool(each), f"other_{i}", draw) for i, each in enumerate(functions[:-1])}
    return functions, TaskVariant("v1", {"tools": tools})


def in_variant(calls, functions, variant):
    """The same calls as a model makes them that sees the variant; worked out without the proxy."""
    tools = variant.tools["tools"]
    renamings = renamings_of([Tool(each) for each in functions], tools)[1]
    return [
        (tools[name].tool.name, renamings[name].arguments(arguments)) if name in tools else (name, arguments)
        for name, arguments in calls
    ]


def pieces(draw, text):
    """A text in pieces, some of them empty."""
    cuts = sorted(draw.randint(0, len(text)) for _ in range(draw.choice([0, 1, 3, len(text)])))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
