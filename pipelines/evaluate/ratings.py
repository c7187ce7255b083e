"""``parapet evaluate --task ratings``: compares people's judgements of generated utterances with the metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parapet.pipelines import crowd_answers
from parapet.pipelines.evaluate import Evaluation
from parapet.transforms.core import options

if TYPE_CHECKING:
    from parapet.evaluation.ratings import task


class Ratings(Evaluation):
    """``parapet evaluate --task ratings``."""

    name = "evaluate --task ratings"
    description = """\
Reads whether crowd workers find generated utterances faithful to their dialogue acts ('parapet hits --task ratings'):
the majority, the agreement of the workers (Fleiss' kappa), and how far the metric agrees with them."""
    example = "  parapet evaluate --task ratings --hits my_ratings --responses my_crowd --output my_judgements"
    hits: str = options.folder("output of 'parapet hits --task ratings'", default=options.REQUIRED)
    responses: list[str] = crowd_answers.responses(required=True)
    encoding: str = crowd_answers.encoding()
    seed: str = options.seed("the bootstrap")

    def task(self) -> task.Ratings:
        """Makes the task."""
        from parapet.evaluation.ratings.task import Ratings

        sources = crowd_answers.check_answers(self.responses, [], self.encoding)
        return self.settings_of(Ratings, responses=tuple(sources.responses))


COMMAND = Ratings
