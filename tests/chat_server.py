"""A language model's server on this machine: chat completions over HTTP, with faults by order."""

from local_http import Answer, LocalService

STATUSES = {"busy": 429, "down": 503, "broken": 500, "key": 401, "denied": 403, "gone": 404, "bad": 400}


class ChatServer(LocalService):
    """Answers ``POST /v1/chat/completions``.

    Args:
      reply: a text, a message (``content``, ``tool_calls``), or a whole Answer, for a request's body.
      faults: of one request after the other; "" is nothing. Besides STATUSES: stall, cut, not_json, empty, long.
    """

    def __init__(self, reply, faults=()):
        super().__init__(faults)
        self.reply, self.keys = reply, []
        self.url += "/v1"

    def answer(self, request):
        body, key = request.json, request.headers.get("Authorization", "")
        with self.lock:
            self.requests.append(body)
            self.keys.append(key)
            fault = self.fault()
        if fault in ("stall", "cut"):
            return self.break_off(fault == "stall")
        if fault in STATUSES:
            error = {"error": {"message": f"{fault}: {key}"}}  # as servers repeat a wrong key
            return Answer(error, STATUSES[fault], {"Retry-After": "0.01"} if fault in ("busy", "down") else {})
        if fault == "not_json":
            return Answer(b"<html>log in first</html>")
        reply = "" if fault == "empty" else "a" * (1 << 21) if fault == "long" else self.reply(body)
        if isinstance(reply, Answer):
            return reply
        message = reply if isinstance(reply, dict) else {"content": reply}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        fixed = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "usage": usage}
        return Answer({**fixed, "choices": [] if fault == "empty" else [choice]})
