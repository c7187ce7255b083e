"""Schema variants (SGD-X, Lee et al. 2022): match their names with the original's, and rename dialogues to them."""

from parapet.transforms.perturbation import REQUIRED, Command, Option

COMMAND = Command(
    "parapet.transforms.variants.perturbation:ApplyVariants",
    "Writes the dialogues of a corpus under the names of each schema variant, as SGD-X does: "
    "OUT/v1/test/dialogues_001.json and so on. With --tasks, tasks of BFCL and the calls that they expect.",
    "  parapet rewrite --sgd sgd --variants sgd/sgd_x/data --output sgd_x_dialogues\n"
    "  parapet rewrite --tasks BFCL_v4_multiple.json --variants tool_variants --output renamed",
    {
        "input": (
            Option(
                "variants",
                "schema variants, or tool variants: output of 'compose', or sgd_x/data",
                "DIR",
                default=REQUIRED,
                reads=True,
                apart=True,
            ),
            Option(
                "tasks",
                "instead of --sgd: tasks of BFCL, JSON lines; expected calls in possible_answer/ beside them",
                "FILE",
                many=True,
                reads=True,
            ),
            Option("variant", "variants to use, such as v1,v3 (default: all)", "LIST", default="", rare=True),
            Option(
                "mapping",
                "how names are matched: by a mapping.json, or by position (default: "
                "auto, DIR/mapping.json if it exists)",
                "auto|position|FILE",
                default="auto",
                rare=True,
            ),
        ),
    },
    records="dialogues of a variant",
    done="rewritten",
    has_split=False,
    has_seed=False,
)
