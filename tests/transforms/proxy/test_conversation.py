"""Requests are reworded and calls are mapped back, in each API, whole and streamed."""

import json
import random
from collections import Counter

from apis import CHAT, DIALECTS
from kit import cases, lacking
from msgspec import Raw
from wordings import arguments_of, in_variant, pieces, reworded, reworded_at_random, schema_of, toolset

from parapet.schemas.tools import Tool
from parapet.transforms.proxy.conversation import Answer, RewordedTools, reworded_request
from parapet.transforms.proxy.raw_json import ArgumentsText, encoded, fields_of
from parapet.transforms.proxy.server import ModelSide, Record
from parapet.transforms.proxy.statistics import Statistics
from parapet.transforms.variants.tool_variants import TaskVariant, VariantTool, renamings_of


def random_calls(draw, functions, most=3):
    chosen = [draw.choice(functions) for _ in range(draw.randint(1, most))]
    return [(each["name"], arguments_of(draw, each["parameters"], each["parameters"])) for each in chosen]


def sent(request, variant, perturb=None):
    fields = fields_of(json.dumps(request).encode())
    tools = RewordedTools(fields.get("tools", Raw(b"[]")), variant)
    reworded = reworded_request(fields, tools, perturb)
    repeated = {name: fields[name] for name in fields if reworded[name] is not fields[name]}
    statistics = Statistics(Counter())
    return json.loads(bytes(encoded(reworded))), Answer(tools, statistics, repeated), statistics


@cases("dialect", *DIALECTS)
@cases("seed", *range(60))
def test_random_calls_come_back(dialect, seed):
    draw = random.Random(seed)
    functions, variant = toolset(seed)
    past, calls = random_calls(draw, functions), random_calls(draw, functions)
    request = dialect.request([dialect.tool(each) for each in functions], past, draw.choice(functions)["name"])
    at_model, answer, statistics = sent(request, variant)
    ((chosen, _),) = in_variant([(dialect.past(request)[1], {})], functions, variant)
    assert dialect.past(at_model) == (in_variant(past, functions, variant), chosen)
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


# Cases one by one. The variant of these: search(query, filters=[{field_name, value}]) is find(text, conditions=[…]).


def an_object(*required, **properties):
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


FILTER = an_object("field_name", field_name={"type": "string"}, value={})
PARAMETERS = an_object("query", "filters", query={"type": "string"}, filters={"type": "array", "items": FILTER})
SEARCH = {"name": "search", "description": "Searches; see `book`.", "parameters": PARAMETERS}
BOOK = {"name": "book", "description": "Books what `search` finds", "parameters": an_object(value={"type": "string"})}
NOW = {"name": "now", "description": "Tells the time", "parameters": {"type": "object", "properties": {}}}
FILTER_NAMES = {"field_name": "key_name", "value": "amount"}
NEW_NAMES = {"/properties/query": "text", "/properties/filters": "conditions"}
NEW_NAMES |= {f"/properties/filters/items/properties/{old}": new for old, new in FILTER_NAMES.items()}
SAYS = {"/properties/query": "What to look for"}
FIND = reworded(Tool(SEARCH), "find", "Looks for things; see `reserve`.", NEW_NAMES, SAYS)
RESERVE = reworded(Tool(BOOK), "reserve", "Reserves what `find` finds", {"/properties/value": "query"})
VARIANT = TaskVariant("v1", {"tools": {"search": FIND, "book": RESERVE}})
ARGUMENTS = {"query": "a", "filters": [{"field_name": "query", "value": {"query": 1}}]}
RENAMED = {"text": "a", "conditions": [{"key_name": "query", "amount": {"query": 1}}]}


def chat(*messages, **more):
    return {"model": "m", "messages": list(messages), "tools": [CHAT.tool(t) for t in (SEARCH, BOOK, NOW)], **more}


def called(name, arguments, **more):
    return {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def answer_with(message, reason="tool_calls"):
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}]}


def whole(answer, content):
    return json.loads(bytes(answer.whole(encoded(content))))


@cases(
    "choice",
    "auto",
    {"type": "function", "function": {"name": "search"}},
    {"type": "function", "name": "search"},
    {"type": "tool", "name": "book", "disable_parallel_tool_use": True},
    {"type": "custom", "custom": {"name": "now"}},
    {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "book"}]},
    {"type": "allowed_tools", "allowed_tools": {"tools": [{"type": "function", "function": {"name": "book"}}]}},
    {"type": "mcp", "server_label": "s", "name": "search"},
)
def test_choices(choice):
    renamed = json.loads(json.dumps(choice).replace('"search"', '"find"').replace('"book"', '"reserve"'))
    at_model, *_ = sent(chat(tool_choice=choice), VARIANT)
    assert at_model["tool_choice"] == (choice if "mcp" in str(choice) else renamed)


def test_texts_of_users_assistants_and_results_stay():
    text = "search(query='x') and `search`"
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": text}]},
        {"role": "user", "content": text},
        {"role": "assistant", "content": text},
        {"role": "tool", "tool_call_id": "search-1", "content": text},
    ]
    at_model, *_ = sent(chat(*messages), VARIANT)
    assert at_model["messages"][1:] == messages[1:]
    assert at_model["messages"][0]["content"][0]["text"] == "find(text='x') and `find`"


def test_what_does_not_change_keeps_its_bytes():
    kept = [b'"n":1.10', b'"big":123456789012345678901234567890', b'"x":{"a" : [1e400,  2]},"x2":"\\u00e9"']
    kept.append(b'"messages":[ {"role":"user","content":"\\u0068i"} ]')
    body = b"{" + b", ".join([*kept, b'"model":"m", "tools": ' + json.dumps(chat()["tools"]).encode()]) + b"}"
    fields = fields_of(body)
    reworded = reworded_request(fields, RewordedTools(fields["tools"], VARIANT))
    assert {name for name in fields if reworded[name] is not fields[name]} == {"tools"}
    assert not lacking(bytes(encoded(reworded)), *kept)
    assert reworded_request(fields, RewordedTools(fields["tools"], None)) is fields
    answer = Answer(RewordedTools(fields["tools"], VARIANT), Statistics(Counter()), {})
    text = b'{"choices": [{"message": {"content": "hi", "tool_calls": null}, "x": 1.10}]}'
    for data in (text, b"[1]", b"hi", b"null"):
        assert bytes(answer.whole(Raw(data))) == data
        assert [bytes(event) for event in answer.events(Raw(data))] == [data]
    called_now = json.dumps(answer_with({"tool_calls": [called("now", "{}")]})).encode()
    assert bytes(answer.whole(Raw(called_now))) == called_now


def test_halves_of_surrogate_pairs_do_not_keep_tools_from_being_reworded():
    body = json.dumps(chat({"role": "user", "content": "cut \ud83d"})).encode()
    new = json.loads(ModelSide(VARIANT, Record(None)).request("/chat/completions", body, {}).body)
    assert (new["messages"][0]["content"], new["tools"][0]["function"]["name"]) == ("cut ?", "find")


@cases(
    "name arguments expected problem",
    ("find", json.dumps(RENAMED), ("search", json.dumps(ARGUMENTS)), None),
    ("find", RENAMED, ("search", ARGUMENTS), None),  # as llama.cpp has it
    ("find", "", ("search", ""), None),
    ("now", '{"a": 1}', ("now", '{"a": 1}'), None),
    ("search", '{"query": 1}', ("search", '{"query": 1}'), "there is no such tool"),
    ("find", '{"query": 1}', ("search", '{"query": 1}'), "there is no parameter 'query'"),
    ("find", '{"text": 1', ("search", '{"query": 1'), "the arguments are not a JSON object"),
    ("find", "text=1", ("search", "text=1"), "the arguments are not a JSON object"),
    ("find", "[1]", ("search", "[1]"), "the arguments are not a JSON object"),
)
def test_calls_that_cannot_be_mapped_pass_and_are_counted(name, arguments, expected, problem):
    _, answer, statistics = sent(chat(), VARIANT)
    call = whole(answer, answer_with({"tool_calls": [called(name, arguments)]}))["choices"][0]["message"]["tool_calls"]
    assert call == [called(*expected)]
    table = statistics.table()
    original = {"find": "search", "now": "now"}.get(name)
    unmapped = [{"called": name, "original": original, "problem": problem, "times": 1}] if problem else []
    assert (table["calls_mapped"], table["calls_unmapped"]) == (0 if problem else 1, unmapped)
    assert table["tools_without_variant"] == {}  # they are counted where they pass, see sides.py


def streamed(answer, *deltas):
    """The events for these deltas."""
    chunks = [{"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return [json.loads(bytes(event)) for chunk in chunks for event in answer.events(encoded(chunk))]


def test_a_stream_that_ends_within_a_key_loses_nothing():
    _, answer, statistics = sent(chat(), VARIANT)
    texts = ('{"text": "a\\', '"b", "cond')
    deltas = [{"tool_calls": [{"index": 0, "function": {"arguments": text}}]} for text in texts]
    events = streamed(answer, {"tool_calls": [{"index": 0, **called("find", "")}]}, *deltas)
    last = {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    events += [json.loads(bytes(event)) for event in answer.events(encoded(last))]
    assert all(event["id"] == "x" for event in events)
    calls = [event["choices"][0]["delta"]["tool_calls"][0] for event in events[:-1]]
    assert "".join(call["function"]["arguments"] for call in calls) == '{"query": "a\\"b", "cond'
    assert events[-1] == last
    assert statistics.table()["calls_unmapped"][0]["problem"] == "the arguments are not a JSON object"


def test_servers_that_repeat_names_and_leave_out_indexes():
    _, answer, statistics = sent(chat(), VARIANT)
    deltas = [
        {"tool_calls": [{"id": "1", "function": {"name": "find", "arguments": '{"te'}}]},
        {"tool_calls": [{"id": "1", "function": {"name": "find", "arguments": 'xt": 1}'}}]},
        {"tool_calls": [{"id": "2", "function": {"name": "find", "arguments": '{"text": 2}'}}]},
        {"tool_calls": [{"function": {"name": "", "arguments": ""}}]},
        {"tool_calls": [{"function": {"name": None, "arguments": None}}]},
        {"tool_calls": None, "content": "x"},
    ]
    events = streamed(answer, *deltas)
    answer.end()
    functions = [call["function"] for event in events for call in event["choices"][0]["delta"]["tool_calls"] or ()]
    assert [function["name"] for function in functions] == ["search", "search", "search", "", None]
    assert [function["arguments"] for function in functions] == ["{", '"query": 1}', '{"query": 2}', "", None]
    assert statistics.table()["calls_mapped"] == 2


def test_a_name_that_another_tool_has_is_not_given():
    other = {"name": "find", "parameters": {"type": "object", "properties": {"x": {}}}}
    at_model, answer, _ = sent({**chat(), "tools": [CHAT.tool(t) for t in (SEARCH, other)]}, VARIANT)
    assert [tool["function"]["name"] for tool in at_model["tools"]] == ["search", "find"]
    content = answer_with({"tool_calls": [called("find", '{"x": {"text": 1}}')]})
    assert whole(answer, content) == content


def test_a_variant_that_gives_two_parameters_one_name_is_not_used():
    tool = {"name": "book", "parameters": {"type": "object", "properties": {"a": {}, "b": {}}}}
    names = {"/properties/a": "x", "/properties/b": "x"}
    variant = TaskVariant("v1", {"t": {"book": VariantTool(Tool({**tool, "name": "reserve"}), names)}})
    at_model, *_ = sent({**chat(), "tools": [CHAT.tool(tool)]}, variant)
    assert at_model["tools"] == [CHAT.tool(tool)]


def test_tools_with_other_parameters_hosted_and_broken_ones_pass():
    changed = {**BOOK, "parameters": {"type": "object", "properties": {"value": {}, "more": {}}}}
    tools = [CHAT.tool(SEARCH), CHAT.tool(changed), {"type": "web_search"}, {"type": "function", "function": 3}]
    at_model, *_ = sent({**chat(), "tools": tools}, VARIANT)
    assert at_model["tools"][1:] == tools[1:]
    reworded = RewordedTools(encoded(tools), VARIANT)
    assert (reworded.reworded, reworded.hosted, [*reworded.by_original]) == (1, 1, ["search", "book"])
    twice = [CHAT.tool(SEARCH), CHAT.tool(SEARCH)]
    assert sent({**chat(), "tools": twice}, VARIANT)[0]["tools"] == twice


def test_texts_of_users_are_perturbed_and_nothing_else():
    messages = [
        {"role": "system", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": [
            {"type": "text", "text": "d", "cache_control": {}},
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "e"}]},
            {"type": "image_url", "image_url": {"url": "f"}},
        ]},
        {"role": "tool", "tool_call_id": "1", "content": "g"},
    ]  # fmt: skip
    at_model, *_ = sent(chat(*messages), None, str.upper)
    assert at_model["messages"][1]["content"] == "B"
    assert at_model["messages"][3]["content"][0] == {"type": "text", "text": "D", "cache_control": {}}
    at_model["messages"][1]["content"], at_model["messages"][3]["content"][0]["text"] = "b", "d"
    assert at_model["messages"] == messages
    assert sent({"input": "hi", "instructions": "x"}, None, str.upper)[0] == {"input": "HI", "instructions": "x"}
    items = [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}, {"type": "reasoning", "content": [
        {"type": "reasoning_text", "text": "b"}]}]  # fmt: skip
    assert sent({"input": items}, None, str.upper)[0]["input"][0]["content"][0]["text"] == "A"
    assert sent({"input": items}, None, str.upper)[0]["input"][1] == items[1]


def test_a_custom_tool_gets_text():
    tool = {"type": "custom", "custom": {"name": "book", "description": "Runs code"}}
    variant = TaskVariant("v1", {"t": {"book": reworded(Tool(tool), "execute", "Executes", {})}})
    calls = [{"id": "1", "type": "custom", "custom": {"name": "book", "input": "{x"}}]
    past = {"role": "assistant", "tool_calls": calls}
    at_model, answer, statistics = sent({"messages": [past], "tools": [tool]}, variant)
    assert at_model["tools"][0]["custom"]["name"] == "execute"
    assert at_model["messages"][0]["tool_calls"][0]["custom"] == {"name": "execute", "input": "{x"}
    content = answer_with({"tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "execute", "input": '{"'}}]})
    call = whole(answer, content)["choices"][0]["message"]["tool_calls"][0]["custom"]
    assert call == {"name": "book", "input": '{"'}
    item = {"type": "custom_tool_call", "name": "execute", "input": "x = {"}
    assert whole(answer, {"output": [item]})["output"] == [{**item, "name": "book"}]
    assert statistics.table()["calls_mapped"] == 2


# Arguments in pieces.


def renamings(seed):
    draw = random.Random(seed)
    tool = Tool({"name": "a", "parameters": schema_of(draw)})
    return draw, tool, renamings_of([tool], {"a": reworded_at_random(tool, "b", draw)})[1]["a"]


@cases("seed", *range(300))
def test_there_and_back_in_pieces(seed):
    draw, tool, forth = renamings(seed)
    back = forth.reversed()
    for _ in range(10):
        arguments = arguments_of(draw, tool.parameters.root, tool.parameters.root)
        text = json.dumps(arguments, ensure_ascii=draw.random() < 0.5, indent=draw.choice([None, 1]))
        there = ArgumentsText(forth)
        renamed = "".join(map(there.renamed, pieces(draw, text)))
        assert json.loads(renamed) == forth.arguments(arguments)
        again = ArgumentsText(back)
        returned = "".join(map(again.renamed, pieces(draw, renamed)))
        assert json.loads(returned) == arguments
        assert returned == text or not text.isascii() or "\\u" in text
        assert there.is_complete()
        assert (there.held, again.held, there.unknown, again.unknown) == ("",) * 4


@cases("seed", *range(50))
def test_a_value_passes_at_once_and_a_key_when_it_is_known(seed):
    draw, tool, forth = renamings(seed)
    text = json.dumps(arguments_of(draw, tool.parameters.root, tool.parameters.root))
    there, whole = ArgumentsText(forth), ArgumentsText(forth).renamed(text)
    written = ""
    for letter in text:
        written += there.renamed(letter)
        assert whole.startswith(written)
        assert there.held == "\\" or there.held[:1] in ("", '"')
    assert written == whole


@cases(
    "text complete",
    *((text, False) for text in ('{"a": "b\\', '{"ci', "[1, {", "}]", '"{\\"a\\": 1}"', "text", "{'a': 1}", '{"\\ud8')),
    *((text, True) for text in ("", "null", "{}", ' {"a": 1} ')),
)
def test_what_has_no_key_to_rename_passes(text, complete):
    arguments = ArgumentsText(renamings(0)[2])
    assert "".join(map(arguments.renamed, text)) + arguments.held == text
    assert arguments.is_complete() == complete
