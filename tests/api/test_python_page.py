"""``docs/python.md``: its blocks run in order, and its Beam pipeline as a program of its own, elsewhere."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import parapet
from parapet.pipelines.main import main
from parapet.transforms.perturbation.corpora import Corpus

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
(PROGRAM,) = re.findall(r"^```python run\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.mark.usefixtures("bundled_sample")
def test_the_blocks_run_in_order(sample, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sample, "my_corpus")
    for path in (sample / "crowd").iterdir():
        shutil.copy(path, tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert isinstance(names["corpus"], Corpus)
    assert capsys.readouterr().out.splitlines() == [
        "('train', 'dev', 'test') 4",
        "['typos', 'typos-env1', 'typos-env2', 'typos-env3']",
        "1420 ['v1', 'v2', 'v3', 'v4', 'v5']",
        "['Repairs_15']",
        "8.0 arrival_date",
        "12.0 start",
        "13.0 date_of_check_in",
        "0.06 0.5151515151515151",
        "11.2%",
    ]
    assert (tmp_path / "my_typos" / "turns" / "test" / "dialogues_001.parquet").is_file()


def test_somebody_elses_pipeline(sample, tmp_path):
    """Outside the checkout; one dialogue is broken and one touches an unknown service: nothing is lost."""
    assert len(PROGRAM.splitlines()) <= 40
    assert main(["compose", "--allow_partial", "--output", str(tmp_path / "variants"), "--quiet"]) == 0
    (tmp_path / "program.py").write_text(PROGRAM)
    dialogues = list(parapet.load_corpus(sample).dialogues("test"))
    foreign = {**dialogues[0], "dialogue_id": "foreign", "services": ["Nobodys_1"]}
    lines = [*dialogues, foreign, {"dialogue_id": "broken"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = [str(sample), str(tmp_path / "variants"), str(tmp_path / "in.jsonl"), str(tmp_path / "out")]
    subprocess.run([sys.executable, "program.py", *arguments], cwd=tmp_path, check=True)
    found = [json.loads(line) for line in (tmp_path / "out" / "dialogues.jsonl").read_text().splitlines()]
    v1 = {one["dialogue_id"]: one for one in found if one.pop("variant") == "v1"}
    expected = parapet.perturb(parapet.load_corpus(sample), "typos", seed=1)
    for one in parapet.apply_variants(expected, tmp_path / "variants")["v1"].dialogues("test"):
        assert v1[one["dialogue_id"]] == one
    assert len(found) == 5 * len(dialogues)
    letters = sorted((tmp_path / "out" / "dead_letters.txt").read_text().splitlines())
    assert len(letters) == 6
    assert [letter.split()[:2] for letter in letters if letter.startswith("foreign")] == [
        ["foreign", f"v{i}"] for i in range(1, 6)
    ]
    assert letters[0].startswith("broken  ")
    assert "not_sgd" in letters[0]
