"""The commands: their names, the module and the parser of each. Imports nothing heavy."""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence

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
    "speech_errors": "dialogues -> user turns as ASR transcripts, at given word error rates",
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


def hand_over(program: str, what: str, names: Iterable[str], package: str, usage: str, argv: Sequence[str]) -> int:
    """Runs ``program NAME ...`` as ``package.NAME.run(...)``; gives its exit status.

    Args:
      program: as people type it: ``parapet``, ``parapet mturk``.
      what: what a name is called: ``pipeline``, ``action``.
      names: those there are; a ``-`` in one is a ``_`` in its module.
      package: where the modules are.
      usage: the help.
      argv: what follows the program.
    """
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage, end="")
        return 0 if argv else 2
    name, *rest = argv
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"'{program} --help' lists the {what}s"
        print(f"{program}: there is no {what} {name!r}: {hint}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"{package}.{name.replace('-', '_')}")
    return int(module.run(rest))


def actions_of(pipeline: str) -> Mapping[str, str]:
    """What stands after a pipeline's name, each with its summary: actions, models to train, tasks to evaluate."""
    module = importlib.import_module(f"parapet.pipelines.{pipeline}")
    for names in ("ACTIONS", "MODELS", "TASKS"):
        if hasattr(module, names):
            actions: Mapping[str, str] = getattr(module, names)
            return actions
    return {}


def parser_of(pipeline: str, action: str = "") -> argparse.ArgumentParser:
    """The parser of a pipeline without actions, or of one action of a pipeline."""
    package = f"parapet.pipelines.{pipeline}"
    if action and hasattr(module := importlib.import_module(package), "parser"):
        parser: argparse.ArgumentParser = module.parser(action)  # those of models differ in what they are made for
        return parser
    module = importlib.import_module(f"{package}.{action.replace('-', '_')}".rstrip("."))
    parser = module.parser()
    return parser
