"""One run writes to a folder, or several read it; nobody waits for the dead."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import parapet
from parapet.pipelines.main import main
from parapet.schemas.errors import InputError
from parapet.transforms.storage import disk

HOLDS = """
import os, sys
from parapet.transforms.storage import disk
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
def held(how: str, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The lock of another process, until the block or the process ends."""
    words = [sys.executable, "-c", HOLDS, how, str(folder), *more]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def refused(folder: Path, how: str = "writing") -> str:
    with pytest.raises(InputError) as caught, getattr(disk, how)(str(folder)):
        pass
    assert caught.value.path == str(folder)
    return caught.value.reason


def test_one_process_writes_or_several_read(tmp_path):
    with held("writing", tmp_path) as other:
        who = rf"is being written by '.*' \(process {other.pid}, since \d\d:\d\d:\d\d\): wait until it ends"
        assert re.fullmatch(who, refused(tmp_path), re.DOTALL)
        assert re.fullmatch(who, refused(tmp_path, "reading"), re.DOTALL)
    with held("reading", tmp_path) as other, disk.reading(str(tmp_path)), disk.reading(str(tmp_path)):
        pass
    with held("reading", tmp_path) as other:
        assert f"is being read by '{sys.executable}" in refused(tmp_path)
        assert f"process {other.pid}" in refused(tmp_path)
    with disk.writing(str(tmp_path)):
        pass


@pytest.mark.parametrize("fork", ["", "fork"])
def test_the_dead_hold_nothing_not_even_by_their_children(tmp_path, fork):
    with held("writing", tmp_path, fork) as other:
        refused(tmp_path)
        other.kill()
        other.wait()
        with disk.writing(str(tmp_path)):
            pass


def test_who_is_stopped_still_holds(tmp_path):
    """It may go on."""
    with held("writing", tmp_path) as other:
        other.send_signal(signal.SIGSTOP)
        refused(tmp_path)
        other.send_signal(signal.SIGCONT)
        other.communicate("")
        with disk.writing(str(tmp_path)):
            pass


def test_a_thread_may_lock_again_and_others_may_not(tmp_path):
    with disk.writing(str(tmp_path)), ThreadPoolExecutor(1) as threads:
        with disk.writing(str(tmp_path)), disk.reading(str(tmp_path)):
            pass
        assert "is being written by" in threads.submit(refused, tmp_path).result()
    assert not disk._descriptors
    assert not disk._writers


def test_a_folder_that_stays_empty_goes_and_others_stay(tmp_path):
    (tmp_path / "there").mkdir()
    for place in ("there", "new/deeper/still", "used/deeper"):
        with disk.writing(str(tmp_path / place)):
            assert list((tmp_path / place).iterdir()) == []
            if place.startswith("used"):
                (tmp_path / place / "file").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deeper", "file", "there", "used"]


def test_a_folder_that_was_removed_meanwhile_is_made_again(tmp_path, monkeypatch):
    """By one who has made it, and failed, while another waited to open it."""
    folder, opened, calls = tmp_path / "out", disk._opened, []

    def open_then_remove(path: str) -> int | None:
        descriptor = opened(path)
        if not calls:
            os.rmdir(path)
        calls.append(path)
        return descriptor

    monkeypatch.setattr(disk, "_opened", open_then_remove)
    with disk.writing(str(folder)):
        monkeypatch.undo()
        assert len(calls) == 2
        assert "is being written by" in ThreadPoolExecutor(1).submit(refused, folder).result()
    assert not folder.exists()


def test_where_there_are_no_locks_the_run_goes_on(tmp_path, monkeypatch):
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(disk.fcntl, "flock", unsupported)
    with disk.writing(str(tmp_path)), disk.writing("gs://bucket/out"), disk.reading("gs://bucket/out"):
        pass


@pytest.mark.parametrize("place", ["file", "file/below", "closed/out"])
def test_what_cannot_be_made_is_for_others_to_report(tmp_path, place):
    (tmp_path / "file").touch()
    with disk.writing(str(tmp_path / place)):
        pass


# --- commands --------------------------------------------------------------------------------------------------------

WRITERS = [
    *("compose", "rewrite --variants V", "statistics --variants V", "augment", "few_shot", "unseen_services", "ood"),
    *(
        "language_variations",
        "speech_errors",
        "perturb typos",
        "unseen_entities",
        "back_translate",
        "hits",
        "anonymise",
    ),
    *("restaurants", "reminders", "train tiny_dst", "predict tiny_dst --model V", "compose_variations"),
    *("evaluate --task dst --model Keywords", "evaluate --task validity --sets v1=V", "compare --systems a=V b=V"),
    *("release build --config V/release.toml", "suite sample", "leaderboard --release V --submissions V"),
]


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("busy")
    with held("writing", folder / "out"):
        yield folder / "out"


@pytest.mark.parametrize("command", WRITERS)
def test_two_commands_cannot_write_to_one_folder(busy, tmp_path, command, capsys):
    (tmp_path / "release.toml").touch()
    words = [word.replace("V", str(tmp_path)) for word in command.split()]
    assert main([*words, "--output", str(busy)]) == 2
    assert re.match(rf"error: {busy}: is being written by '.*' \(process \d+", capsys.readouterr().err, re.DOTALL)
    assert list(busy.iterdir()) == []


def test_functions_that_write_lock_too(busy):
    with pytest.raises(InputError, match="is being written by"):
        parapet.load_corpus().save(busy)


def test_wrong_usage_leaves_no_folder(tmp_path, capsys):
    for flags in (["--split", "none"], ["--sgd", str(tmp_path / "absent")]):
        assert main(["perturb", "typos", *flags, "--output", str(tmp_path / "a/b")]) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_run_does_not_hold_its_folder_for_those_that_follow(tmp_path, sample):
    """In one process, over and over, with what it has read."""
    with ExitStack() as stack:
        for _ in range(2):
            assert main(["perturb", "typos", "--split", "test", "--output", str(tmp_path / "out"), "--quiet"]) == 0
            assert not disk._descriptors
            stack.enter_context(disk.reading(str(sample)))
            stack.close()
