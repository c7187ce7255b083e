"""Charts: well-formed whatever the labels are, accessible, the numbers where they belong."""

import re
from functools import partial
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kit import cases, holding

from parapet.transforms.reports import svg
from parapet.transforms.reports.svg import Dot, Point, Series
from parapet.transforms.reports.text import number

LABEL = st.text(max_size=40)
VALUE = st.none() | st.floats(0, 1e6) | st.just(float("nan"))

two = partial(number, digits=2)


def texts(root, style):
    return [node.text or "" for node in root.iter("text") if node.get("class") == style]


def tips(root):
    return [node.find("title").text for node in root.iter() if node is not root and node.find("title") is not None]


@cases(
    "values ticks",
    ([0.01, 0.02], ["0%", "0.5%", "1%", "1.5%", "2%"]),
    ([-0.2, 0.1], ["-20%", "-10%", "0%", "10%"]),
    ([1.0], ["0%", "20%", "40%", "60%", "80%", "100%"]),
    ([None], ["0%", "0.02%"]),
)
def test_the_axis_has_round_numbers_and_zero(values, ticks):
    root = ElementTree.fromstring(svg.dots("k", "t", "d", [Dot(f"{value}", value) for value in values]))
    assert texts(root, "tick") == ticks


@given(st.lists(st.tuples(LABEL, VALUE), max_size=12), LABEL, LABEL)
@example([("v1", 5e-324)], "least of all floats", "t")
def test_any_label_and_value_gives_well_formed_svg(rows, name, title):
    categories, values = [label for label, _ in rows], tuple(value for _, value in rows)
    series = [Series(name, values), Series(name, values, "ref")]
    dots = [Dot(label, value, value, value, name) for label, value in rows]
    pairs = [Point(label, value or 0.0, value or 0.0, label[:1]) for label, value in rows]
    for draw in (
        partial(svg.scatter, "k", title, name, pairs, (name, title)),
        partial(svg.bars, "k", title, name, categories, series, two),
        partial(svg.dots, "k", title, name, dots),
    ):
        drawn = draw()
        root = ElementTree.fromstring(re.sub("[\ufffe\uffff]", "", drawn))
        assert drawn == draw()
        drawable = {"text", "rect", "line", "polygon", "circle"}
        assert {node.tag for node in root.iter()} <= {"svg", "title", "desc", *drawable}
        assert "nan" not in {value.lower() for node in root.iter() for value in node.attrib.values()}


def test_labels_cannot_leave_their_place():
    drawn = svg.bars("k", "</title><script>", '"><img>', ["<b>&"], [Series("<i>", (1.0,))], number)
    assert not holding(drawn, "<script>", "<img>", "<b>")
    assert "&lt;b&gt;&amp;" in drawn


def test_bars_are_as_long_as_their_values():
    series = [Series("n", (1.0, 2.0, 0.0, None))]
    root = ElementTree.fromstring(svg.bars("k", "t", "d", ["a", "b", "c", "d"], series, number))
    widths = [float(node.get("width")) for node in root.iter("rect")]
    assert (widths[1], widths[2], len(widths)) == (pytest.approx(2 * widths[0], abs=0.1), 0, 3)
    assert texts(root, "value") == ["1", "2", "0", "–"]


def test_points_lie_between_their_ticks_and_labels_where_there_is_room():
    points = [
        Point("Flights_4", 0.1, 0.2, "unseen"),
        Point("Media_1", 0.5, 0.8, "seen"),
        *(Point(f"Hotels_{i}", 0.45, 0.4, "unseen") for i in range(6)),
        Point("lost", float("nan"), 0.5, "seen"),
    ]
    root = ElementTree.fromstring(svg.scatter("k", "t", "d", points, ("accuracy", "sensitivity")))
    ticks = [node for node in root.iter("text") if node.get("class") == "tick"]
    across = {node.text: float(node.get("x")) for node in ticks if node.get("text-anchor") == "middle"}
    upwards = {node.text: float(node.get("y")) - 4 for node in ticks if node.get("text-anchor") == "end"}
    assert list(across) == ["0%", "10%", "20%", "30%", "40%", "50%"]
    assert list(upwards) == ["0%", "20%", "40%", "60%", "80%"]
    (square,) = [node for node in root.iter("rect") if node.find("title") is not None]
    assert square.find("title").text == "seen, Media_1: 50.0%, 80.0%"
    assert float(square.get("x")) + 4 == pytest.approx(across["50%"], abs=0.1)
    assert float(square.get("y")) + 4 == pytest.approx(upwards["80%"], abs=0.1)
    assert len(tips(root)) == len(points) - 1
    labels = texts(root, "value")
    assert labels[:2] == ["Flights_4", "Media_1"]
    assert 4 <= len(labels) < len(points) - 1  # some of those at the same place have no room
    assert texts(root, "label") == ["unseen", "seen", "sensitivity", "accuracy"]


def test_dots_lie_on_the_axis_within_their_intervals():
    dots = [Dot("SR-10", 0.4, 0.3, 0.6, "seen"), Dot("SR-10", 0.2, group="unseen"), Dot("SR-20", None, group="seen")]
    root = ElementTree.fromstring(svg.dots("k", "t", "d", dots))
    marks = [node for node in root.iter("text") if node.get("class") == "tick" and node.get("x")]
    ticks = {node.text: float(node.get("x")) for node in marks}
    assert list(ticks) == ["0%", "20%", "40%", "60%"]
    circles = [node for node in root.iter("circle") if node.find("title") is not None]
    assert float(circles[0].get("cx")) == pytest.approx(ticks["40%"], abs=0.1)
    [whisker] = [node for node in root.iter("line") if "whisker" in node.get("class")]
    assert float(whisker.get("x1")) == pytest.approx((ticks["20%"] + ticks["40%"]) / 2, abs=0.1)
    assert float(whisker.get("x2")) == pytest.approx(ticks["60%"], abs=0.1)
    assert tips(root) == ["seen, SR-10: 40.0% (30.0% to 60.0%)", "unseen, SR-10: 20.0%"]
    assert texts(root, "value") == ["40.0%", "20.0%", "–"]
    assert texts(root, "label") == ["seen", "unseen", "SR-10", "SR-20"]
