"""Nothing outside of an output folder is touched, whatever lies in it, and one run at a time writes there."""

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from kit import cases, files_of, raised, refused, write

from parapet.schemas.errors import InputError
from parapet.transforms.storage import files

HEADER = {"pipeline": "compose", "version": "1"}
FIRST = {"v1/test/schema.json": b"[1]", "v1/dev/schema.json": b"[2]", "report.html": b"<p>"}
SECOND = {"v1/test/schema.json": b"[1, 2]", "v2/test/schema.json": b"[3]"}


def stage(output, contents):
    files.prepare(str(output), "compose")
    written = [files.write_staged(str(output), path, data) for path, data in contents.items()]
    return files.manifest_of(HEADER, {}, written)


def run(output, contents):
    files.publish(str(output), stage(output, contents))


@pytest.fixture
def outside(tmp_path):
    """What must survive each test: with the very names that the outputs have."""
    folder = tmp_path / "outside"
    for path, data in {**FIRST, **SECOND, "writable": b"w"}.items():
        write(folder / path, b"of others: " + data)
    write(folder / "manifest.json", {**HEADER, "files": {"v1/test/schema.json": {}}})
    before = files_of(folder)
    yield folder
    assert files_of(folder) == before


@pytest.fixture
def output(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def crafted(output, names, name="run.json"):
    """A manifest with what stands behind the paths, as if a run had written it."""
    contents = {path: (output / path).read_bytes() for path in names}
    facts = {path: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in contents.items()}
    (output / name).write_text(json.dumps({**HEADER, "counts": {}, "files": facts}))


@cases("name", "run.json", ".run.previous.json", ".incomplete/.run.previous.json")
@cases("path", "v1/test/schema.json", "v1/dev/schema.json", "a/b/v1/dev/schema.json")
def test_a_crafted_manifest_removes_nothing_outside(output, outside, name, path):
    """Each file that it names lies behind a link; the run writes others."""
    link = path.removesuffix("/schema.json")
    (output / link).parent.mkdir(parents=True)
    (output / ".incomplete").mkdir()
    (output / link).symlink_to(outside / "/".join(Path(link).parts[-2:]), target_is_directory=True)
    (output / "gone.json").write_bytes(b"1")
    crafted(output, [path, "gone.json"], name)
    run(output, {"v3/test/schema.json": b"[]"})
    assert not (output / "gone.json").exists()


def test_a_crafted_manifest_replaces_nothing_outside(output, outside):
    (output / "v1").symlink_to(outside / "v1", target_is_directory=True)
    crafted(output, [path for path in FIRST if path[0] == "v"])
    with pytest.raises(InputError, match=r"out/v1/\w+: leads outside of the output folder by a link: remove the link"):
        run(output, FIRST)
    (output / "v1").unlink()
    run(output, FIRST)


def test_staging_that_is_a_link_is_refused(output, outside):
    (output / ".incomplete").symlink_to(outside, target_is_directory=True)
    left = "is a link, but temporary files must not leave the output folder: remove the link"
    raised(InputError, run, output, FIRST, match=left)
    files.clear(str(output / ".incomplete"))
    run(output, FIRST)


def test_links_in_what_a_killed_run_has_staged_are_not_followed(output, outside):
    (output / ".incomplete").mkdir(parents=True)
    (output / ".incomplete/v1").symlink_to(outside / "v1", target_is_directory=True)
    run(output, FIRST)


def test_pipes_in_the_place_of_outputs_hang_no_run(tmp_path):
    run(tmp_path, FIRST)
    (tmp_path / "report.html").unlink()
    os.mkfifo(tmp_path / "report.html")
    raised(InputError, run, tmp_path, FIRST, match=r"report\.html: is no longer a file: move it elsewhere")
    (tmp_path / "report.html").unlink()
    (tmp_path / "run.json").unlink()
    os.mkfifo(tmp_path / "run.json")
    shutil.rmtree(tmp_path / "v1")
    run(tmp_path, FIRST)
    assert (tmp_path / "run.json").is_file()


# --- one run at a time -----------------------------------------------------------------------------------------------


def test_a_run_does_not_publish_where_another_has_begun(tmp_path):
    """As where there are no locks: the second run begins while the first one writes."""
    first = stage(tmp_path, FIRST)
    token = files._tokens[str(tmp_path)]
    second = stage(tmp_path, SECOND)
    another = "another run has started to write here: wait until it ends, then run this again"
    for publish in (files.begin_publishing, files.finish_publishing):
        raised(InputError, publish, str(tmp_path), first, token, match=another)
    files.publish(str(tmp_path), second)
    assert files_of(tmp_path).keys() - {"run.json"} == SECOND.keys()


def test_what_was_published_may_be_published_again(tmp_path):
    """A runner repeats what it has heard nothing of; by then the token is gone."""
    manifest = stage(tmp_path, FIRST)
    token = files._tokens[str(tmp_path)]
    files.publish(str(tmp_path), manifest)
    before = files_of(tmp_path)
    assert files.begin_publishing(str(tmp_path), manifest, token) == []
    files.finish_publishing(str(tmp_path), manifest, token)
    assert files_of(tmp_path) == before


# --- what commands keep beside their outputs -------------------------------------------------------------------------


def test_a_suite_follows_no_link_out_of_its_folder(output, outside):
    (output / ".suite").symlink_to(outside, target_is_directory=True)
    assert f"{output / '.suite'}: leads outside of the" in refused("suite", "sample", output=output)


@cases("name link command", ("release", "release", ("release", "build")), ("train/v1", "train", ("train", "tiny_dst")))
def test_a_suite_clears_nothing_away_outside_of_its_folder(output, outside, name, link, command):
    from parapet.pipelines.suite.running import State
    from parapet.pipelines.suite.steps import Step

    (output / link).symlink_to(outside, target_is_directory=True)
    with suppress(InputError):
        State(output).started(Step(name=name, command=command, options={}, place=""), "", [])


def test_links_that_are_files_are_replaced_and_not_followed(output, outside):
    (output / "v1/test").mkdir(parents=True)
    for path in ("v1/test/schema.json", "run.json", ".run.previous.json"):
        (output / path).symlink_to(outside / "manifest.json")
    run(output, FIRST)
    assert not any((output / path).is_symlink() for path in ("v1/test/schema.json", "run.json"))
