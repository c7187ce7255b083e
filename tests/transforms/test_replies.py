"""Answers of OpenAI-compatible servers: each form of text, reasoning and calls on the wire, and what is no answer."""

from kit import cases, raised

from parapet.transforms.core import replies
from parapet.transforms.core.replies import Reply, Unreadable, read_reply, written_calls

CALL = ("find", '{"city": "Oslo"}')
PING = ("ping", "{}")
TOOLS = {"find": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}, "ping": {}}


def of(**message):
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]}


def calling(arguments, name="find"):
    return of(content=None, tool_calls=[{"id": "1", "function": {"name": name, "arguments": arguments}}])


@cases(
    "body text calls",
    (calling('{"city": "Oslo"}'), "", [CALL]),
    (calling({"city": "Oslo"}), "", [CALL]),
    (calling('"{\\"city\\": \\"Oslo\\"}"'), "", [CALL]),
    (calling('```json\n{"city": "Oslo"}\n```'), "", [CALL]),
    *((calling(nothing), "", [("find", "{}")]) for nothing in (None, "", " ", "null", {}, [], "[]")),
    (calling([{"city": "Oslo"}]), "", [CALL]),
    (calling('[{"city": "Oslo"}]'), "", [CALL]),
    (calling('["Oslo", "Rome"]'), "", [("find", '["Oslo", "Rome"]')]),
    (calling('{"city": "Os'), "", [("find", '{"city": "Os')]),  # for who reads it to refuse
    (calling("{}", name=None), "", [("", "{}")]),
    (of(tool_calls={"function": {"name": "find", "arguments": {"city": "Oslo"}}}), "", [CALL]),
    (of(tool_calls=[{"name": "find", "arguments": {"city": "Oslo"}}]), "", [CALL]),
    (of(function_call={"name": "find", "arguments": '{"city": "Oslo"}'}), "", [CALL]),
    (of(content=[{"type": "tool_use", "id": "1", "name": "find", "input": {"city": "Oslo"}}]), "", [CALL]),
    (of(content=[{"type": "text", "text": "One"}, {"type": "text", "text": " two."}]), "One two.", []),
    (of(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "{}"}]}, "Two."]), "Two.", []),
    (of(content=[], tool_calls=[{"function": {"name": "find", "arguments": '{"city": "Oslo"}'}}]), "", [CALL]),
    (of(content="Two.", reasoning_content="One? {}"), "Two.", []),
    (of(content=None, refusal="I cannot."), "I cannot.", []),
    (of(content="<think>\nA {brace}?\n</think>\n\nTwo."), "Two.", []),
    (of(content="A {brace}?\n</think>\nTwo."), "Two.", []),  # the prompt has opened it
    (of(content="<think>One</think>Two. <thinking>Three</thinking>Four."), "Two. Four.", []),
    (of(content='<think>It ends within {"calls": []}'), "", []),
    (of(content="[THINK]One[/THINK]Two."), "Two.", []),
    (of(content=None), "", []),
    (of(content=5), "", []),
    (of(content="\ud800"), "?", []),
)
def test_what_is_on_the_wire(body, text, calls):
    reply = read_reply(body)
    assert (reply.text, [*reply.tool_calls]) == (text, calls)


@cases(
    "usage tokens",
    ({"prompt_tokens": 2, "completion_tokens": 3}, (2, 3)),
    (None, (0, 0)),
    ({"prompt_tokens": "2"}, (0, 0)),
)
def test_tokens_that_are_not_reported_lose_no_answer(usage, tokens):
    assert read_reply({**of(content="Hi"), "usage": usage}) == Reply("Hi", [], tokens)


@cases("body", None, [], {}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": "Hi"}]}, {"error": {}})
def test_what_is_no_chat_completion(body):
    raised(Unreadable, read_reply, body, match="no_message")


@cases(
    "text calls",
    ('<tool_call>\n{"name": "find", "arguments": {"city": "Oslo"}}\n</tool_call>', [CALL]),
    ('Sure.<tool_call>{"name": "find", "arguments": {"city": "Oslo"}}', [CALL]),
    ('<tool_call>{"name": "ping"}</tool_call>\n<tool_call>{"name": "find", "arguments": "{\\"city\\": \\"Oslo\\"}"}',
     [("ping", "{}"), CALL]),
    ('<function=ping></function><function=find>{"city": "Oslo"}</function>', [("ping", "{}"), CALL]),
    ('[TOOL_CALLS] [{"name": "find", "arguments": {"city": "Oslo"}}]', [CALL]),
    ('[TOOL_CALLS]find[ARGS]{"city": "Oslo"}', [CALL]),
    ('<|python_tag|>{"type": "function", "name": "find", "parameters": {"city": "Oslo"}}', [CALL]),
    ('```json\n[{"function": {"name": "find", "arguments": {"city": "Oslo"}}}]\n```', [CALL]),
    ('{"tool_calls": [{"name": "find", "arguments": {"city": "Oslo"}}]}', [CALL]),
    ('{"find": {"city": "Oslo"}}', [CALL]),
    ("[find(city='Oslo'), ping()]", [CALL, ("ping", "{}")]),
    ("```python\nfind(city='Oslo')\n```", [CALL]),
    ("I call [find(city='Oslo')] now.", [CALL]),
    ("Well.\n<tool_call>\n<function=find>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>\n"
     "<tool_call>\n<function=ping>\n</function>\n</tool_call>", [CALL, PING]),
    ("<function=find><parameter=city>4711</parameter><parameter=days>3</parameter></function>",
     [("find", '{"city": "4711", "days": 3}')]),
    ("<tool_call>find\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>", [CALL]),
    ('<invoke name="find">\n<parameter name="city">Oslo</parameter>\n</invoke>', [CALL]),
    ('<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find\n```json\n{"city": "Oslo"}\n```'
     "<｜tool▁call▁end｜>", [CALL]),
    ('<｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}<｜tool▁call▁end｜>'
     '<｜tool▁call▁begin｜>find<｜tool▁sep｜>{"city": "Oslo"}',
     [PING, CALL]),
    ('<|tool_call_begin|>functions.find:0<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|>', [CALL]),
    ('<|channel|>commentary to=functions.find <|constrain|>json<|message|>{"city": "Oslo"}<|call|>', [CALL]),
    ('[TOOL_CALLS]find[CALL_ID]a1b2c3[ARGS]{"city": "Oslo"}[TOOL_CALLS]ping{}', [CALL, PING]),
    ("I look.\n```tool_code\nprint(default_api.find(city='Oslo'))\nping()\n```\nDone.", [CALL, PING]),
    ("<|python_tag|>find.call(city='Oslo')<|eom_id|>", [CALL]),
    ('[{"tool_name": "functions.find", "parameters": {"city": "Oslo"}}]', [CALL]),
    ("<function=find>\n<parameter=city>\nOs", [("find", "")]),
    ('{"name": "send", "arguments": {"text": "to=find"}}', []),
)  # fmt: skip
def test_calls_in_a_text(text, calls):
    assert written_calls(text, TOOLS) == calls


@cases(
    "text meant",
    ("I cannot do that.", False),
    ("You could use ping() or find(city) here.", False),
    ("[]", False),
    ('{"calls": []}', False),
    ('<tool_call>{"name": "find", "arguments": {"city": "Os', True),
    ('<tool_call>{"name": "fly", "arguments": {}}</tool_call>', True),
    ('[{"name": "ping", "arguments": {}}, {"name": "fly", "arguments": {}}]', True),  # all of them, or none
    ('{"name": "find", "description": "Finds.", "parameters": {"type": "object"}}', True),
    ("[find(city='Oslo'), fly()]", True),
    ("find(city=", True),
    ('{"city": "Oslo"}', True),
    ("<｜tool▁calls▁begin｜>find", True),
    ("[fly(city='Oslo')]", True),
    ("```tool_code\nfly(city='Oslo')\n```", True),
    ("[1] See the manual. [2] I have no tool for this.", False),
    ("[OpenWeather](https://example.org) has it.", False),
    ('{"tool_calls": null}', False),
    ('{"name": null, "arguments": {}}', True),
)
def test_texts_that_call_nothing_and_calls_that_cannot_be_read(text, meant):
    assert written_calls(text, TOOLS) == []
    assert replies.is_meant_as_call(text, TOOLS) == meant


@cases(
    "text value",
    ('Maybe {"a": 1}? Or {x}. {"a": 2, "b": 3} as in {"a": 4}', {"a": 2, "b": 3}),
    ('{"a": 1} then {"a": 2}', {"a": 2}),
    ('{"c": 1} {"a": 1} {"d": 1}', {"a": 1}),
    ('{"answer": {"state": {"a": 1}}}', {"a": 1}),
    ('{"a": {"b": 1}}', {"a": {"b": 1}}),
    ('{"x": [{"a": 1}, {"a"', None),  # cut off: the inner object is not the answer
    ('{"x": {"a": 1}, "y": "it is cut', None),
    ('{"a": NaN}', None),
    ('{"a":' * 200_000, None),
    ("{" * 100_000, None),
    ("", None),
)
def test_the_object_in_an_answer(text, value):
    if value is None:
        raised(Unreadable, replies.object_in, text, ["a", "b"], match="not_json")
    else:
        assert replies.object_in(text, ["a", "b"]) == value


@cases(
    "text calls",
    ("[a.b(x='1', y=-2.5, z=[1, {'k': (2, None)}]), c()]",
     [{"a.b": {"x": "1", "y": -2.5, "z": [1, {"k": (2, None)}]}}, {"c": {}}]),
    ("f(x=true, y=g(1), z=g(u=1), v=2 * 3 + 1, w=d['k'])",
     [{"f": {"x": "true", "y": "g(1)", "z": {"g": {"u": 1}}, "v": 7, "w": "d['k']"}}]),
    ("`[f(1, x=r'\\d')]`\n", [{"f": {"x": "\\d"}}]),
    ("[]", []),
    ("", []),
    *((text, None) for text in ("Hi", "[f(x=1", "[f(x=2**64**64)]", "[f(x=lambda: 1)]", "[f(x={[]: 1})]", "[f(x=1/0)]",
                                "(" * 9_000, "[f(x=-'a')]", "f(x=1); g()")),
)  # fmt: skip
def test_calls_in_the_syntax_of_python(text, calls):
    assert replies.python_calls(text) == calls


@cases("text", "{" * 500_000, '{"a" ' * 100_000, "<think>" * 100_000, "[find(" * 50_000,
       "<function=fly><parameter=" * 40_000, "<function=fly><parameter=a>" * 40_000,
       "```tool_code x" + " " * 500_000 + "y", "fly()" + "\n" * 500_000)  # fmt: skip
def test_hostile_texts_take_no_time(text):
    assert written_calls(read_reply(of(content=text)).text, TOOLS) == []
