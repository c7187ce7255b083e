"""``parapet train`` for the bAbI dialog tasks: rules, TF-IDF, nearest neighbour, embeddings, memory networks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from parapet.pipelines.command import StrictParser, check_apart
from parapet.pipelines.train.flags import (
    RESUMED,
    TRAINING,
    Defaults,
    add_training,
    check_numbers,
    check_torch,
    training_of,
)
from parapet.pipelines.train.publishing import begin, end
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.evaluation.models.babi.saving import Card

NETS = ("embeddings", "memn2n")
MATCHING = ("tfidf", *NETS)

DESCRIPTIONS = {
    "rules": "The simulator's rule-based bot, as a model to predict with; it learns nothing.",
    "tfidf": "Takes the candidate closest to the dialogue so far, by TF-IDF (Bordes et al. 2017, section 4.2).",
    "nearest": "Answers as the most similar utterance of the training set is answered (section 4.2).",
    "embeddings": "Supervised embeddings of the dialogue and of each candidate (section 4.3).",
    "memn2n": "A memory network over the dialogue, a softmax over all candidates (section 4.4).",
}

_FILES = "babi/task1-trn.txt --dev babi/task1-dev.txt --candidates babi/candidates.txt"
EXAMPLES = {
    "rules": "  parapet train rules --ontology hotels.toml --output my_model",
    "tfidf": "  parapet train tfidf --candidates babi/candidates.txt --match babi/kb-all.txt --output my_model",
    "nearest": "  parapet train nearest --train babi/task1-trn.txt --output my_model",
    "embeddings": f"  parapet train embeddings --train {_FILES} --output my_model",
    "memn2n": f"  parapet train memn2n --train {_FILES} \\\n    --match babi/kb-all.txt --output my_model",
}


def parser(model: str) -> StrictParser:
    """The command line of a model."""
    made = StrictParser(f"train {model}", DESCRIPTIONS[model], EXAMPLES[model], RESUMED if model in NETS else "")
    add = made.add_argument
    if model == "rules":
        add("--ontology", metavar="FILE", help="the domain in TOML (default: that of 'parapet restaurants')")
    if model not in ("rules", "tfidf"):
        add("--train", required=True, nargs="+", metavar="FILE", help="dialogues in the bAbI format to learn from")
    if model in NETS:
        add("--dev", required=True, nargs="+", metavar="FILE", help="dialogues that choose the best epoch")
    if model in MATCHING:
        add("--candidates", required=True, metavar="FILE", help="what may be answered, '1 text' a line")
        add("--match", metavar="FILE", help="with match-type features: the types are those of this knowledge base")
    if model == "tfidf":
        add("--input", choices=("history", "last"), default="history", help="all that was said, or the last utterance")
    if model in NETS:
        _add_net(made, model)
    add("--output", required=True, metavar="OUT", help="folder to write, local or gs://")
    made.set_defaults(model=model)
    return made


def _add_net(made: StrictParser, model: str) -> None:
    number = add_training(made, Defaults(epochs=50, patience=5, batch=32, rate=0.003, unit="turns"))
    number("--size", type=int, default=128, metavar="N", help="of the embeddings (default 128)")
    if model == "memn2n":
        number("--hops", type=int, default=1, metavar="N", help="over the memory (default 1)")
        number("--memory", type=int, default=256, metavar="N", help="lines of history at most (default 256)")
    else:
        told = "the paper's ranking loss over so many drawn candidates (default 0: a softmax over all of them)"
        number("--negatives", type=int, default=0, metavar="N", help=told)
        number("--margin", type=float, default=1.0, metavar="X", help="of the ranking loss (default 1)")


PLACES = ("ontology", "train", "dev", "candidates", "match")
LEAST = {"size": 1, "hops": 1, "memory": 1, "negatives": 0}
OPTIONS = (*TRAINING, *LEAST, "margin", "input")  # that shape the content; a model has some of them


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads what is trained on. Raises InputError for flags and files that cannot work."""
    from parapet.evaluation.models.packages import check_installed

    check_numbers(args, LEAST, ["margin"])
    args.given = [(flag, path) for flag in PLACES for path in _paths(getattr(args, flag, None))]
    for flag, path in args.given:
        check_apart(args.output, **{flag: path})
    args.card, args.corpus = None, None
    if args.model == "rules":
        args.card = _rules(args.ontology)
        return args
    from parapet.evaluation.models.babi import data
    from parapet.evaluation.models.babi.saving import Card

    if args.model == "tfidf":
        check_installed("torch")
        texts = data.read_candidates(args.candidates)
        knowledge = data.read_knowledge(args.match, texts)
        args.card = Card(model=args.model, history=args.input == "history", candidates=texts, knowledge=knowledge)
    elif args.model == "nearest":
        from parapet.evaluation.models.babi.nearest import Nearest

        dialogues = [dialogue for path in args.train for dialogue in data.read_dialogues(path)]
        args.card = Card(model=args.model, task=data.task_of(args.train), pairs=Nearest.of(dialogues).pairs)
    else:
        check_torch(args)
        args.corpus = data.read_corpus(args.train, args.dev, args.candidates, args.match)
    return args


def _paths(given: str | list[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else given or []


def _rules(ontology: str | None) -> Card:
    """What a rule-based bot needs to know. Raises InputError for an ontology that cannot be."""
    from parapet.evaluation.models.babi.saving import Card
    from parapet.schemas.layout import as_path, is_there
    from parapet.transforms.restaurants.ontology import read_ontology

    if ontology is None:
        return Card(model="rules")
    if not is_there(ontology) or not as_path(ontology).is_file():
        raise InputError("there is no such file", ontology)
    read_ontology(as_path(ontology).read_bytes(), ontology)
    return Card(model="rules", ontology=as_path(ontology).read_text(encoding="utf-8-sig"))


def act(args: argparse.Namespace) -> None:
    """Trains and writes."""
    from parapet.evaluation.models.babi import saving

    if args.corpus is None:
        from parapet.evaluation.writing import publish

        publish(args.output, saving.files_of(args.card), begin(args, OPTIONS, args.given))
        if not args.quiet:
            print(f"{args.model}: the model is in {args.output}")
        return
    from parapet.evaluation.models.babi.learning import Settings, train

    head = begin(args, OPTIONS, args.given, "torch")
    net = {flag: getattr(args, flag) for flag in ("size", "hops", "memory") if hasattr(args, flag)}
    loss = {flag: getattr(args, flag) for flag in ("margin", "negatives") if hasattr(args, flag)}
    settings = Settings(model=args.model, net=net, **loss, **training_of(args))
    card, trained = train(settings, args.corpus, args.output, head, not args.quiet)
    told = f"{trained.best.dev:.2%} of responses on dev are right"
    end(args, head, saving.files_of(card, trained.weights), trained, told)
