"""Completion: a real bash that asks; and for every command the flags that its parser has."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parapet.pipelines.collect import ACTIONS as COLLECT_ACTIONS
from parapet.pipelines.evaluate import TASKS
from parapet.pipelines.main import PIPELINES, parser_of, parser_on
from parapet.pipelines.mturk import ACTIONS
from parapet.pipelines.release import ACTIONS as RELEASE_ACTIONS

# Sources the script, then asks what may follow each line that it reads.
ASK = r"""
eval "$(register-python-argcomplete parapet)"
while IFS= read -r COMP_LINE; do
  COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMPREPLY=()
  _python_argcomplete parapet
  (IFS=' '; echo "${COMPREPLY[*]}")
done
"""


def asked(*lines, folder=None):
    """What bash offers at the end of each line."""
    told = subprocess.run(
        ["bash", "--norc", "-c", ASK],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        cwd=folder,
    )
    return [line.split() for line in told.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_flags_values_and_files(tmp_path):
    (tmp_path / "my_corpus").mkdir()
    (tmp_path / "my_corpus" / "schema.json").touch()
    offered = {
        "parapet lang": ["language_variations"],
        "parapet mturk s": ["status", "stop", "site-csv"],
        "parapet mturk publish --min": ["--min_approval", "--min_approved"],
        "parapet release ": ["--help", *RELEASE_ACTIONS],
        "parapet evaluate --task ": list(TASKS),
        "parapet evaluate --task ood --p": ["--predictions"],
        "parapet evaluate --task ood --split ": ["train", "dev", "test"],
        "parapet back_translate --engine=l": ["local"],
        "parapet hits --schemas my_corpus/s": ["my_corpus/schema.json"],
        "parapet nosuch --x": [],
    }
    assert asked(*offered, folder=tmp_path) == list(offered.values())


def leaf(words):
    """The parser of the last name on a line."""
    return parser_on(words)[1]


def flags_of(parser):
    return {flag for action in parser._actions for flag in action.option_strings}


GROUPS = {"collect": COLLECT_ACTIONS, "mturk": ACTIONS, "release": RELEASE_ACTIONS}


@pytest.mark.parametrize("name", [name for name in PIPELINES if name not in ("evaluate", "train", "predict")])
def test_every_flag_of_every_command_is_offered(name):
    if name not in GROUPS:
        assert flags_of(leaf([name])) == flags_of(parser_of(name))
    for action in GROUPS.get(name, ()):
        assert flags_of(leaf([name, action])) == flags_of(parser_of(name, action))


@pytest.mark.parametrize("task", TASKS)
def test_the_flags_of_evaluate_are_those_of_the_task(task):
    flags = flags_of(parser_of("evaluate", task))
    assert flags_of(leaf(["evaluate", "--task", task])) == flags | {"--task"}
    assert flags_of(leaf(["evaluate", f"--task={task}", "--quiet"])) == flags | {"--task"}
    assert flags_of(leaf(["evaluate"])) == {"-h", "--help", "--task"}


@pytest.mark.parametrize("group", ["train", "predict"])
def test_each_model_has_flags_of_its_own(group):
    for model in importlib.import_module(f"parapet.pipelines.{group}").MODELS:
        assert {"--output"} <= flags_of(leaf([group, model]))


def test_what_stands_on_the_line_may_be_anything():
    for words in ([], ["nosuch"], ["mturk", "nosuch"], ["evaluate", "--task"], ["evaluate", "--task", "nosuch"]):
        assert "--help" in flags_of(leaf(words))


def test_completing_loads_nothing_heavy():
    code = (
        "import sys\n"
        "from parapet.pipelines.main import parser_on\n"
        f"for name in {[*PIPELINES]}: parser_on([name])\n"
        "heavy = {'apache_beam', 'spacy', 'nltk', 'pyarrow', 'numpy', 'torch', 'boto3', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
