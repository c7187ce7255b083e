"""The lines of ``docs/formats.md`` that save a dataset of the Hugging Face Hub as a corpus."""

import re
from pathlib import Path

import datasets
from hub_form import DIALOGUES, SERVICES, dialogue_row, service_row

import parapet

SAMPLE = parapet.load_corpus()
PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def test_the_lines_of_the_page_save_sgd_of_the_hub(tmp_path, monkeypatch):
    rows = {
        "dialogues": datasets.Dataset.from_list(list(map(dialogue_row, SAMPLE.dialogues("test"))), features=DIALOGUES),
        "schema": datasets.Dataset.from_list(list(map(service_row, SAMPLE.services("test"))), features=SERVICES),
    }
    monkeypatch.setattr(datasets, "load_dataset", lambda name, configuration, **options: rows[configuration])
    monkeypatch.chdir(tmp_path)
    blocks = re.findall("```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(next(block for block in blocks if "load_dataset" in block), {})
    saved = parapet.load_corpus("sgd")
    assert list(saved.dialogues("test")) == list(SAMPLE.dialogues("test"))
    assert saved.services("test") == SAMPLE.services("test")
