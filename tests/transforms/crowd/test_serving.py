"""The collection server: who may see what, what is saved, who gets which form, and what it withstands."""

import contextlib
import gc
import json
import logging
import shutil
import socket
import sqlite3
import stat
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import kit
import pytest
from collect_site import SCHEMA, Person, form, free_port, links, site
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, holding, lacking, rows_of
from starlette.requests import Request

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.answer_files import FilledForm
from parapet.transforms.crowd.serving import site as serving
from parapet.transforms.crowd.serving.site import read_telemetry
from parapet.transforms.crowd.serving.store import Event, Store, choose, same_name

HOSTILE = ("</textarea><script>alert(1)</script>", "=1+1", "a\r\nb\0c", "\U0001f600\u202e", "' OR 1=1 --", "x" * 20_000)


@pytest.fixture
def served(tmp_path, hits):
    with site(tmp_path, hits) as it:
        yield it


def person(it, number=1):
    joined = Person(it.invitation(number))
    joined.join()
    return joined


def exported(it):
    return [json.loads(line) for line in it.store.export().splitlines()]


def test_four_people_fill_in_everything(tmp_path, hits):
    with site(tmp_path, hits, people=("Anna", "Ben", "Cem", "Dora")):
        people = [Person(link) for link in links(tmp_path / "links.csv")]
        assert [each.join().status_code for each in people] == [200] * 4
        saved = dict(work for each in people for work in iter(each.work, None))
        assert people[0].get("/done").status_code == 200
    rows = rows_of(tmp_path / "a.jsonl")
    assert ({row["AssignmentId"]: row["Answers"] for row in rows}, len(saved)) == (saved, 4)
    assert {row["Source"] for row in rows} == {"in_house"}
    assert not {"Anna", "Ben"} & {row["WorkerId"] for row in rows}
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.jsonl", "links.csv", "a.sqlite")} == {0o600}


def test_the_export_follows_the_answers(tmp_path, hits, monkeypatch):
    monkeypatch.setattr("parapet.transforms.crowd.serving.site._EXPORT_SECONDS", 0.02)
    with site(tmp_path, hits) as it:
        for n in (1, 2):
            person(it, n).work()
            deadline = time.monotonic() + 20
            while (lines := len(rows_of(tmp_path / "a.jsonl"))) < n and time.monotonic() < deadline:
                time.sleep(0.02)
            assert lines == n


def test_answers_keep_what_was_written_and_how(served):
    someone = person(served)
    fields, names, page = someone.begin()
    assert not lacking(page, 'action="/submit"', "how often you paste", "parapet.collect.")
    said = dict(zip(names, HOSTILE, strict=False))
    told = {"Keystrokes": {names[0]: 7}, "Pastes": {}, "Seconds": {names[0]: 1.26}, "AssignmentStatus": "Rejected"}
    assert someone.submit(fields, said, told).json() == {"next": "/"}
    assert someone.get("/").url.path == "/done"
    (row,) = exported(served)
    kept = {name: text.replace("\r\n", "\n").replace("\0", "") for name, text in said.items()}
    assert (row["Answers"], row["Keystrokes"], row["Pastes"]) == (kept, {names[0]: 7}, {})
    assert (row["Seconds"], row["AssignmentStatus"]) == ({names[0]: 1.3}, "Submitted")


@cases("text", "", '{"Keystrokes": {"a": -1}}', '{"Seconds": {"a": 1e300}}', "[" * 9_999)
def test_telemetry_may_be_anything(text):
    assert read_telemetry(text) == FilledForm()


def test_a_double_click_is_one_task_and_one_answer(served):
    someone = person(served)
    with ThreadPoolExecutor(8) as threads:
        begun = list(threads.map(lambda _: someone.begin(), range(8)))
        fields, names, _ = begun[0]
        said = dict.fromkeys(names, "my words")
        replies = list(threads.map(lambda _: someone.submit(fields, said), range(16)))
    assert [each[0] for each in begun] == [fields] * 8
    assert ({reply.status_code for reply in replies}, len(exported(served))) == ({200}, 1)
    assert someone.submit(fields, dict.fromkeys(names, "other words")).status_code == 409
    assert exported(served)[0]["Answers"] == said


def test_a_task_is_its_persons_alone_until_it_is_given_back(served):
    someone, other = person(served), person(served, 2)
    fields, names, _ = someone.begin()
    assert other.get("/task", params={"assignmentId": fields["assignmentId"]}).status_code == 404
    assert (other.submit(fields, dict.fromkeys(names, "x y")).status_code, exported(served)) == (404, [])
    someone.post("/return", fields)
    assert someone.submit(fields, dict.fromkeys(names, "late")).status_code == 409
    assert someone.get("/task", params={"assignmentId": fields["assignmentId"]}).status_code == 404
    again = someone.begin()
    assert again[1] == names  # the same task: its sibling would not be blind
    assert again[0]["assignmentId"] != fields["assignmentId"]


def test_time_runs_out_but_work_is_taken_while_nobody_has_done_it(served):
    first, second, third = (person(served, n) for n in (1, 2, 3))
    served.store.now = lambda: time.time()
    fields, names, _ = first.begin()
    served.store.now = lambda: time.time() + 48 * 3600
    assert served.store.by_form() != {}
    assert first.submit(fields, dict.fromkeys(names, "late")).status_code == 200
    assert (bool(second.begin()), bool(third.begin())) == (True, True)


def test_requests_from_elsewhere_are_refused(served):
    someone = person(served)
    fields, names, _ = someone.begin()
    full = {**fields, **dict.fromkeys(names, "my words")}
    for headers, status in (({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Host": "e"}, 421)):
        assert someone.post("/submit", full, **headers).status_code == status
    for more, status in (({names[0]: " "}, 422), ({names[0]: "x" * 20_001}, 422), ({"more": "x" * 600_000}, 413)):
        assert someone.post("/submit", {**full, **more}).status_code == status
    parts = iter([b"x" * 600_000])
    assert someone.http.post("/submit", content=parts, headers={"Origin": someone.origin}).status_code == 413
    assert (someone.http.put("/submit").status_code, exported(served)) == (404, [])
    assert someone.post("/submit", full).status_code == 200


def test_strangers_see_nothing(served):
    hidden = ["", "task?assignmentId=1", "done", "join/1-00", "join/x", "join/99999-0", "join/%00", "progress"]
    none = ["start?PROLIFIC_PID=1", "static/../x", "static/setup.py", "nothing"]
    for path, status in {**dict.fromkeys(hidden, 403), **dict.fromkeys(none, 404)}.items():
        response = httpx.get(f"{served.settings.origin}/{path}")
        assert (response.status_code, "Parcels" in response.text) == (status, False), path
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]


def test_a_forged_session_is_none(served):
    someone = person(served)
    (name,) = someone.http.cookies
    value = someone.http.cookies[name]
    for forged in (value.replace("1-", "2-"), value[:-1], value + "0", "1", "", "1-", "é" * 9):
        assert httpx.get(someone.origin, headers={"Cookie": f"{name}={forged}".encode()}).status_code == 403, forged


def test_many_requests_are_slowed_down(tmp_path, hits):
    with site(tmp_path, hits, limits={"MAX_PER_MINUTE": 5}) as it:
        assert [httpx.get(f"{it.settings.origin}/join/1-{i}").status_code for i in range(7)] == [403] * 5 + [429] * 2
        assert Person(it.invitation(0)).get("/progress").status_code == 429


def test_a_full_disk_says_so_and_keeps_what_was_acknowledged(served):
    first, second = person(served, 1), person(served, 2)
    first.work()
    fields, names, _ = second.begin()
    db = served.store._db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages}")
    large = dict.fromkeys(names, "x" * 20_000)
    response = second.submit(fields, large)
    assert response.status_code == 503
    assert "kept in this browser" in response.json()["message"]
    assert len(exported(served)) == 1
    db.execute("PRAGMA max_page_count = 100000")
    assert (second.submit(fields, large).status_code, len(exported(served))) == (200, 2)


def test_the_progress_page_is_for_the_requester_and_shows_no_names(tmp_path, hits):
    with site(tmp_path, hits, people=("Anna Example", "Ben Example")) as it:
        person(it).work()
        requester = Person(it.invitation(0))
        page = requester.join()
        assert (page.url.path, requester.get("/").status_code) == ("/progress", 403)
        assert not lacking(page.text, "1 of 4 assignments are done", "Parcels_1:names", "Parcels_1:descriptions")
        assert "Example" not in page.text
        assert person(it, 2).get("/progress").status_code == 403


def test_the_time_of_a_person_is_the_median(tmp_path):
    store = Store(tmp_path / "a.sqlite")
    store.offer([form(f"k{n}", service=f"S_{n}") for n in range(3)])
    store.invite(2)
    for seconds in (60, 600, 120):
        store.now = lambda: 1e9
        assignment_id = store.begin(1)
        store.now = lambda seconds=seconds: 1e9 + seconds
        assert store.submit(1, assignment_id, FilledForm(answers={"slot_0": "x"})) == ""
    assert [row["minutes"] for row in store.by_person()] == [2, None]
    store.close()


def test_prolific_brings_people_and_gets_them_back(tmp_path, hits):
    with study(tmp_path, hits) as it:
        assert httpx.get(f"{it.settings.origin}/start").status_code == 403
        someone, home = participant(it, 95)
        assert (home.url.path, home.url.query) == ("/", b"")
        assert someone.work()
        someone.http.follow_redirects = False
        assert someone.get("/done").headers["Location"] == it.settings.completion_url
        assert [(row["Source"], row["WorkerId"]) for row in exported(it)] == [("prolific", f"{95:024x}")]
        other, _ = participant(it, 99)
        assert other.get("/done").url.path == "/"  # no code for nothing


def test_nothing_about_people_is_logged(served, caplog, capfd, monkeypatch):
    caplog.set_level(logging.DEBUG)
    someone = person(served)
    monkeypatch.setattr(served.store, "begin", lambda *_: 1 / 0)
    assert someone.post("/begin", {}).status_code == 500
    lines = [line for line in caplog.text.splitlines() if "httpx" not in line and "httpcore" not in line]
    assert [line for line in lines if "failed: ZeroDivisionError" in line]
    assert not holding("\n".join(lines), "join/", "assignmentId", "Traceback")


def test_a_store_is_for_one_server_and_one_format(tmp_path):
    first = Store(tmp_path / "a.sqlite")
    kit.raised(InputError, Store, tmp_path / "a.sqlite", match="in use by another")
    first.close()
    Store(tmp_path / "a.sqlite").close()
    text = kit.write(tmp_path / "text", "no database, but long enough to be taken for one " * 50)
    kit.raised(InputError, Store, text, match="file is not a database")
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    kit.raised(InputError, Store, tmp_path / "other", match="not written by 'parapet collect serve'")


@pytest.fixture(scope="module")
def hits(tmp_path_factory):
    """Forms, and others for a top-up of the same schema."""
    folder = tmp_path_factory.mktemp("forms")
    kit.corpus(folder / "corpus", SCHEMA, test=[])
    kit.run("hits", schemas=folder / "corpus", output=folder / "hits", assignments=2)
    kit.corpus(folder / "changed", [{**SCHEMA[0], "description": "Carries parcels"}], test=[])
    kit.run("hits", schemas=folder / "changed", output=folder / "top_up", assignments=2)
    return folder / "hits"


def answered(folder, hits, number=1):
    """A server that got an answer of a person, and its export."""
    with site(folder, hits) as it:
        assert person(it, number).work()
    return (folder / "a.jsonl").read_bytes()


# Files.


ANSWER = '{"AssignmentId": "3LLM", "WorkerId": "w", "Answers": {"slot_0": "words"}, "Source": "llm"}\n'


@cases("content", ANSWER, "Ada\nBen\n", "\x00\x01")
def test_only_an_export_of_the_same_database_is_replaced(tmp_path, hits, content):
    for name, flag in (("a.jsonl", "--export"), ("links.csv", "--invitations")):
        folder = tmp_path / name
        kit.write(folder / name, content)
        kit.raised(InputError, site(folder, hits).__enter__, match=flag)
        assert (folder / name).read_text() == content


def test_an_export_survives_a_new_database_and_an_old_copy(tmp_path, hits):
    first = answered(tmp_path, hits)
    old = (tmp_path / "a.sqlite").read_bytes()
    export = answered(tmp_path, hits, 2)  # the same database goes on
    assert (export.startswith(first), export.count(b"\n")) == (True, 2)
    (tmp_path / "a.sqlite").unlink()
    for database in (None, b"", old):
        if database is not None:
            (tmp_path / "a.sqlite").write_bytes(database)
        kit.raised(InputError, site(tmp_path, hits).__enter__, match="would be lost")
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
        assert person(it).work()
        shutil.copy(tmp_path / "a.sqlite", tmp_path / "copy.sqlite")
        with contextlib.closing(sqlite3.connect(tmp_path / "a.sqlite")) as running:
            running.backup(sqlite3.connect(tmp_path / "backup.sqlite"))
        assert person(it, 2).work()
        export = it.store.export()
    for name in ("copy.sqlite", "backup.sqlite"):
        store = Store(tmp_path / name)
        assert export.startswith(store.export())
        assert (store.submissions(), len(store.people())) == (1, 6)
        store.close()


def test_a_locked_database_is_a_reason_to_try_again(tmp_path, hits, monkeypatch):
    monkeypatch.setattr("parapet.transforms.crowd.serving.store._SECONDS", 0.1)
    with site(tmp_path, hits) as it:
        someone = person(it)
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
        someone, stranger = person(it), Person(it.settings.origin)
        for i in range(20):
            assert someone.get(f"/task?assignmentId={i}").status_code == 404
            assert stranger.get("/").status_code == 403
            assert someone.get("/nothing").status_code == 404
        gc.collect()
        assert sum(isinstance(each, Request) for each in gc.get_objects()) <= 2


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


def test_every_connection_ends(tmp_path, hits):
    texts = ("", HALF, WHOLE + "GET / HT", WHOLE.replace("progress", "x") + HALF)
    with site(tmp_path, hits, limits={"MAX_SECONDS": 0.4}) as it:
        connections = [opened(it, text) for text in texts]
        time.sleep(0.8)
        assert [text for text, connection in zip(texts, connections, strict=True) if is_open(connection)] == []


@cases("limit text", ("MAX_AT_ONCE", HALF), ("MAX_CONNECTIONS", "GET / HT"))
def test_nobody_can_take_all_connections(tmp_path, hits, limit, text):
    with site(tmp_path, hits, limits={limit: 10}) as it:
        flood = [opened(it, text) for _ in range(30)]
        time.sleep(0.3)
        assert sum(map(is_open, flood)) == 10
        if limit == "MAX_AT_ONCE":  # of one address
            assert opened(it, WHOLE, source="127.0.0.2").recv(100).startswith(b"HTTP/1.1 403")


def test_behind_a_proxy_addresses_are_those_that_it_forwards(tmp_path, hits):
    port = free_port()
    with site(tmp_path, hits, port=port, public_url=f"http://127.0.0.1:{port}", limits={"MAX_AT_ONCE": 3}) as it:
        slow = [opened(it, HALF.replace("HEAD", "HEAD\r\nX-Forwarded-For: 192.0.2.1")) for _ in range(9)]
        time.sleep(0.3)
        assert sum(map(is_open, slow)) == 3
        for who, status in (("192.0.2.1", 429), ("192.0.2.2", 403)):
            answer = httpx.get(f"{it.settings.origin}/progress", headers={"X-Forwarded-For": who})
            assert answer.status_code == status


def test_an_address_is_a_network():
    long = "::x" * 1000
    for address, network in (("192.0.2.7",) * 2, ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), (long, long[:64])):
        assert serving.address(Request({"type": "http", "client": (address, 1)})) == network


def test_a_window_ends():
    clock = iter([0, 1, 2, 59, 61, 62, 63])
    rate = serving.Rate(2, 60, now=lambda: next(clock))
    assert [rate.exceeded("a") for _ in range(7)] == [False, False, True, True, False, False, True]


# Top-ups.


def test_an_open_task_stays_valid_under_other_forms(tmp_path, hits):
    with site(tmp_path, hits) as it:
        first, second = person(it), person(it, 2)
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
    return site(folder, hits, platform="prolific", completion_url=url, tasks_per_person=1, study="6a" * 12, **more)


def participant(it, number, study_id="6a" * 12):
    person = Person(it.settings.origin)
    ids = {"PROLIFIC_PID": f"{number:024x}", "STUDY_ID": study_id, "SESSION_ID": "7b" * 12}
    return person, person.get("/start", params=ids)


def test_participants_cannot_be_invented(tmp_path, hits):
    with study(tmp_path, hits, limits={"MAX_NEWCOMERS": 3}) as it:
        assert participant(it, 1, "6b" * 12)[1].status_code == 403
        assert [participant(it, n)[1].status_code for n in (1, 2, 3, 4, 5, 1)] == [200, 200, 200, 429, 429, 200]
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
        someone = person(it)
        codes = []
        for _ in range(23):
            task = someone.post("/begin", {}).url.params["assignmentId"]
            codes.append(someone.post("/return", {"assignmentId": task}).status_code)
        assert codes == [200] * 20 + [429] * 3
        assert it.store._rows("SELECT count(*) FROM assignments")[0][0] == 21
        assert someone.work()


STATES = ("submitted", "submitted", "submitted", "returned", "expired", "open")


@st.composite
def batches(draw):
    """Services with both tasks, some in parts, some with one task only, and tasks that hide nothing."""
    forms = []
    for s in range(draw(st.integers(1, 4))):
        for task in draw(st.sampled_from((("names",), ("descriptions",), ("names", "descriptions")))):
            wanted, parts = draw(st.integers(1, 3)), draw(st.integers(1, 2))
            forms += [form(f"{s}{task}{part}", task, f"S_{s}", wanted) for part in range(parts)]
    forms += [form(f"r{i}", "rewrites", "", draw(st.integers(1, 3)), {f"t{i}"}) for i in range(draw(st.integers(0, 2)))]
    return forms


class Batch:
    """A collection as the store keeps it: one open form a person."""

    def __init__(self, forms, limit=None):
        self.forms, self.limit, self.history = forms, limit, []

    def step(self, person, state):
        """A person ends the open form, or gets one; False where there is none."""
        for i, each in enumerate(self.history):
            if each.person == person and each.state == "open":
                self.history[i] = Event(person, each.form, state)
                return True
        chosen = choose(person, self.forms, self.history, self.limit)
        if chosen is not None:
            self.history.append(Event(person, chosen, state))
        return chosen is not None

    def check(self):
        seen = {(each.person, each.form.hides, each.form.task) for each in self.history if each.form.hides}
        assert max(Counter((who, service) for who, service, _ in seen).values(), default=1) == 1  # blind
        held = [each for each in self.history if each.state in ("open", "submitted")]
        assert all(Counter(each.form.key for each in held)[of.key] <= of.assignments for of in self.forms)
        twice = Counter((each.person, each.form.task, element) for each in held for element in each.form.elements)
        assert max(twice.values(), default=1) == 1

    def is_complete(self):
        done = Counter(each.form.key for each in self.history if each.state == "submitted")
        return all(done[of.key] == of.assignments for of in self.forms)


@given(batches(), st.lists(st.tuples(st.integers(0, 7), st.sampled_from(STATES)), max_size=150))
def test_names_and_descriptions_stay_blind_whatever_people_do(forms, steps):
    batch = Batch(forms)
    for person, state in steps:
        batch.step(person, state)
        batch.check()


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_twice_as_many_people_as_assignments_complete_a_batch(services, wanted, data):
    """In any order, giving forms back as they like, as long as they come again."""
    forms = [form(f"{s}{task}", task, f"S_{s}", wanted) for s in range(services) for task in ("names", "descriptions")]
    people = 2 * wanted
    batch = Batch(forms)
    order = data.draw(st.lists(st.tuples(st.integers(0, people - 1), st.sampled_from(STATES[:4])), max_size=100))
    for person, state in order:
        batch.step(person, state)
    while any(batch.step(person, "submitted") for person in range(people)):
        batch.check()
    assert batch.is_complete()
    assert not Batch(forms).is_complete()


@given(batches(), st.integers(1, 3))
def test_nobody_does_more_than_the_limit(forms, limit):
    batch = Batch(forms, limit)
    while any(batch.step(person, "submitted") for person in range(20)):
        batch.check()
    assert max(Counter(each.person for each in batch.history).values()) <= limit
