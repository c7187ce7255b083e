"""The models of the bAbI dialog tasks: rules, TF-IDF, nearest neighbour, embeddings, memory networks."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from parapet.pipelines.command import check_apart
from parapet.pipelines.flags import INPUT, OUTPUT, Parser, StrictParser, add_candidates, add_file_sets
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
from parapet.schemas.layout import as_path

if TYPE_CHECKING:
    from parapet.evaluation.models.babi.saving import Card
    from parapet.pipelines.models.presets import Preset

PREDICTIONS, ATTENTION = "predictions", "attention"
PLACES = ("ontology", "train", "dev", "candidates", "match")
MOST_ATTENDED = 64  # dialogues: a chunk of a prediction
LEAST = {"size": 1, "hops": 1, "memory": 1, "negatives": 0}
OPTIONS = ("task", "margin", "input", "share", "time", "bigrams", "optimiser", "initial")

WARNINGS = {
    "too_long": ("turn", "{n} with more history than the model's --memory: the oldest lines were cut off"),
    "empty": ("turn", "no rule applies at {n}: the answer is empty"),
    "not_understood": ("turn", "{n} with words that the rules do not know: answered by the values in them"),
}

_FILES = "babi/task1-trn.txt --dev babi/task1-dev.txt --candidates babi/candidates.txt"


class Babi(Family):
    """A model of the bAbI dialog tasks."""

    predict_description = """\
Answers dialogues in the bAbI format, each turn from the reference's history: OUT/predictions/original/NAME.jsonl for
each NAME.txt, and so on for other sets, for 'parapet evaluate --task ranking'."""
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

    def of_card(
        self,
        args: argparse.Namespace,
        card: Card,
        options: dict[str, str],
        more: Mapping[str, bytes] = MappingProxyType({}),
    ) -> Training:
        """The training of a model that learns nothing by epochs: its card, and maybe further files."""
        from parapet.evaluation.models.babi.saving import files_of

        return Training(
            model=self.model,
            output=args.output,
            options={**options},
            inputs=self.inputs(args),
            files={**files_of(card), **more},
        )

    def add_predict_flags(self, parser: Parser) -> None:
        """The files of dialogues."""
        add_file_sets(parser, "dialogues in the bAbI format")
        text = "predict even if file names say that the model was trained on another task"
        parser.group(INPUT)("--any_task", rare=True, action="store_true", help=text)
        text = "write the K best answers at each turn, for 'parapet evaluate --task ranking --top K'"
        parser.group(OUTPUT)("--top", type=int, default=1, metavar="K", help=text)

    def prediction(self, args: argparse.Namespace) -> Prediction:
        """Looks at the model and the files. Raises InputError for what cannot work."""
        from parapet.evaluation.ranking import list_tests, stem_of
        from parapet.evaluation.sets import parse_sets

        check_numbers(args, {"top": 1})
        attended = getattr(args, "attention", 0)
        if not 0 <= attended <= MOST_ATTENDED:
            raise InputError(f"{attended}: give a number from 0 to {MOST_ATTENDED}", "--attention")
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
            BabiFile(path, f"{PREDICTIONS}/{name}/{stem_of(path)}.jsonl", f"{ATTENTION}/{name}/{stem_of(path)}")
            for name, paths in tests.items()
            for path in sorted(paths, key=stem_of)
        )
        model = [as_path(args.model) / name for name in (MODEL, WEIGHTS)]
        options = {"attention": attended} if attended else {}
        options |= {"top": args.top} if args.top > 1 else {}
        header = {
            "pipeline": f"predict_{self.model}",
            "version": parapet_version(),
            "model": {path.name: named_digest(str(path))["sha256"] for path in model if path.is_file()},
            "inputs": [named_digest(file.path) for file in files],
            **({"options": options} if options else {}),
        }
        return Prediction(
            job=job_of(Job, args, self.model, memory=card.settings.get("memory"), inputs=files, **options),
            header=header,
            inputs=[("--model", args.model), *(("--reference", file.path) for file in files)],
            asked="turns",
            answered="answers",
            outputs=tuple(Output(file.answers, f"answers/{file.answers}", "answer") for file in files),
            warnings=WARNINGS,
            notes=(f"{args.output}/{ATTENTION}: a page and JSON lines a file",) if attended else (),
        )


class TfIdf(Babi):
    """The candidate closest to the dialogue."""

    description = (
        "Takes the candidate closest to the last utterance, or to the dialogue so far, by TF-IDF (section 4.2)."
    )
    example = f"  parapet train tfidf --train {_FILES} --match babi/kb-all.txt --output my_model"

    def add_train_flags(self, parser: StrictParser) -> None:
        """The candidates, and what they are compared with."""
        add = parser.group(INPUT)
        text = (
            "dialogues in the bAbI format, of one or more tasks: the weight of a word is how rare users' turns have it"
        )
        add("--train", required=True, nargs="+", metavar="FILE", reads=True, help=text)
        add("--dev", nargs="+", metavar="FILE", reads=True, help="dialogues that select the better --input")
        add_candidates_and_types(parser)
        text = "compare with the last utterance or all so far (default: the better one on --dev, without --dev last)"
        add("--input", choices=("last", "history"), help=text)

    def training(self, args: argparse.Namespace) -> Training:
        """Reads the files. Raises InputError for those that cannot work."""
        from parapet.evaluation.models.babi import data
        from parapet.evaluation.models.babi.saving import Card
        from parapet.evaluation.models.devices import check_installed

        if args.dev and args.input:
            raise InputError(f"--dev selects the input, and --input {args.input} is given: give one of them", "--dev")
        self.inputs(args)
        check_installed("torch")
        from parapet.evaluation.models.babi.baselines import Frequencies, share_right
        from parapet.evaluation.models.babi.baselines import TfIdf as Model

        texts = data.read_candidates(args.candidates)
        knowledge = data.read_knowledge(args.match, texts)
        train, dev = (
            [one for path in paths or () for one in data.read_dialogues(path)] for paths in (args.train, args.dev)
        )
        frequencies = Frequencies.of(train)
        history = args.input == "history"
        if dev:
            share = {which: share_right(Model(texts, knowledge, frequencies, which), dev) for which in (False, True)}
            history = share[True] > share[False]
        card = Card(
            model=self.model,
            history=history,
            candidates=texts,
            knowledge=knowledge,
            utterances=frequencies.utterances,
            having=frequencies.having,
        )
        return self.of_card(args, card, {"input": "history" if history else "last"})


class Nearest(Babi):
    """The answer to the most similar utterance."""

    description = "Answers as the most similar utterance of the training set is answered (section 4.2)."
    example = "  parapet train nearest --train babi/task1-trn.txt --output my_model"

    def add_train_flags(self, parser: StrictParser) -> None:
        """The dialogues, and what is similar."""
        add_files(parser)
        text = "answer as the same utterance is answered in training, or as the one that shares most words"
        parser.group(INPUT)("--similarity", choices=("exact", "overlap"), default="exact", help=text)

    def training(self, args: argparse.Namespace) -> Training:
        """Reads the dialogues. Raises InputError for files that cannot work."""
        from parapet.evaluation.models.babi import data
        from parapet.evaluation.models.babi.saving import Card
        from parapet.evaluation.models.devices import check_installed

        self.inputs(args)
        check_installed("torch")  # which the module of the baselines needs
        from parapet.evaluation.models.babi.baselines import Nearest as Model

        dialogues = [dialogue for path in args.train for dialogue in data.read_dialogues(path)]
        pairs, responses = Model.learn(dialogues)
        task = data.task_of(args.train)
        card = Card(model=self.model, task=task, pairs=pairs, candidates=responses, similarity=args.similarity)
        return self.of_card(args, card, {"similarity": args.similarity})


# Bordes et al. 2017, appendix C: the flags of each column, and the row of each task.
_Table = tuple[tuple[str, ...], dict[str, tuple[str | int | float, ...]]]
_ROWS: dict[str, _Table] = {
    "embeddings": (
        ("learning_rate", "margin", "size", "negatives", "input"),
        {
            "1": (0.01, 0.01, 32, 100, "history"),
            "2": (0.01, 0.01, 128, 100, "last"),
            "3": (0.01, 0.1, 128, 1000, "last"),
            "4": (0.001, 0.1, 128, 1000, "last"),
            "5": (0.01, 0.01, 32, 100, "history"),
            "6": (0.001, 0.01, 128, 100, "last"),
            "concierge": (0.001, 0.1, 64, 100, "last"),
        },
    ),
    "memn2n": (
        ("learning_rate", "margin", "size", "negatives", "hops"),
        {
            "1": (0.01, 0.1, 128, 100, 1),
            "2": (0.01, 0.1, 32, 100, 1),
            "3": (0.01, 0.1, 32, 100, 3),
            "4": (0.01, 0.1, 128, 100, 2),
            "5": (0.01, 0.1, 32, 100, 3),
            "6": (0.01, 0.1, 128, 100, 4),
            "concierge": (0.001, 0.1, 128, 100, 2),
        },
    ),
}
_SGD: Preset = {"optimiser": "sgd", "batch_size": 1, "epochs": 50, "patience": 10}
PRESETS: dict[str, dict[str, Preset]] = {
    "embeddings": {"table8": {**_SGD, "initial": 0.01, "share": "auto"}},
    "memn2n": {"table9": {**_SGD, "initial": 0.1, "time": "index", "memory": 1000}},
}


class Net(Babi):
    """Embeddings or a memory network."""

    resumable = True

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.presets = PRESETS[model]
        if model == "memn2n":
            self.description = "A memory network over the dialogue, a softmax over all candidates (section 4.4)."
            more = " \\\n    --match babi/kb-all.txt"
        else:
            self.description = "Supervised embeddings of the dialogue and of each candidate (section 4.3)."
            more = ""
        self.example = f"  parapet train {model} --train {_FILES}{more} --output my_model"

    def add_train_flags(self, parser: StrictParser) -> None:
        """Dialogues, candidates, and the shape of the net."""
        add_files(parser)
        text = "dialogues that select the best epoch"
        parser.group(INPUT)("--dev", required=True, nargs="+", metavar="FILE", reads=True, help=text)
        add_candidates_and_types(parser)
        memn2n = self.model == "memn2n"
        rate = 0.003 if memn2n else 0.001
        add = add_training(parser, Defaults(epochs=50, patience=5, batch=32, rate=rate, unit="turns", optimiser=""))
        add("--size", type=int, default=128, metavar="N", help="size of the embeddings")
        text = "ranking loss over N sampled candidates; 0 for a softmax over all"
        if memn2n:
            add("--hops", type=int, default=1, metavar="N", help="hops over the memory")
            add("--memory", type=int, default=256, metavar="N", help="maximum number of lines of history")
            add("--negatives", type=int, default=0, metavar="N", help=text)
            text = "time features: lines back from the input, or the index of the line, as in the paper"
            add("--time", rare=True, choices=("back", "index"), default="back", help=text)
        else:
            add("--input", choices=("history", "last"), default="history", help="whole dialogue, or last utterance")
            add("--negatives", type=int, default=1000, metavar="N", help=text)
            text = "same embeddings in dialogues and candidates (A = B); auto: what is better on dev"
            add("--share", rare=True, choices=("off", "on", "auto"), default="off", help=text)
        add("--margin", rare=True, type=float, default=1.0, metavar="X", help="margin of the ranking loss")
        text = "optimiser: Adam, or plain stochastic gradient descent"
        add("--optimiser", rare=True, choices=("adam", "sgd"), default="adam", help=text)
        text = "standard deviation of new parameters"
        add("--initial", rare=True, type=float, default=0.15, metavar="X", help=text)
        text = "two words that follow one another are a word of the dictionary, too"
        add("--bigrams", rare=True, action="store_true", help=text)
        text = "row of the --preset (default: the task in the names of the files)"
        add("--task", rare=True, choices=list(_ROWS[self.model][1]), help=text)

    def add_predict_flags(self, parser: Parser) -> None:
        """The files of dialogues, and what a memory network writes besides its answers."""
        super().add_predict_flags(parser)
        if self.model == "memn2n":
            text = "write what the model attends to in the first N dialogues of each file: JSON lines and a page"
            parser.group(OUTPUT)("--attention", type=int, default=0, metavar="N", help=text)

    def preset_row(self, args: argparse.Namespace) -> Preset:
        """The row of the task. Raises InputError where neither flag nor files name one of the table's."""
        from parapet.evaluation.models.babi.data import task_of

        columns, rows = _ROWS[self.model]
        task = args.task or task_of([*args.train, *args.dev])
        if task not in rows:
            what = f"has no row for task {task}" if task else "needs a task, and the names of the files have none"
            raise InputError(f"{args.preset} {what}: give --task", "--preset")
        return {"task": task, **dict(zip(columns, rows[task], strict=True))}

    def training(self, args: argparse.Namespace) -> Training:
        """Reads what is trained on. Raises InputError for flags and files that cannot work."""
        check_numbers(args, LEAST, ["margin", "initial"])
        inputs = self.inputs(args)
        device = device_to_train_on(args)
        from parapet.evaluation.models.babi.data import read_corpus
        from parapet.evaluation.models.babi.learning import BabiLearner, Config

        corpus = read_corpus(args.train, args.dev, args.candidates, args.match)
        config = config_of(Config, args, model=self.model, device=device)
        return Training(
            model=self.model,
            output=args.output,
            options=options_of(args, (*TRAINING, *LEAST, *OPTIONS), device=device),
            inputs=inputs,
            packages=("torch",),
            config=config,
            learner=partial(BabiLearner, config, corpus),
        )


def add_files(parser: StrictParser) -> None:
    """Adds ``--train``."""
    text = "dialogues in the bAbI format to train on"
    parser.group(INPUT)("--train", required=True, nargs="+", metavar="FILE", reads=True, help=text)


def add_candidates_and_types(parser: StrictParser) -> None:
    """Adds the flags of the candidates and their match-type features."""
    add_candidates(parser, required=True)
    text = "knowledge base, for match-type features"
    parser.group(INPUT)("--match", metavar="FILE", reads=True, help=text)
