"""After a power failure at any moment, whatever the disk has kept: an old output, a new one, or none; no mixture."""

import hashlib
import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from kit import THOROUGH, json_of, lacking, raised

from faults import forked
from faults.operations import Operation
from faults.power_loss import Disk, after_power_failures, put, read_tree
from faults.world import commands, make_world
from parapet.schemas.errors import InputError
from parapet.schemas.layout import check_published

FIRST = {
    "v1/train/schema.json": "[1]\n",
    "report.html": "<p>one</p>",
    "shortfall.csv": "old",
    "v5/dev/schema.json": "5",
}
OTHER_SEED = {path: f"{text} of another seed" for path, text in FIRST.items()}
OTHER_SHAPE = {"v1/train/schema.json": "[1, 2]\n", "report.html": "<p>one</p>", "v2/dev/schema.json": "new", "a/b": ""}

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


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, FIRST), (FIRST, FIRST), (FIRST, OTHER_SEED), (FIRST, OTHER_SHAPE), (OTHER_SHAPE, FIRST)],
    ids=["first run", "same run again", "another seed", "another shape", "and back"],
)
def test_an_output_is_old_or_new_or_refused(machine, tmp_path, before, after):
    root = tmp_path / "root"
    root.mkdir()
    if before is not None:
        assert machine.run(root, contents=before, out=root / "out").status == 0
    start = read_tree(root)
    ended = machine.run(root, contents=after, out=root / "out", traced=True)
    assert ended.status == 0, ended.log
    old, new = (visible(below_out(files)) for files in (start[0], read_tree(root)[0]))
    assert new["report.html"].decode() == after["report.html"]
    fates = Counter()
    states = []
    for number, kept, tree in after_power_failures(root, start, machine.trace(), SUBSETS):
        found = visible(below_out(tree))
        fate = "refused" if refuses(found) else "old" if found == old else "new" if found == new else "mixed"
        assert fate != "mixed", f"after {number} of {len(machine.trace())} operations, kept: {kept}"
        fates[fate] += 1
        states.append((number, kept, tree))
    assert fates["refused"]
    assert fates["old"] or before is None
    assert fates["new"] or new == old
    for number, kept, tree in random.Random(0).sample(states, min(RERUNS, len(states))):
        again = tmp_path / "again"
        put(again, tree)
        try:
            forked.publish(str(again / "out"), after)
        except Exception as error:
            pytest.fail(f"after {number} operations, kept: {kept}: {error}")
        assert visible(read_tree(again / "out")[0]) == new, f"after {number} operations, kept: {kept}"
        shutil.rmtree(again)


@pytest.mark.parametrize("name", ["perturb", pytest.param("compose", marks=pytest.mark.thorough)])
def test_an_output_of_a_command_is_old_or_new_or_refused(machine, tmp_path, name):
    root = tmp_path / "root"
    root.mkdir()
    make_world(tmp_path)
    command = commands(tmp_path)[name]
    assert command.other is not None
    assert machine.run(root, command.other(root / "out")).status == 0
    start = read_tree(root)
    ended = machine.run(root, command.argv(root / "out"), traced=True)
    assert ended.status == 0, ended.log
    old, new = (visible(below_out(files)) for files in (start[0], read_tree(root)[0]))
    fates = Counter()
    states = []
    for number, kept, tree in after_power_failures(root, start, machine.trace(), SUBSETS // 5):
        found = visible(below_out(tree))
        fate = "refused" if refuses(found) else "old" if found == old else "new" if found == new else "mixed"
        assert fate != "mixed", f"after {number} of {len(machine.trace())} operations, kept: {kept}"
        fates[fate] += 1
        states.append((fate, number, kept, tree))
    print(f"{name}: {len(machine.trace())} operations, {sum(fates.values())} states: {dict(fates)}")
    assert set(fates) == {"old", "new", "refused"}
    for fate, number, kept, tree in random.Random(1).sample(states, 200 if THOROUGH else 10):
        shutil.rmtree(root)
        put(root, tree)
        where = f"after {number} operations, kept: {kept}"
        if fate == "refused" and any((root / "out").glob("*")):
            raised(InputError, check_published, root / "out")
        else:
            check_published(root / "out")
        if THOROUGH and number % 20 == 0:
            assert machine.run(root, command.argv(root / "out")).status == 0, where
            assert visible(read_tree(root / "out")[0]) == new, where


def below_out(tree):
    return {
        path.removeprefix("out/"): data for path, data in tree.items() if path.startswith("out/") and path != "out/"
    }


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
    forked.publish(str(tmp_path), FIRST)
    for path, facts in json_of(tmp_path / "run.json")["files"].items():
        assert facts["sha256"] == hashlib.sha256((tmp_path / path).read_bytes()).hexdigest()
