"""The cases whose records are dialogues: every perturbation, and each pipeline that reads a corpus."""

from __future__ import annotations

from pathlib import Path

from fuzzing.cases import RELEASE, Case, dialogues, is_dialogue

HEARD = ["--language_model", "own", "--longest", "14", "--wer", "0.4", "--snr", "25,-15"]

# Every perturbation that is built in, with its flags; the sets have a folder each, or are the output itself.
PERTURBATIONS: dict[str, tuple[list[str], str]] = {
    "typos": ([], "typos"),
    "verbose": ([], "verbose"),
    "simple": ([], "simple"),
    "paraphrase": ([], "paraphrase"),
    "unseen_entities": (["--categorical", "replace"], "."),
    "ood": (["--rates", "0.1,0.4", "--place", "append"], "ood-*"),
    "speech_errors": (HEARD, "SR-*"),
}


def _release(folder: Path, _: Path) -> None:
    (folder / "release.toml").write_text(RELEASE)


def _same_predictions(folder: Path, _: Path) -> None:
    """The references as predictions."""
    target = folder / "predictions" / "test"
    target.mkdir(parents=True)
    for path in (folder / "corpus/test").glob("dialogues_*.json"):
        (target / path.name).write_bytes(path.read_bytes())


CASES: list[Case] = [
    *(
        dialogues(["perturb", name, *flags], sets=sets, name=f"perturb {name}")
        for name, (flags, sets) in PERTURBATIONS.items()
    ),
    dialogues(["rewrite", "--variants", "{shared}/variants"], sets="v*"),
    dialogues(["language_variations", "--env", "0.5"], sets="*"),
    dialogues(["speech_errors", *HEARD], sets="SR-*"),
    dialogues(["unseen_entities"], sets="."),
    dialogues(["unseen_entities", "--values", "corpus"], split="train", name="unseen_entities training"),
    dialogues(["ood", "--rates", "0.1,0.5"], sets="ood-*"),
    dialogues(["few_shot", "--sizes", "2", "--test", "2"], split="train"),
    dialogues(["few_shot", "--sizes", "2", "--test", "2", "--multi_domain"], name="few_shot multi_domain"),
    dialogues(["unseen_services", "--test_seen"], split="train"),
    dialogues(["unseen_services", "--by", "service"], name="unseen_services service"),
    dialogues(
        [
            "augment",
            "--oracle",
            "{shared}/variants",
            "--sets",
            "oracle,corrupted",
            "--corruptions",
            "replace,order,both",
        ],
        split="train",
    ),
    dialogues(
        ["hits", "--task", "rewrites", "--split", "test", "--turns", "9"],
        corpus="--dialogues",
        max_bad=False,
        name="hits rewrites",
        passes=is_dialogue,
    ),
    dialogues(
        ["compose_variations", "--responses", "{shared}/crowd/rewrites.csv"],
        max_bad=False,
        name="compose_variations dialogues",
    ),
    dialogues(
        ["evaluate", "--task", "dst", "--model", "parapet.evaluation.dst.baseline:Keywords"],
        corpus="--reference",
        max_bad=False,
        name="evaluate dst model",
        passes=is_dialogue,
    ),
    dialogues(
        ["evaluate", "--task", "dst", "--predictions", "{in}/predictions"],
        corpus="--reference",
        max_bad=False,
        name="evaluate dst reference",
        before=_same_predictions,
        passes=is_dialogue,
    ),
    *(
        dialogues(
            ["evaluate", "--task", task, "--predictions", "reference"],
            corpus="--reference",
            max_bad=False,
            name=f"evaluate {task} reference",
            passes=is_dialogue,
        )
        for task in ("generation", "response")
    ),
    dialogues(
        ["evaluate", "--task", "validity", "--sets", "good={shared}/corpus"],
        corpus="--reference",
        max_bad=False,
        name="evaluate validity reference",
        passes=is_dialogue,
    ),
    dialogues(
        ["release", "build", "--config", "{in}/release.toml"],
        corpus="--config",
        max_bad=False,
        before=_release,
        passes=is_dialogue,
    ),
]


def _of_release(case: Case) -> Case:
    """``release build`` has its corpus in a file."""
    return case._replace(flags=lambda folder: ["release", "build", "--config", f"{folder}/release.toml"])


CASES = [_of_release(case) if case.name == "release build" else case for case in CASES]
