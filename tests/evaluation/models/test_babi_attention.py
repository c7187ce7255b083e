"""The attention of a memory network: which line has which weight, and the page that shows it."""

import re

import torch
from babi_toy import CANDIDATES, dialogue, dialogues
from kit import SEED

from parapet.evaluation.models.babi import Memory, Response, Shape, page_of, responses
from parapet.evaluation.models.babi_models import NetAnswers, Vocabulary, make

SOME = [dialogue("thai", "rome", fact=True), dialogue("greek", "oslo")]


def answering(hops=2, memory=20):
    torch.manual_seed(SEED)
    words = sorted(
        {word for one in dialogues() for line in one.exchanges for word in f"{line.user} {line.bot}".split()}
    )
    known = Vocabulary(words, CANDIDATES, {})
    net = make("memn2n", known, Shape(size=6, hops=hops, memory=memory), initial=1.0)
    return NetAnswers(net, known, torch.device("cpu"), batch=3)


def found_in(model, first=0):
    return list(responses(first, SOME, model.ranked(SOME, 1), model.attention(SOME)))


def test_a_short_memory_has_the_last_lines():
    assert [memory.time for memory in found_in(answering(memory=2))[3].memories] == [6, 7]


def test_the_page_shows_all_lines_with_their_attention():
    shares = [0.5, 0.004, 0.405, 0.0]
    memories = [Memory(i + 1, "User", f"line {i + 1}", [share, share]) for i, share in enumerate(shares)]
    found = [Response(0, 0, memories, "what", "yes", ["yes"]), Response(1, 0, [], "why", "yes", ["no", "maybe", "yes"])]
    page = page_of("task1-tst", found).decode()
    rows = re.findall(r"<td>(\d+)</td><td>User</td><td dir=\"auto\">line \1</td>", page)
    assert rows == ["1", "2", "3", "4"]
    assert page.count('style="--p: 0.405">0.405</td>') == 2
    assert "1 of 2 responses are right in the first 2 dialogues of task1-tst" in page
    assert re.findall(r"\[(Correct|Incorrect)\]", page) == ["Correct", "Incorrect", "Incorrect", "Correct"]
    assert re.findall(r"Predicted answer( #\d)?<", page) == ["", " #1", " #2", " #3"]
    assert (page.count("<details open>"), page.count("<details>")) == (1, 1)
