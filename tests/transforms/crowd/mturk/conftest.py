"""A fake MTurk and an empty batch for each test; one folder of HITs for all."""

import os

import boto3
import botocore.endpoint
import pytest
from fake_mturk import FakeMTurk
from kit import as_nobody, run, without_waiting, write
from mturk_bench import Bench, cut


@pytest.fixture(scope="session")
def all_hits(tmp_path_factory):
    """The sample's twelve HITs, as the command makes them."""
    return run("hits", "--sandbox", assignments=3, output=tmp_path_factory.mktemp("hits") / "out").folder


@pytest.fixture(scope="session")
def hits(all_hits, tmp_path_factory):
    """Three of them: two siblings, and one of another service."""
    return cut(all_hits, tmp_path_factory.mktemp("cut") / "hits")


_SESSIONS = {}
_REAL_SESSION = boto3.session.Session


def _session(**given):
    key = (*given.items(), os.environ.get("AWS_ACCESS_KEY_ID"))
    if key not in _SESSIONS:
        _SESSIONS[key] = _REAL_SESSION(**given)
    return _SESSIONS[key]


def nobody(monkeypatch, folder):
    """Credentials of nobody; and no waiting between retries."""
    as_nobody(monkeypatch, folder)
    without_waiting(monkeypatch, botocore.endpoint)
    monkeypatch.setattr(boto3.session, "Session", _session)  # it reads megabytes of models each time


@pytest.fixture(autouse=True)
def aws(monkeypatch, tmp_path):
    nobody(monkeypatch, tmp_path)


@pytest.fixture(scope="session")
def undisturbed(hits, tmp_path_factory):
    """A bench for a run that others are compared with."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as monkeypatch, FakeMTurk(folder / "server.db") as running:
        nobody(monkeypatch, folder)
        (folder / "work").mkdir()
        yield Bench(running, hits, folder / "work" / "batch")


@pytest.fixture
def server(tmp_path):
    with FakeMTurk(tmp_path / "server.db") as running:
        yield running


@pytest.fixture
def bench(server, hits, tmp_path):
    (tmp_path / "work").mkdir()
    return Bench(server, hits, tmp_path / "work" / "batch")


@pytest.fixture(scope="session")
def reviewed(tmp_path_factory, sample):
    """The sample's answers as ``compose`` judges them, and a line of which nothing can be read."""
    folder = tmp_path_factory.mktemp("reviewed")
    row = {"AssignmentId": "3BROKEN", "RequesterAnnotation": "Gyms_1:names", "Answer": "<a>", "WorkerId": "A1"}
    responses = [sample / "crowd/names.csv", sample / "crowd/descriptions.csv", write(folder / "broken.jsonl", [row])]
    return run("compose", schemas=sample, responses=responses, output=folder / "out").folder


@pytest.fixture
def copy(hits, tmp_path):
    """The folder of HITs, to be spoilt."""
    return cut(hits, tmp_path / "copy")
