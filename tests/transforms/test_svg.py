"""Plots: well-formed whatever the labels are, accessible, the numbers where they belong."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parapet.transforms import svg

LABEL = st.text(max_size=12)
VALUE = st.none() | st.floats(0, 1e6) | st.just(float("nan"))


def texts(root: ElementTree.Element, style: str) -> list[str]:
    return [node.text or "" for node in root.iter("text") if node.get("class") == style]


@pytest.mark.parametrize("draw", [svg.lines, svg.bars])
def test_plots_show_categories_and_values(draw) -> None:  # type: ignore[no-untyped-def]
    series = [svg.Series("here", (0.25, None, 0.5)), svg.Series("there", (0.1, 0.2, 0.3), "s2")]
    root = ElementTree.fromstring(draw("k", "Title", "What is seen", ["v1", "v2", "v3"], series, svg.number(2)))
    assert root.tag == "svg"
    assert root.get("role") == "img"
    labelled = [root.find(f"*[@id='{key}']").text for key in root.get("aria-labelledby").split()]
    assert labelled == ["Title", "What is seen"]
    shown = {node.text for node in root.iter("text")}
    assert {"v1", "v2", "v3", "here", "there", "0.25", "0.50", "0.10", "0.20", "0.30"} <= shown
    tips = [node.find("title").text for node in root.iter() if node.find("title") is not None and node is not root]
    assert "there, v2: 0.20" in tips
    assert "here, v2: 0.20" not in tips


def test_bars_are_as_long_as_their_values() -> None:
    series = [svg.Series("n", (1.0, 2.0, 0.0, None))]
    root = ElementTree.fromstring(svg.bars("k", "t", "d", ["a", "b", "c", "d"], series, svg.number(0)))
    widths = [float(node.get("width")) for node in root.iter("rect")]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.1)
    assert widths[2] == 0
    assert len(widths) == 3
    assert texts(root, "value") == ["1", "2", "0", "–"]


def test_lines_rise_with_their_values_and_references_carry_no_numbers() -> None:
    series = [svg.Series("here", (1.0, 3.0)), svg.Series("published", (2.0, 2.0), "ref")]
    root = ElementTree.fromstring(svg.lines("k", "t", "d", ["v1", "v2"], series, svg.number(1)))
    here, published = (node.get("points").split() for node in root.iter("polyline"))
    assert float(here[0].split(",")[1]) > float(here[1].split(",")[1])
    assert published[0].split(",")[1] == published[1].split(",")[1]
    assert texts(root, "value") == ["1.0", "3.0"]
    assert texts(root, "tick") == ["0", "1", "2", "3", "4", "v1", "v2"]


def test_stacked_bar_fills_its_width() -> None:
    parts = [svg.Part("used", 6, "used"), svg.Part("none", 0, "surplus"), svg.Part("bad", 2, "rejected")]
    root = ElementTree.fromstring(svg.stacked("k", "Answers", "6 and 2", parts))
    assert [(node.get("x"), node.get("width"), node.get("class")) for node in root.iter("rect")] == [
        ("0%", "75%", "bar used"),
        ("75%", "25%", "bar rejected"),
    ]
    assert [node.find("title").text for node in root.iter("rect")] == ["used: 6 (75.0%)", "bad: 2 (25.0%)"]
    assert not list(ElementTree.fromstring(svg.stacked("k", "t", "d", [svg.Part("a", 0, "s1")])).iter("rect"))


@given(st.lists(st.tuples(LABEL, VALUE), max_size=12), LABEL, LABEL)
@example([("v1", 5e-324)], "least of all floats", "t")
def test_any_label_and_value_gives_well_formed_svg(rows: list[tuple[str, float | None]], name: str, title: str) -> None:
    categories, values = [label for label, _ in rows], tuple(value for _, value in rows)
    for draw in (svg.lines, svg.bars):
        series = [svg.Series(name, values), svg.Series(name, values, "ref")]
        drawn = draw("k", title, name, categories, series, svg.number(1))
        root = ElementTree.fromstring(re.sub("[\ufffe\uffff]", "", drawn))
        assert drawn == draw("k", title, name, categories, series, svg.number(1))
        assert {node.tag for node in root.iter()} <= {
            "svg",
            "title",
            "desc",
            "text",
            "rect",
            "line",
            "polyline",
            "circle",
        }
        assert "nan" not in {value.lower() for node in root.iter() for value in node.attrib.values()}


def test_labels_cannot_leave_their_place() -> None:
    drawn = svg.bars("k", "</title><script>", '"><img>', ["<b>&"], [svg.Series("<i>", (1.0,))], svg.percent)
    assert "<script>" not in drawn
    assert "<img>" not in drawn
    assert "<b>" not in drawn
    assert "&lt;b&gt;&amp;" in drawn


def test_formats() -> None:
    assert svg.number(2)(1234.5) == "1,234.50"
    assert svg.percent(0.646) == "65%"
