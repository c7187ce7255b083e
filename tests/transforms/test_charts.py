"""Charts: the marks are where their numbers are, and the sentence says what the chart shows."""

from hypothesis import example, given
from hypothesis import strategies as st
from kit import cases

from parapet.transforms.reports import charts
from parapet.transforms.reports.charts import Bars, Dot, Dots, Point, Scatter
from parapet.transforms.reports.report import Report, page

LABEL = st.text(max_size=40)
VALUE = st.none() | st.floats(0, 1e6) | st.just(float("nan"))


@cases(
    "values ticks",
    ([0.01, 0.02], ["0%", "0.5%", "1%", "1.5%", "2%"]),
    ([-0.2, 0.1], ["-20%", "-10%", "0%", "10%"]),
    ([1.0], ["0%", "20%", "40%", "60%", "80%", "100%"]),
    ([None], ["0%"]),
)
def test_the_axis_has_round_numbers_and_zero(values, ticks):
    drawn = charts.plot(Dots(title="", dots=[Dot(f"{value}", value) for value in values]))
    assert [label for _, label in drawn.axis.ticks()][: len(ticks)] == ticks


@given(st.lists(st.tuples(LABEL, VALUE), max_size=12), LABEL)
@example([("v1", 5e-324)], "least of all floats")
def test_any_label_and_value_can_be_drawn(rows, name):
    dots = [Dot(label, value, value, value, name) for label, value in rows]
    points = [Point(label, value or 0.0, value or 0.0, label[:1]) for label, value in rows]
    drawn = [Dots(title=name, dots=dots), Bars(title=name, dots=dots)]
    drawn.append(Scatter(title=name, x_label=name, y_label=name, points=points))
    shown = page(Report(command="x", title="x", headline="x", sections=drawn))
    assert ": nan%" not in shown


def test_bars_are_as_long_as_their_values():
    drawn = charts.plot(Bars(title="", dots=[Dot("a", 1), Dot("b", 2), Dot("c", 0), Dot("d", None)]))
    marks = [mark for [mark] in drawn.rows.values()]
    assert [(mark.place, mark.text) for mark in marks] == [(50, "1"), (100, "2"), (0, "0"), (0, "–")]
    assert [mark.known for mark in marks] == [True, True, True, False]


def test_points_have_labels_where_there_is_room():
    points = [
        Point("Flights_4", 0.1, 0.2, "unseen"),
        Point("Media_1", 0.5, 0.8, "seen"),
        Point("Hotels_1", 0.5, 0.8, "unseen"),
        Point("lost", float("nan"), 0.5, "seen"),
    ]
    drawn = charts.scatter_plot(Scatter(title="", x_label="", y_label="", points=points))
    shown = [(mark.text, mark.place, height) for mark, height in drawn.marks]
    assert shown == [("Flights_4", 20, 25), ("Media_1", 100, 100), ("", 100, 100)]
    assert drawn.marks[2][0].tip == "unseen, Hotels_1: 50.0%, 80.0%"


def test_dots_lie_on_the_axis_within_their_intervals():
    dots = [Dot("SR-10", 0.4, 0.3, 0.6, "seen"), Dot("SR-10", 0.2, group="unseen"), Dot("SR-20", None, group="seen")]
    drawn = charts.plot(Dots(title="", dots=dots, references={"unseen": 0.3}))
    first, second = drawn.rows["SR-10"]
    assert (first.low, first.place, first.high) == (50, 66.67, 100)
    assert (first.tip, second.tip) == ("seen, SR-10: 40.0% (30.0% to 60.0%)", "unseen, SR-10: 20.0%")
    assert (drawn.groups, drawn.references) == (["seen", "unseen"], [(1, 50)])


def test_the_chart_of_sets_says_what_costs_most():
    rows = [("original", "ours", 0.631, 0.6, 0.66), ("v4", "ours", 0.5, 0.4, 0.6), ("v5", "ours", 0.31, 0.3, 0.32)]
    drawn = charts.sets_chart("JGA", rows)
    assert drawn.note.startswith("On the set that costs it most, ours falls from 63.1% to 31.0% (v5).")
    assert drawn.references == {"ours": 0.631}
    both = charts.sets_chart("JGA", [*rows, ("original", "theirs", 0.2, None, None), ("v4", "theirs", 0.1, None, None)])
    assert "ours falls from 63.1% to 31.0% (v5), theirs from 20.0% to 10.0% (v4)." in both.note
    assert not charts.sets_chart("JGA", rows[:1]).note
