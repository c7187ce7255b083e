"""What a plug-in does to the process of a command stays within its call."""

import os
import subprocess
import sys

import pytest
from kit import THOROUGH, cases, files_of
from plugin_packages import bring

CODE = '''
import os
import sys

import parapet

done = []


def act(place):
    if place == {0!r} and not done:
        done.append(place)
        {1}


act("import")


class Odd(parapet.Perturbation):
    """Acts on the process."""

    name = "odd"

    def __init__(self, *, seed=0):
        super().__init__(seed=seed)
        act("init")

    def open(self):
        act("open")

    def close(self):
        act("close")

    def state_of(self, place, state, shared):
        act("state_of")
        return state

    def perturb(self, dialogue, set_name, state):
        act("perturb")
        return parapet.Perturbed(dialogue)

    def statistics(self, counts, reported):
        act("statistics")
        return super().statistics(counts, reported)

    def summary(self, statistics):
        act("summary")
        return super().summary(statistics)
'''
# A process for each: make test tries the first and last calls, and the one in between that Beam makes.
PLACES = ("import", "perturb", "summary")
if THOROUGH:
    PLACES += ("init", "open", "close", "state_of", "statistics")


def perturbed(folder, place, line):
    bring(folder / "site", "odd_one", "parapet.perturbations", "odd", "odd_one:Odd", CODE.format(place, line))
    (folder / "here").mkdir()
    (folder / "elsewhere").mkdir()
    return subprocess.run(
        [sys.executable, "-m", "parapet.pipelines.main", "perturb", "odd", "--output", "out", "--quiet"],
        cwd=folder / "here",
        env={**os.environ, "PYTHONPATH": f"{folder / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.thorough
@cases("line", "os.chdir('../elsewhere')", "os.fork()")
@cases("place", *PLACES)
def test_output_is_published_once_where_the_command_began(place, line, tmp_path):
    ended = perturbed(tmp_path, place, line)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert {"out/run.json", "out/odd/test/dialogues_001.json"} <= set(files_of(tmp_path / "here"))
    assert not files_of(tmp_path / "elsewhere")


@pytest.mark.thorough
@cases("place", *(place for place in PLACES if place != "close"))  # all is done by then
def test_a_plugin_that_exits_is_an_error(place, tmp_path):
    ended = perturbed(tmp_path, place, "sys.exit(0)")
    assert ended.returncode == (2 if place == "import" else 1)
    assert "called sys.exit(0)" in ended.stderr
