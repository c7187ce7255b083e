"""How APIs write calls of tools, whole and streamed, and how clients read them."""

import json

from wordings import pieces


class Chat:
    """OpenAI's Chat Completions."""

    path = "/chat/completions"

    def tool(self, function):
        return {"type": "function", "function": {**function, "strict": True}}

    def request(self, tools, past, choice):
        messages = [
            {"role": "system", "content": f"Use `{choice}` if in doubt."},
            {"role": "user", "content": [{"type": "text", "text": f"call {choice}"}]},
        ]
        for i, (name, arguments) in enumerate(past):
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"{name}:{i}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"{name}:{i}", "name": name, "content": f"{name} says"})
        picked = {"type": "function", "function": {"name": choice}}
        return {"model": "m", "messages": messages, "tools": tools, "tool_choice": picked, "seed": 1.50}

    def tools(self, request):
        return [tool["function"] for tool in request["tools"]]

    def past(self, request):
        calls = [call["function"] for m in request["messages"] for call in m.get("tool_calls", ())]
        for message in request["messages"]:
            if message["role"] == "tool":
                assert message["name"] in [call["name"] for call in calls]
        named = request["tool_choice"]["function"]["name"]
        return [(call["name"], json.loads(call["arguments"])) for call in calls], named

    def answer(self, calls, draw, request):
        functions = [{"name": name, "arguments": _text(arguments, draw)} for name, arguments in calls]
        called = [{"id": f"c{i}", "type": "function", "function": function} for i, function in enumerate(functions)]
        message = {"role": "assistant", "content": None, "tool_calls": called}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": 0.10}]}

    def stream(self, calls, draw, request):
        fixed = {"id": "x", "object": "chat.completion.chunk", "created": 1}

        def chunk(delta, reason=None):
            return {**fixed, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        yield chunk({"role": "assistant", "content": None})
        parts = []
        for i, (name, arguments) in enumerate(calls):
            yield chunk({"tool_calls": [{"index": i, "id": f"c{i}", "type": "function", "function": {
                "name": name, "arguments": ""}}]})  # fmt: skip
            parts.append([(i, piece) for piece in pieces(draw, _text(arguments, draw))])
        while parts := [part for part in parts if part]:  # calls may be interleaved
            i, piece = draw.choice(parts).pop(0)
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls")
        yield {**fixed, "choices": [], "usage": {"total_tokens": 3}}
        yield "[DONE]"

    def calls(self, answer):
        called = answer["choices"][0]["message"]["tool_calls"]
        return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in called]

    def streamed(self, events):
        assert events[-1] == "[DONE]"
        calls = {}
        for event in events[:-1]:
            for choice in event["choices"]:
                for call in choice["delta"].get("tool_calls", ()):
                    parts = calls.setdefault(call["index"], ["", ""])
                    for i, key in enumerate(("name", "arguments")):
                        parts[i] += call["function"].get(key, "")
        return [(name, json.loads(arguments)) for name, arguments in calls.values()]


class Responses:
    """OpenAI's Responses."""

    path = "/responses"

    def tool(self, function):
        return {"type": "function", **function, "strict": False}

    def request(self, tools, past, choice):
        items = [{"role": "user", "content": [{"type": "input_text", "text": f"call {choice}"}]}]
        for i, (name, arguments) in enumerate(past):
            call = {"type": "function_call", "call_id": f"{name}{i}", "name": name}
            items.append({**call, "arguments": json.dumps(arguments)})
            items.append({"type": "function_call_output", "call_id": f"{name}{i}", "output": f"{name} says"})
        allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": choice}]}
        return {"model": "m", "input": items, "tools": tools, "tool_choice": allowed, "instructions": f"`{choice}`"}

    def tools(self, request):
        return request["tools"]

    def past(self, request):
        calls = [item for item in request["input"] if item.get("type") == "function_call"]
        named = request["tool_choice"]["tools"][0]["name"]
        assert request["instructions"] == f"`{named}`"
        return [(call["name"], json.loads(call["arguments"])) for call in calls], named

    def answer(self, calls, draw, request):
        output = [
            {"id": f"f{i}", "type": "function_call", "call_id": f"c{i}", "name": name, "status": "completed",
             "arguments": _text(arguments, draw)}
            for i, (name, arguments) in enumerate(calls)
        ]  # fmt: skip
        repeated = {key: request[key] for key in ("tools", "tool_choice", "instructions") if key in request}
        return {"id": "r", "object": "response", "output": output, **repeated}

    def stream(self, calls, draw, request):
        whole = self.answer(calls, draw, request)
        yield {"type": "response.created", "response": {**whole, "output": []}}
        parts = []
        for i, item in enumerate(whole["output"]):
            yield {"type": "response.output_item.added", "output_index": i, "item": {**item, "arguments": ""}}
            parts.append([(i, piece) for piece in pieces(draw, item["arguments"])])
        while parts := [part for part in parts if part]:
            i, piece = draw.choice(parts).pop(0)
            yield {"type": "response.function_call_arguments.delta", "output_index": i, "delta": piece}
        for i, item in enumerate(whole["output"]):
            done = {"output_index": i, "name": item["name"], "arguments": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **done}
            yield {"type": "response.output_item.done", "output_index": i, "item": item}
        yield {"type": "response.completed", "response": whole}

    def calls(self, answer):
        return [(item["name"], json.loads(item["arguments"])) for item in answer["output"]]

    def streamed(self, events):
        calls = {}
        for event in events:
            kind, at = event["type"], event.get("output_index")
            if kind == "response.output_item.added":
                calls[at] = [event["item"]["name"], event["item"]["arguments"]]
            elif kind == "response.function_call_arguments.delta":
                calls[at][1] += event["delta"]
            elif kind == "response.function_call_arguments.done":
                assert calls[at] == [event["name"], event["arguments"]]
            elif kind == "response.output_item.done":
                assert calls[at] == [event["item"]["name"], event["item"]["arguments"]]
        read = [(name, json.loads(arguments)) for name, arguments in calls.values()]
        assert self.calls(events[-1]["response"]) == read
        return read


class Messages:
    """Anthropic's Messages."""

    path = "/messages"

    def tool(self, function):
        rest = {key: value for key, value in function.items() if key != "parameters"}
        return {**rest, "input_schema": function["parameters"]}

    def request(self, tools, past, choice):
        messages = [{"role": "user", "content": f"call {choice}"}]
        for i, (name, arguments) in enumerate(past):
            use = {"type": "tool_use", "id": f"{name}{i}", "name": name, "input": arguments}
            result = {"type": "tool_result", "tool_use_id": f"{name}{i}", "content": f"{name} says"}
            messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        picked = {"type": "tool", "name": choice}
        system = [{"type": "text", "text": f"`{choice}`", "cache_control": {"type": "ephemeral"}}]
        return {"model": "m", "messages": messages, "tools": tools, "tool_choice": picked, "system": system}

    def tools(self, request):
        return [{**tool, "parameters": tool["input_schema"]} for tool in request["tools"]]

    def past(self, request):
        parts = [part for message in request["messages"][1:] for part in message["content"]]
        assert request["system"][0]["text"] == f"`{request['tool_choice']['name']}`"
        calls = [(part["name"], part["input"]) for part in parts if part["type"] == "tool_use"]
        return calls, request["tool_choice"]["name"]

    def answer(self, calls, draw, request):
        content = [{"type": "text", "text": "I call."}]
        content += [{"type": "tool_use", "id": f"c{i}", "name": n, "input": a} for i, (n, a) in enumerate(calls)]
        return {"id": "m", "type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use"}

    def stream(self, calls, draw, request):
        whole = self.answer(calls, draw, request)
        yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
        for i, block in enumerate(whole["content"]):
            start = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
            yield {"type": "content_block_start", "index": i, "content_block": start}
            text = block["text"] if block["type"] == "text" else _text(block["input"], draw)
            for piece in pieces(draw, text):
                delta = {"type": "text_delta", "text": piece}
                if block["type"] != "text":
                    delta = {"type": "input_json_delta", "partial_json": piece}
                yield {"type": "content_block_delta", "index": i, "delta": delta}
            yield {"type": "content_block_stop", "index": i}
        yield {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}}
        yield {"type": "message_stop"}

    def calls(self, answer):
        return [(block["name"], block["input"]) for block in answer["content"] if block["type"] == "tool_use"]

    def streamed(self, events):
        calls = {}
        for event in events:
            if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
                calls[event["index"]] = [event["content_block"]["name"], ""]
            elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
                calls[event["index"]][1] += event["delta"]["partial_json"]
        return [(name, json.loads(arguments)) for name, arguments in calls.values()]


CHAT = Chat()
DIALECTS = (CHAT, Responses(), Messages())


def _text(arguments, draw):
    return json.dumps(arguments, ensure_ascii=draw.random() < 0.5, indent=draw.choice([None, 1]))
