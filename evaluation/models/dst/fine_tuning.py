"""How the trackers are trained that fine-tune a checkpoint."""

from __future__ import annotations

from parapet.evaluation.models import training
from parapet.evaluation.models.training import Schedule


class FineTuning(training.Settings, frozen=True, kw_only=True):
    """How a checkpoint is fine-tuned on dialogue states.

    Attributes:
      warmup: the share of all steps over which the learning rate rises; from there it falls to nothing.
      length: tokens of an input at most.
      negatives: the share of the inputs without a value that an epoch has, drawn anew for each.
      dev_frames: so many frames of dev at most choose the best epoch, drawn; 0 for all.
    """

    warmup: float
    length: int
    negatives: float
    dev_frames: int

    def plan(self) -> Schedule:
        """For the training loop."""
        return self.schedule(self.warmup, decay=True, clip=1.0)
