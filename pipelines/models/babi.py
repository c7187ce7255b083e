"""The models of the bAbI dialog tasks: rules, TF-IDF, nearest neighbour, embeddings, memory networks."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.flags import Parser, StrictParser
from parapet.pipelines.models.family import (
    TRAINING,
    Defaults,
    Family,
    Inputs,
    Output,
    Prediction,
    Training,
    add_training,
    check_device,
    check_numbers,
    config_of,
    device_to_train_on,
    job_of,
    named_digest,
    options_of,
)
from parapet.schemas.distribution import parapet_version
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there

if TYPE_CHECKING:
    from parapet.evaluation.models.babi.saving import Card

PREDICTIONS = "predictions"
PLACES = ("ontology", "train", "dev", "candidates", "match")
LEAST = {"size": 1, "hops": 1, "memory": 1, "negatives": 0}

WARNINGS = {
    "too_long": ("turn", "{n} with more history than the model's --memory: the oldest lines were cut off"),
    "empty": ("turn", "no rule applies at {n}: the answer is empty"),
}

_FILES = "babi/task1-trn.txt --dev babi/task1-dev.txt --candidates babi/candidates.txt"


class Babi(Family):
    """A model of the bAbI dialog tasks."""

    predict_description = """\
A model and files of dialogues in the bAbI format -> its answers, each from the reference's history:
OUT/predictions/original/NAME.jsonl for each NAME.txt, and so on for other sets, as 'parapet evaluate --task ranking'
takes them."""
    batch = (256, "turns")
    resumable = False

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.predict_example = (
            f"  parapet predict {model} --model my_model --reference babi/task1-tst*.txt --output my_answers"
        )

    def inputs(self, args: argparse.Namespace) -> Inputs:
        """The files that the flags name. Raises InputError where the output is one of them."""
        given = [(flag, getattr(args, flag, None)) for flag in PLACES]
        found = [(flag, path) for flag, value in given for path in ([value] if isinstance(value, str) else value or [])]
        for flag, path in found:
            check_apart(args.output, **{flag: path})
        return found

    def of_card(self, args: argparse.Namespace, card: Card, options: dict[str, str]) -> Training:
        """The training of a model that learns nothing by epochs: its card is all there is."""
        from parapet.evaluation.models.babi.saving import files_of

        return Training(
            model=self.model,
            output=args.output,
            options={**options},
            inputs=self.inputs(args),
            files=files_of(card),
        )

    def add_predict_flags(self, parser: Parser) -> None:
        """The files of dialogues."""
        add = parser.add_argument
        text = "dialogues in the bAbI format: with --sets the set original"
        add("--reference", nargs="+", default=[], metavar="FILE", help=text)
        text = "sets of such files, or folders of them: OOV=babi/task1-tst-OOV.txt"
        add("--sets", nargs="+", default=[], metavar="NAME=PATH", help=text)
        text = "predict even where file names say that the model was trained on another task"
        add("--any_task", action="store_true", help=text)

    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Looks at the model and the files. Raises InputError for what cannot work."""
        from parapet.evaluation.ranking_files import list_tests, stem_of
        from parapet.evaluation.sets import parse_sets

        check_numbers(args)
        check_apart(args.output, model=args.model)
        sets = parse_sets(args.sets)
        for flag, paths in (("reference", args.reference), ("sets", sets.values())):
            for path in paths:
                check_apart(args.output, **{flag: path})
        tests = list_tests(args.reference, sets)
        check_device(args)
        from parapet.evaluation.models.babi.data import task_of
        from parapet.evaluation.models.babi.inference import BabiFile, Job
        from parapet.evaluation.models.babi.saving import load
        from parapet.evaluation.models.saving import MODEL, WEIGHTS

        card, _ = load(args.model, self.model, args.device, args.batch_size)
        for path in (path for paths in tests.values() for path in paths):
            task = task_of([path])
            if card.task and task and task != card.task and not args.any_task:
                reason = f"is of task {task}, and the model of task {card.task}: --any_task predicts all the same"
                raise InputError(reason, path)
        files = tuple(
            BabiFile(path, f"{PREDICTIONS}/{name}/{stem_of(path)}.jsonl")
            for name, paths in tests.items()
            for path in sorted(paths, key=stem_of)
        )
        model = [as_path(args.model) / name for name in (MODEL, WEIGHTS)]
        header = {
            "pipeline": f"predict_{self.model}",
            "version": parapet_version(),
            "model": {path.name: named_digest(str(path))["sha256"] for path in model if path.is_file()},
            "inputs": [named_digest(file.path) for file in files],
        }
        return Prediction(
            job=job_of(Job, args, self.model, memory=card.settings.get("memory"), inputs=files),
            header=header,
            inputs=[("--model", args.model), *(("--reference", file.path) for file in files)],
            asked="turns",
            answered="answers",
            outputs=tuple(Output(file.answers, f"answers/{file.answers}", "answer") for file in files),
            warnings=WARNINGS,
        )


class Rules(Babi):
    """The rule-based bot."""

    description = "The simulator's rule-based bot, as a model to predict with; it learns nothing."
    example = "  parapet train rules --ontology hotels.toml --output my_model"

    def add_train_flags(self, parser: StrictParser) -> None:
        """The domain."""
        text = "the domain in TOML (default: that of 'parapet restaurants')"
        parser.add_argument("--ontology", metavar="FILE", help=text)

    def training(self, args: argparse.Namespace) -> Training:
        """Reads the ontology. Raises InputError where it cannot be used."""
        from parapet.evaluation.models.babi.saving import Card
        from parapet.transforms.restaurants.ontology import read_ontology

        ontology = ""
        if args.ontology is not None:
            path = as_path(args.ontology)
            if not is_there(args.ontology) or not path.is_file():
                raise InputError("there is no such file", args.ontology)
            read_ontology(path.read_bytes(), args.ontology)
            ontology = path.read_text(encoding="utf-8-sig")
        return self.of_card(args, Card(model=self.model, ontology=ontology), {})


class TfIdf(Babi):
    """The candidate closest to the dialogue."""

    description = "Takes the candidate closest to the dialogue so far, by TF-IDF (Bordes et al. 2017, section 4.2)."
    example = "  parapet train tfidf --candidates babi/candidates.txt --match babi/kb-all.txt --output my_model"

    def add_train_flags(self, parser: StrictParser) -> None:
        """The candidates, and what they are compared with."""
        add_candidates(parser)
        text = "compare with the whole dialogue so far, or with the last utterance (default history)"
        parser.add_argument("--input", choices=("history", "last"), default="history", help=text)

    def training(self, args: argparse.Namespace) -> Training:
        """Reads the candidates. Raises InputError for files that cannot work."""
        from parapet.evaluation.models.babi import data
        from parapet.evaluation.models.babi.saving import Card
        from parapet.evaluation.models.devices import check_installed

        self.inputs(args)
        check_installed("torch")
        texts = data.read_candidates(args.candidates)
        knowledge = data.read_knowledge(args.match, texts)
        card = Card(model=self.model, history=args.input == "history", candidates=texts, knowledge=knowledge)
        return self.of_card(args, card, {"input": args.input})


class Nearest(Babi):
    """The answer to the most similar utterance."""

    description = "Answers as the most similar utterance of the training set is answered (section 4.2)."
    example = "  parapet train nearest --train babi/task1-trn.txt --output my_model"

    def add_train_flags(self, parser: StrictParser) -> None:
        """The dialogues."""
        text = "dialogues in the bAbI format to learn from"
        parser.add_argument("--train", required=True, nargs="+", metavar="FILE", help=text)

    def training(self, args: argparse.Namespace) -> Training:
        """Reads the dialogues. Raises InputError for files that cannot work."""
        from parapet.evaluation.models.babi import data
        from parapet.evaluation.models.babi.saving import Card
        from parapet.evaluation.models.devices import check_installed

        self.inputs(args)
        check_installed("torch")  # which the module of the baselines needs
        from parapet.evaluation.models.babi.baselines import Nearest as Model

        dialogues = [dialogue for path in args.train for dialogue in data.read_dialogues(path)]
        card = Card(model=self.model, task=data.task_of(args.train), pairs=Model.of(dialogues).pairs)
        return self.of_card(args, card, {})


class Net(Babi):
    """Embeddings or a memory network."""

    resumable = True

    def __init__(self, model: str) -> None:
        super().__init__(model)
        if model == "memn2n":
            self.description = "A memory network over the dialogue, a softmax over all candidates (section 4.4)."
            more = " \\\n    --match babi/kb-all.txt"
        else:
            self.description = "Supervised embeddings of the dialogue and of each candidate (section 4.3)."
            more = ""
        self.example = f"  parapet train {model} --train {_FILES}{more} --output my_model"

    def add_train_flags(self, parser: StrictParser) -> None:
        """Dialogues, candidates, and the shape of the net."""
        add = parser.add_argument
        text = "dialogues in the bAbI format to learn from"
        add("--train", required=True, nargs="+", metavar="FILE", help=text)
        add("--dev", required=True, nargs="+", metavar="FILE", help="dialogues that choose the best epoch")
        add_candidates(parser)
        number = add_training(parser, Defaults(epochs=50, patience=5, batch=32, rate=0.003, unit="turns"))
        number("--size", type=int, default=128, metavar="N", help="size of the embeddings (default 128)")
        if self.model == "memn2n":
            number("--hops", type=int, default=1, metavar="N", help="hops over the memory (default 1)")
            number("--memory", type=int, default=256, metavar="N", help="lines of history at most (default 256)")
        else:
            text = "the paper's ranking loss over N sampled candidates (default 0: a softmax over all candidates)"
            number("--negatives", type=int, default=0, metavar="N", help=text)
            number("--margin", type=float, default=1.0, metavar="X", help="of the ranking loss (default 1)")

    def training(self, args: argparse.Namespace) -> Training:
        """Reads what is trained on. Raises InputError for flags and files that cannot work."""
        check_numbers(args, LEAST, ["margin"])
        inputs = self.inputs(args)
        device = device_to_train_on(args)
        from parapet.evaluation.models.babi.data import read_corpus
        from parapet.evaluation.models.babi.learning import BabiLearner, Config

        corpus = read_corpus(args.train, args.dev, args.candidates, args.match)
        config = config_of(Config, args, model=self.model, device=device)
        return Training(
            model=self.model,
            output=args.output,
            options=options_of(args, (*TRAINING, *LEAST, "margin"), device=device),
            inputs=inputs,
            packages=("torch",),
            config=config,
            learner=partial(BabiLearner, config, corpus),
        )


def add_candidates(parser: StrictParser) -> None:
    """Adds the flags of the candidates and their match-type features."""
    add = parser.add_argument
    add("--candidates", required=True, metavar="FILE", help="the possible answers, '1 text' a line")
    add("--match", metavar="FILE", help="with match-type features: the types are those of this knowledge base")
