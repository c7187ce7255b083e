"""The pages of compose: the answers to review, and what is told of those that are missing."""

import csv
import io
import json
from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.schemas.decisions import restore
from parapet.transforms.crowd import report as crowd_report
from parapet.transforms.crowd.report import ReviewItem, missing_answers, review_order, review_pages, review_sheet

EXPLANATIONS = {"oov": "Has a word that is in no dictionary.", "near_original": "Very near the <original>."}
HOSTILE = [
    *("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\" autofocus onfocus='alert(1)"),
    *("{{ 7 * 7 }} {% raw %} ${x} <!-- ]]>", "\u202egnp.exe\u202c \u200b\u0007\0", '\'=HYPERLINK("http://x")'),
    *("a\r\nb\u2028c", "\ud800 half"),
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


def sheet(items):
    text = b"".join(review_sheet(items, EXPLANATIONS)).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))


@given(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
def test_hostile_texts_stay_texts(prompt, original, text, canonical, other):
    plain = Reader(only_page([item(neighbours=[("other", "used")], text="typed", canonical="answer")]))
    texts = {"prompt": prompt, "original": original, "text": text, "canonical": canonical or "x"}
    reader = Reader(only_page([item(**texts, neighbours=[(other, "used")])], {"oov": prompt}))
    # "typed as" stands only where something else is emitted.
    assert sorted(reader.tags + ([] if text not in ("", canonical or "x") else ["p", "bdi"])) == sorted(plain.tags)
    assert not [a for a in reader.attributes if a[1].startswith("on") or a[1] in ("src", "autofocus")]
    shown = "".join(data for _, attrs, data in reader.texts if attrs.get("class", "").startswith("answer"))
    assert shown == crowd_report.visible(canonical or "x") + "\n"
    assert reader.json()["items"] == [["A000:slot_2", canonical or "x"]]


@given(TEXTS, TEXTS, TEXTS)
def test_hostile_texts_stay_cells(prompt, canonical, other):
    [row] = sheet([item(prompt=prompt, canonical=canonical or "x", neighbours=[(other, "used")])])
    assert restore(row["prompt"]) == crowd_report.visible(prompt).encode("utf-8", "replace").decode()
    assert all(not cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row.values())


DISPOSED = st.sampled_from(["used", "rejected", "review"])
ANSWERS = st.tuples(st.sampled_from("abcdefgh") | st.integers(0, 60).map(str), DISPOSED)


@given(st.lists(ANSWERS, max_size=60), st.data())
def test_neighbours_are_those_of_a_list_of_all_others(answers, data):
    own = data.draw(st.sampled_from([(*answer, i) for i, answer in enumerate(answers)] or [("x", "review", -1)]))
    answers += [own[:2]] if own[2] < 0 else []
    others = {answer for i, answer in enumerate(answers) if i != own[2] % len(answers) and answer[1] != "rejected"}
    ranked = sorted(others, key=lambda answer: (answer[1] != "used", answer[1], answer[0]))
    if own[1] != "rejected":
        shown, more = crowd_report.neighbours(answers, own[:2])
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
    one, same, other = (Reader(only_page([item(canonical=text)])).json()["key"] for text in "aab")
    assert one == same != other


def test_nothing_to_review_and_many_neighbours():
    page = only_page([]).decode()
    assert ("There is nothing to review" in page, "<script" in page) == (True, False)
    assert "and 70 more" in only_page([item(neighbours=[("other", "used")], more_neighbours=70)]).decode()


def test_what_is_missing_is_told_by_service():
    places = (("Media_2", "slot/title", "names", 4, 1), ("Media_2", "slot/genre", "descriptions", 4, 2),
              ("Weather_1", "slot/city", "names", 3, 1), ("Weather_1", "intent/GetWeather", "names", 5, 0),
              ("Trains_1", "service", "descriptions", 0, 0))  # fmt: skip
    short = [
        {"service_name": name, "element_id": f"{name}/{rest}", "task": task, "have": n, "need": 5, "in_review": held}
        for name, rest, task, n, held in places
    ]
    numbers = (("Media_2", 9, 2), ("Weather_1", 9, 0), ("Trains_1", 0, 0))
    services = {name: {"answers": {"total": total}, "to_accept": accept} for name, total, accept in numbers}
    assert missing_answers(short, services) == [
        "Media_2: 2 elements need 1 more answer each: name of title, description of genre; 3 answers to these are held "
        "for review: accepting 2 of them would complete it",
        "Weather_1: 1 element needs another answer, as a name would occur twice: name of GetWeather; 1 element needs 2 "
        "more answers: name of city; 1 answer to these is held for review, which is not enough",
    ]
