"""Keys of arguments are renamed, also in pieces, and nothing else changes."""

import json
import random

import pytest
from wordings import arguments_of, pieces, reworded_at_random, schema_of

from parapet.schemas.tools import Tool
from parapet.transforms.proxy.raw_json import ArgumentsText
from parapet.transforms.variants.tool_variants import renamings_of


def renamings(seed):
    draw = random.Random(seed)
    tool = Tool({"name": "a", "parameters": schema_of(draw)})
    forth = renamings_of([tool], {"a": reworded_at_random(tool, "b", draw)})[1]["a"]
    return draw, tool, forth


@pytest.mark.parametrize("seed", range(300))
def test_there_and_back_in_pieces(seed):
    draw, tool, forth = renamings(seed)
    back = forth.reversed()
    for _ in range(10):
        arguments = arguments_of(draw, tool.parameters.root, tool.parameters.root)
        text = json.dumps(arguments, ensure_ascii=draw.random() < 0.5, indent=draw.choice([None, 1]))
        there = ArgumentsText(forth)
        renamed = "".join(map(there.renamed, pieces(draw, text)))
        assert json.loads(renamed) == forth.arguments(arguments)
        again = ArgumentsText(back)
        returned = "".join(map(again.renamed, pieces(draw, renamed)))
        assert json.loads(returned) == arguments
        assert returned == text or not text.isascii() or "\\u" in text
        assert there.is_complete()
        assert (there.held, again.held, there.unknown, again.unknown) == ("",) * 4


@pytest.mark.parametrize("seed", range(50))
def test_a_value_passes_at_once_and_a_key_when_it_is_known(seed):
    draw, tool, forth = renamings(seed)
    text = json.dumps(arguments_of(draw, tool.parameters.root, tool.parameters.root))
    there, whole = ArgumentsText(forth), ArgumentsText(forth).renamed(text)
    written = ""
    for letter in text:
        written += there.renamed(letter)
        assert whole.startswith(written)
        assert there.held == "\\" or there.held[:1] in ("", '"')
    assert written == whole


@pytest.mark.parametrize(
    "text", ['{"a": "b\\', '{"ci', "[1, {", "}]", '"{\\"a\\": 1}"', "not json", "{'a': 1}", '{"\\ud8']
)
def test_what_is_no_object_passes(text):
    _, _, forth = renamings(0)
    arguments = ArgumentsText(forth)
    assert "".join(map(arguments.renamed, text)) + arguments.held == text
    assert not arguments.is_complete()


@pytest.mark.parametrize("text", ["", "null", "{}", ' {"a": 1} '])
def test_nothing_is_complete(text):
    _, _, forth = renamings(0)
    arguments = ArgumentsText(forth)
    arguments.renamed(text)
    assert arguments.is_complete()
