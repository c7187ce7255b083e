"""What a plug-in does to the process of a command stays within its call."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from folders import files_of
from plugin_packages import bring

CODE = '''
import os

import parapet


class Odd(parapet.Perturbation):
    """Acts on the process."""

    name = "odd"
    forked = False

    def perturb(self, dialogue, set_name, state):
        {}
        return parapet.Perturbed(dialogue)
'''
FORKS = "if not Odd.forked: Odd.forked = True; os.fork()"


def perturbed(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    bring(folder / "site", "odd_one", "parapet.perturbations", "odd", "odd_one:Odd", CODE.format(line))
    (folder / "here").mkdir()
    (folder / "elsewhere").mkdir()
    return subprocess.run(
        [sys.executable, "-m", "parapet.pipelines.main", "perturb", "odd", "--output", "out", "--quiet"],
        cwd=folder / "here",
        env={**os.environ, "PYTHONPATH": str(folder / "site")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("line", ["os.chdir('../elsewhere')", FORKS, "pass"])
def test_output_is_published_once_where_the_command_began(line: str, tmp_path: Path) -> None:
    ended = perturbed(tmp_path, line)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "out/odd/test/dialogues_001.json" in files_of(tmp_path / "here")
    assert not files_of(tmp_path / "elsewhere")


def test_a_command_that_a_plugin_ends_has_failed(tmp_path: Path) -> None:
    ended = perturbed(tmp_path, "os._exit(0)")
    assert ended.returncode == 1
    assert ended.stderr == "error: the process was ended by code that it ran, with os._exit(0)\n"
    assert "run.json" not in " ".join(map(str, files_of(tmp_path / "here")))
