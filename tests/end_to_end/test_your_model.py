"""``parapet evaluate --model`` as somebody runs it who has a project of his own, with packages of common names."""

import subprocess
import sys
from pathlib import Path

import pytest
from kit import TWO_WORKERS, argv_of, write

from parapet.schemas.layout import sample_root

TRACKER = """
from evaluation.rules import Rules
from helpers import texts


class Tracker:
    def __init__(self, intent, words="city", fail=False):
        self.rules, self.intent, self.fail = Rules(words), intent, fail

    def predict(self, batch):
        import schemas  # found late, as on workers

        if self.fail:
            texts.fail(batch[0])
        return [self.rules.state(example, schemas.name_of(example, self.intent)) for example in batch]
"""
RULES = """
from helpers.texts import said


class Rules:
    def __init__(self, words):
        self.words = words

    def state(self, example, intent):
        values = {slot.name: [said(example)] for slot in example.service.slots if slot.name == self.words}
        return {"active_intent": intent, "requested_slots": [], "slot_values": values}
"""
TEXTS = """
def said(example):
    return example.history[-1][1]


def fail(example):
    raise ValueError(f"cannot track {example.dialogue_id}")
"""
SCHEMAS = """
def name_of(example, i):
    return example.service.intents[i].name
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The tracker's folder, beside it the folder in which the command is run."""
    root = tmp_path_factory.mktemp("project")
    for name, text in (
        ("mine/tracker.py", TRACKER),
        ("mine/evaluation/__init__.py", ""),
        ("mine/evaluation/rules.py", RULES),
        ("mine/helpers/__init__.py", ""),
        ("mine/helpers/texts.py", TEXTS),
        ("elsewhere/schemas.py", SCHEMAS),
    ):
        write(root / name, text)
    return root


def evaluate(project, name, out, *flags):
    given = {"model": f"../mine/tracker.py:{name}", "replicates": 0, "output": out, "reference": sample_root()}
    command = argv_of(Path(sys.executable).with_name("parapet"), "evaluate", *flags, task="dst", **given)
    return subprocess.run(command, cwd=project / "elsewhere", capture_output=True, text=True)


@pytest.mark.parametrize(
    "flags", [[], pytest.param(TWO_WORKERS, marks=pytest.mark.thorough)], ids=["one worker", "two"]
)
def test_an_error_shows_the_users_traceback(project, flags):
    result = evaluate(project, "Tracker", "failed", "--model_args", "intent=0", "fail=true", "--quiet", *flags)
    assert result.returncode == 1
    of_beam, _, message = result.stderr.rpartition("error: --model: ")
    assert not of_beam or flags  # threads that Beam's own flags ask for print their tracebacks first
    headline, *lines = message.splitlines()
    assert headline.startswith("../mine/tracker.py:Tracker failed in predict on the batch of 50")
    assert "examples from dialogue '1_00000', turn 0 to dialogue '1_00007', turn 6" in headline
    mine = project / "mine"
    assert [line.strip() for line in lines if "File " in line] == [
        f'File "{mine}/tracker.py", line 14, in predict',
        f'File "{mine}/helpers/texts.py", line 7, in fail',
    ]
    assert lines[-1] == "ValueError: cannot track 1_00000"
    assert not (project / "elsewhere" / "failed" / "run.json").exists()
