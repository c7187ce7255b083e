"""``parapet evaluate --task response``: Inform, Success, BLEU and Combined of a system's responses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from parapet.pipelines.command import StrictParser, add_split, check_apart, counted, run_checked
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root

DESCRIPTION = """\
Responses of a system -> Inform, Success, BLEU and Combined = (Inform + Success) / 2 + BLEU, as for MultiWOZ: against
the annotation of a corpus in the SGD format, or against goals and a knowledge base given as files.
docs/evaluate_response.md says what counts."""

EXAMPLE = """\
  parapet evaluate --task response --reference my_corpus --split test --predictions responses.jsonl --output my_scores
  parapet evaluate --task response --reference my_corpus --predictions reference --output upper_bound
  parapet evaluate --task response --goals goals.json --knowledge_base db --responses test.jsonl \\
    --predictions responses.jsonl --output my_scores"""

NOTE = """\
A row of the predictions: {"dialogue_id": "1_00000", "turn": 3, "response": "..."}. A delexicalised response has
placeholders such as [restaurant_name]; its row has the "state" too, {"Restaurants_1": {"city": ["San Jose"]}}, and may
have "domains", those that are spoken of."""

OWN = "reference"


def parser() -> StrictParser:
    """The command line."""
    made = StrictParser("evaluate --task response", DESCRIPTION, EXAMPLE, NOTE)
    add = made.add_argument
    add("--reference", metavar="ROOT", help="corpus in the SGD format (default: the bundled sample)")
    add_split(made)
    add("--goals", metavar="FILE", help="instead of a corpus: the goals, as MultiWOZ's")
    add("--responses", metavar="FILE", help="with --goals: the reference's responses, JSON lines, for BLEU")
    add("--knowledge_base", metavar="PATH", help="entities: JSON, or a folder of SERVICE_db.json")
    add("--predictions", required=True, metavar="FILE|reference", help="JSON lines; or 'reference': its own responses")
    add(
        "--tokenizer",
        choices=("13a", "none", "intl", "char"),
        default="13a",
        help="sacrebleu's, which changes BLEU (default 13a)",
    )
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    return made


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads. Raises InputError for files that cannot be scored."""
    from parapet.evaluation.response.predictions import own_responses, read_responses

    if args.reference is not None and args.goals is not None:
        raise InputError("give one of the two: a corpus, or goals", "--reference, --goals")
    if args.goals is None:
        args.reference = args.reference or str(sample_root())
    if (args.responses is None) != (args.goals is None):
        raise InputError("go together: goals, and the responses of the same dialogues", "--goals, --responses")
    given = None if args.predictions == OWN else args.predictions
    check_apart(
        args.output, reference=args.reference, goals=args.goals, responses=args.responses, predictions=given,
        knowledge_base=args.knowledge_base,
    )  # fmt: skip
    args.truth = _of_corpus(args) if args.reference else _of_files(args)
    turns = args.truth.responses
    args.said = own_responses(turns) if given is None else read_responses(given, turns)
    return args


def _of_corpus(args: argparse.Namespace) -> object:
    from parapet.evaluation.response.multiwoz import read_entities
    from parapet.evaluation.response.sgd import reference_of
    from parapet.schemas.layout import read_root, services_by_name
    from parapet.transforms.corpora import dialogues_of, read_corpus

    corpus = read_corpus(args.reference, [args.split])
    dialogues = []
    for file in sorted(corpus.files, key=lambda file: file.path):
        for position, _, _, dialogue in dialogues_of(file):
            if isinstance(dialogue, InputError):
                raise InputError(dialogue.reason, file.path, f"[{position}] {dialogue.where}")
            dialogues.append(dialogue)
    splits = [one for one in read_root(args.reference) if one.split in (args.split, "schema")]
    entities = read_entities(args.knowledge_base) if args.knowledge_base else None
    try:
        return reference_of(dialogues, services_by_name(splits), entities)
    except InputError as error:
        raise InputError(error.reason, args.reference, error.where) from None


def _of_files(args: argparse.Namespace) -> object:
    from parapet.evaluation.response.multiwoz import read_reference

    return read_reference(args.goals, args.knowledge_base, args.responses)


def act(args: argparse.Namespace) -> None:
    """Scores, writes and tells."""
    from parapet.evaluation.lines import ALL
    from parapet.evaluation.pages import percent, plain
    from parapet.evaluation.response.outputs import evaluate, files_of
    from parapet.evaluation.running import header
    from parapet.evaluation.writing import publish

    result = evaluate(args.truth, args.said, args.tokenizer)
    options = {"split": args.split if args.reference else None, "bleu_signature": result.signature}
    paths = {"goals": args.goals, "responses": args.responses, "knowledge_base": args.knowledge_base}
    paths["predictions"] = None if args.predictions == OWN else args.predictions
    counts = {"dialogues": len(args.truth.goals), "responses": sum(len(of) for of in args.said.values())}
    publish(args.output, files_of(args.truth, args.said, result), header("response", paths, options, counts))
    if not args.quiet:
        of = result.metrics[ALL]
        print(f"{counted(counts['dialogues'], 'dialogue')}, {counted(counts['responses'], 'response')}")
        print(
            f"inform {percent(of['inform'], 1)}%, success {percent(of['success'], 1)}%, BLEU {plain(of['bleu'], 1)}, "
            f"combined {plain(of['combined'], 1)}"
        )


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the task. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was published, run the same command again")


if __name__ == "__main__":
    sys.exit(run())
