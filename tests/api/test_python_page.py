"""``docs/python.md``: its blocks run in order, and its Beam pipeline as a program of its own, elsewhere."""

import re
import shutil
from pathlib import Path

import pytest

from parapet.transforms.perturb.corpora import Corpus

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
(PROGRAM,) = re.findall(r"^```python run\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.mark.usefixtures("bundled_sample")
def test_the_blocks_run_in_order(sample, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sample, "my_corpus")
    for path in (sample / "crowd").iterdir():
        shutil.copy(path, tmp_path)
    names = {}
    for block in BLOCKS:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert isinstance(names["corpus"], Corpus)
    assert capsys.readouterr().out.splitlines() == [
        "('train', 'dev', 'test') 4",
        "['typos', 'typos-env1', 'typos-env2', 'typos-env3']",
        "I nee a taxi to Fresno",
        "1420 ['v1', 'v2', 'v3', 'v4', 'v5']",
        "['Repairs_15']",
        "8.0 arrival_date",
        "12.0 start",
        "13.0 date_of_check_in",
        "0.56 0.8484848484848485",
        "75.3%",
    ]
    assert (tmp_path / "my_typos" / "turns" / "test" / "dialogues_001.parquet").is_file()
