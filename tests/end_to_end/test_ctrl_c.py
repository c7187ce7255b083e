"""Ctrl-C at any moment: the command ends within five seconds with all of its processes, and says what it published."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kit import THOROUGH, cases, files_of

SECONDS = 5
# Before, on a machine that is busy, Python itself is still starting.
DRAW = random.Random(3)
MOMENTS = [DRAW.uniform(2, 6) for _ in range(50 if THOROUGH else 1)]


def start(*words):
    """Starts a command in a process group of its own, as a shell does."""
    command = [sys.executable, "-m", "parapet", *map(str, words)]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    heed = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    return subprocess.Popen(command, **piped, process_group=0, preexec_fn=heed)


def stop(process):
    """Interrupts all processes of the group, as a terminal does, which must end in time; returns what was told."""
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=4 * SECONDS)
    finally:
        seconds = time.monotonic() - began
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert seconds < SECONDS
    return errors


def is_running(group):
    """Whether a process of the group is running, other than as a zombie."""
    listed = subprocess.run(["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return any(line.split()[0] == str(group) and "Z" not in line for line in listed.splitlines())


@cases("moment", *MOMENTS)
def test_two_workers_end_and_tell_the_truth(moment, tmp_path):
    out = tmp_path / "out"
    process = start("perturb", "typos", "--workers", 2, "--output", out)
    try:
        process.wait(timeout=moment)
    except subprocess.TimeoutExpired:
        errors = stop(process)
        assert "Traceback" not in errors
        time.sleep(0.3)
        assert not is_running(process.pid)
        is_published = (out / "run.json").exists()
        assert is_published == ("done in" in errors or "was complete by then" in errors)
        assert is_published or "stopped before anything was done" in errors or "nothing was published" in errors
    else:
        process.communicate()


def test_an_output_that_was_there_stays_or_is_replaced(tmp_path):
    out = tmp_path / "out"
    assert start("perturb", "typos", "--output", out, "--quiet").wait() == 0
    before = files_of(out)
    process = start("perturb", "typos", "--seed", 2, "--workers", 2, "--output", out)
    while not any(out.glob(".incomplete/.owner*")) and process.poll() is None:
        time.sleep(0.01)
    errors = stop(process)
    assert "nothing was published, run the same command again" in errors or "before anything was done" in errors
    assert {path: data for path, data in files_of(out).items() if ".incomplete" not in path} == before


@pytest.mark.thorough
@cases("moment", *MOMENTS[:20])
def test_a_suite_ends_with_its_steps(moment, tmp_path):
    process = start("suite", "sample", "--output", tmp_path / "out")
    time.sleep(3 * moment)
    errors = stop(process)
    assert "Traceback" not in errors
    assert process.returncode == 1
    assert "stopped" in errors
    assert not [line for line in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in _bytes(line)]


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""
