"""Schema variants (SGD-X, Lee et al. 2022): match their names with the original's, and rename dialogues to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from parapet.transforms.perturbation.options import PerturbationOptions
from parapet.transforms.running import options
from parapet.transforms.running.options import REQUIRED, option

if TYPE_CHECKING:
    from parapet.transforms.perturbation.base import Perturbation


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
    mapping: str = option(
        "auto",
        "how names are matched: by a mapping.json, or by position (default: auto, DIR/mapping.json if it exists)",
        metavar="auto|position|FILE",
        rare=True,
    )

    def make(self, **more: object) -> Perturbation:
        """Reads and matches the schemas. Raises InputError if no service of a variant matches."""
        from parapet.transforms.variants import matching
        from parapet.transforms.variants.perturbation import ApplyVariants

        variants = matching.find_variants(self.variants, self.variant_names)
        mapping = matching.find_mapping(self.variants, self.mapping)
        plan = matching.make_plan(self.root, variants, mapping)
        matching.check_matched(
            [variant for split in plan.splits.values() for variant in split.variants], plan.problems, self.max_bad
        )
        return ApplyVariants(plan, "position" if mapping is None else "mapping")

    @property
    def variant_names(self) -> list[str]:
        """The variants to use; empty for all."""
        return [name for name in self.variant.split(",") if name]
