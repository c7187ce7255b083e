"""``--workers``: what is refused, what happens when a process dies, and the quick import of Beam."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from kit import cases, raised

from parapet.pipelines import runners
from parapet.pipelines.dispatch import parser_of
from parapet.pipelines.statistics import Statistics
from parapet.schemas.errors import InputError


def program(script, *arguments):
    """A script in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_workers_and_flags_of_beams_for_the_same(tmp_path):
    options = runners.parsed(["--direct_num_workers=2"])
    flags = ["--direct_num_workers=2"]
    assert runners.local_runner(options, flags, Statistics(output=str(tmp_path)), []) is None
    reason = "--direct_num_workers=2: cannot be combined with --workers, which also says how Beam runs"
    command = Statistics(output=str(tmp_path), workers=2)
    raised(InputError, runners.local_runner, options, flags, command, [], match=reason)


def test_large_inputs_have_a_worker_for_each_core(tmp_path, monkeypatch):
    (tmp_path / "sgd").mkdir()
    (tmp_path / "sgd/dialogues_001.json").write_bytes(b" " * 1_000)

    def workers_of(large=1_001, workers=None):
        monkeypatch.setattr(Statistics, "large", large)
        options, command = runners.parsed([]), Statistics(output=str(tmp_path / "out"), workers=workers)
        runners.local_runner(options, [], command, [str(tmp_path / "sgd"), "gs://bucket/sgd"])
        return options.get_all_options()["direct_num_workers"]

    monkeypatch.setattr(runners, "cores", lambda: 3)
    assert [workers_of(), workers_of(large=1_000), workers_of(large=1_000, workers=2)] == [1, 3, 2]
    monkeypatch.setattr("parapet.pipelines.progress.sink", print)  # as in a suite
    assert workers_of(large=1_000) == 1


@cases(
    "text reason",
    ("0", "0: must be 1 or more"),
    ("-1", "-1: must be 1 or more"),
    ("two", "'two' is not a whole number"),
    ("1.5", "'1.5' is not a whole number"),
    ("", "'' is not a whole number"),
)
def test_other_numbers_are_refused(text, reason, capsys):
    raised(SystemExit, parser_of("statistics").parse, ["--output", "out", f"--workers={text}"], match="2")
    assert f"argument --workers: {reason}" in capsys.readouterr().err


WAITS = """
    import os, signal, sys
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from parapet.pipelines import runners
    from parapet.pipelines.statistics import Statistics

    def work(number, path):
        if number == 1:
            with open(path, "w") as file:
                file.write(f"{os.getpid()}\\n")
            signal.pause()

    options = PipelineOptions([])
    runner = runners.local_runner(options, [], Statistics(output="out", workers=2), [])
    with beam.Pipeline(runner, options=options) as pipeline:
        pipeline | beam.Create([0, 1, 2, 3]) | beam.Map(work, sys.argv[1])
"""


@pytest.mark.thorough
def test_workers_end_with_the_command(tmp_path):
    place = tmp_path / "pid"
    command = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WAITS), str(place)])
    until(lambda: place.exists() and place.read_text().endswith("\n"))
    worker = int(place.read_text())
    command.send_signal(signal.SIGKILL)
    command.wait()
    until(lambda: not Path(f"/proc/{worker}").exists() or "(zombie)" in Path(f"/proc/{worker}/status").read_text())


def until(holds):
    """Waits until something holds; a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_beam_is_imported_without_what_a_local_run_does_not_need():
    done = program("""
        import sys
        from parapet.pipelines.runners import import_beam
        import_beam(["--output=out"])
        import pyarrow
        heavy = {"pandas", "boto3", "google.cloud.storage", "google.cloud.bigquery"} & sys.modules.keys()
        assert not heavy, heavy
        table = pyarrow.table({"n": [1, 2]})
        assert "pandas" not in sys.modules
        import pandas
        assert table.to_pandas().n.tolist() == [1, 2]
    """)
    assert done.returncode == 0, done.stderr


def test_for_other_runners_and_buckets_nothing_is_left_out(monkeypatch):
    monkeypatch.setattr(runners, "without", None)
    runners.import_beam(["--output=gs://bucket/out"])
    runners.import_beam(["--runner=DataflowRunner"])
