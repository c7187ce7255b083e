"""Replace slot values by values that do not occur in training, consistently through each dialogue."""

from parapet.transforms.core.options import INPUT, option
from parapet.transforms.perturb.options import PerturbationOptions


class UnseenEntityOptions(PerturbationOptions):
    """The options of unseen values."""

    target = "parapet.transforms.perturb.entities.perturbation:UnseenEntities"
    description = (
        "Replaces slot values by others that do not occur in training: OUT/test/dialogues_001.json, and "
        "a row for every value in OUT/replacements."
    )
    example = """\
  parapet unseen_entities --output unseen                        # the sample's test dialogues
  parapet unseen_entities --sgd sgd --split dev --training other --output unseen
  parapet unseen_entities --sgd sgd --values gazetteer.csv --output unseen"""
    group = "values"
    done = "used"

    training: str | None = option(
        None,
        "corpus whose values in the split train are not used (default: --sgd, all of it without such a split)",
        group=INPUT,
        metavar="ROOT",
        reads=True,
    )
    values: str = option("generated", "generated, or a CSV of names: slot_or_kind,value", metavar="SOURCE", path=True)
    least_changed: float = option(0.5, "fail if fewer of the dialogues with open slots change", rare=True)
