"""The page of a training: the weights' row stands out, text is escaped."""

from parapet.evaluation.models.training import Measurement, TrainedModel, page_of


def measured(step, dev, best, loss, epoch=1):
    return Measurement(epoch=epoch, step=step, learning_rate=1e-4, loss=loss, dev=dev, best=best)


def trained(log):
    return TrainedModel({}, log, "joint goal accuracy", 222_903_552, {})


def test_a_training_by_epochs_names_its_epoch():
    page = page_of("t5dst", {"epochs": 3, "steps": None}, trained([measured(7, 0.5, True, 1.0, epoch=2)]))
    assert "on dev 50.0% after epoch 2" in page
