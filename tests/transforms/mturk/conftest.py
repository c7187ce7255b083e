"""A local MTurk and an empty batch for each test; one folder of HITs for all."""

import json
import os

import boto3
import botocore.endpoint
import pytest
from mturk_bench import KEY, Bench, cut

from parapet.local_mturk.server import LocalMTurk
from parapet.pipelines.main import main


@pytest.fixture(scope="session")
def all_hits(tmp_path_factory):
    """The sample's twelve HITs, as the command makes them."""
    out = tmp_path_factory.mktemp("hits") / "out"
    assert main(["hits", "--output", str(out), "--sandbox", "--assignments", "3", "--quiet"]) == 0
    return out


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
    """Credentials of nobody, none of those of whoever runs the tests; and no waiting between retries."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "practice")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "practice")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
    monkeypatch.setattr(botocore.endpoint.time, "sleep", lambda _: None)
    monkeypatch.setattr(boto3.session, "Session", _session)  # it reads megabytes of models each time


@pytest.fixture(autouse=True)
def aws(monkeypatch, tmp_path):
    nobody(monkeypatch, tmp_path)


@pytest.fixture(scope="session")
def undisturbed(hits, tmp_path_factory):
    """A bench for a run that others are compared with."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as monkeypatch, LocalMTurk(folder / "server.db") as running:
        monkeypatch.setenv("PARAPET_WORKER_KEY", KEY.decode())
        nobody(monkeypatch, folder)
        (folder / "work").mkdir()
        yield Bench(running, hits, folder / "work" / "batch")


@pytest.fixture
def server(tmp_path):
    with LocalMTurk(tmp_path / "server.db") as running:
        yield running


@pytest.fixture
def bench(server, hits, tmp_path):
    (tmp_path / "work").mkdir()
    return Bench(server, hits, tmp_path / "work" / "batch")


@pytest.fixture(scope="session")
def reviewed(tmp_path_factory, sample):
    """The sample's answers as ``compose`` judges them, and a line of which nothing can be read."""
    os.environ.setdefault("PARAPET_WORKER_KEY", "a worker key for tests only")
    folder = tmp_path_factory.mktemp("reviewed")
    broken = folder / "broken.jsonl"
    broken.write_text(
        json.dumps(
            {"AssignmentId": "3BROKEN", "RequesterAnnotation": "Gyms_1:names", "Answer": "<a>", "WorkerId": "A1"}
        )
    )
    responses = [str(path) for path in (sample / "crowd/names.csv", sample / "crowd/descriptions.csv", broken)]
    out = folder / "out"
    assert main(["compose", "--schemas", str(sample), "--responses", *responses, "--output", str(out), "--quiet"]) == 0
    return out


@pytest.fixture
def copy(hits, tmp_path):
    """The folder of HITs, to be spoilt."""
    return cut(hits, tmp_path / "copy")
