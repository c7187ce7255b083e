"""The protocol: keys, faults and how botocore stands them, hooks, counts, restarts, the controls."""

import socket
import threading
from collections import Counter
from decimal import Decimal

import pytest
from kit import raised

from parapet.local_mturk.faults import Faults, faults_from
from parapet.local_mturk.server import LocalMTurk
from parapet.schemas.errors import InputError

exceptions = pytest.importorskip("botocore.exceptions")


def test_raw_requests(browser):
    target = {"X-Amz-Target": "MTurkRequesterServiceV20170117.ListHITs"}
    assert browser.ask("POST", "/", **target)[2].find("MissingAuthenticationTokenException") > 0
    signed = target | {"Authorization": "AWS4-HMAC-SHA256 Credential=x/2026"}
    for body in (b"", b"{", b"[]", b'{"MaxResults": 1e400}', b'{"NextToken": "\\ud800"}'):
        browser.connection.request("POST", "/", body, signed)
        answer = browser.connection.getresponse()
        assert (answer.status, b"SerializationException" in answer.read()) == (400, True)
    assert browser.ask("GET", "/", Host="evil.example")[0] == 403
    browser.connection.putrequest("POST", "/")
    browser.connection.putheader("Content-Length", str(1 << 30))
    browser.connection.endheaders()
    answer = browser.connection.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (413, "close")


STORM = Faults(throttle=0.15, error=0.1, drop_before=0.1, slow=0.1, slow_seconds=0.001)


@pytest.fixture
def no_waiting(monkeypatch):
    """botocore waits between attempts; the waits are its own business."""
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    monkeypatch.setattr("time.sleep", lambda _: None)


def test_botocore_stands_faults(tmp_path, connect, hit, no_waiting):
    outcomes = []
    for folder in ("a", "b"):
        with LocalMTurk(tmp_path / folder, faults=STORM, seed=5) as server:
            client = connect(server, attempts=6)
            ids = [client.create_hit(**hit, UniqueRequestToken=str(i))["HIT"]["HITId"] for i in range(60)]
            assert list(server.snapshot()["hits"]) == ids
            outcomes.append(server.calls["CreateHIT"])
    counted = outcomes[0]
    assert counted == outcomes[1]  # by seed and number, not by chance
    assert counted["ok"] == 60
    assert set(counted) == {"ok", "ThrottlingException", "ServiceFault", "dropped_before"}


def test_an_answer_that_is_lost_has_had_its_effect(tmp_path, connect, hit, refused, no_waiting):
    with LocalMTurk(tmp_path / "s", faults=Faults(drop_after=1, operations=("CreateHIT",))) as server:
        code, message = refused(connect(server, attempts=2).create_hit, **hit, UniqueRequestToken="t")
        assert code == "HitAlreadyExists"
        (made,) = server.snapshot()["hits"]
        assert made in message
        assert server.calls["CreateHIT"] == Counter(dropped_after=1, HitAlreadyExists=1)
        raised(exceptions.HTTPClientError, connect(server).create_hit, **hit)
        assert len(server.snapshot()["hits"]) == 2
        connect(server).list_hits()  # not concerned


@pytest.mark.parametrize(
    "given",
    [{"throttle": 2}, {"error": -0.1}, {"throttle": 0.6, "error": 0.6}, {"slow_seconds": -1}, {"rain": 1}, [], "x"],
)
def test_faults_that_cannot_be(given):
    raised(InputError, faults_from, given)


def test_a_restart_changes_nothing(tmp_path, connect, browse, hit):
    path = tmp_path / "state.sqlite"
    with LocalMTurk(path, seed=3, balance=Decimal(50)) as server:
        client, browser = connect(server), browse(server.url)
        made = client.create_hit(**hit, UniqueRequestToken="t")["HIT"]["HITId"]
        browser.work(made, "A1")
        held = browser.accept(made, "A2")
        server.advance(100)
        before, calls, now = server.snapshot(), server.calls, server.now()
    server.stop()  # once more is fine
    with LocalMTurk(path, seed=4, balance=Decimal(1)) as server:
        assert server.calls == calls
        assert 0 <= server.now() - now < 60
        assert {**server.snapshot(), "now": 0} == {**before, "now": 0}
        browse(server.url).submit(held)
        client = connect(server)
        raised(client.exceptions.RequestError, client.create_hit, **hit, UniqueRequestToken="t", match=made)
        other = client.create_hit(**hit)["HIT"]
        assert other["HITId"] != made
        assert other["HITTypeId"] == before["hits"][made]["HITTypeId"]


def test_controls_over_http(mturk, browser, connect, refused):
    before = mturk.now()
    status, answer = browser.post_json("/control/advance", {"seconds": 1_000})
    assert status == 200
    assert answer["now"] >= before + 1_000
    assert browser.post_json("/control/faults", {"throttle": 1})[0] == 200
    assert refused(connect(mturk).get_account_balance)[0] == "ThrottlingException"
    assert browser.post_json("/control/faults", {})[1]["throttle"] == 0
    assert browser.post_json("/control/worker", {"worker_id": "A1", "country": "DE"})[0] == 200
    assert browser.json("GET", "/control/calls")[1] == {"GetAccountBalance": {"ThrottlingException": 1}}
    assert browser.json("GET", "/control/snapshot")[1]["balance"]["available"] == "1000.0000"
    for path, wrong in (
        ("/control/advance", {"seconds": -1}),
        ("/control/advance", {"seconds": "1"}),
        ("/control/advance", []),
        ("/control/faults", {"throttle": 9}),
        ("/control/worker", {"country": "DE"}),
        ("/control/worker", {"worker_id": "A1", "height": 2}),
    ):
        assert browser.post_json(path, wrong)[0] == 400


def test_states_and_ports_that_cannot_be(tmp_path):
    (tmp_path / "text").write_text("not a database, and long enough to be seen as none" * 100)
    raised(InputError, LocalMTurk, tmp_path / "text", match="not usable as the state")
    raised(InputError, LocalMTurk, tmp_path / "no folder" / "state", match="not usable as the state")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        raised(InputError, LocalMTurk, tmp_path / "state", port=taken.getsockname()[1], match=r"--port: .*in use")
    raised(InputError, LocalMTurk, tmp_path / "state", port=70_000, match="--port")


def test_many_clients_at_once(mturk, connect, hit, browse):
    made = connect(mturk).create_hit(**hit | {"MaxAssignments": 40, "Reward": "0.01"})["HIT"]["HITId"]

    def worker(name):
        browser = browse(mturk.url)
        for i in range(10):
            browser.json("POST", f"/accept?hit_id={made}&worker_id={name}{i}")

    threads = [threading.Thread(target=worker, args=(f"AW{i}X",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(mturk.snapshot()["assignments"]) == 40
    assert mturk.snapshot()["hits"][made]["NumberOfAssignmentsAvailable"] == 0
