"""Whole files only: a run killed at any step leaves nothing that looks finished, and its rerun mends everything.

One run at a time writes to an output folder, and commands follow no link out of it.
"""

import hashlib
import itertools
import json
import os
from contextlib import suppress

import apache_beam as beam
import pytest
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from kit import cases, files_of, json_of, raised, refused, write

from parapet.schemas.errors import InputError, NoRoomError
from parapet.transforms.core import files

HEADER = {"pipeline": "compose", "version": "1"}
FIRST = {"v1/train/schema.json": b"[1]\n", "report.html": b"<p>one</p>", "shortfall.csv": b"old"}
SECOND = {"v1/train/schema.json": b"[1, 2]\n", "report.html": b"<p>one</p>", "v2/dev/schema.json": b"new", "a/b/c": b""}
# The user's own: in the root, in a folder of ours, and one that looks like a leftover.
USERS = {"notes.txt": b"mine", "v1/train/keep.json": b"mine too", "report.html.bak": b"and this"}


class Killed(BaseException):
    """What a kill is to the code that is killed: nothing catches it."""


def facts_of(data):
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def manifest(contents):
    return {**HEADER, "counts": {}, "files": {path: facts_of(data) for path, data in sorted(contents.items())}}


def stage(output, contents):
    files.prepare(str(output), "compose")
    for path, data in contents.items():
        files.write_staged(str(output), path, data)


def run(output, contents):
    """What a pipeline does: prepare, stage every file, publish."""
    stage(output, contents)
    files.publish(str(output), manifest(contents))


def put(root, contents):
    for path, data in contents.items():
        write(root / path, data)


def finished(root, contents, users=()):
    """The files of an output folder after an undisturbed run of ``contents``."""
    text = f"{json.dumps(manifest(contents), indent=2, sort_keys=True)}\n"
    return {**dict(users), **contents, "run.json": text.encode()}


def check_whole(root):
    """Where there is a run.json, all that it names stands as it says."""
    named = json_of(root / "run.json")["files"] if (root / "run.json").exists() else {}
    for path, facts in named.items():
        assert facts_of((root / path).read_bytes()) == facts, path


def kill(patch, operation, k, after):
    """Makes the k-th call of an operation die, before or after its work. Of renames each counts."""
    owner = os if operation in ("rename", "makedirs") else FileSystems
    real, calls = getattr(owner, operation), itertools.count(1)

    def dying(*args, **kwargs):
        call = next(calls)
        try:
            if call != k or after:
                return real(*args, **kwargs)
        finally:
            if call == k:
                raise Killed

    patch.setattr(owner, operation, dying)


def kills(tmp_path, contents, before, operation, after):
    """Runs ``contents`` over and over into fresh folders that hold ``before``, killed at call 1, 2, … in turn."""
    for k in range(1, 200):
        output = tmp_path / f"{operation}-{after}-{k}"
        put(output, USERS)
        if before is not None:
            run(output, before)
        with pytest.MonkeyPatch.context() as patch:
            kill(patch, operation, k, after)
            try:
                run(output, contents)
            except Killed:
                yield k, output
                continue
        return
    pytest.fail("the run never ended")


@cases("after", False, True)
@cases("operation", "rename", "delete", "makedirs", "create")
@cases("before", None, FIRST, ids=["fresh", "rerun"])
def test_killed_at_any_step_and_run_again(tmp_path, before, operation, after):
    k = 0
    for k, output in kills(tmp_path, SECOND, before, operation, after):
        found = files_of(output)
        assert {path: found.get(path) for path in USERS} == USERS, f"killed at {operation} {k}"
        check_whole(output)
        run(output, SECOND)
        assert files_of(output) == finished(output, SECOND, USERS), f"killed at {operation} {k}"
    assert k > 0


def test_a_file_that_was_never_written_fails_the_run(tmp_path):
    files.prepare(str(tmp_path), "compose")
    told = r"report\.html: neither staged nor in place"
    raised(OSError, files.publish, str(tmp_path), manifest({"report.html": b"x"}), match=told)
    assert not (tmp_path / "run.json").exists()


OUTSIDE = b'{"files": {"../out.txt": {}, "/etc/x": {}, "a//b": {}, "": {}}}'


@cases("content", b"", b"not json", b"[]", b'{"files": 3}', OUTSIDE, b"\xff")
def test_a_manifest_of_someone_else_makes_nothing_go(tmp_path, content):
    output = tmp_path / "out"
    put(tmp_path, {"out.txt": b"outside"})
    put(output, {**USERS, "run.json": content})
    run(output, SECOND)
    assert (files_of(output), (tmp_path / "out.txt").read_bytes()) == (finished(output, SECOND, USERS), b"outside")


@cases("name", "a.gz", "a.bz2", "a.json")
def test_bytes_are_written_as_they_are(tmp_path, name):
    data = bytes(range(256)) * 10
    assert files.write_staged(str(tmp_path), name, data) == (name, hashlib.sha256(data).hexdigest(), len(data))
    assert files_of(tmp_path) == {f".incomplete/{name}": data}


# --- inside Beam -----------------------------------------------------------------------------------------------------


def pipe(output, contents, check=None):
    with beam.Pipeline(options=PipelineOptions([])) as pipeline:
        counts = pipeline | "Counts" >> beam.Create([("read", 2), ("kept", 1), ("read", 3)])
        _ = (
            pipeline
            | "Files" >> beam.Create(sorted(contents.items()))
            | files.WriteFiles(str(output))
            | files.Publish(str(output), HEADER, counts, check)
        )


def test_counts_that_do_not_balance_fail_the_run_unpublished(tmp_path):
    put(tmp_path, USERS)
    run(tmp_path, FIRST)
    before = files_of(tmp_path)

    def refuse(counts):
        raise ValueError(f"{counts['read']} read and {counts['kept']} kept")

    files.prepare(str(tmp_path), "compose")
    raised(Exception, pipe, tmp_path, SECOND, refuse, match="5 read and 1 kept")
    assert {path: data for path, data in files_of(tmp_path).items() if not path.startswith(".incomplete/")} == before


def test_any_step_of_publishing_may_be_tried_again(tmp_path):
    """Workers move files in batches; a runner may run each step twice, and a late first try after all others."""
    run(tmp_path, FIRST)
    many = {**SECOND, **{f"more/{i:03}.json": b"[]" for i in range(250)}}
    stage(tmp_path, many)
    batches = files.begin_publishing(str(tmp_path), manifest(many))
    assert (sorted(path for batch in batches for path in batch), max(map(len, batches))) == (sorted(many), 100)
    files.move_staged(batches[0], str(tmp_path))
    assert not (tmp_path / "run.json").exists()
    left = files.begin_publishing(str(tmp_path), manifest(many))
    assert sorted(path for batch in left for path in batch) == sorted(many.keys() - set(batches[0]))
    for batch in (*batches, batches[1]):
        files.move_staged(batch, str(tmp_path))
    for _ in range(2):
        files.finish_publishing(str(tmp_path), manifest(many))
        assert files_of(tmp_path) == finished(tmp_path, many)
    assert (files.begin_publishing(str(tmp_path), manifest(many)), files_of(tmp_path)) == ([], finished(tmp_path, many))


def test_a_file_that_is_nowhere_cannot_be_moved(tmp_path):
    files.prepare(str(tmp_path), "compose")
    raised(BeamIOError, files.move_staged, ["report.html"], str(tmp_path))


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    """/dev/full takes nothing, as a full disk."""
    create = FileSystems.create
    monkeypatch.setattr(FileSystems, "create", lambda path, **options: create("/dev/full", **options))
    told = "there is no disk space left to write this file$"
    raised(NoRoomError, files.write_staged, str(tmp_path), "v1/x.json", b"data", match=rf"v1/x\.json: {told}")
    raised(NoRoomError, files.prepare, str(tmp_path), "compose", match=told)
    assert files_of(tmp_path) == {}


def test_a_rerun_does_not_replace_what_somebody_has_filled_in(tmp_path):
    run(tmp_path, FIRST)
    (tmp_path / "shortfall.csv").write_bytes(b"filled in")
    reason = "shortfall.csv: has been changed since it was written: move it elsewhere"
    raised(InputError, files.prepare, str(tmp_path), "compose", match=reason)
    (tmp_path / "shortfall.csv").unlink()
    run(tmp_path, FIRST)


# --- one run at a time, and no link out of the folder -----------------------------------------------------------------


def test_a_run_does_not_publish_where_another_has_begun(tmp_path):
    """As where there are no locks: the second run begins while the first one writes."""
    stage(tmp_path, FIRST)
    token = files._tokens[str(tmp_path)]
    stage(tmp_path, SECOND)
    another = "another run has started to write here: wait until it ends, then run this again"
    for publish in (files.begin_publishing, files.finish_publishing):
        raised(InputError, publish, str(tmp_path), manifest(FIRST), token, match=another)
    files.publish(str(tmp_path), manifest(SECOND))
    assert files_of(tmp_path) == finished(tmp_path, SECOND)


def test_what_was_published_may_be_published_again(tmp_path):
    """A runner repeats what it has heard nothing of; by then the token is gone."""
    stage(tmp_path, FIRST)
    token = files._tokens[str(tmp_path)]
    files.publish(str(tmp_path), manifest(FIRST))
    before = files_of(tmp_path)
    assert files.begin_publishing(str(tmp_path), manifest(FIRST), token) == []
    files.finish_publishing(str(tmp_path), manifest(FIRST), token)
    assert files_of(tmp_path) == before


@pytest.fixture
def linked(tmp_path):
    """Makes a link in an output that leads outside, where all must survive: the very names that outputs have."""
    output, outside = tmp_path / "out", tmp_path / "outside"
    put(outside, {**FIRST, **SECOND, "writable": b"w"})
    before = files_of(outside)
    output.mkdir()
    yield lambda name: (output / name).symlink_to(outside, target_is_directory=True) or output
    assert files_of(outside) == before


def test_a_suite_follows_no_link_out_of_its_folder(linked):
    output = linked(".suite")
    assert f"{output / '.suite'}: leads outside of the" in refused("suite", "sample", output=output)


@cases("name link command", ("release", "release", ("release", "build")), ("train/v1", "train", ("train", "t5dst")))
def test_a_suite_clears_nothing_away_outside_of_its_folder(linked, name, link, command):
    from parapet.pipelines.suite.running import State
    from parapet.pipelines.suite.suite_file import Step

    with suppress(InputError):
        State(linked(link)).started(Step(name=name, command=command, options={}, place=""), "", [])
