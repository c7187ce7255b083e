"""A scripted upstream, and the proxy before it, both as real servers on free ports."""

import asyncio
import json
import random
import threading
import time
from contextlib import contextmanager, suppress

import uvicorn
from apis import DIALECTS
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from wordings import arguments_of

from parapet.transforms.core import web
from parapet.transforms.proxy import server
from parapet.transforms.proxy.server import ModelSide, Record


class Upstream:
    """Calls tools at random. Requests are kept, with headers; ``calls`` are those that it made, by the seed.

    Attributes:
      script: makes another answer to a request, or None for that; set by a test.
    """

    def __init__(self):
        self.requests, self.calls = [], {}
        self.script = None

    async def __call__(self, scope, receive, send):
        request = Request(scope, receive)
        body = await request.body()
        self.requests.append((request, body))
        if self.script and (answer := await self.script(request, body)):
            return await answer(scope, receive, send)
        dialect = next((each for each in DIALECTS if request.url.path.endswith(each.path)), None)
        content = json.loads(body)
        seed = request.headers["x-seed"]
        draw = random.Random(seed)
        functions = [draw.choice(dialect.tools(content)) for _ in range(draw.randint(1, 3))]
        schemas = [(each["name"], each["parameters"]) for each in functions]
        self.calls[seed] = calls = [(name, arguments_of(draw, schema, schema)) for name, schema in schemas]
        if not content.get("stream"):
            return await JSONResponse(dialect.answer(calls, draw, content))(scope, receive, send)
        events = [event_of(event) for event in dialect.stream(calls, draw, content)]
        answer = StreamingResponse(in_chunks(draw, "".join(events).encode()), media_type="text/event-stream")
        return await answer(scope, receive, send)


def event_of(event):
    if event == "[DONE]":
        return "data: [DONE]\n\n"
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


async def in_chunks(draw, data):
    """In chunks of any size, which need not end where events end."""
    while data:
        size = draw.choice([1, 20, 500, 5000])
        yield data[:size]
        data = data[size:]


@contextmanager
def serving(main):
    """Runs a coroutine function with a listening socket in a thread; gives the address."""
    listener = web.listen("127.0.0.1", 0)
    loop = asyncio.new_event_loop()
    task = loop.create_task(main(listener))

    def run():
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)
        listener.close()
        assert not thread.is_alive()


@contextmanager
def upstream():
    app = Upstream()
    config = uvicorn.Config(app, log_level="critical", lifespan="off", log_config=None, timeout_graceful_shutdown=1)

    async def main(listener):
        running = uvicorn.Server(config)
        running.install_signal_handlers = lambda: None
        await running.serve(sockets=[listener])

    with serving(main) as address:
        yield app, address


@contextmanager
def proxy(address, variants, kind=ModelSide, path=None, log=None):
    """The proxy before an upstream; gives its sides and its address."""
    record, plain = Record(path), next(iter(variants))
    sides = {name: kind(variant, record) for name, variant in variants.items()}

    async def main(listener):
        await server.serve(listener, address, sides, plain, log)

    with serving(main) as own:
        yield sides, own


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
