"""The page of a training: the curves are those of the log, the weights' row stands out, text is escaped."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parapet.evaluation.models.training import Measurement, TrainedModel, losses_of, page_of


def measured(step: int, dev: float, best: bool, losses: list[float], epoch: int = 1) -> Measurement:
    loss = sum(losses) / len(losses)
    return Measurement(epoch=epoch, step=step, learning_rate=1e-4, loss=loss, losses=losses, dev=dev, best=best)


def trained(log: list[Measurement]) -> TrainedModel:
    best = next(row for row in reversed(log) if row.best)
    return TrainedModel({}, log, best, "joint goal accuracy", 222_903_552, {})


LOG = [measured(4, 0.25, True, [8.0, 6.0]), measured(8, 0.75, True, [4.0, 2.0]), measured(10, 0.5, False, [1.0])]


def test_the_loss_is_where_its_steps_are():
    assert losses_of(LOG) == [(1, 8.0), (3, 6.0), (5, 4.0), (7, 2.0), (9, 1.0)]


def test_the_page_has_the_numbers_of_the_log():
    page = page_of("t5dst", {"preset": "sgdx", "steps": 10, "epochs": None, "seed": "<i>"}, trained(LOG))
    assert "t5dst: joint goal accuracy on dev 75.0% after step 8" in page
    loss, dev, rate = re.findall(r"<desc[^>]*>([^<]*)</desc>", page)
    assert loss == "mean loss: 1 8.00, 3 6.00, 5 4.00, 7 2.00, 9 1.00"
    assert dev == "joint goal accuracy: 4 25.0%, 8 75.0%, 10 50.0%"
    assert rate == "learning rate: 4 0.000100, 8 0.000100, 10 0.000100"
    lines = [points.split() for points in re.findall(r'<polyline[^>]*points="([^"]*)"', page)]
    assert [len(points) for points in lines] == [5, 3, 3]
    heights = [float(point.partition(",")[2]) for point in lines[0]]
    assert heights == sorted(heights)  # the loss falls: down is more
    assert "222,903,552" in page
    assert "--preset" in page
    assert "--epochs" not in page
    assert "&lt;i&gt;" in page
    assert "<i>" not in page


def test_a_training_by_epochs_names_its_epoch():
    page = page_of("tiny_dst", {"epochs": 3, "steps": None}, trained([measured(7, 0.5, True, [1.0], epoch=2)]))
    assert "on dev 50.0% after epoch 2" in page


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.floats(0, 1))
def test_any_numbers_make_a_page(losses, dev):
    page = page_of("x", {}, trained([measured(len(losses), dev, True, losses)]))
    assert page.count("<svg") == 3
    assert "nan" not in page.partition("<svg")[2].partition("</svg>")[0]


@pytest.mark.parametrize("rate", [1e-7, 2e-5, 0.01, 3.0])
def test_small_learning_rates_are_readable(rate):
    row = Measurement(epoch=1, step=5, learning_rate=rate, loss=1.0, losses=[1.0], dev=0.5, best=True)
    *_, described = re.findall(r"<desc[^>]*>([^<]*)</desc>", page_of("x", {}, trained([row])))
    assert float(described.split()[-1]) == pytest.approx(rate)


def test_small_shares_have_labels_of_their_own():
    page = page_of("x", {}, trained([measured(7, 0.0013, True, [1.0])]))
    labels = re.findall(r'class="tick"[^>]*>([\d.]+%)', page)
    assert len(labels) == len(set(labels)) == 5
