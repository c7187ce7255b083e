"""``parapet evaluate``: predictions in, the numbers and pages of the papers out; one task at a time."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from parapet.pipelines.dispatch import hand_over

TASKS = {
    "dst": "dialogue states -> joint goal accuracy and the official SGD metrics, schema sensitivity over variants",
    "intent": "intents of utterances -> accuracy and macro-F1, by set",
    "ood": "scores or labels of turns -> precision, recall, F1, AUROC, AUPR, FPR95",
    "ranking": "answers chosen among candidates (bAbI dialog tasks) -> accuracy per response and per dialogue",
    "response": "responses of a task-oriented system -> Inform, Success, BLEU, Combined (MultiWOZ's)",
    "generation": "sentences made from dialogue acts -> slot error rate, BLEU, semantic accuracy by entailment",
}

USAGE = f"""usage: parapet evaluate --task TASK [flags]

Predictions of a dialogue system on a corpus and its robustness sets -> metrics.json, rows, a report page.

tasks:
{chr(10).join(f"  {name:12}{what}" for name, what in TASKS.items())}

example:
  parapet evaluate --task dst --reference my_corpus --split test --predictions my_predictions --output my_scores
  parapet evaluate --task ood --predictions turns.jsonl --dev dev_turns.jsonl --output my_scores

'parapet evaluate --task TASK --help' shows the flags of one.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet evaluate``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    task, rest = _task(argv)
    if task is None:
        if not argv or {"-h", "--help"} & set(argv):
            return hand_over(
                "parapet evaluate", "task", TASKS, "parapet.pipelines.evaluate", USAGE, argv and ["--help"]
            )
        print(f"parapet evaluate: --task is missing: one of {', '.join(TASKS)}", file=sys.stderr)
        return 2
    return hand_over("parapet evaluate", "task", TASKS, "parapet.pipelines.evaluate", USAGE, [task, *rest])


def _task(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of ``--task``, and all that is not it."""
    for i, one in enumerate(argv):
        if one == "--task" and i + 1 < len(argv):
            return argv[i + 1], [*argv[:i], *argv[i + 2 :]]
        if one.startswith("--task="):
            return one.removeprefix("--task="), [*argv[:i], *argv[i + 1 :]]
    return None, list(argv)
