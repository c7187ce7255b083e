"""The ``parapet`` program: finds the pipeline and hands over. Imports nothing heavy, so that help is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from parapet.pipelines.dispatch import hand_over

PIPELINES = {
    "demo": "the bundled sample through every stage, to pages you can open",
    "hits": "schemas -> HIT pages, requester-site template and input CSV, plan with cost",
    "mturk": "publish those pages on MTurk, collect, pay and top up: journalled, each worker paid once",
    "compose": "schemas + crowd answers -> vetted, ranked, composed variants v1...v5, audit, review page",
    "rewrite": "dialogues + variants -> the same dialogues under each variant's names, as SGD-X has them",
    "statistics": "schemas + variants -> the numbers of SGD-X Table 1 and self-BLEU, as JSON and a page",
    "back_translate": "schemas -> one variant per pivot language, translated there and back; a translation memory",
    "augment": "dialogues + any variants -> training sets: back-translated, crowdsourced, corrupted, mixed",
    "compose_variations": "dialogues + rewriting answers -> vetted variations of user turns, audit, review page",
    "language_variations": "dialogues -> user turns with typos, verbose, simple, in other words; mixes at exact rates",
    "speech_errors": "dialogues -> spoken, through noise, heard again: sets at a stated word error rate",
    "unseen_entities": "dialogues -> the same with slot values that occur nowhere in training",
    "ood": "dialogues + foreign utterances -> out-of-domain turns at exact rates, labelled, with fallbacks",
    "perturb": "dialogues -> the same, perturbed by any perturbation that is installed: plug-ins, too",
    "few_shot": "dialogues -> small nested training sets for each domain, and their tests",
    "unseen_services": "dialogues -> splits by domain or service: what is tested on is not in training",
    "reminders": "a simulator -> a corpus of dialogues about reminders, by an agenda-based user",
    "restaurants": "an ontology -> bAbI dialog tasks 1 to 5 simulated, with out-of-vocabulary tests",
    "babi_task6": "DSTC2 logs and labels -> dialog bAbI task 6, and the same in the SGD layout",
    "anonymise": "real chats -> chats without who is in them, and what a second look suspects",
    "train": "dialogues -> a baseline model of the papers: dialogue states, generation, intents, bAbI",
    "predict": "such a model + dialogues -> predictions, as evaluate takes them",
    "evaluate": "predictions -> metrics, schema sensitivity, a report page: dst, intent, ood, ranking, ...",
    "compare": "outputs of evaluate -> systems next to each other: a leaderboard, paired tests",
    "release": "outputs of the others -> a versioned, verifiable dataset release: build, verify, diff, show",
    "doctor": "nothing -> what is installed and set up here, what else there is, and how to get it",
    "completion": "a shell's name -> the script that makes it complete these commands",
}

USAGE = f"""usage: parapet PIPELINE [flags]

Builds robustness test data for schema-guided dialogue systems.

pipelines:
{chr(10).join(f"  {name:20}{what}" for name, what in PIPELINES.items())}

Without --schemas or --sgd a pipeline runs on the bundled sample. Runner flags (--runner, --project, ...)
go through to Apache Beam.

  parapet demo --output demo-output
  parapet hits --schemas my_corpus --output my_hits
  parapet PIPELINE --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one pipeline. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    if argv is None and "_ARGCOMPLETE" in os.environ:  # a shell asks, by the script of 'parapet completion'
        from parapet.pipelines.completion import answer

        answer()
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["--version"]:
        from parapet.schemas.distribution import parapet_version

        print(f"parapet {parapet_version()}")
        return 0
    return hand_over("parapet", "pipeline", PIPELINES, "parapet.pipelines", USAGE, argv)


if __name__ == "__main__":
    sys.exit(main())
