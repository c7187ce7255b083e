"""Replace slot values by values that do not occur in training, consistently through each dialogue."""

from parapet.transforms.perturbation import Command, Option

COMMAND = Command(
    "parapet.transforms.perturbations.entities.perturbation:UnseenEntities",
    "Replaces slot values by others that do not occur in training: OUT/test/dialogues_001.json, and "
    "a row for every value in OUT/replacements.",
    """\
  parapet unseen_entities --output unseen                        # the sample's test dialogues
  parapet unseen_entities --sgd sgd --split dev --training other --output unseen
  parapet unseen_entities --sgd sgd --values gazetteer.csv --output unseen""",
    {
        "input": (
            Option(
                "training",
                "corpus whose values in the split train are not used (default: --sgd, all of it without such a split)",
                "ROOT",
                reads=True,
                apart=True,
            ),
        ),
        "values": (
            Option(
                "values",
                "generated, or a CSV file slot_or_kind,value",
                "SOURCE",
                default="generated",
                apart=True,
            ),
            Option(
                "least_changed",
                "fail if fewer of the dialogues with open slots change",
                "X",
                default=0.5,
                type=float,
                rare=True,
            ),
        ),
    },
    done="used",
)
