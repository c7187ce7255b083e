"""One run writes to a folder, or several read it; nobody waits for the dead."""

import subprocess
import sys
from contextlib import contextmanager

import pytest
from kit import cases, run

from parapet.schemas.errors import InputError
from parapet.transforms.core import disk

HOLDS = """
import os, sys
from parapet.transforms.core import disk
with getattr(disk, sys.argv[1])(sys.argv[2]):
    reader, writer = os.pipe()
    if "fork" not in sys.argv[3:] or os.fork():
        if "fork" in sys.argv[3:]:
            os.read(reader, 1)  # the child is there, and holds nothing
        print("held", flush=True)
    else:
        os.write(writer, b".")
    sys.stdin.read()
"""


@contextmanager
def held(how, folder, *more):
    """The lock of another process, until the block or the process ends."""
    words = [sys.executable, "-c", HOLDS, how, str(folder), *more]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_process_may_lock_again(tmp_path):
    with disk.writing(str(tmp_path)), disk.writing(str(tmp_path)), disk.reading(str(tmp_path / "below")):
        pass
    assert not disk._descriptors
    assert not disk._written


def test_where_there_are_no_locks_the_run_goes_on(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(disk.fcntl, "flock", unsupported)
    with disk.writing(str(tmp_path)), disk.writing("gs://bucket/out"), disk.reading("gs://bucket/out"):
        pass


@cases("place", "file", "file/below", "closed/out")
def test_what_cannot_be_made_is_for_others_to_report(tmp_path, place):
    (tmp_path / "file").touch()
    with disk.writing(str(tmp_path / place)):
        pass


# --- commands --------------------------------------------------------------------------------------------------------


def test_wrong_usage_leaves_no_folder(tmp_path):
    for flags in (["--split", "none"], ["--sgd", str(tmp_path / "absent")]):
        run("perturb", "typos", *flags, output=tmp_path / "a/b", status=2)
    assert list(tmp_path.iterdir()) == []


WRITERS = [
    *("compose", "rewrite --variants V", "statistics --variants V", "augment", "few_shot", "ood"),
    *("language_variations", "speech_errors", "perturb typos", "unseen_entities", "back_translate", "hits"),
    *("anonymise", "restaurants", "reminders", "train damd", "predict damd --model V", "compose_variations"),
    *("evaluate --task dst --model Names", "compare --systems a=V b=V"),
    *("release build --config V/release.toml", "suite sample", "leaderboard --release V --submissions V"),
]


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("busy")
    with held("writing", folder / "out"):
        yield folder / "out"


@cases("command", *WRITERS)
def test_two_commands_cannot_write_to_one_folder(busy, tmp_path, command):
    (tmp_path / "release.toml").touch()
    said = run(*[word.replace("V", str(tmp_path)) for word in command.split()], output=busy, status=2).errors
    assert f"error: {busy}: is being written or read by another process: wait until it ends" in said
    assert list(busy.iterdir()) == []


@cases("fork", "", "fork")
def test_the_dead_hold_nothing_not_even_by_their_children(tmp_path, fork):
    with held("writing", tmp_path, fork) as other:
        with pytest.raises(InputError) as caught, disk.writing(str(tmp_path)):
            pass
        assert caught.value.path == str(tmp_path)
        other.kill()
        other.wait()
        with disk.writing(str(tmp_path)):
            pass
