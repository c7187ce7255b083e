"""The collection server for tests: in a thread or a process of its own, and people who talk to it over HTTP."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import httpx
import kit

from parapet.transforms.crowd.serving import site as serving
from parapet.transforms.crowd.serving.store import Form, read_forms

_SLOTS = [kit.slot("weight", "How heavy the parcel is"), kit.slot("signed", "Whether someone signs", "True", "False")]
_INTENTS = [kit.intent("SendParcel", "Give a parcel to the carrier")]
SCHEMA = [kit.service("Parcels_1", _SLOTS, _INTENTS, "Sends parcels & letters <everywhere>")]


def form(key, task="names", service="S_1", wanted=2, elements=None):
    """A form without a page."""
    texts = dict.fromkeys(("page", "question", "title", "description", "keywords", "reward"), "")
    numbers = ("part", "parts", "bytes", "auto_approval_delay_seconds", "lifetime_seconds", "estimated_seconds")
    ids = dict.fromkeys(("task_id", "requester_annotation"), f"{service}:{task}")
    own = {"fields": ["slot_0"], "element_ids": sorted(elements or {f"{service}/slot/{key}"}), "assignments": wanted}
    more = {"ambiguous": [], "sha256": key, "assignment_duration_seconds": 3600}
    return Form(service_name=service, task=task, **texts, **dict.fromkeys(numbers, 0), **ids, **own, **more)


@contextmanager
def site(folder: Path, hits: Path, limits=None, **settings):
    """A server in a thread; gives the site, whose settings have its address. ``limits`` are constants of site.py."""
    settings = {"people": 6, "port": 0, **settings}
    run = serving.Run(read_forms(str(hits)), folder / "a.sqlite", folder / "a.jsonl", folder / "links.csv", **settings)
    limits = {"MAX_PER_MINUTE": 1_000_000} if limits is None else limits
    with mock.patch.multiple(serving, **limits), serving.opened(run) as (opened_site, listener):
        server = serving.server(opened_site)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield opened_site
        finally:
            server.should_exit = True
            thread.join()


class Person:
    """A person with a browser, without its checks."""

    def __init__(self, link: str, **more):
        self.origin = "/".join(link.split("/")[:3])
        self.http = httpx.Client(base_url=self.origin, follow_redirects=True, timeout=30, **more)
        self.link = link

    def get(self, path, **more):
        return self.http.get(path, **more)

    def post(self, path, fields, **headers):
        return self.http.post(path, data=fields, headers={"Origin": self.origin, **headers})

    def join(self):
        response = self.get(self.link)
        assert response.status_code == 200, response.text
        return response

    def begin(self):
        """The fields that the next form posts, and its answers' names; None where there is no form for now."""
        page = self.post("/begin", {})
        assert page.status_code == 200, page.text
        if page.url.path != "/task":
            return None
        names = re.findall(r'<(?:input|textarea) id="\w+" name="(\w+)"', page.text)
        return {"assignmentId": page.url.params["assignmentId"]}, names, page.text

    def submit(self, fields, answers, telemetry=None):
        return self.post("/submit", {**fields, **answers, "telemetry": json.dumps(telemetry or {})})

    def work(self, say=lambda name: f"some words for {name}"):
        """Fills in one form; gives its answers, or None where there is none."""
        if (begun := self.begin()) is None:
            return None
        fields, names, _ = begun
        answers = {name: say(name) for name in names}
        response = self.submit(fields, answers)
        assert response.status_code == 200, response.text
        return fields["assignmentId"], answers


def links(path: Path):
    return [row["link"] for row in kit.rows_of(path)]


class Process:
    """``parapet collect serve`` as a command, which can be killed and started again on the same port."""

    def __init__(self, folder: Path, hits: Path, port: int, people: int):
        self.folder, self.port = folder, port
        self.argv = [sys.executable, "-m", "parapet", "collect", "serve", "--hits", hits, "--db", folder / "a.sqlite"]
        self.argv += ["--port", port, "--people", people, "--export", folder / "a.jsonl"]
        self.process: subprocess.Popen | None = None

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*map(str, self.argv)], stdout=log, stderr=log)
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{self.port}/progress")
                return
            except httpx.TransportError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.05)
        raise AssertionError("the server does not answer")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(30)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
