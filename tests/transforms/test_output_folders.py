"""One run at a time writes to an output folder, and commands follow no link out of it."""

from contextlib import suppress

import pytest
from kit import cases, files_of, raised, refused, write

from parapet.schemas.errors import InputError
from parapet.transforms.core import files

HEADER = {"pipeline": "compose", "version": "1"}
FIRST = {"v1/test/schema.json": b"[1]", "v1/dev/schema.json": b"[2]", "report.html": b"<p>"}
SECOND = {"v1/test/schema.json": b"[1, 2]", "v2/test/schema.json": b"[3]"}


def stage(output, contents):
    files.prepare(str(output), "compose")
    written = [files.write_staged(str(output), path, data) for path, data in contents.items()]
    return files.manifest_of(HEADER, {}, written)


@pytest.fixture
def outside(tmp_path):
    """What must survive each test: with the very names that the outputs have."""
    folder = tmp_path / "outside"
    for path, data in {**FIRST, **SECOND, "writable": b"w"}.items():
        write(folder / path, b"of others: " + data)
    before = files_of(folder)
    yield folder
    assert files_of(folder) == before


@pytest.fixture
def output(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


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


@cases("name link command", ("release", "release", ("release", "build")), ("train/v1", "train", ("train", "t5dst")))
def test_a_suite_clears_nothing_away_outside_of_its_folder(output, outside, name, link, command):
    from parapet.pipelines.suite.running import State
    from parapet.pipelines.suite.suite_file import Step

    (output / link).symlink_to(outside, target_is_directory=True)
    with suppress(InputError):
        State(output).started(Step(name=name, command=command, options={}, place=""), "", [])
