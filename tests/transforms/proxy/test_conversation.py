"""Requests are reworded and calls are mapped back, in each API, whole and streamed."""

import json
import random

import pytest
from apis import DIALECTS
from msgspec import Raw
from wordings import arguments_of, toolset

from parapet.schemas.tools import Tool
from parapet.transforms.proxy.conversation import Answer, reworded_request, tools_of
from parapet.transforms.proxy.raw_json import encoded, fields_of
from parapet.transforms.proxy.rewording import RewordedTools
from parapet.transforms.proxy.statistics import Statistics
from parapet.transforms.variants.tool_variants import renamings_of


def random_calls(draw, functions, most=3):
    chosen = [draw.choice(functions) for _ in range(draw.randint(1, most))]
    return [(each["name"], arguments_of(draw, each["parameters"], each["parameters"])) for each in chosen]


def in_variant(calls, functions, variant):
    """The same calls as a model makes them that sees the variant; worked out without the proxy."""
    texts = variant.tools["tools"]
    renamings = renamings_of([Tool(each) for each in functions], texts)[1]
    return [
        (texts[name].name, renamings[name].arguments(arguments)) if name in texts else (name, arguments)
        for name, arguments in calls
    ]


def sent(request, variant, perturb=None):
    fields = fields_of(json.dumps(request).encode())
    tools = RewordedTools(tools_of(fields) or Raw(b"[]"), variant)
    reworded = reworded_request(fields, tools, perturb)
    repeated = {name: fields[name] for name in fields if reworded[name] is not fields[name]}
    statistics = Statistics()
    return json.loads(bytes(encoded(reworded))), Answer(tools, statistics, repeated), statistics


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("seed", range(60))
def test_random_calls_come_back(dialect, seed):
    draw = random.Random(seed)
    functions, variant = toolset(seed)
    past, calls = random_calls(draw, functions), random_calls(draw, functions)
    definitions = [dialect.tool(each) for each in functions]
    request = dialect.request(definitions, past, draw.choice(functions)["name"])
    at_model, answer, statistics = sent(request, variant)
    chosen = dialect.past(request)[1]
    assert dialect.past(at_model) == (
        in_variant(past, functions, variant),
        in_variant([(chosen, {})], functions, variant)[0][0],
    )
    assert [tool["name"] for tool in dialect.tools(at_model)] == ["other_0", "other_1", "tool_2"]
    own = in_variant(calls, functions, variant)
    whole = json.loads(bytes(answer.whole(encoded(dialect.answer(own, draw, at_model)))))
    assert dialect.calls(whole) == calls
    for key in ("tools", "tool_choice", "instructions"):
        assert whole.get(key, request.get(key)) == request.get(key)
    events = []
    for event in dialect.stream(own, draw, at_model):
        events += ["[DONE]"] if event == "[DONE]" else [json.loads(bytes(e)) for e in answer.events(encoded(event))]
    answer.end()
    assert dialect.streamed(events) == calls
    assert statistics.counts["calls_mapped"] == 2 * len(calls)
    assert not statistics.table()["calls_unmapped"]
