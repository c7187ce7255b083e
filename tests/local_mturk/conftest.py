"""A started local MTurk with a boto3 client, and the shortest ways to HITs and submissions."""

import http.client
import json
from decimal import Decimal
from urllib.parse import quote, urlencode, urlsplit

import pytest
from kit import raised

from parapet.local_mturk.server import LocalMTurk
from parapet.pipelines.main import main
from parapet.transforms.crowd.hits.markup import question_xml

boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
config = pytest.importorskip("botocore.config")
exceptions = pytest.importorskip("botocore.exceptions")

FORM = (
    '<!DOCTYPE html><html lang="en"><head><title>t</title></head><body>'
    '<form method="post" action="https://www.mturk.com/mturk/externalSubmit">'
    '<input name="assignmentId"><input name="slot_0"><textarea name="slot_1">\n</textarea><button>ok</button>'
    "</form></body></html>"
)
QUESTION = question_xml(FORM).decode()
HIT = {
    "Title": "A title",
    "Description": "A description",
    "Reward": "0.50",
    "AssignmentDurationInSeconds": 600,
    "AutoApprovalDelayInSeconds": 3_600,
    "LifetimeInSeconds": 86_400,
    "MaxAssignments": 3,
    "Question": QUESTION,
    "RequesterAnnotation": "Parcels_1:names",
}


class Browser:
    """A worker's HTTP client: keeps its connection, follows nothing."""

    def __init__(self, url):
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)

    def ask(self, method, path, form=None, accept="text/html", **headers):
        body = None if form is None else urlencode(form, quote_via=quote).encode()
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        self.connection.request(method, path, body, {"Accept": accept, **headers})
        answer = self.connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()

    def json(self, method, path, form=None):
        status, _, text = self.ask(method, path, form, "application/json")
        return status, json.loads(text)

    def post_json(self, path, value):
        self.connection.request("POST", path, json.dumps(value).encode(), {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def accept(self, hit_id, worker_id="A1"):
        status, answer = self.json("POST", f"/accept?hit_id={hit_id}&worker_id={worker_id}")
        assert status == 200, answer
        return answer["assignment_id"]

    def submit(self, assignment_id, **fields):
        return self.json("POST", "/mturk/externalSubmit", {"assignmentId": assignment_id, "slot_0": "x", **fields})

    def work(self, hit_id, worker_id="A1", **fields):
        assignment_id = self.accept(hit_id, worker_id)
        status, answer = self.submit(assignment_id, **fields)
        assert status == 200, answer
        return assignment_id


@pytest.fixture
def mturk(tmp_path):
    with LocalMTurk(tmp_path / "state.sqlite", balance=Decimal(1_000)) as server:
        yield server


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Server, client and worker for tests that leave nothing behind that the others would mind."""
    with LocalMTurk(tmp_path_factory.mktemp("shared") / "state.sqlite") as server:
        browser = Browser(server.url)
        yield server, client_of(server), browser
        browser.connection.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """The sample's HITs as ``parapet hits`` writes them: the folder, and its manifest's lines."""
    folder = tmp_path_factory.mktemp("hits")
    assert main(["hits", "--output", str(folder), "--quiet"]) == 0
    return folder, [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]


def client_of(server, attempts=1, key="practice"):
    return boto3.client(
        "mturk",
        region_name="us-east-1",
        endpoint_url=server.url,
        aws_access_key_id=key,
        aws_secret_access_key="practice",
        config=config.Config(retries={"mode": "standard", "total_max_attempts": attempts}),
    )


@pytest.fixture
def client(mturk):
    return client_of(mturk)


@pytest.fixture
def connect():
    return client_of


@pytest.fixture
def browser(mturk):
    opened = Browser(mturk.url)
    yield opened
    opened.connection.close()


@pytest.fixture
def browse():
    return Browser


@pytest.fixture
def make_hit(client):
    def made(**changes):
        return client.create_hit(**{**HIT, **changes})["HIT"]["HITId"]

    return made


@pytest.fixture
def hit():
    return dict(HIT)


@pytest.fixture
def refused():
    """Calls what must be refused; returns TurkErrorCode without its prefix, or the error code, and the message."""

    def told(call, **params):
        response = raised(exceptions.ClientError, call, **params).response
        turk = response.get("TurkErrorCode", "").removeprefix("AWS.MechanicalTurk.")
        return turk or response["Error"]["Code"], response["Error"]["Message"]

    return told
