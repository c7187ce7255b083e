"""A language model's server on this machine: chat completions over HTTP, with faults by order."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from local_http import LocalHandler, LocalServer

STATUSES = {"busy": 429, "down": 503, "broken": 500, "key": 401, "denied": 403, "gone": 404, "bad": 400}


class ChatServer:
    """Answers ``POST /v1/chat/completions`` with what ``answer`` makes of a request.

    Args:
      answer: a text, or a message (``content``, ``tool_calls``), of a request's body.
      faults: of one request after the other; "" is nothing. Besides STATUSES: stall, cut, not_json, empty, long.
    """

    def __init__(self, answer, faults=()):
        self.answer, self.faults = answer, list(faults)
        self.requests, self.keys = [], []
        self.stopping, self.lock = threading.Event(), threading.Lock()


@contextmanager
def chat_server(answer: Callable, faults=()) -> Iterator[ChatServer]:
    """Serves for as long as it is open; ``url`` is the endpoint's."""
    owner = ChatServer(answer, faults)
    http = LocalServer(owner, _Handler)
    owner.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield owner
    finally:
        owner.stopping.set()
        http.shutdown()
        http.server_close()


class _Handler(LocalHandler):
    def do_POST(self):
        owner = self.server.owner
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with owner.lock:
            owner.requests.append(body)
            owner.keys.append(self.headers.get("Authorization", ""))
            fault = owner.faults.pop(0) if owner.faults else ""
        if fault == "stall":
            owner.stopping.wait(30)
        if fault in ("stall", "cut"):
            self.close_connection = True
        elif fault in STATUSES:
            said = f"{fault}: {self.headers.get('Authorization')}"  # as servers repeat a wrong key
            self._send(STATUSES[fault], json.dumps({"error": {"message": said}}))
        elif fault == "not_json":
            self._send(200, "<html>log in first</html>")
        else:
            said = "" if fault == "empty" else "a" * (1 << 21) if fault == "long" else owner.answer(body)
            message = said if isinstance(said, dict) else {"content": said}
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
            usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
            reply = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "usage": usage}
            self._send(200, json.dumps({**reply, "choices": [] if fault == "empty" else [choice]}))

    def _send(self, status, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status in (429, 503):
            self.send_header("Retry-After", "0.01")
        self.end_headers()
        self.wfile.write(data)
