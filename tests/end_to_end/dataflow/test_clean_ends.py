"""A full disk and a place that cannot be written: one line, nothing published, and a rerun that works."""

import resource
from contextlib import contextmanager

import pytest
from kit import cases, files_of, run


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants") / "out"
    return run("compose", "--allow_partial", "--quiet", output=folder).folder


@contextmanager
def room_for(size):
    """Lets no file grow beyond some bytes, as a full disk does, or a quota."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(tmp_path, variants):
    out = tmp_path / "out"
    flags = ["rewrite", "--variants", str(variants), "--output", str(out), "--quiet"]
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
def test_a_place_that_cannot_be_written(out, said, bucket, variants):
    (line,) = run("rewrite", "--variants", variants, "--output", out, status=2).errors.splitlines()
    assert line.startswith(f"error: {said}")
