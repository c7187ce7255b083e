"""The folder of a small tracker, and the tracker that is loaded from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import saving
from parapet.evaluation.models.saving import MODEL
from parapet.schemas.errors import InputError
from parapet.transforms import files

if TYPE_CHECKING:
    from parapet.evaluation.models.dst.tiny.tracking import Tracking

FORMAT = 1
NAME = "tiny_dst"
BUCKETS = 8192  # of the tables of embeddings
LARGEST = 1024  # size of an embedding


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      buckets: of the tables of embeddings.
      size: of an embedding.
    """

    model: str = NAME
    format: int = FORMAT
    buckets: int
    size: int


def read_card(folder: str) -> Card:
    """What is in a folder. Raises InputError where no such model is there, or the file is damaged."""
    card = saving.read_card(folder, NAME, Card, FORMAT)
    if not (1 <= card.buckets <= BUCKETS and 1 <= card.size <= LARGEST):  # or memory would be asked for without end
        raise InputError("says sizes that no such model has: train it again", files.join(folder, MODEL))
    return card


def check(folder: str) -> None:
    """Looks at a folder. Raises InputError where no such model is there, or it is damaged."""
    load(folder, "cpu", 1)  # it is small


def load(folder: str, device: str, batch: int) -> Tracker:
    """The model in a folder, ready to predict.

    Args:
      folder: as ``parapet train tiny_dst`` wrote it.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: dialogues at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    from parapet.evaluation.models.devices import device_of
    from parapet.evaluation.models.dst.tiny.net import TinyNet
    from parapet.evaluation.models.dst.tiny.steps import Reader
    from parapet.evaluation.models.dst.tiny.tracking import Tracking

    card = read_card(folder)
    net = TinyNet(card.buckets, card.size)
    saving.load_weights(net, folder)
    return Tracker(Tracking(net.double().eval(), Reader(card.buckets), device_of(device)), batch)


class Tracker:
    """What ``predict`` asks.

    Args:
      tracking: the net with what it reads by.
      batch: dialogues at a time.
    """

    def __init__(self, tracking: Tracking, batch: int) -> None:
        self.tracking, self.batch = tracking, batch

    def predict(self, batch: Sequence[Example]) -> list[State]:
        """A state for each example, from its history alone: examples of one dialogue are merely read together."""
        from parapet.evaluation.models.devices import enough_memory

        with enough_memory(f"lower --batch_size, which is {self.batch}"):
            return self.tracking.states(batch, self.batch)
