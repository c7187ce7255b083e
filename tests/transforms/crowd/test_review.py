"""The pages of compose: the answers to review, and the report on what is short of answers."""

import csv
import io
import json
from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.schemas.decisions import restore
from parapet.transforms.crowd import meaning
from parapet.transforms.crowd import report as crowd_report
from parapet.transforms.crowd.report import (
    ReviewItem,
    compose_report,
    missing_answers,
    neighbours,
    review_order,
    review_pages,
    review_sheet,
    visible,
)
from parapet.transforms.report.report import Table, Text, page

EXPLANATIONS = {"oov": "Has a word that is in no dictionary.", "near_original": "Very near the <original>."}
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\" autofocus onfocus='alert(1)",
    "{{ 7 * 7 }} {% raw %} ${x} <!-- ]]>",
    "\u202egnp.exe\u202c \u200b\u0007\0",
    '\'=HYPERLINK("http://x")',
    "a\r\nb\u2028c",
    "\ud800 half",
]
TEXTS = st.sampled_from(HOSTILE) | st.text(max_size=30)


def item(number=0, element="Hotels_1/slot/check_in", task="names", text="arival day", **other):
    values = {"prompt": "Start date", "original": "check_in", "canonical": "arival_day", "reasons": ["oov"], **other}
    return ReviewItem(f"A{number:03}:slot_2", element, task, text=text, **values)


class Reader(HTMLParser):
    """What a browser would make of the page: its elements, their attributes, and the text of each."""

    def __init__(self, data):
        super().__init__()
        self.tags, self.attributes, self.texts, self._open = [], [], [], []
        self.feed(data.decode("utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self._open.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append((*self._open[-1], data) if self._open else ("", {}, data))

    def json(self):
        return json.loads("".join(text for tag, attrs, text in self.texts if attrs.get("id") == "data"))


def only_page(items, explanations=EXPLANATIONS):
    [(name, data)] = review_pages(items, explanations)
    assert name == "review.html"
    return data


def review_csv(items, explanations):
    return b"".join(review_sheet(items, explanations))


def sheet(items):
    return list(csv.DictReader(io.StringIO(review_csv(items, EXPLANATIONS).decode("utf-8"), newline="")))


@given(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
def test_hostile_texts_stay_texts(prompt, original, text, canonical, other):
    plain = Reader(only_page([item(neighbours=[("other", "used")], text="typed", canonical="answer")]))
    reader = Reader(
        only_page(
            [
                item(
                    prompt=prompt,
                    original=original,
                    text=text,
                    canonical=canonical or "x",
                    neighbours=[(other, "used")],
                )
            ],
            {"oov": prompt},
        )
    )
    # "typed as" stands only where something else is emitted.
    assert sorted(reader.tags + ([] if text not in ("", canonical or "x") else ["p", "bdi"])) == sorted(plain.tags)
    assert not [a for a in reader.attributes if a[1].startswith("on") or a[1] in ("src", "autofocus")]
    shown = "".join(data for _, attrs, data in reader.texts if attrs.get("class", "").startswith("answer"))
    assert (shown, reader.json()["items"]) == (visible(canonical or "x") + "\n", [["A000:slot_2", canonical or "x"]])


@given(TEXTS, TEXTS, TEXTS)
def test_hostile_texts_stay_cells(prompt, canonical, other):
    data = review_csv([item(prompt=prompt, canonical=canonical or "x", neighbours=[(other, "used")])], EXPLANATIONS)
    assert data.isascii() or data.decode("utf-8")
    [row] = sheet([item(prompt=prompt, canonical=canonical or "x")])
    assert restore(row["prompt"]) == visible(prompt).encode("utf-8", "replace").decode()
    assert all(not cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row.values())


def test_many_neighbours_are_counted():
    assert "and 70 more" in only_page([item(neighbours=[("other", "used")], more_neighbours=70)]).decode()


DISPOSED = st.sampled_from(["used", "rejected", "review"])
ANSWERS = st.tuples(st.sampled_from("abcdefgh") | st.integers(0, 60).map(str), DISPOSED)


@given(st.lists(ANSWERS, max_size=60), st.data())
def test_neighbours_are_those_of_a_list_of_all_others(answers, data):
    own = data.draw(st.sampled_from([(*answer, i) for i, answer in enumerate(answers)] or [("x", "review", -1)]))
    answers += [own[:2]] if own[2] < 0 else []
    others = {answer for i, answer in enumerate(answers) if i != own[2] % len(answers) and answer[1] != "rejected"}
    ranked = sorted(others, key=lambda answer: (answer[1] != "used", answer[1], answer[0]))
    if own[1] != "rejected":
        shown, more = neighbours(answers, own[:2])
        assert (shown, more) == (ranked[: crowd_report.MAX_NEIGHBOURS], len(ranked) - len(shown))


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 8))
@settings(max_examples=30)
def test_pages_have_every_item_once(elements, per_page):
    items = [item(i, f"S_1/slot/{element}") for i, element in enumerate(elements)]
    items.sort(key=review_order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crowd_report, "PER_PAGE", per_page)
        pages = [Reader(data).json()["items"] for _, data in review_pages(items, EXPLANATIONS)] if items else []
    assert [key for page in pages for key, _ in page] == [i.response_id for i in items]
    assert all(0 < len(page) <= per_page for page in pages)
    element_of = {i.response_id: i.element_id for i in items}
    pages_of = Counter(element for page in pages for element in {element_of[key] for key, _ in page})
    assert pages_of == {element: -(-n // per_page) for element, n in Counter(element_of.values()).items()}


def test_of_too_many_items_the_first_have_pages(monkeypatch):
    items = [item(i, f"S_1/slot/{i}") for i in range(12)]
    monkeypatch.setattr(crowd_report, "PER_PAGE", 5)
    monkeypatch.setattr(crowd_report, "MAX_PAGES", 2)
    pages = dict(review_pages(items, EXPLANATIONS))
    files = [(name, Reader(page).json()["file"]) for name, page in pages.items()]
    assert files == [("review.html", "decisions.csv"), ("review.2.html", "decisions.2.csv")]
    assert all(b"held back 12 answers" in page and b"have the first 10 answers, " in page for page in pages.values())
    monkeypatch.setattr(crowd_report, "PER_PAGE", 6)
    assert not any(b"have the first" in page for _, page in review_pages(items, EXPLANATIONS))
    assert len(sheet(items)) == 12


def test_decisions_are_kept_per_content():
    def key(text):
        return Reader(only_page([item(canonical=text)])).json()["key"]

    assert key("a") == key("a") != key("b")


def test_nothing_to_review():
    page = only_page([]).decode()
    assert "There is nothing to review" in page
    assert "<script" not in page


DISPOSITIONS = ("used", "surplus", "duplicate", "rejected", "review")


def answers(used=0, surplus=0, duplicate=0, rejected=0, review=0):
    numbers = dict(zip(DISPOSITIONS, (used, surplus, duplicate, rejected, review), strict=True))
    return {"total": sum(numbers.values()), **numbers}


def a_service(composed, partial=False, short=0, **numbers):
    fate = {"composed": composed, "partial": partial, "answers": answers(**numbers), "short": short}
    return {"splits": ["train", "dev"], **fate}


def composed(**more):
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
        "decisions": {"accept": 80, "reject": 20, "fix": 6},
        "meaning": meaning.stated(),
        "not_blind_assignments": 0,
        "method": {"selection": "five at random, seed 0"},
        **more,
    }


def rows(report, title):
    table = next(section for section in report.sections if section.title == title and isinstance(section, Table))
    return [list(row) for row in table.rows]


def the_report(**more):
    examples = {"Banks_10": [["BookHotel", "ReserveRoom", "GetHotel"]]}
    return compose_report(composed(**more), {"blank": "Nothing was written."}, examples)


def test_tables():
    report = the_report()
    became = rows(report, "What became of the answers")
    assert became[0] == ["Used", "used in one of the variants", "3,500", "68.3%"]
    assert became[4:] == [["Review", "held for a person to look at", "96", "1.9%"], ["All answers", "", "5,127", ""]]
    assert rows(report, "Why answers were not used")[:3] == [
        ["Prompt copy", "rejected", "", "276"],
        ["Blank", "rejected", "Nothing was written.", "112"],
        ["Unknown word", "review", "", "96"],
    ]
    services = {name: cells for name, *cells in rows(report, "Services")}
    assert services["Media_2"] == ["no answers", "train, dev", "13", "0", "0", "0", "0", "0", "0"]
    assert services["Weather_1"][:4] == ["needs more answers", "train, dev", "4", "32"]
    assert services["Trains_1"][:3] == ["composed in part", "train, dev", "2"]
    assert list(services) == ["Media_2", "Weather_1", "Trains_1", "Banks_10", "Banks_2"]
    measures = rows(report, "How far the variants are from the original")
    assert measures == [["v1", "0.29", "19.2"], ["v2", "0.42", "11.6"], ["Average", "0.36", "15.4"]]
    assert rows(report, "Some texts of Banks_10 and their variants") == [["BookHotel", "ReserveRoom", "GetHotel"]]
    reviewers = next(section for section in report.sections if section.title == "Reviewers")
    assert isinstance(reviewers, Text)
    assert reviewers.paragraphs == ["Decisions applied: accept 80, reject 20, fix 6."]
    assert rows(report, "Method") == [["Selection", "five at random, seed 0"]]


def test_a_run_in_which_nothing_is_left_to_do():
    report = the_report(
        answers=answers(used=60),
        services={"Banks_2": a_service(True, used=60)},
        reasons={"rejected": {}, "review": {}, "surplus": {}, "duplicate": {}},
        dead_letters=0,
        decisions={"accept": 0, "reject": 0, "fix": 0},
    )
    assert (report.headline, report.lead) == ("1 of 1 service composed", "Every element has the answers it needs.")
    assert not report.notes
    shown = page(report)
    assert "Why answers were not used" not in shown
    assert "Reviewers" not in shown


def test_a_run_without_answers():
    report = the_report(
        answers=answers(),
        services={"Banks_2": a_service(False, short=3)},
        variants={},
        average={},
        self_bleu=None,
        reasons={},
    )
    assert (report.headline, report.lead) == ("0 of 1 service composed", "3 elements need more good answers.")
    assert rows(report, "What became of the answers")[0][2:] == ["0", "–"]
    assert "How far the variants are from the original" not in [section.title for section in report.sections]
    page(report)


def test_what_is_missing_is_told_by_service():
    places = (("Media_2", "slot/title", "names", 4, 1), ("Media_2", "slot/genre", "descriptions", 4, 2),
              ("Weather_1", "slot/city", "names", 3, 1), ("Weather_1", "intent/GetWeather", "names", 5, 0),
              ("Trains_1", "service", "descriptions", 0, 0))  # fmt: skip
    short = [
        {"service_name": name, "element_id": f"{name}/{rest}", "task": task, "have": n, "need": 5, "in_review": held}
        for name, rest, task, n, held in places
    ]
    services = {
        "Media_2": {**a_service(False, surplus=9), "to_accept": 2},
        "Weather_1": {**a_service(False, surplus=9), "to_accept": 0},
        "Trains_1": {**a_service(False), "to_accept": 0},
    }
    assert missing_answers(short, services) == [
        "Media_2: 2 elements need 1 more answer each: name of title, description of genre; 3 answers to these are held "
        "for review: accepting 2 of them would complete it",
        "Weather_1: 1 element needs another answer, as a name would occur twice: name of GetWeather; 1 element needs 2 "
        "more answers: name of city; 1 answer to these is held for review, which is not enough",
    ]
