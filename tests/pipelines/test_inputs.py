"""Every command reports a local input that does not exist at once; a missing extra ends with the status of usage."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parapet.pipelines.command import run_checked
from parapet.pipelines.flags import StrictParser
from parapet.schemas.distribution import install_line
from parapet.schemas.errors import InputError, MissingExtra

COMMANDS = [
    *("rewrite --sgd X --variants .", "rewrite --variants X", "statistics --sgd X --variants .", "augment --sgd X"),
    *("statistics --variants X", "augment --oracle X", "augment --backtrans X", "unseen_entities --sgd X"),
    *("unseen_entities --training X", "few_shot --sgd X", "unseen_services --sgd X", "ood --sgd X"),
    *("language_variations --sgd X", "language_variations --rewritten X", "speech_errors --sgd X"),
    *("speech_errors --calibration X", "speech_errors --normalisation X", "anonymise --chats X"),
    *("anonymise --entities X", "babi_task6 --logs X", "babi_task6 --logs . --kb X", "restaurants --ontology X"),
    *("compose --schemas X", "compose --responses X", "back_translate --schemas X", "hits --schemas X"),
    *("compose_variations --sgd X", "hits --task rewrites --dialogues X", "evaluate --task dst --predictions X"),
    *("evaluate --task dst --reference X --predictions .", "evaluate --task dst --predictions . --variants X"),
    *("evaluate --task dst --predictions . --sets a=X", "evaluate --task intent --predictions X"),
    *("evaluate --task ood --predictions X", "evaluate --task ranking --reference X --predictions X"),
    *("evaluate --task response --predictions X", "evaluate --task generation --predictions X"),
    *("evaluate --task generation --predictions . --variants X", "predict tiny_dst --model . --reference X"),
    *("predict tiny_dst --model . --variants X", "predict rules --model . --reference X", "train tiny_dst --train X"),
    *("train tiny_dst --dev X", "train classifier --foreign X", "train soloist --train X --checkpoint ."),
    *("train rules --ontology X", "train tfidf --train X --candidates X"),
    *("release build --config X", "mturk publish --hits X --batch OUT", "mturk collect --batch X"),
]
ALL = """
import contextlib, io, json, sys
from parapet.pipelines.main import main
found = {}
for line in json.loads(sys.argv[1]):
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        status = main(line.split())
    found[line] = status, told.getvalue(), "apache_beam" in sys.modules
print(json.dumps(found))
"""


def test_an_input_that_is_not_there_is_told_before_beam_is_imported(tmp_path: Path) -> None:
    absent, out = tmp_path / "absent", tmp_path / "out"
    lines = {}
    for command in COMMANDS:
        line = " ".join(str(absent) if part == "X" else part.replace("=X", f"={absent}") for part in command.split())
        output = "" if command.startswith("mturk") else f" --output {out}"
        lines[command] = line.replace("OUT", str(out)) + output
    ran = subprocess.run(
        [sys.executable, "-c", ALL, json.dumps(list(lines.values()))], capture_output=True, text=True, check=True
    )
    found = json.loads(ran.stdout.splitlines()[-1])
    for command, line in lines.items():
        status, told, beam = found[line]
        assert (status, beam) == (2, False), (command, told)
        assert str(absent) in told, (command, told)
        assert re.search("there is no|no such|no finished folder|no batch here", told), (command, told)
    assert not out.exists()


@pytest.mark.parametrize(
    ("error", "status"), [(MissingExtra("boto3", "mturk"), 2), (InputError("no such key", "a.csv"), 1)]
)
def test_a_missing_extra_is_the_user_s_whenever_it_is_found(
    error: InputError, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def act(*_: object) -> int:
        raise error

    def check(_: object) -> None:
        raise error

    parser = StrictParser("practice", "Nothing.", "  parapet practice")
    assert run_checked(parser, [], lambda args: args, act, "") == status
    assert run_checked(parser, [], check, act, "") == 2
    assert str(error) in capsys.readouterr().err
    if isinstance(error, MissingExtra):
        assert str(error) == f"boto3 is not installed: {install_line('mturk')}"
