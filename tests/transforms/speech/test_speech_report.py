"""The page and the card of the sets: all numbers are there, whatever names and seeds are made of."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from parapet.transforms.markdown import code
from parapet.transforms.speech.calibrate import Setting
from parapet.transforms.speech.card import card
from parapet.transforms.speech.report import report_page
from parapet.transforms.speech.statistics import statistics

HOSTILE = "<script>alert('x')</script> & \"|`"
MADE_WITH: dict[str, Any] = {
    "synthesiser": "espeak-ng",
    "recogniser": "pocketsphinx:0123456789ab",
    "language_model": "train",
    "noise": "recordings:aaaabbbbcccc",
    "voices": ["klatt4", "adam"],
    "normalisation": "1",
    "samples_a_second": 16000,
}
OPTIONS: dict[str, Any] = {"form": "heard", "seed": "0", "calibrated_elsewhere": False}
SETTINGS = [Setting(0.1, 4000), Setting(0.2, 250), Setting(0.125, 10000)]


def numbers(domain: str = "Hotels", voices: tuple[str, ...] = ("klatt4", "adam")) -> dict[str, Any]:
    sums = []
    for i, one in enumerate(SETTINGS, 1):
        of = (1200 * i, 12345, 700 * i, 80 * i, 90 * i, 400, 400 - 50 * i)
        sums += [((one.name, "all", ""), of), ((one.name, "domain", domain), of)]
        sums += [((one.name, "voice", voice), of) for voice in voices]
        sums += [((one.name, "rate", rate), (n * i,)) for rate, n in (("0/7", 600), ("1/8", 300), ("6/10", 300))]
        sums += [((one.name, "snr", snr), (n * i,)) for snr, n in (("7.5", 400), ("9", 500), ("13", 300))]
    dialogues = [(one.name, (f"f\0{i}", (i % 4, 20))) for one in SETTINGS for i in range(20)]
    return statistics(SETTINGS, [(20.0, (5, 100)), (7.5, (45, 100))], sums, dialogues)


def example(**other: Any) -> dict[str, Any]:
    row = {
        "dialogue_id": "1_00001",
        "original": "At 7:30 in San Jose",
        "alignment": "at seven thirty>thirteen in san jose> >please",
        "snr": 7.5,
        "wer": 0.5,
        "slots": [
            {"slot": "time", "value": "7:30", "status": "lost"},
            {"slot": "city", "value": "San Jose", "status": "kept"},
        ],
    }
    return {**row, **other}


class Reader(HTMLParser):
    """What a browser would make of it: tags, and the texts of cells, each with the tags around it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.inside: list[str] = []
        self.cells: list[str] = []
        self.text = ""
        self.marked: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.inside.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & set(self.inside):
            self.cells[-1] += data
        if self.inside and self.inside[-1] in ("del", "ins"):
            self.marked.append((self.inside[-1], data))


def page_of(some: dict[str, Any], examples: dict[str, Any] | None = None, **other: Any) -> Reader:
    return Reader(report_page(some, {**MADE_WITH, **other}, examples or {}))


def test_the_page_has_every_set() -> None:
    read = page_of(numbers(), {"SR-10": [example()], "SR-20": []})
    for one in SETTINGS:
        assert one.name in read.cells
    at = read.cells.index("SR-10")
    found = numbers()["sets"]["SR-10"]
    assert read.cells[at : at + 8] == [
        "SR-10",
        "10.0%",
        f"{100 * found['wer']:.2f}%",
        f"{100 * found['wer_low']:.1f}% – {100 * found['wer_high']:.1f}%",
        "700",
        "80",
        "90",
        "87.5%",
    ]
    spread = read.cells.index("SR-10", at + 1)
    assert read.cells[spread : spread + 5] == ["SR-10", "50.0%", "25.0%", "0%, 0%, 12%", "7.5, 9, 9 dB"]
    assert "SR-10: none 50, to 10 % 0, to 20 % 25, to 30 % 0," in read.text
    assert "SR-20: none 50, to 10 % 0, to 20 % 25, to 30 % 0," in read.text
    assert "3,600 user turns, spoken by espeak-ng through recordings noise, heard by pocketsphinx." in read.text
    assert "7.5 dB" in read.text
    assert "By domain" in read.text
    assert "By voice" in read.text
    assert "By voice" not in page_of(numbers(voices=("klatt4",))).text


def test_examples_tell_what_was_said_and_what_was_heard() -> None:
    read = page_of(numbers(), {"SR-20": [example()], "SR-10": []})
    assert read.marked == [("del", "thirty"), ("ins", "thirteen"), ("del", "jose"), ("ins", "please")]
    said = next(cell for cell in read.cells if "thirteen" in cell)
    assert said.split() == ["at", "seven", "thirty", "thirteen", "in", "san", "jose", "please"]
    assert "time: 7:30" in read.cells
    assert not [cell for cell in read.cells if "city" in cell]
    assert ("title", "At 7:30 in San Jose") in read.attributes
    assert "SR-20: some turns that were heard wrong" in read.text
    assert "SR-10: some turns" not in read.text


def test_it_is_said_where_the_recogniser_has_seen_the_text() -> None:
    assert "has seen the text" in page_of(numbers(), language_model="own").text
    assert "has seen the text" not in page_of(numbers()).text
    assert "has seen the text" in page_of(numbers(), language_model="mixed").text
    assert "has seen the text" in card(numbers(), {**MADE_WITH, "language_model": "own"}, OPTIONS).replace("**", "")
    assert "has not seen" in card(numbers(), MADE_WITH, OPTIONS)


def test_no_name_or_text_is_taken_for_markup_of_the_page() -> None:
    row = example(
        original=HOSTILE,
        alignment="<b>bold</b> a><i>",
        slots=[{"slot": HOSTILE, "value": "<img src=x onerror=y>", "status": "lost"}],
    )
    plain = page_of(numbers(), {"SR-10": [example()]})
    hostile = page_of(
        numbers(domain=HOSTILE, voices=("klatt4", HOSTILE)), {"SR-10": [row]}, synthesiser=HOSTILE, recogniser=HOSTILE
    )
    assert set(hostile.tags) <= set(plain.tags)
    assert hostile.tags.count("script") == plain.tags.count("script")
    assert not [name for name, _ in hostile.attributes if name.startswith("on")]
    assert HOSTILE in hostile.cells
    assert ("title", HOSTILE) in hostile.attributes
    assert f"{HOSTILE}: <img src=x onerror=y>" in hostile.cells


def test_a_page_of_nothing_heard() -> None:
    nothing = statistics(SETTINGS, [], [], [])
    read = page_of(nothing)
    assert "0 user turns" in read.text
    assert "svg" not in read.tags
    assert "None" not in read.text
    some = {**numbers(), "sets": {**numbers()["sets"], "SR-10": nothing["sets"]["SR-10"]}}
    read = page_of(some)
    assert "SR-20" in read.cells
    assert "SR-10" not in read.cells


def test_a_set_without_slots_has_no_share_of_them() -> None:
    some = numbers()
    for one in some["sets"].values():
        one["slot_survival"] = None
    read = page_of(some)
    at = read.cells.index("SR-20")
    assert read.cells[at + 7] == "–"
    assert table_of(card(some, MADE_WITH, OPTIONS))[0][-1] == "–"


def table_of(text: str) -> list[list[str]]:
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| SR-")]
    return [[cell.strip() for cell in row] for row in rows]


def test_the_card_has_every_set() -> None:
    text = card(numbers(), MADE_WITH, OPTIONS)
    found = numbers()["sets"]
    assert table_of(text) == [
        [
            name,
            f"{100 * one['target']:.1f}%",
            f"{100 * one['wer']:.2f}%",
            f"{100 * one['wer_low']:.1f}%–{100 * one['wer_high']:.1f}%",
            "12,345",
            *(f"{one[kind]:,}" for kind in ("substitutions", "deletions", "insertions")),
            f"{100 * one['slot_survival']:.0f}%",
        ]
        for name, one in found.items()
    ]
    assert [row[0] for row in table_of(text)] == ["SR-10", "SR-12.5", "SR-20"]
    for part in (
        "espeak-ng, klatt4, adam",
        "Noise: recordings",
        "pocketsphinx:0123456789ab",
        "version 1",
        "Seed: `0`.",
        "SR-20, word error rates of single turns: quartiles 0%, 0%, 12%; 50% of the turns are perfect, 25% have 60%",
    ):
        assert part in text
    assert "as it was heard: lower case" in text
    assert "carried over" not in text
    other = card(numbers(), MADE_WITH, {"form": "restored", "seed": "x", "calibrated_elsewhere": True})
    assert "as the original has it where it was heard right" in other
    assert "carried over from another run" in other


@pytest.mark.parametrize("model", ["train", "mixed", "own", "a file", ""])
def test_the_card_knows_every_kind_of_model(model: str) -> None:
    assert "its language model is " in card(numbers(), {**MADE_WITH, "language_model": model}, OPTIONS)


def test_a_card_of_nothing_heard() -> None:
    rows = table_of(card(statistics(SETTINGS, [], [], []), MADE_WITH, OPTIONS))
    assert [row[:2] for row in rows] == [["SR-10", "10.0%"], ["SR-12.5", "12.5%"], ["SR-20", "20.0%"]]
    assert all(len(row) == 9 and row[4] == "0" and "".join(row[5:]) == "" for row in rows)


@pytest.mark.parametrize("seed", ["a`b", "`<script>alert(1)</script>`", "a\n\n# b", "``"])
def test_any_seed_is_told_as_code(seed: str) -> None:
    (line,) = [line for line in card(numbers(), MADE_WITH, {**OPTIONS, "seed": seed}).splitlines() if "Seed: " in line]
    assert line == f"- Seed: {code(seed)}."
    assert "<script" not in line
