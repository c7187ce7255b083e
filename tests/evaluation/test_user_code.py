"""Code of the user's own: how it is found, called with arguments, and blamed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import TWO_WORKERS, argv_of, cases, raised, write

from parapet.evaluation import user_code
from parapet.evaluation.user_code import UserCode
from parapet.schemas.errors import InputError, UserCodeError
from parapet.schemas.layout import sample_root

CODE = """
import functools
import helpers.words

class Tracker:
    def __init__(self, checkpoint, beams=1, *, greedy=False):
        helpers.words.check(checkpoint)
        self.given = checkpoint, beams, greedy
    def predict(self, batch):
        return [self.given for _ in batch]

class Anything(Tracker):
    def __init__(self, **options):
        self.given = options

class Called:
    def __call__(self, batch):
        return ["called"] * len(batch)

class Nothing:
    pass

def function(batch, beams=1):
    return [beams for _ in batch]

def no_batch(*, beams):
    return []

with_three = functools.partial(function, beams=3)
made = Tracker("x")
number = 7
"""
WORDS = """
def check(checkpoint):
    if checkpoint == "missing":
        try:
            raise KeyError(checkpoint)
        except KeyError as error:
            raise RuntimeError("no such checkpoint") from error
    if checkpoint == "stop":
        raise SystemExit(3)
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    for name in ("helpers", "helpers.words"):  # those of the previous test
        monkeypatch.delitem(sys.modules, name, raising=False)
    others = [place for place in sys.path if not (Path(place) / "helpers").exists()]  # those of other tests' models
    monkeypatch.setattr(sys, "path", others)
    write(tmp_path / "helpers" / "words.py", WORDS)
    (tmp_path / "tracker.py").write_text(CODE)
    return lambda name, **arguments: UserCode(f"tracker.py:{name}", arguments, str(tmp_path))


def called(code):
    return user_code.make(code, "predict")([1, 2])


def test_a_class_a_function_and_an_object(code):
    user_code.check(code("Tracker", checkpoint="missing"), "predict")  # nothing is made to look at the arguments
    assert called(code("Tracker", checkpoint="x")) == [("x", 1, False)] * 2
    assert called(code("Tracker", checkpoint=None, beams=4, greedy=True)) == [(None, 4, True)] * 2
    assert (called(code("Anything", depth=2)), called(code("Called"))) == ([{"depth": 2}] * 2, ["called"] * 2)
    assert (called(code("function")), called(code("function", beams=5))) == ([1, 1], [5, 5])
    assert (called(code("with_three")), called(code("made"))) == ([3, 3], [("x", 1, False)] * 2)


@cases(
    "name arguments reason",
    ("Tracker", {}, "--model_args: tracker.py:Tracker(checkpoint, beams=1, *, greedy=False) cannot be called with"),
    ("Tracker", {"checkpoint": 1, "beam": 2}, "got an unexpected keyword argument 'beam'"),
    ("function", {"batch": 1}, "with a list of examples and batch=1: multiple values for argument 'batch'"),
    ("no_batch", {"beams": 1}, "too many positional arguments"),
    ("made", {"beams": 1}, "--model_args: tracker.py:made is an object of type Tracker already"),
    ("Nothing", {}, "--model: tracker.py:Nothing has no method predict(batch)"),
    ("Trakcer", {}, "cannot be loaded: tracker.py has no Trakcer"),
)
def test_what_cannot_be_called(code, name, arguments, reason):
    caught = raised(InputError, user_code.check, code(name, **arguments), "predict", match=re.escape(reason))
    assert not isinstance(caught, UserCodeError)


def test_places_that_are_not_there(tmp_path):
    for target, reason in (
        ("nowhere.py:Tracker", f"there is no file {tmp_path.resolve()}/nowhere.py"),
        ("nowhere.at_all:Tracker", "cannot be loaded: No module named 'nowhere'"),
        ("Tracker", "expected MODULE:NAME or FILE.py:NAME"),
        ("tracker.py:", "expected MODULE:NAME or FILE.py:NAME"),
    ):
        caught = raised(InputError, user_code.resolve, UserCode(target, {}, str(tmp_path)), match=re.escape(reason))
        assert not isinstance(caught, UserCodeError)


def test_the_traceback_is_of_the_users_files(code, tmp_path):
    headline, *lines = str(raised(UserCodeError, called, code("Tracker", checkpoint="missing"))).splitlines()
    assert headline == "--model: tracker.py:Tracker failed when it was created with --model_args checkpoint=missing:"
    assert [line.strip() for line in lines if "File " in line] == [
        f'File "{tmp_path}/helpers/words.py", line 5, in check',
        f'File "{tmp_path}/tracker.py", line 7, in __init__',
        f'File "{tmp_path}/helpers/words.py", line 7, in check',
    ]
    assert "The above exception was the direct cause of the following exception:" in lines
    assert lines[-1] == "RuntimeError: no such checkpoint"


def test_errors_of_other_kinds_are_the_users_too(code, tmp_path):
    for text, last in (
        ("import nosuch_package\n", "ModuleNotFoundError: No module named 'nosuch_package'"),
        ("def (\n", "SyntaxError: invalid syntax"),
        ("import json\njson.loads('{')\n", "json.decoder.JSONDecodeError: Expecting property name"),
        ("def deep():\n    deep()\ndeep()\n", "RecursionError: maximum recursion depth exceeded"),
    ):
        (tmp_path / "other.py").write_text(text)
        caught = raised(UserCodeError, user_code.resolve, UserCode("other.py:Tracker", {}, str(tmp_path)))
        lines = str(caught).splitlines()
        assert lines[0] == "--model: other.py:Tracker failed when it was imported:"
        assert lines[-1].startswith(last)
        files = [line.split('"')[1] for line in lines if "File " in line]
        assert files[0] == str(tmp_path / "other.py")
        assert not any("/parapet/" in file for file in files)
        (tmp_path / "other.py").unlink()
    raised(UserCodeError, called, code("Tracker", checkpoint="stop"), match="SystemExit: 3")


def test_a_mistake_that_the_code_explains_is_passed_on(tmp_path):
    text = "from parapet.schemas.errors import InputError\nraise InputError('set TRACKER_KEY')\n"
    (tmp_path / "polite.py").write_text(text)
    caught = raised(InputError, user_code.resolve, UserCode("polite.py:Tracker", {}, str(tmp_path)))
    assert str(caught) == "set TRACKER_KEY"


def test_values_of_arguments():
    pairs = ["a=1", "b=-2.5e3", "c=true", "d=false", "e=null", 'f="7"', "g=x=y", "h=", "i=[1]", 'j={"k":1}', "l=NaN"]
    assert user_code.parse_arguments(pairs, "--model_args") == {
        **{"a": 1, "b": -2500.0, "c": True, "d": False, "e": None, "f": "7", "g": "x=y", "h": ""},
        **{"i": "[1]", "j": '{"k":1}', "l": "NaN"},
    }
    for pairs, reason in (
        (["checkpoint"], "--model_args: 'checkpoint' is not of the form KEY=VALUE"),
        (["=x"], "is not of the form KEY=VALUE"),
        (["a b=x"], "is not of the form KEY=VALUE"),
        (["a=1", "a=2"], "a appears twice"),
    ):
        raised(InputError, user_code.parse_arguments, pairs, "--model_args", match=re.escape(reason))


@given(st.text(), st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(-1e300, 1e300))
def test_any_text_and_any_json_value_come_back(text, value):
    assert user_code.parse_arguments([f"key={json.dumps(value)}"], "--model_args") == {"key": value}
    found = user_code.parse_arguments([f"key={text}", f"quoted={json.dumps(text)}"], "--model_args")
    assert found["quoted"] == text
    assert found["key"] == text or json.loads(text) == found["key"]


# A project with packages of common names, and a module where the command is run, which is found late, as on workers.
PROJECT = {
    "mine/tracker.py": """\
from evaluation.rules import fail
class Tracker:
    def predict(self, batch):
        import schemas
        fail(batch[0], schemas.WORDS)
""",
    "mine/evaluation/__init__.py": "",
    "mine/evaluation/rules.py": "def fail(example, words):\n    raise ValueError(f'{words} {example.dialogue_id}')\n",
    "elsewhere/schemas.py": "WORDS = 'cannot track'",
}


@cases("flags", [], pytest.param(TWO_WORKERS, marks=pytest.mark.thorough), ids=["one worker", "two"])
def test_the_command_shows_the_users_traceback(tmp_path, flags):
    for name, text in PROJECT.items():
        write(tmp_path / name, text)
    given = {"model": "../mine/tracker.py:Tracker", "replicates": 0, "output": "failed", "reference": sample_root()}
    command = argv_of(Path(sys.executable).with_name("parapet"), "evaluate", "--quiet", *flags, task="dst", **given)
    result = subprocess.run(command, cwd=tmp_path / "elsewhere", capture_output=True, text=True)
    assert result.returncode == 1
    of_beam, _, message = result.stderr.rpartition("error: --model: ")
    assert not of_beam or flags  # threads that Beam's own flags ask for print their tracebacks first
    headline, *lines = message.splitlines()
    assert headline.startswith("../mine/tracker.py:Tracker failed in predict on the batch of 50")
    assert "examples from dialogue '1_00000', turn 0 to dialogue '1_00007', turn 6" in headline
    assert [line.strip() for line in lines if "File " in line] == [
        f'File "{tmp_path}/mine/tracker.py", line 5, in predict',
        f'File "{tmp_path}/mine/evaluation/rules.py", line 2, in fail',
    ]
    assert lines[-1] == "ValueError: cannot track 1_00000"
    assert not (tmp_path / "elsewhere/failed/run.json").exists()
