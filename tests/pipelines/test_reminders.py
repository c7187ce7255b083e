"""``parapet reminders`` as a person runs it: a corpus that the other pipelines take, the same for any sharding."""

import pytest

from parapet.pipelines.reminders import run

SIZES = ["--dialogues", "40,0,12"]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    out = tmp_path_factory.mktemp("output") / "out"
    assert run(["--output", str(out), *SIZES, "--per_file", "16", "--quiet"]) == 0
    return out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--dialogues", "5,5"], "--dialogues: give three numbers, of train, dev and test"),
        (["--dialogues", "0,0,0"], "--dialogues: give three numbers"),
        (["--dialogues", "1,x,0"], "--dialogues: give three numbers"),
        (["--per_file", "0"], "--per_file: 0: give 1 to 10,000"),
    ],
)
def test_mistakes(flags, message, tmp_path, capsys):
    assert run(["--output", str(tmp_path / "out"), *flags]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
