"""What the two commands run: a server until it is told to stop, and workers."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
from kit import raised

from parapet.local_mturk.faults import Faults
from parapet.local_mturk.server import serve
from parapet.schemas.errors import InputError

SERVE = """
import sys
from pathlib import Path
from parapet.local_mturk.server import serve
sys.exit(serve(Path(sys.argv[1]), port=0, on_ready=lambda server: print("ready", flush=True)))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_until_told_to_stop(tmp_path, number):
    path = tmp_path / "practice.sqlite"
    with subprocess.Popen([sys.executable, "-c", SERVE, str(path)], stdout=subprocess.PIPE, text=True) as process:
        lines = []
        while (line := process.stdout.readline().strip()) != "ready":
            lines.append(line)
        os.kill(process.pid, number)
        rest = process.stdout.read()
        assert process.wait(20) == 0
    url = lines[-3].partition("=")[2]
    assert lines[-3:] == [
        f"export AWS_ENDPOINT_URL_MTURK={url}",
        "export AWS_ACCESS_KEY_ID=practice",
        "export AWS_SECRET_ACCESS_KEY=practice",
    ]
    assert url.startswith("http://127.0.0.1:")
    assert rest == f"Stopped. All is kept in {path}.\n"


def test_what_is_printed_is_all_that_boto3_needs(tmp_path, monkeypatch, capsys):
    boto3 = pytest.importorskip("boto3")
    told = threading.Event()
    balances = []

    def use(server):
        for line in capsys.readouterr().out.splitlines():
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                monkeypatch.setenv(name, value)
        assert server.faults.slow == 0.5
        balances.append(boto3.client("mturk", region_name="us-east-1").get_account_balance()["AvailableBalance"])
        told.set()
        raise KeyboardInterrupt

    assert serve(tmp_path / "s", 0, faults=Faults(slow=0.5, slow_seconds=0), on_ready=use) == 0
    assert told.is_set()
    assert balances == ["10000.00"]


def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        raised(InputError, serve, tmp_path / "s", taken.getsockname()[1], match="in use")
