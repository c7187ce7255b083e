"""The page of a training: the curves are those of the log, the weights' row stands out, text is escaped."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parapet.evaluation.models.training import Measurement, TrainedModel, losses_of, page_of


def measured(step, dev, best, losses, epoch=1):
    loss = sum(losses) / len(losses)
    return Measurement(epoch=epoch, step=step, learning_rate=1e-4, loss=loss, losses=losses, dev=dev, best=best)


def trained(log):
    return TrainedModel({}, log, next(row for row in reversed(log) if row.best), "joint goal accuracy", 222_903_552, {})


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
    labels = re.findall(r'class="tick"[^>]*>([\d.]+%)', page_of("x", {}, trained([measured(7, 0.0013, True, [1.0])])))
    assert len(labels) == len(set(labels)) == 5


def test_a_training_by_epochs_names_its_epoch():
    page = page_of("tiny_dst", {"epochs": 3, "steps": None}, trained([measured(7, 0.5, True, [1.0], epoch=2)]))
    assert "on dev 50.0% after epoch 2" in page


LOG = [measured(4, 0.25, True, [8.0, 6.0]), measured(8, 0.75, True, [4.0, 2.0]), measured(10, 0.5, False, [1.0])]


def test_the_loss_is_where_its_steps_are():
    assert losses_of(LOG) == [(1, 8.0), (3, 6.0), (5, 4.0), (7, 2.0), (9, 1.0)]
