"""What the collection server withstands: files that are not its own, one bad annotator, and a change of forms."""

import contextlib
import gc
import http.client
import json
import re
import shutil
import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import kit
import pytest
from collect_site import SCHEMA, Person, free_port, links, site
from kit import cases
from starlette.requests import Request

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.serving import site as serving
from parapet.transforms.crowd.serving.store import Store, same_name

ANSWER = {"AssignmentId": "3LLM", "WorkerId": "w", "Answers": {"slot_0": "words"}, "Source": "llm"}


@pytest.fixture(scope="module")
def hits(tmp_path_factory):
    """Forms, and others for a top-up of the same schema."""
    folder = tmp_path_factory.mktemp("forms")
    kit.corpus(folder / "corpus", SCHEMA, test=[])
    kit.run("hits", schemas=folder / "corpus", output=folder / "hits", assignments=2)
    kit.corpus(folder / "changed", [{**SCHEMA[0], "description": "Carries parcels"}], test=[])
    kit.run("hits", schemas=folder / "changed", output=folder / "top_up", assignments=2)
    return folder / "hits"


def joined(it, number=1):
    person = Person(it.invitation(number))
    person.join()
    return person


def answered(folder, hits, number=1):
    """A server that got an answer of a person, and its export."""
    with site(folder, hits) as it:
        assert joined(it, number).work()
    return (folder / "a.jsonl").read_bytes()


# Files.


@cases(
    "content",
    json.dumps(ANSWER) + "\n",
    '{"task_id": "Ferries_1:names", "page": "pages/Ferries_1.names.html"}\n',
    "Ada\nBen\n",
    "\x00\x01",
)
def test_only_an_export_of_the_same_database_is_replaced(tmp_path, hits, content):
    for name, flag in (("a.jsonl", "--export"), ("links.csv", "--invitations")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(content)
        with pytest.raises(InputError) as caught, site(folder, hits):
            pass
        assert flag in str(caught.value)
        assert (folder / name).read_text() == content


def test_an_export_survives_a_new_database_and_an_old_copy(tmp_path, hits):
    first = answered(tmp_path, hits)
    old = (tmp_path / "a.sqlite").read_bytes()
    export = answered(tmp_path, hits, 2)  # the same database goes on
    assert (export.startswith(first), export.count(b"\n")) == (True, 2)
    for database in (None, b"", old):
        (tmp_path / "a.sqlite").unlink()
        if database is not None:
            (tmp_path / "a.sqlite").write_bytes(database)
        with pytest.raises(InputError, match="would be lost"), site(tmp_path, hits):
            pass
        assert (tmp_path / "a.jsonl").read_bytes() == export


def test_two_servers_cannot_write_one_export(tmp_path, hits):
    other = Store(tmp_path / "b.sqlite")
    serving.export(other, tmp_path / "a.jsonl")  # both are empty yet
    export = answered(tmp_path, hits)
    kit.raised(InputError, serving.export, other, tmp_path / "a.jsonl", match="would be lost")
    other.close()
    assert (tmp_path / "a.jsonl").read_bytes() == export


def test_a_copy_of_a_running_server_is_complete(tmp_path, hits):
    with site(tmp_path, hits) as it:
        assert joined(it).work()
        shutil.copy(tmp_path / "a.sqlite", tmp_path / "copy.sqlite")
        with contextlib.closing(sqlite3.connect(tmp_path / "a.sqlite")) as running:
            running.backup(sqlite3.connect(tmp_path / "backup.sqlite"))
        assert joined(it, 2).work()
        export = it.store.export()
    for name in ("copy.sqlite", "backup.sqlite"):
        store = Store(tmp_path / name)
        assert export.startswith(store.export())
        assert (store.submissions(), len(store.people())) == (1, 6)
        store.close()


def test_a_locked_database_is_a_reason_to_try_again(tmp_path, hits, monkeypatch):
    monkeypatch.setattr("parapet.transforms.crowd.serving.store._SECONDS", 0.1)
    with site(tmp_path, hits) as it:
        someone = joined(it)
        fields, names, _ = someone.begin()
        said = dict.fromkeys(names, "my words")
        with contextlib.closing(sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            response = someone.submit(fields, said)
            assert (response.status_code, "kept in this browser" in response.json()["message"]) == (503, True)
            other.execute("ROLLBACK")
        assert (someone.submit(fields, said).status_code, it.store.submissions()) == (200, 1)


# Memory and connections.


def test_refused_requests_are_forgotten(tmp_path, hits):
    with site(tmp_path, hits) as it:
        someone, stranger = joined(it), Person(it.settings.origin)
        for i in range(20):
            assert someone.get(f"/task?assignmentId={i}").status_code == 404
            assert stranger.get("/").status_code == 403
            assert someone.get("/nothing").status_code == 404
        gc.collect()
        assert sum(isinstance(each, Request) for each in gc.get_objects()) <= 2


def resident():
    """The resident memory of this process, in megabytes."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


@pytest.mark.thorough
def test_20_000_requests_leave_the_memory_as_it_was(tmp_path, hits):
    paths = ("/", "/task?assignmentId=0", "/join/1-0", "/nothing", "/progress")

    def send(n):
        """Sends requests of which the server refuses most, some large."""
        cookie = "; ".join(f"{name}={value}" for name, value in people[n % 6].http.cookies.items())
        for i in range(n):
            connection = http.client.HTTPConnection("127.0.0.1", it.settings.port)
            headers = {"Origin": it.settings.origin, "Cookie": cookie if i % 2 else ""}
            if i % 6 < 5:
                connection.request("GET", paths[i % 6], headers=headers)
            else:
                path = ("/progress", "/submit")[i // 6 % 2]
                connection.request("POST", path, urlencode({"secret": i, "slot_0": "x" * 100_000}), headers)
            connection.getresponse().read()
            connection.close()

    with site(tmp_path, hits) as it:
        people = [joined(it, n) for n in range(1, 7)]
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(send, [250] * 4))
            before = resident()
            list(threads.map(send, [250] * 80))
            assert resident() - before < 15


def opened(it, text, source="127.0.0.1"):
    """A connection that sends a text; ``HEAD`` in it stands for what a request to the server begins with."""
    host = it.settings.origin.removeprefix("http://")
    connection = socket.create_connection(("127.0.0.1", it.settings.port), 5, (source, 0))
    connection.sendall(text.replace("HEAD", f"Host: {host}\r\nOrigin: http://{host}").encode())
    return connection


def is_open(connection):
    connection.settimeout(0.05)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return True
    except OSError:
        pass
    return False


WHOLE = "GET /progress HTTP/1.1\r\nHEAD\r\n\r\n"
HALF = "POST /progress HTTP/1.1\r\nHEAD\r\nContent-Length: 100\r\n\r\nx"


@cases(
    "text",
    "",
    "GET / HT",
    HALF,
    "GET /progress HTTP/1.1\r\nHEAD\r\n\r\nGET / HT",
    "GET /x HTTP/1.1\r\nHEAD\r\n\r\n" + HALF,
)
def test_every_connection_ends(tmp_path, hits, text):
    with site(tmp_path, hits, limits={"MAX_SECONDS": 0.4}) as it:
        connection = opened(it, text)
        time.sleep(0.8)
        assert not is_open(connection)


def test_one_address_cannot_take_all_connections(tmp_path, hits):
    with site(tmp_path, hits, limits={"MAX_AT_ONCE": 10}) as it:
        flood = [opened(it, HALF) for _ in range(60)]
        time.sleep(0.3)
        assert sum(map(is_open, flood)) == 10
        reply = opened(it, WHOLE, source="127.0.0.2")
        assert reply.recv(100).startswith(b"HTTP/1.1 403")


def test_behind_a_proxy_addresses_are_those_that_it_forwards(tmp_path, hits):
    port = free_port()
    with site(tmp_path, hits, port=port, public_url=f"http://127.0.0.1:{port}", limits={"MAX_AT_ONCE": 3}) as it:
        slow = [opened(it, HALF.replace("HEAD", "HEAD\r\nX-Forwarded-For: 192.0.2.1")) for _ in range(9)]
        time.sleep(0.3)
        assert sum(map(is_open, slow)) == 3
        codes = [
            Person(it.settings.origin).get("/progress", headers={"X-Forwarded-For": who}).status_code
            for who in ("192.0.2.1", "192.0.2.2")
        ]
        assert codes == [429, 403]


@cases(
    "address network",
    ("192.0.2.7", "192.0.2.7"),
    ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
    ("::x" * 1000, ("::x" * 1000)[:64]),
)
def test_an_address_is_a_network(address, network):
    assert serving.address(Request({"type": "http", "client": (address, 1)})) == network


def test_a_window_ends():
    clock = iter([0, 1, 2, 59, 61, 62, 63])
    rate = serving.Rate(2, 60, now=lambda: next(clock))
    assert [rate.exceeded("a") for _ in range(7)] == [False, False, True, True, False, False, True]


# Top-ups.


def test_an_open_task_stays_valid_under_other_forms(tmp_path, hits):
    with site(tmp_path, hits) as it:
        first, second = joined(it), joined(it, 2)
        fields, names, page = first.begin()
        second.begin()
        port = it.settings.port
    with site(tmp_path, hits.parent / "top_up", port=port) as it:
        assert first.get("/task", params={"assignmentId": fields["assignmentId"]}).text == page
        assert second.begin()[2]
        assert first.submit(fields, dict.fromkeys(names, "my words")).status_code == 200
        assert second.work()
        assert it.store.submissions() == 2


# A study.


def study(folder, hits, **more):
    url = "https://app.prolific.com/submissions/complete?cc=C0DE"
    more = {"platform": "prolific", "completion_url": url, "tasks_per_person": 1, "study": "6a" * 12, **more}
    return site(folder, hits, **more)


def participant(it, number, study_id="6a" * 12):
    person = Person(it.settings.origin)
    ids = {"PROLIFIC_PID": f"{number:024x}", "STUDY_ID": study_id, "SESSION_ID": "7b" * 12}
    return person, person.get("/start", params=ids).status_code


def test_participants_cannot_be_invented(tmp_path, hits):
    with study(tmp_path, hits, limits={"MAX_NEWCOMERS": 3}) as it:
        assert participant(it, 1, "6b" * 12)[1] == 403
        assert [participant(it, n)[1] for n in (1, 2, 3, 4, 5, 1)] == [200, 200, 200, 429, 429, 200]
        assert len(it.store.people()) == 3


def test_a_place_that_is_not_used_returns_early_when_places_are_short(tmp_path, hits):
    with study(tmp_path, hits) as it:
        idle = [participant(it, n)[0] for n in range(4)]  # two forms, two places each
        begun = [person.begin() for person in idle]
        assert all(begun)
        late = participant(it, 4)[0]
        assert late.begin() is None
        it.store.now = lambda: time.time() + it.forms[0].assignment_duration_seconds / 3
        assert late.work()
        fields, names, _ = begun[0]
        assert idle[0].submit(fields, dict.fromkeys(names, "my words")).status_code == 200  # nobody's work is lost
        assert it.store.submissions() == 2


# Guesses and repetition.


def test_one_person_has_one_link(tmp_path, hits):
    names = ("Zoë", "Zoe\u0308", " ZOË\u200b ", "Ｚoë", "Ben", "\u200b")
    (tmp_path / "names").write_text("\ufeff" + "\n".join(names), "utf-8")
    assert len({same_name(name) for name in names[:4]}) == 1
    with site(tmp_path, hits, people=names[:5]):
        assert len(links(tmp_path / "links.csv")) == 2


def test_a_task_cannot_be_given_back_again_and_again(tmp_path, hits):
    with site(tmp_path, hits) as it:
        someone = joined(it)
        codes = []
        for _ in range(23):
            task = someone.post("/begin", {}).url.params["assignmentId"]
            codes.append(someone.post("/return", {"assignmentId": task}).status_code)
        assert codes == [200] * 20 + [429] * 3
        assert it.store._rows("SELECT count(*) FROM assignments")[0][0] == 21
        assert someone.work()
