"""Ctrl-C, a full disk and a place that cannot be written: one line, nothing published, and a rerun that works."""

import resource
import shutil
from contextlib import contextmanager

import pytest
from kit import cases, files_of, run

from parapet.schemas.layout import dialogue_files, sample_root


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The sample with enough copies of its dialogues to be stopped among them, and variants of it."""
    root = tmp_path_factory.mktemp("large")
    shutil.copytree(sample_root(), root / "sgd")
    (first, *_) = dialogue_files(root / "sgd", "train")
    for n in range(100, 180):
        shutil.copy(first, root / "sgd/train" / f"dialogues_{n}.json")
    run("compose", "--allow_partial", "--output", root / "variants", "--quiet")
    return root


def rewrite(corpus, out):
    return ["rewrite", "--sgd", str(corpus / "sgd"), "--variants", str(corpus / "variants"), "--output", str(out)]


@contextmanager
def room_for(size):
    """Lets no file grow beyond some bytes, as a full disk does, or a quota."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(tmp_path, corpus):
    out = tmp_path / "out"
    flags = ["rewrite", "--variants", str(corpus / "variants"), "--output", str(out), "--quiet"]
    run(*flags)
    before = files_of(out)
    with room_for(20_000):
        (line,) = run(*flags, status=1).errors.splitlines()
    assert line.startswith(f"error: {out}/.incomplete/v")
    assert line.endswith(".json: there is no disk space left to write this file")
    assert {name: data for name, data in files_of(out).items() if not name.startswith(".incomplete/")} == before
    run(*flags)
    assert files_of(out) == before


@cases(
    "out said",
    ("/proc/out", "/proc/out: cannot write here: [Errno 2] No such file or directory: '/proc/out'"),
    ("gs://no-such-bucket/out", "gs://no-such-bucket/out: cannot write here: 404 GET "),
)
def test_a_place_that_cannot_be_written(out, said, bucket, corpus):
    (line,) = run("rewrite", "--variants", corpus / "variants", "--output", out, status=2).errors.splitlines()
    assert line.startswith(f"error: {said}")
