"""Predictions of the model, see :mod:`parapet.evaluation.models.systems.inference`."""

from __future__ import annotations

from parapet.evaluation.models.soloist.answering import Soloist, load
from parapet.evaluation.models.soloist.decoding import Sampling
from parapet.evaluation.models.systems import inference


class Job(inference.Job, frozen=True, kw_only=True):
    """What is predicted.

    Attributes:
      sampling: how the tokens of responses are chosen.
    """

    sampling: Sampling

    def load(self) -> Soloist:
        """The model, with the database of the reference."""
        return load(self.folder, self.database(), self.device, self.batch_size, self.sampling)
