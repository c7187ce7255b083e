"""After a power failure at any moment, whatever the disk has kept: an old output, a new one, or none; no mixture."""

import hashlib
import json
import random
import shutil
from pathlib import Path

import pytest
from kit import THOROUGH, json_of, lacking, raised

from faults import forked
from faults.operations import Operation
from faults.power_loss import Disk, after_power_failures, put, read_tree
from faults.world import FILES, OTHER_FILES, commands_of, make_world
from parapet.schemas.errors import InputError
from parapet.schemas.layout import check_published

OTHER_SEED = {path: f"{text} of another seed" for path, text in FILES.items()}

SUBSETS = 200 if THOROUGH else 10  # of what was not synchronised, after each operation
RERUNS = 500 if THOROUGH else 12


def visible(tree):
    """What is there for a reader: not what waits in staging."""
    hidden = (".incomplete/", ".run.previous.json")
    return {path: data for path, data in tree.items() if not path.endswith("/") and not path.startswith(hidden)}


def refuses(tree):
    """Whether a reader can see that no run has ended: the manifest is not there, or does not parse."""
    try:
        return not isinstance(json.loads(tree["run.json"])["files"], dict)
    except (KeyError, ValueError):
        return True


def below_out(tree):
    return {
        path.removeprefix("out/"): data for path, data in tree.items() if path.startswith("out/") and path != "out/"
    }


def power_failures(machine, root, before, after, subsets):
    """The states of the disk while a command runs where another ran before, and what the undisturbed one writes.

    Each state is the fate of the output (old, new or refused), where the power failed, and the tree.
    """
    root.mkdir()
    for argv in (before, after):
        start = read_tree(root)
        if argv:
            ended = machine.run(root, argv, traced=True)
            assert ended.status == 0, ended.log
    old, new = (visible(below_out(files)) for files in (start[0], read_tree(root)[0]))
    trace, states = machine.trace(), []
    for number, kept, tree in after_power_failures(root, start, trace, subsets):
        found = visible(below_out(tree))
        fate = "refused" if refuses(found) else "old" if found == old else "new" if found == new else "mixed"
        states.append((fate, f"after {number} of {len(trace)} operations, kept: {kept}", tree))
        assert fate != "mixed", states[-1][1]
    fates = {fate for fate, _, _ in states}
    assert {"refused"} | ({"old"} if before else set()) | ({"new"} if new != old else set()) <= fates
    return states, new


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, FILES), (FILES, FILES), (FILES, OTHER_SEED), (FILES, OTHER_FILES), (OTHER_FILES, FILES)],
    ids=["first run", "same run again", "another seed", "another shape", "and back"],
)
def test_an_output_is_old_or_new_or_refused(machine, tmp_path, before, after):
    root, again = tmp_path / "root", tmp_path / "again"
    publish = [files and ["publish", str(root / "out"), json.dumps(files)] for files in (before, after)]
    states, new = power_failures(machine, root, *publish, SUBSETS)
    assert new["report.html"].decode() == after["report.html"]
    for _, where, tree in random.Random(0).sample(states, min(RERUNS, len(states))):
        put(again, tree)
        try:
            forked.publish(str(again / "out"), json.dumps(after))
        except Exception as error:
            pytest.fail(f"{where}: {error}")
        assert visible(read_tree(again / "out")[0]) == new, where
        shutil.rmtree(again)


@pytest.mark.parametrize("name", ["perturb", pytest.param("compose", marks=pytest.mark.thorough)])
def test_an_output_of_a_command_is_old_or_new_or_refused(machine, tmp_path, name):
    root = tmp_path / "root"
    make_world(tmp_path)
    command = commands_of(tmp_path)[name]
    argv = command.argv(root / "out")
    states, new = power_failures(machine, root, command.other(root / "out"), argv, SUBSETS // 5)
    for number, (fate, where, tree) in enumerate(random.Random(1).sample(states, 200 if THOROUGH else 10)):
        shutil.rmtree(root)
        put(root, tree)
        if fate == "refused" and any((root / "out").glob("*")):
            raised(InputError, check_published, root / "out")
        else:
            check_published(root / "out")
        if THOROUGH and number % 20 == 0:
            assert machine.run(root, argv).status == 0, where
            assert visible(read_tree(root / "out")[0]) == new, where


def test_the_model_keeps_only_what_was_synchronised():
    root = Path("/root")

    def states(*operations):
        disk = Disk(root, {"old": b"old"})
        for kind, path, more in operations:
            other = f"/root/{more}" if kind == "rename" else ""
            disk.apply(Operation(kind, f"/root/{path}".rstrip("/"), other, 0, more.encode()))
        return [tree for _, tree in disk.states(random.Random(0), 50)]

    unsynchronised = [("create", "x", ""), ("write", "x", "data"), ("rename", "x", "old")]
    found = states(*unsynchronised)
    assert {"old": b"old"} in found
    assert {"old": b""} in found  # the name without the content
    assert not lacking(found, {"old": b"da"}, {"old": b"\0\0\0\0"}, {"old": b"data"})
    content = [*unsynchronised[:2], ("fsync", "x", ""), unsynchronised[2]]
    assert {frozenset(tree.items()) for tree in states(*content)} >= {
        frozenset({("old", b"old")}),
        frozenset({("old", b"data")}),
    }
    assert {"old": b""} not in states(*content)
    assert {json.dumps(tree, default=bytes.decode) for tree in states(*content, ("fsync", "", ""))} == {
        '{"old": "data"}'
    }
    assert not lacking(states(("mkdir", "new", ""), ("unlink", "old", "")), {"new/": b""}, {"old": b"old", "new/": b""})
    assert {} in states(("mkdir", "new", ""), ("unlink", "old", ""))


def test_a_manifest_has_the_hashes_of_what_stands(tmp_path):
    forked.publish(str(tmp_path), json.dumps(FILES))
    for path, facts in json_of(tmp_path / "run.json")["files"].items():
        assert facts["sha256"] == hashlib.sha256((tmp_path / path).read_bytes()).hexdigest()
