"""Schema variants (SGD-X, Lee et al. 2022): match their names with the original's, and rename dialogues to them."""

from typing import ClassVar

from parapet.transforms.core import options
from parapet.transforms.core.options import REQUIRED, option
from parapet.transforms.perturb.options import PerturbationOptions


class VariantOptions(PerturbationOptions):
    """The options of dialogues under variants' names."""

    target = "parapet.transforms.variants.perturbation:ApplyVariants"
    description = (
        "Writes the dialogues of a corpus under the names of each schema variant, as SGD-X does: "
        "OUT/v1/test/dialogues_001.json and so on. With --tasks, tasks of BFCL and the calls that they expect."
    )
    example = (
        "  parapet rewrite --sgd sgd --variants sgd/sgd_x/data --output sgd_x_dialogues\n"
        "  parapet rewrite --tasks BFCL_v4_multiple.json --variants tool_variants --output renamed"
    )
    group = options.INPUT
    records = "dialogues of a variant"
    done = "rewritten"
    without: ClassVar[tuple[str, ...]] = ("messages", "split", "dry_run", "seed")

    variants: str = option(
        REQUIRED, "schema variants, or tool variants: output of 'compose', or sgd_x/data", metavar="DIR", reads=True
    )
    tasks: list[str] = option(
        [],
        "instead of --sgd: tasks of BFCL, JSON lines; expected calls in possible_answer/ beside them",
        metavar="FILE",
        reads=True,
    )
    variant: str = options.variant()

    @property
    def variant_names(self) -> list[str]:
        """The variants to use; empty for all."""
        return [name for name in self.variant.split(",") if name]
