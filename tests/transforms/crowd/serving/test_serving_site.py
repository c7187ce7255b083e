"""The collection server over HTTP: who may see what, what is saved, and what others may not do to it."""

import contextlib
import json
import logging
import socket
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import kit
import pytest
from collect_site import SCHEMA, Person, form, links, site
from kit import cases, lacking, rows_of

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.answer_files import FilledForm
from parapet.transforms.crowd.serving.site import read_telemetry
from parapet.transforms.crowd.serving.store import Store

HOSTILE = ("</textarea><script>alert(1)</script>", "=1+1", "a\r\nb\0c", "\U0001f600\u202e", "' OR 1=1 --", "x" * 20_000)


@pytest.fixture(scope="module")
def hits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    kit.corpus(folder / "corpus", SCHEMA, test=[])
    kit.run("hits", schemas=folder / "corpus", output=folder / "hits", assignments=2)
    return folder / "hits"


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


def test_four_people_fill_in_everything_and_it_can_be_composed(tmp_path, hits):
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
    composed = kit.run(
        "compose", schemas=hits.parent / "corpus", responses=tmp_path / "a.jsonl", output=tmp_path / "out", status=None
    )
    answers = composed.rows("responses.parquet")
    assert len(answers) == sum(len(row["Answers"]) for row in rows)
    assert {row["source"] for row in answers} == {"in_house"}


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


@cases(
    "text",
    "",
    "[]",
    '{"Keystrokes": 3}',
    '{"Keystrokes": {"a": -1}}',
    '{"Pastes": {"b": true}}',
    '{"Seconds": {"a": 1e300}}',
    "[" * 9_999,
)
def test_telemetry_may_be_anything(text):
    assert read_telemetry(text) == FilledForm()


def test_a_double_click_is_one_answer(served):
    someone = person(served)
    fields, names, _ = someone.begin()
    said = dict.fromkeys(names, "my words")
    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(lambda _: someone.submit(fields, said), range(16)))
    assert ({reply.status_code for reply in replies}, len(exported(served))) == ({200}, 1)
    assert someone.submit(fields, dict.fromkeys(names, "other words")).status_code == 409
    assert exported(served)[0]["Answers"] == said


def test_one_open_task_a_person_however_often_they_begin(served):
    someone = person(served)
    with ThreadPoolExecutor(8) as threads:
        begun = [each[0]["assignmentId"] for each in threads.map(lambda _: someone.begin(), range(8))]
    assert len(set(begun)) == 1


def test_a_task_that_is_given_back_is_offered_to_others(served):
    someone = person(served)
    fields, names, _ = someone.begin()
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
    assert second.begin()
    assert third.begin()


def test_others_tasks_cannot_be_seen_or_handed_in(served):
    first, second = person(served, 1), person(served, 2)
    fields, names, _ = first.begin()
    assert second.get("/task", params={"assignmentId": fields["assignmentId"]}).status_code == 404
    assert (second.submit(fields, dict.fromkeys(names, "x y")).status_code, exported(served)) == (404, [])


def post(someone, path, fields, **headers):
    return someone.post(path, fields, **headers).status_code


def test_requests_from_elsewhere_are_refused(served):
    someone = person(served)
    fields, names, _ = someone.begin()
    full = {**fields, **dict.fromkeys(names, "my words")}
    assert post(someone, "/submit", full, Origin="https://evil.example") == 403
    assert post(someone, "/submit", full, Origin="null") == 403
    assert post(someone, "/submit", full, Host="evil.example") == 421
    assert post(someone, "/submit", {**full, names[0]: " "}) == 422
    assert post(someone, "/submit", {**full, names[0]: "x" * 20_001}) == 422
    assert post(someone, "/submit", {**full, "more": "x" * 600_000}) == 413
    parts = iter([b"x" * 600_000])
    assert someone.http.post("/submit", content=parts, headers={"Origin": someone.origin}).status_code == 413
    assert (someone.http.put("/submit").status_code, exported(served), post(someone, "/submit", full)) == (404, [], 200)


@cases("path status", ("/", 403), ("/task?assignmentId=1", 403), ("/done", 403), ("/join/1-00", 403), ("/join/x", 403),
       ("/join/99999-0", 403), ("/join/%00", 403), ("/start?PROLIFIC_PID=1", 404), ("/static/../x", 404),
       ("/static/setup.py", 404), ("/progress", 403), ("/nothing", 404))  # fmt: skip
def test_strangers_see_nothing(served, path, status):
    response = httpx.get(served.settings.origin + path)
    assert response.status_code == status
    assert "Parcels" not in response.text
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


def test_slow_clients_and_crowds_of_connections_are_cut_off(tmp_path, hits):
    limits = {"MAX_SECONDS": 0.5, "MAX_CONNECTIONS": 20}
    with site(tmp_path, hits, limits=limits) as it:
        where = ("127.0.0.1", int(it.settings.origin.rpartition(":")[2]))
        host = f"Host: {where[0]}:{where[1]}\r\nOrigin: {it.settings.origin}\r\n".encode()
        (cookie,) = person(it).http.cookies.items()
        host += f"Cookie: {cookie[0]}={cookie[1]}\r\n".encode()
        beginnings = [b"", b"GET / HT", b"POST /submit HTTP/1.1\r\n" + host + b"Content-Length: 100\r\n\r\nx"]
        slow = [socket.create_connection(where) for _ in range(30)]
        for i, each in enumerate(slow):
            each.sendall(beginnings[i % 3])
        time.sleep(1.0)
        for each in slow:
            each.settimeout(5)
            with contextlib.suppress(ConnectionError):
                assert each.recv(100) == b""  # closed, not answered
            each.close()
        assert Person(it.invitation(1)).join().status_code == 200


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
        assert page.url.path == "/progress"
        assert requester.get("/").status_code == 403
        assert not lacking(page.text, "1 of 4 assignments are done", "Parcels_1:names", "Parcels_1:descriptions")
        assert "Example" not in page.text
        assert person(it, 2).get("/progress").status_code == 403


def test_the_time_of_a_person_is_the_median(tmp_path):
    store, forms = Store(tmp_path / "a.sqlite"), [form(f"k{n}", service=f"S_{n}") for n in range(3)]
    store.offer(forms)
    store.invite(2)
    for seconds in (60, 600, 120):
        store.now = lambda: 1e9
        assignment_id = store.begin(1)
        store.now = lambda seconds=seconds: 1e9 + seconds
        assert store.submit(1, assignment_id, FilledForm(answers={"slot_0": "x"})) == ""
    assert [row["minutes"] for row in store.by_person()] == [2, None]
    store.close()


def test_prolific_brings_people_and_gets_them_back(tmp_path, hits):
    more = {
        "platform": "prolific",
        "study": "6a" * 12,
        "completion_url": "https://app.prolific.com/submissions/complete?cc=C0DE",
    }
    with site(tmp_path, hits, tasks_per_person=1, **more) as it:
        ids = {"PROLIFIC_PID": "5f" * 12, "STUDY_ID": "6a" * 12, "SESSION_ID": "7b" * 12}
        someone = Person(it.settings.origin)
        assert someone.get("/start").status_code == 403
        home = someone.get("/start", params=ids)
        assert (home.url.path, home.url.query) == ("/", b"")
        assert someone.work()
        someone.http.follow_redirects = False
        assert someone.get("/done").headers["Location"] == more["completion_url"]
        assert [(row["Source"], row["WorkerId"]) for row in exported(it)] == [("prolific", ids["PROLIFIC_PID"])]
        other = Person(it.settings.origin)
        other.get("/start", params={**ids, "PROLIFIC_PID": "99" * 12})
        assert other.get("/done").url.path == "/"  # no code for nothing


def test_nothing_about_people_is_logged(served, caplog, capfd, monkeypatch):
    caplog.set_level(logging.DEBUG)
    someone = person(served)
    monkeypatch.setattr(served.store, "begin", lambda *_: 1 / 0)
    assert someone.post("/begin", {}).status_code == 500
    said = caplog.text.replace("HTTP Request: ", "") if "httpx" in caplog.text else caplog.text
    lines = [line for line in said.splitlines() if "httpx" not in line and "httpcore" not in line]
    assert [line for line in lines if "failed: ZeroDivisionError" in line]
    assert not [line for line in lines if "join/" in line or "assignmentId" in line or "Traceback" in line]


def test_a_store_is_for_one_server_and_one_format(tmp_path):
    first = Store(tmp_path / "a.sqlite")
    kit.raised(InputError, Store, tmp_path / "a.sqlite", match="in use by another")
    first.close()
    Store(tmp_path / "a.sqlite").close()
    (tmp_path / "text").write_text("no database, but long enough to be taken for one " * 50)
    kit.raised(InputError, Store, tmp_path / "text", match="file is not a database")
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    kit.raised(InputError, Store, tmp_path / "other", match="not written by 'parapet collect serve'")
