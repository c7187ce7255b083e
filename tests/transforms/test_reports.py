"""The pages of ``statistics`` and ``compose``: what they say, read back from the HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from parapet.transforms import reports

DISPOSITIONS = ("used", "surplus", "duplicate", "rejected", "review")


class Page(HTMLParser):
    """Rows of tables, terms, links, and every element that was left open."""

    VOID = frozenset({"meta", "br", "link"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self.links += [value or "" for key, value in attrs if key in ("href", "src")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def row(self, first: str) -> list[str]:
        return next([" ".join(cell.split()) for cell in row] for row in self.rows if row[0].split()[:1] == [first])

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def statistics(variants: tuple[str, ...] = ("v1", "v2", "v3", "v4", "v5"), **more: Any) -> dict[str, Any]:
    rows = {
        name: {
            "slot_names_seen": 0.1,
            "intent_names_seen": 0.0,
            "name_distance": 0.281 + i / 10,
            "description_bleu": 17.76 / (i + 1),
        }
        for i, name in enumerate(variants)
    }
    return {
        "original": {"slot_names_seen": 0.627, "intent_names_seen": 0.8},
        "variants": rows,
        "average": {**rows[variants[0]], "name_distance": 0.46},
        "self_bleu": 4.49,
        "split": "dev",
        "services": 34,
        "unseen_services": 8,
        "services_without_variants": [],
        "bleu_signature": "case:lc|tok:13a",
        **more,
    }


def answers(used: int = 0, surplus: int = 0, duplicate: int = 0, rejected: int = 0, review: int = 0) -> dict[str, int]:
    numbers = dict(zip(DISPOSITIONS, (used, surplus, duplicate, rejected, review), strict=True))
    return {"total": sum(numbers.values()), **numbers}


def a_service(composed: bool, partial: bool = False, short: int = 0, **numbers: int) -> dict[str, Any]:
    return {
        "splits": ["train", "dev"],
        "composed": composed,
        "partial": partial,
        "answers": answers(**numbers),
        "short": short,
    }


def composed(**more: Any) -> dict[str, Any]:
    return {
        "answers": answers(used=3500, surplus=712, duplicate=431, rejected=388, review=96),
        "dead_letters": 7,
        "reasons": {
            "rejected": {"blank": 112, "prompt_copy": 276},
            "review": {"unknown_word": 96},
            "surplus": {"not_drawn": 712},
            "duplicate": {"same_words": 431},
        },
        "services": {
            "Banks_10": a_service(True, used=60),
            "Banks_2": a_service(True, used=60, surplus=4),
            "Media_2": a_service(False, short=13),
            "Trains_1": a_service(True, partial=True, short=2, used=50),
            "Weather_1": a_service(False, short=4, surplus=20, review=12),
        },
        "variants": {
            "v1": {"name_distance": 0.295, "description_bleu": 19.2},
            "v2": {"name_distance": 0.42, "description_bleu": 11.6},
        },
        "average": {"name_distance": 0.358, "description_bleu": 15.4},
        "self_bleu": 4.5,
        "agreement": {"items": 120, "cohen_kappa": 0.812, "krippendorff_alpha": 0.809, "disagreements": 9},
        "decisions": {"accept": 80, "reject": 20, "fix": 6},
        "method": {"selection": "five at random, seed 0"},
        **more,
    }


def test_statistics_page_shows_measured_and_published() -> None:
    page = Page(reports.statistics_page(statistics()))
    assert page.open == []
    assert page.row("Variant") == ["Variant", "Slots seen", "Intents seen", "Name distance", "BLEU"]
    assert page.row("Original") == ["Original", "63%SGD-X 65%", "80%SGD-X 71%", "–", "–"]
    assert page.row("v1") == ["v1", "10%", "0%", "0.28SGD-X 0.30", "17.8SGD-X 18.8"]
    assert page.row("v5") == ["v5", "10%", "0%", "0.68SGD-X 0.61", "3.6SGD-X 1.0"]
    assert page.row("Average")[3] == "0.46"
    assert "34 services in 5 variants" in page.words
    assert "the 8 services of dev that train lacks" in page.words
    assert "published ones of SGD-X, of the whole of SGD" in page.words
    assert "case:lc|tok:13a" in page.words
    assert page.links == ["statistics.json"]


def test_published_figures_stand_beside_v1_to_v5_only() -> None:
    page = Page(reports.statistics_page(statistics(("de", "v1"))))
    assert page.row("de") == ["de", "10%", "0%", "0.28", "17.8"]
    assert "SGD-X" not in page.words.replace("Table 1 of SGD-X", "")
    assert "<polyline" not in reports.statistics_page(statistics(("de", "fr")))
    assert "<polyline" in reports.statistics_page(statistics(("v1", "v2")))


def test_statistics_page_names_what_was_left_out() -> None:
    page = Page(reports.statistics_page(statistics(services_without_variants=["Banks_2", "Media_2"])))
    assert "2 services of the original in no variant and not counted: Banks_2, Media_2." in page.words


def test_statistics_page_without_some_numbers() -> None:
    none = {"slot_names_seen": None, "intent_names_seen": None, "name_distance": None, "description_bleu": None}
    html = reports.statistics_page(
        statistics(variants=("v1",)) | {"variants": {"v1": none}, "average": none, "self_bleu": None}
    )
    assert Page(html).row("v1") == ["v1", "–", "–", "–", "–"]


def test_compose_page_says_what_waits_and_why() -> None:
    page = Page(reports.compose_page(composed(), {"blank": "Nothing was written."}))
    assert page.open == []
    assert "2 of 5 services composed, 1 in part" in page.words
    assert "1 service has no answers yet. 1 service waits for good answers to 4 elements." in page.words
    assert "1 service has elements with fewer answers than variants." in page.words
    assert "96 answers wait for a decision. Decide, then run again with --decisions : review.html review.csv" in (
        page.words.replace("--decisions:", "--decisions :")
    )
    assert "19 elements have too few good answers: shortfall.csv" in page.words
    assert "7 records could not be read: dead_letters.jsonl" in page.words
    assert "The reviewers disagree on 9 answers." in page.words
    assert set(page.links) == {
        "review.html",
        "review.csv",
        "shortfall.csv",
        "responses.parquet",
        "dead_letters.jsonl",
        "statistics.json",
        "run.json",
    }


def test_compose_page_tables() -> None:
    page = Page(reports.compose_page(composed(), {"blank": "Nothing was written."}))
    assert page.row("Used") == ["Used in one of the variants", "3,500", "68.3%"]
    assert page.row("Review") == ["Review held for a person to look at", "96", "1.9%"]
    assert page.row("All") == ["All answers", "5,127", ""]
    assert page.row("Blank") == ["Blank rejected: Nothing was written.", "112"]
    assert page.row("Unknown") == ["Unknown word review", "96"]
    assert page.row("Media_2") == ["Media_2", "no answers", "13", "0", "0", "0", "0", "0", "0", "train, dev"]
    assert page.row("Weather_1")[1:4] == ["waits", "4", "32"]
    assert page.row("Trains_1")[1:3] == ["composed in part", "2"]
    assert page.row("v2") == ["v2", "0.42", "11.6"]
    assert page.row("Average") == ["Average", "0.36", "15.4"]
    assert "accept 80, reject 20, fix 6" in page.words
    assert "0.81 (1 is full agreement, 0 is chance)" in page.words
    assert "five at random, seed 0" in page.words


def test_compose_page_lists_what_waits_first_and_numbers_naturally() -> None:
    page = Page(reports.compose_page(composed()))
    names = [row[0] for row in page.rows if re.fullmatch(r"[A-Z][a-z]+_\d+", row[0])]
    assert names == ["Media_2", "Weather_1", "Trains_1", "Banks_2", "Banks_10"]


def test_compose_page_of_a_run_without_loose_ends() -> None:
    done = composed(
        answers=answers(used=60),
        services={"Banks_2": a_service(True, used=60)},
        reasons={"rejected": {}, "review": {}, "surplus": {}, "duplicate": {}},
        dead_letters=0,
        agreement=None,
        decisions={"accept": 0, "reject": 0, "fix": 0},
    )
    page = Page(reports.compose_page(done))
    assert "1 service composed Every element has the answers it needs." in page.words
    for absent in ("Why answers were not used", "wait for a decision", "Reviewers", "records could not be read"):
        assert absent not in page.words


def test_compose_page_of_a_run_without_answers() -> None:
    nothing = composed(
        answers=answers(),
        services={"Banks_2": a_service(False, short=3)},
        variants={},
        average={},
        self_bleu=None,
        reasons={},
        agreement=None,
    )
    page = Page(reports.compose_page(nothing))
    assert "0 of 1 service composed 1 service has no answers yet." in page.words
    assert page.row("Used")[1:] == ["0", "–"]
    assert "How far the variants are" not in page.words


def test_the_table_of_services_ends_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_SERVICES", 2)
    page = Page(reports.compose_page(composed()))
    assert "3 more services are in statistics.json." in page.words
    assert [row[0] for row in page.rows if row[0].endswith(("_1", "_2", "_10"))] == ["Media_2", "Weather_1"]


@pytest.mark.parametrize("html", [reports.statistics_page(statistics()), reports.compose_page(composed())])
def test_pages_stand_alone_and_escape(html: str) -> None:
    page = Page(html)
    assert not {"script", "link", "img", "iframe"} & page.tags
    assert "http" not in html
    assert "@import" not in html
    assert 'lang="en"' in html
    evil = "<script>alert(1)</script>"
    evils = [
        reports.statistics_page(statistics((evil, "v2"), services_without_variants=[evil])),
        reports.compose_page(
            composed(services={evil: a_service(True)}, reasons={"rejected": {evil: 1}}, method={evil: evil})
        ),
    ]
    assert not any("<script" in one for one in evils)


def test_same_numbers_same_bytes() -> None:
    assert reports.statistics_page(statistics()) == reports.statistics_page(statistics())
    assert reports.compose_page(composed()) == reports.compose_page(composed())
