"""``parapet back_translate --engine local`` with tiny models."""

import json
from pathlib import Path

import pyarrow.parquet as pq
from tiny_models import BACK, ENGLISH, FEW

from parapet.pipelines.main import main

WORDS = ENGLISH[FEW]


def schema(folder: Path) -> Path:
    """A service in words that the models know."""
    slots = [
        {"name": f"{a}_{b}", "description": f"{b} {a}", "is_categorical": False, "possible_values": []}
        for a, b in zip(WORDS[::2], WORDS[1::2], strict=True)
    ]
    service = {"service_name": "Tests_1", "description": " ".join(WORDS[:3]), "slots": slots, "intents": []}
    (folder / "schema.json").write_text(json.dumps([service]))
    return folder / "schema.json"


def test_there_and_back_and_again_from_the_memory(models, tmp_path, capsys):
    flags = [
        "back_translate",
        "--schemas",
        str(schema(tmp_path)),
        "--pivots",
        "zh",
        "--engine",
        "local",
        "--beams",
        "1",
    ]
    flags += ["--model", f"en-zh={models['en-mul']}", f"zh-en={models['zh-en']}", "--output", str(tmp_path / "out")]
    assert main(flags) == 0
    assert "sent to local: " in capsys.readouterr().out
    rows = pq.read_table(tmp_path / "out" / "translations.parquet").to_pylist()
    back = dict(zip(ENGLISH, BACK, strict=True))
    expected = [" ".join(back[word] for word in row["text"].split()) for row in rows]
    assert [row["back_text"] for row in rows] == expected
    (variant,) = json.loads((tmp_path / "out" / "zh" / "schema.json").read_bytes())
    assert variant["slots"][0]["name"] == "_".join(back[word] for word in WORDS[:2])
    memory = (tmp_path / "out" / "memory.parquet").read_bytes()
    assert main(flags) == 0
    assert "sent to local: 0 characters in 0 requests, $0.00" in capsys.readouterr().out
    assert (tmp_path / "out" / "memory.parquet").read_bytes() == memory


def test_a_name_of_the_hub_is_no_folder(tmp_path, capsys):
    flags = ["--engine", "local", "--model", "facebook/m2m100_418M", "--output", str(tmp_path / "out")]
    assert main(["back_translate", *flags]) == 2
    assert "facebook/m2m100_418M: there is no such folder" in capsys.readouterr().err
