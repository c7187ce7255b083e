"""Beam's runners: their flags, those that are refused, ``--workers``, and what happens when a worker dies."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from kit import cases, files_of, raised, refused, run

from parapet.pipelines import command as commands
from parapet.pipelines.main import PIPELINES, actions_of, command_of, parser_of
from parapet.pipelines.statistics import Statistics
from parapet.schemas.errors import InputError

FLAGS = {
    "--runner": "FlinkRunner", "--flink_master": "flink:8081", "--spark_master_url": "spark://spark:7077",
    "--prism_location": "/bin/prism", "--job_endpoint": "jobs:8099", "--environment_type": "EXTERNAL",
    "--setup_file": "./setup.py", "--sdk_container_image": "images/parapet:1", "--direct_num_workers": 3,
}  # fmt: skip
LISTS = {"--environment_options": "docker_container_image=parapet", "--experiments": "beam_fn_api"}
SWITCHES = ("--flink_submit_uber_jar", "--spark_submit_uber_jar")


def options_of(*flags):
    """What Beam makes of the flags that a command's parser leaves."""
    _, rest = parser_of("statistics").parse(["--output", "out", *flags])
    return PipelineOptions(rest).get_all_options()


def test_the_documentation_says_of_every_command_whether_and_how_it_runs_in_parallel():
    text = Path(__file__).parents[2].joinpath("docs/running.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*?) \|", text.split("## What each command does in parallel")[1].split("\n## ")[0], re.M)
    alone = text.split("These run on one machine only:")[1].split("**")[0]
    pairs = {
        (command, command_of(command, action).takes_beam_flags)
        for command in PIPELINES
        for action in actions_of(command) or [""]
        if command != "suite"  # whose steps are pipelines
    }
    named = [set(re.findall(r"`(\w+)", part)) for part in (", ".join(rows), alone)]
    assert named[0] == {command for command, takes_flags in pairs if takes_flags}
    assert named[1] == {command for command, takes_flags in pairs if not takes_flags} | {"suite", "build"}


def test_the_flags_of_runners_reach_them():
    with_equals = [f"{flag}={value}" for flag, value in (FLAGS | LISTS).items()]
    without = [part for flag, value in (FLAGS | LISTS).items() for part in (flag, str(value))]
    expected = {flag[2:]: [value] if flag in LISTS else value for flag, value in (FLAGS | LISTS).items()}
    for flags in (with_equals, without):
        options = options_of(*flags, *SWITCHES)
        assert {name: options[name] for name in expected} == expected
        assert all(options[flag[2:]] is True for flag in SWITCHES)
    assert not any(options_of()[flag[2:]] for flag in SWITCHES)


DASK = ("--runner=DaskRunner", "--runner dask", "--runner=apache_beam.runners.dask.dask_runner.DaskRunner")


@cases("flags", *DASK, "--runner=BundleBasedDirectRunner")
def test_runners_that_lose_data_are_refused(flags, tmp_path):
    told = refused("compose", *flags.split(), output=tmp_path / "out")
    assert "loses data without an error: it does not run all branches" in told
    assert not (tmp_path / "out").exists()


VARY = ["language_variations", "--kinds", "typos", "--env", "0.5", "--quiet"]


@contextlib.contextmanager
def started(output):
    """A command, and the first of its workers."""
    command = [sys.executable, "-m", "parapet", *VARY, "--output", str(output), "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        yield process, until(lambda: _workers_of(process.pid))[0]


def until(found):
    """Waits until there is something; a minute at most."""
    end = time.monotonic() + 60
    while not (it := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return it


@pytest.mark.thorough
def test_a_killed_worker_process_ends_the_run(tmp_path):
    """Beam alone would wait for ever; here for one that has not begun. A rerun ends as an undisturbed run."""
    with started(tmp_path / "out") as (process, worker):
        os.kill(worker, signal.SIGKILL)
        assert "a worker process was killed" in process.communicate(timeout=120)[1]
        assert process.returncode == 1
    assert not (tmp_path / "out" / "run.json").exists()
    run(*VARY, output=tmp_path / "out")
    run(*VARY, output=tmp_path / "undisturbed")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


def _workers_of(process):
    """The worker processes of a command."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args=", "-ww"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [int(pid) for pid, parent, args in rows if parent == str(process) and "command.work" in args]


def test_workers_and_flags_of_beams_for_the_same(tmp_path):
    options = commands.beam_options(["--direct_num_workers=2"])
    flags = ["--direct_num_workers=2"]
    assert commands.local_runner(options, flags, Statistics(output=str(tmp_path)), []) is None
    reason = "--direct_num_workers=2: cannot be combined with --workers, which also says how Beam runs"
    command = Statistics(output=str(tmp_path), workers=2)
    raised(InputError, commands.local_runner, options, flags, command, [], match=reason)


def test_large_inputs_have_a_worker_for_each_core(tmp_path, monkeypatch):
    (tmp_path / "sgd").mkdir()
    (tmp_path / "sgd/dialogues_001.json").write_bytes(b" " * 1_000)

    def workers_of(large=1_001, workers=None):
        monkeypatch.setattr(Statistics, "large", large)
        options, command = commands.beam_options([]), Statistics(output=str(tmp_path / "out"), workers=workers)
        commands.local_runner(options, [], command, [str(tmp_path / "sgd"), "gs://bucket/sgd"])
        return options.get_all_options()["direct_num_workers"]

    monkeypatch.setattr(commands, "cores", lambda: 3)
    assert [workers_of(), workers_of(large=1_000), workers_of(large=1_000, workers=2)] == [1, 3, 2]
    monkeypatch.setattr("parapet.pipelines.progress.sink", print)  # as in a suite
    assert workers_of(large=1_000) == 1


@pytest.mark.thorough
def test_workers_end_with_the_command(tmp_path):
    with started(tmp_path / "out") as (process, worker):
        process.kill()
    status = Path(f"/proc/{worker}/status")
    until(lambda: not status.exists() or "(zombie)" in status.read_text())


LOCAL = """
import sys
from parapet.pipelines.command import import_beam
import_beam(["--output=out"])
import pyarrow
heavy = {"pandas", "boto3", "google.cloud.storage", "google.cloud.bigquery"} & sys.modules.keys()
assert not heavy, heavy
table = pyarrow.table({"n": [1, 2]})
assert "pandas" not in sys.modules
import pandas
assert table.to_pandas().n.tolist() == [1, 2]
"""


def test_beam_is_imported_without_what_a_local_run_does_not_need():
    subprocess.run([sys.executable, "-c", LOCAL], check=True)


def test_for_other_runners_and_buckets_nothing_is_left_out(monkeypatch):
    monkeypatch.setattr(commands, "without", None)
    commands.import_beam(["--output=gs://bucket/out"])
    commands.import_beam(["--runner=DataflowRunner"])
