"""Charts: well-formed whatever the labels are, accessible, the numbers where they belong."""

import re
from functools import partial
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parapet.transforms.reports import svg
from parapet.transforms.reports.svg import Curve, Dot, Point, Series
from parapet.transforms.reports.text import number, percent

LABEL = st.text(max_size=40)
VALUE = st.none() | st.floats(0, 1e6) | st.just(float("nan"))

two = partial(number, digits=2)


def texts(root, style):
    return [node.text or "" for node in root.iter("text") if node.get("class") == style]


def tips(root):
    return [node.find("title").text for node in root.iter() if node is not root and node.find("title") is not None]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.01, 0.02], ["0%", "0.5%", "1%", "1.5%", "2%"]),
        ([-0.2, 0.1], ["-20%", "-10%", "0%", "10%"]),
        ([1.0], ["0%", "20%", "40%", "60%", "80%", "100%"]),
        ([None], ["0%", "0.02%"]),
    ],
)
def test_the_axis_has_round_numbers_and_zero(values, ticks):
    root = ElementTree.fromstring(svg.dots("k", "t", "d", [Dot(f"{value}", value) for value in values]))
    assert texts(root, "tick") == ticks


def test_curves_rise_with_their_values():
    drawn = [Curve("sample", [(-5, 0.7), (0, 0.4), (20, 0.02)]), Curve("other", [(0, 0.5)])]
    root = ElementTree.fromstring(svg.curves("k", "t", "d", drawn, ("noise, dB", "errors"), percent))
    first = next(root.iter("polyline")).get("points").split()
    xs, ys = zip(*(map(float, point.split(",")) for point in first), strict=True)
    assert xs[1] - xs[0] == pytest.approx((xs[2] - xs[1]) / 4, abs=0.2)
    assert ys[0] < ys[1] < ys[2]  # downwards
    assert texts(root, "label") == ["sample", "other", "errors", "noise, dB"]
    assert texts(root, "tick")[-6:] == ["-5", "0", "5", "10", "15", "20"]
    assert tips(root)[0] == "sample, -5: 70.0%"


@given(st.lists(st.tuples(LABEL, VALUE), max_size=12), LABEL, LABEL)
@example([("v1", 5e-324)], "least of all floats", "t")
def test_any_label_and_value_gives_well_formed_svg(rows, name, title):
    categories, values = [label for label, _ in rows], tuple(value for _, value in rows)
    series = [Series(name, values), Series(name, values, "ref")]
    dots = [Dot(label, value, value, value, name) for label, value in rows]
    points = [Curve(name, [(i, value) for i, value in enumerate(values) if value is not None])]
    pairs = [Point(label, value or 0.0, value or 0.0, label[:1]) for label, value in rows]
    for draw in (
        partial(svg.scatter, "k", title, name, pairs, (name, title)),
        partial(svg.bars, "k", title, name, categories, series, two),
        partial(svg.dots, "k", title, name, dots),
        partial(svg.curves, "k", title, name, points, (name, title), two),
    ):
        drawn = draw()
        root = ElementTree.fromstring(re.sub("[\ufffe\uffff]", "", drawn))
        assert drawn == draw()
        drawable = {"text", "rect", "line", "polyline", "polygon", "circle"}
        assert {node.tag for node in root.iter()} <= {"svg", "title", "desc", *drawable}
        assert "nan" not in {value.lower() for node in root.iter() for value in node.attrib.values()}


def test_labels_cannot_leave_their_place():
    drawn = svg.bars("k", "</title><script>", '"><img>', ["<b>&"], [Series("<i>", (1.0,))], number)
    assert "<script>" not in drawn
    assert "<img>" not in drawn
    assert "<b>" not in drawn
    assert "&lt;b&gt;&amp;" in drawn
