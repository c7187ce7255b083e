"""Lines of dialogues: the same as the rows of the table, whatever a file holds and however it is laid out."""

import json

import orjson

from parapet.schemas.layout import dialogue_bytes
from parapet.schemas.rows import dialogue_lines, lines_table


def sample_items(sample):
    return list(json.loads((sample / "test" / "dialogues_001.json").read_bytes())[:3])


def test_every_character_is_kept(sample):
    items = sample_items(sample)
    text = "".join(chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000)
    items[0]["turns"][0]["utterance"] = text
    found = dialogue_lines(dialogue_bytes(items), "d.json", "d.json")
    assert lines_table(found.lines)["turns"][0].as_py()[0]["utterance"] == text
    assert orjson.loads(found.lines[0])["layout"] == "published"
