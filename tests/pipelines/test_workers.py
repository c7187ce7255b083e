"""``--workers``: how many there are, what happens when one dies, and the quick import of Beam."""

import argparse
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from kit import raised

from parapet.pipelines import lean_imports, workers
from parapet.pipelines.flags import Parser
from parapet.schemas.errors import InputError


def program(script, *arguments):
    """A script in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def flags(workers="auto", *runner_flags):
    return argparse.Namespace(workers=workers, runner_flags=list(runner_flags))


def test_flags_of_beams_decide_where_they_are_given():
    assert workers.count(flags("auto", "--direct_num_workers=2"), [], large=1) == 0
    assert workers.count(flags("auto", "--runner=PortableRunner"), [], large=1) == 0
    assert workers.count(flags(2, "--no_auth"), [], large=1) == 2
    both = "--direct_num_workers=2: cannot be combined with --workers, which also says how Beam runs"
    raised(InputError, workers.count, flags(2, "--direct_num_workers=2"), [], large=1, match=both)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", ""])
def test_other_numbers_are_refused(text, capsys):
    raised(SystemExit, Parser("x", "", "").parse, ["--output", "out", f"--workers={text}"], match="2")
    assert f"{text!r} is neither auto nor a number of 1 or more" in capsys.readouterr().err


WAITS = """
    import os, signal, sys
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from parapet.pipelines import workers

    def work(number, path):
        if number == 1:
            with open(path, "w") as file:
                file.write(f"{os.getpid()}\\n")
            signal.pause()

    options = PipelineOptions([])
    with workers.started(options, 2) as runner:
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
        from parapet.pipelines import lean_imports
        lean_imports.lean([])
        import apache_beam, pyarrow
        heavy = {"pandas", "boto3", "google.cloud.storage", "google.cloud.bigquery"} & sys.modules.keys()
        assert not heavy, heavy
        table = pyarrow.table({"n": [1, 2]})
        import pandas
        assert table.to_pandas().n.tolist() == [1, 2]
    """)
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
def test_spacy_is_imported_without_torch():
    done = program("""
        import sys
        from parapet.pipelines import lean_imports
        lean_imports.lean([])
        import spacy
        assert "torch" not in sys.modules
        import torch
        print(spacy.blank("en")("a word")[1], torch.__name__)
    """)
    assert done.stdout == "word torch\n", done.stderr


def test_elsewhere_beam_is_imported_whole(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "apache_beam", raising=False)
    before = [finder for finder in sys.meta_path if finder is not lean_imports._hiding]
    monkeypatch.setattr(sys, "meta_path", [*before])
    (tmp_path / "bucket.toml").write_text('corpus = "gs://bucket/corpus"')
    for argument in ("--output=gs://bucket/out", "--runner=DataflowRunner", str(tmp_path / "bucket.toml")):
        lean_imports.lean([argument])
        assert sys.meta_path == before
    lean_imports.lean(["--output=out"])
    assert sys.meta_path == [lean_imports._hiding, *before]


def test_auto_takes_fewer_where_there_is_little_memory(monkeypatch):
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr("parapet.pipelines.workers.memory_bytes", lambda: 2 << 30)
    assert workers.count(flags(), [__file__], large=1) == 2
    monkeypatch.setattr("parapet.pipelines.workers.memory_bytes", lambda: 1 << 20)
    assert workers.count(flags(), [__file__], large=1) == 1
