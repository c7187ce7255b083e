"""Predictions of the model, see :mod:`parapet.evaluation.models.systems.inference`."""

from __future__ import annotations

from parapet.evaluation.models.damd.answering import Damd, load
from parapet.evaluation.models.systems import inference


class Job(inference.Job, frozen=True, kw_only=True):
    """What is predicted."""

    def load(self) -> Damd:
        """The model, with the database of the reference."""
        return load(self.folder, self.database(), self.device, self.batch_size)
