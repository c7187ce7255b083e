"""The cases whose records are services, rows of tables, lines, calls, or whole files of settings."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import shutil
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import babi_toy
import dstc2_calls

from fuzzing.cases import (
    Case,
    corpus_services,
    dead_letters,
    dialogue_seeds,
    good_dialogues,
    is_dialogue,
    is_service,
    lines_of,
    rows_of,
    table,
    varied,
)
from fuzzing.mutations import Json, json_text
from fuzzing.watching import Finding
from parapet.pipelines.main import main
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms.simulators import restaurants
from parapet.transforms.simulators.babi_format import parse_dialogues

SAMPLE = str(sample_root())


_MADE: dict[Path, list[str]] = {}  # by which command an output was made: two must not have one name


def made(shared: Path, name: str, argv: Sequence[str]) -> Path:
    """The output of a command on good input, below what all cases share."""
    output = shared / "made" / name
    if output.exists():
        assert _MADE[output] == list(argv)
    else:
        _MADE[output] = list(argv)
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            status = main(
                [*(part.replace("{shared}", str(shared)) for part in argv), "--output", str(output), "--quiet"]
            )
        assert status == 0, (argv, errors.getvalue())
    return output


# Services


def services(
    name: str,
    command: Sequence[str],
    file: str = "corpus/test/schema.json",
    variant: str = "",
    batch: int = 60,
    passes: Callable[[Json], bool] | None = is_service,
) -> Case:
    """A case of mutated services in one schema file, behind the good ones."""

    def write(folder: Path, shared: Path, texts: Sequence[str]) -> None:
        shutil.copytree(shared / "corpus", folder / "corpus")
        shutil.copytree(shared / "variants", folder / "variants")
        (folder / "shared").symlink_to(shared)
        good = [varied(one, variant) if variant else one for one in corpus_services()]
        (folder / file).write_text(f"[{', '.join([*map(json_text, good), *texts])}]", "utf-8", "surrogatepass")

    def flags(folder: Path) -> list[str]:
        return [part.replace("{in}", str(folder)).replace("{shared}", f"{folder}/shared") for part in command]

    return Case(name, flags, lambda _: corpus_services(), write, damaged=file, batch=batch, passes=passes)


NAMES = ["--responses", "{shared}/crowd/names.csv", "{shared}/crowd/descriptions.csv"]
SERVICES = [
    services("compose services", ["compose", "--schemas", "{in}/corpus", *NAMES, "--allow_partial"], passes=None),
    services("hits services", ["hits", "--schemas", "{in}/corpus"]),
    services("statistics services", ["statistics", "--sgd", "{in}/corpus"]),
    services(
        "statistics variants",
        ["statistics", "--sgd", "{in}/corpus", "--variants", "{in}/variants", "--split", "test"],
        file="variants/v1/test/schema.json",
        variant="1",
        batch=5,
    ),
    services(
        "back_translate services",
        ["back_translate", "--schemas", "{in}/corpus", "--memory", f"{SAMPLE}/translations.csv", "--max_bad", "100%"],
    ),
    services(
        "rewrite variants",
        ["rewrite", "--sgd", "{in}/corpus", "--variants", "{in}/variants", "--max_bad", "100%"],
        file="variants/v1/test/schema.json",
        variant="1",
        batch=5,
    ),
    services("perturb typos services", ["perturb", "typos", "--sgd", "{in}/corpus", "--max_bad", "100%"], passes=None),
    services("unseen_entities services", ["unseen_entities", "--sgd", "{in}/corpus", "--max_bad", "100%"], passes=None),
]

# Answers of the crowd, and other tables


def lost_answers(folder: Path, output: Path, records: Sequence[Json]) -> Iterator[Finding]:
    """Assignments that are in no row of the audit and in no dead letter."""
    import pyarrow.parquet as pq

    taken = {one.rpartition(":")[0] for one in pq.read_table(output / "responses.parquet")["response_id"].to_pylist()}
    dead = dead_letters(output)
    keys = " ".join(f"{one.get('key')} {one.get('source')} {one.get('reason')} {one.get('payload')}" for one in dead)
    for record in records:
        if isinstance(record, dict) and isinstance(name := record.get("AssignmentId"), str) and name.isalnum():
            whole = sum(isinstance(one, dict) and one.get("AssignmentId") == name for one in records) == 1
            if whole and name not in taken and name not in keys and not _row_is_dead(dead):
                yield Finding("assignments are lost", f"{name}: {json.dumps(record)[:800]}")


def _row_is_dead(dead: Sequence[Json]) -> bool:
    """Whether some row is a dead letter without an id: which assignment it was nobody can say."""
    return any(": row " in str(one.get("source")) and not str(one.get("key")).startswith("3") for one in dead)


@functools.cache
def _chats() -> list[Json]:
    return lines_of(sample_root() / "chats.jsonl")


def _chat_rows(_: Path) -> list[Json]:
    return [{"chat_id": chat["chat_id"], **turn} for chat in _chats() for turn in chat["turns"]]


def _sample_rows(name: str) -> Callable[[Path], list[Json]]:
    return lambda shared: list(rows_of(shared / "crowd" / name))


def _rewritten(shared: Path) -> list[Json]:
    argv = ["compose_variations", "--sgd", SAMPLE, "--responses", f"{SAMPLE}/crowd/rewrites.csv"]
    return lines_of(made(shared, "rewritten", argv) / "rewritten.jsonl")


def _decisions(name: str) -> Callable[[Path], list[Json]]:
    return lambda _: list(rows_of(sample_root() / "crowd" / name))


COMPOSE = ["compose", "--schemas", SAMPLE, "--allow_partial"]
REWRITES = ["compose_variations", "--sgd", SAMPLE, "--responses"]
VARIED = ["language_variations", "--sgd", "{shared}/corpus", "--max_bad", "100%"]
BABI = ["1 hi\thello what can i help you with today", "2 <SILENCE>\tapi_call a b", "3 r R_phone p", ""]
TEXTS = ["where is the nearest station", "what time does the film start", "tell me a joke please", "how tall is it"]
TABLES = [
    table(
        "compose names.csv",
        [*COMPOSE, "--responses", f"{SAMPLE}/crowd/descriptions.csv", "{file}"],
        _sample_rows("names.csv"),
        "a.csv",
        keep=200,
        check=lost_answers,
    ),
    table(
        "compose descriptions.csv",
        [*COMPOSE, "--responses", f"{SAMPLE}/crowd/names.csv", "{file}"],
        _sample_rows("descriptions.csv"),
        "a.csv",
        keep=200,
        check=lost_answers,
    ),
    table(
        "compose assignments.jsonl",
        [*COMPOSE, "--responses", "{file}"],
        lambda shared: lines_of(shared / "crowd/assignments.jsonl"),
        "a.jsonl",
        check=lost_answers,
    ),
    table(
        "compose decisions.csv",
        [
            *COMPOSE,
            "--responses",
            *(f"{SAMPLE}/crowd/{one}.csv" for one in ("names", "descriptions")),
            "--decisions",
            "{file}",
        ],
        _decisions("decisions.csv"),
        "d.csv",
    ),
    table(
        "compose_variations", [*REWRITES, "{file}"], _sample_rows("rewrites.csv"), "a.csv", keep=60, check=lost_answers
    ),
    table(
        "compose_variations decisions.csv",
        [*REWRITES, f"{SAMPLE}/crowd/rewrites.csv", "--decisions", "{file}"],
        _decisions("rewrites_decisions.csv"),
        "d.csv",
        keep=1,
    ),
    table(
        "language_variations rewritten",
        ["language_variations", "--sgd", SAMPLE, "--max_bad", "100%", "--rewritten", "{file}"],
        _rewritten,
        "r.jsonl",
    ),
    table(
        "back_translate memory",
        ["back_translate", "--schemas", SAMPLE, "--memory", "{file}", "--max_bad", "100%"],
        lambda _: list(rows_of(sample_root() / "translations.csv")),
        "m.csv",
        keep=2_000,
        batch=4,
    ),
    table("anonymise", ["anonymise", "--chats", "{file}", "--max_bad", "100%"], lambda _: _chats(), "c.jsonl", keep=3),
    table(
        "anonymise csv", ["anonymise", "--chats", "{file}", "--max_bad", "100%"], _chat_rows, "c.csv", keep=5, batch=10
    ),
    table("anonymise babi", ["anonymise", "--chats", "{file}", "--max_bad", "100%"], lambda _: BABI, "c.txt", batch=5),
    table(
        "anonymise entities",
        ["anonymise", "--chats", f"{SAMPLE}/chats.jsonl", "--entities", "{file}"],
        lambda _: ["Port Alder", "PERSON\tAnn Lee", "PHONE\t415-555-0132"],
        "e.txt",
        batch=4,
    ),
    table(
        "unseen_entities values",
        ["unseen_entities", "--sgd", SAMPLE, "--values", "{file}"],
        lambda _: [
            {"slot_or_kind": one, "value": f"Value {i}"}
            for i in range(40)
            for one in ("city", "person", "Gyms_1/gym_name")
        ],
        "v.csv",
        keep=0,
        batch=4,
    ),
    *(
        table(
            f"ood source {kind}",
            ["ood", "--sgd", SAMPLE, "--rates", "0.05", "--max_bad", "100%", "--source", "{file}"],
            seeds,
            file,
            passes=is_dialogue if kind == "sgd" else None,
        )
        for kind, seeds, file in (
            ("lines", lambda _: [{"text": f"{one} {i}", "id": i} for one in TEXTS for i in range(9)], "s.jsonl"),
            ("text", lambda _: [f"{one} number {i}" for one in TEXTS for i in range(9)], "s.txt"),
            (
                "key-value",
                lambda _: [
                    {
                        "dialogue": [
                            {"turn": "driver", "data": {"end_dialogue": False, "utterance": f"{one} {i}"}},
                            {"turn": "assistant", "data": {"end_dialogue": True, "utterance": "yes"}},
                        ],
                        "scenario": {"kb": {}, "task": {"intent": "weather"}, "uuid": str(i)},
                    }
                    for one in TEXTS
                    for i in range(9)
                ],
                "s.json",
            ),
            ("sgd", dialogue_seeds, "s.json"),
        )
    ),
]

# Predictions and references of evaluate


def _good(shared: Path) -> list[Json]:
    return good_dialogues("test")


def _states(_: Path) -> list[Json]:
    return [
        {"dialogue_id": one["dialogue_id"], "turn": t, "service": frame["service"], "state": frame["state"]}
        for one in good_dialogues("test")
        for t, turn in enumerate(one["turns"])
        for frame in turn["frames"]
        if "state" in frame
    ]


def _responses(_: Path) -> list[Json]:
    return [
        {"dialogue_id": one["dialogue_id"], "turn": t, "response": turn["utterance"], "state": {}, "domains": []}
        for one in good_dialogues("test")
        for t, turn in enumerate(one["turns"])
        if turn["speaker"] == "SYSTEM"
    ]


def _utterances(shared: Path) -> list[Json]:
    keys = ("dialogue_id", "turn")
    return [{**{key: row[key] for key in keys}, "utterance": row["response"]} for row in _responses(shared)]


INTENTS = [
    {"set": one, "id": i, "label": "fly", "predicted": ["fly", "swim"][i % 2], "utterance": "i fly"}
    for one in ("plain", "typos")
    for i in range(6)
]
DETECTED = [
    {"set": "ood-10", "dialogue_id": f"1_{i}", "turn": t, "score": i / 9, "label": ["ood", "in_domain"][i % 2]}
    for i in range(6)
    for t in (0, 2)
]
ANSWERS = [
    {"dialogue": d, "turn": t, "answer": a} for d in range(4) for t, a in enumerate(["hello", "on it", "api_call x"])
]
GOALS = {f"MUL{i}": {"hotel": {"informable": {"area": "centre"}, "requestable": ["phone"]}} for i in range(3)}


def _toy(folder: Path, _: Path) -> None:
    babi_toy.write_toy(folder / "toy")


def _goals(folder: Path, _: Path) -> None:
    (folder / "goals.json").write_text(json.dumps(GOALS))
    rows = [{"dialogue_id": name, "turn": 1, "response": "it is in the centre"} for name in GOALS]
    (folder / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def scores(task: str, seeds: Callable[[Path], Sequence[Json]], *flags: str, name: str = "", **more: object) -> Case:
    """A case of predictions: nearly all good, for one that does not fit is refused with the file."""
    command = ["evaluate", "--task", task, "--predictions", "{file}", *flags]
    return table(f"evaluate {task}{name}", command, seeds, "p.jsonl", keep=200, batch=1, **more)  # type: ignore[arg-type]


SCORES = [
    scores("dst", _states, "--reference", "{shared}/corpus"),
    scores("generation", _utterances, "--reference", "{shared}/corpus"),
    scores("response", _responses, "--reference", "{shared}/corpus"),
    scores(
        "response",
        lambda _: [{"dialogue_id": one, "turn": 1, "response": "x"} for one in GOALS],
        "--goals",
        "{in}/goals.json",
        "--responses",
        "{in}/responses.jsonl",
        name=" goals",
        before=_goals,
    ),
    scores("intent", lambda _: INTENTS),
    scores("ood", lambda _: DETECTED),
    scores("ranking", lambda _: ANSWERS, "--reference", "{in}/toy/toy-task1-tst.txt", before=_toy),
]
EVALUATED = [
    table(
        "evaluate dst dialogues",
        ["evaluate", "--task", "dst", "--predictions", "{file}", "--reference", "{shared}/corpus"],
        _good,
        "predictions/test/dialogues_002.json",
        keep=6,
        batch=1,
    ),
    table(
        "evaluate validity set",
        ["evaluate", "--task", "validity", "--reference", "{shared}/corpus", "--sets", "a={in}/corpus"],
        _good,
        "corpus/test/dialogues_002.json",
        keep=5,
        batch=1,
        before=lambda folder, shared: shutil.copytree(shared / "corpus", folder / "corpus") and None,
    ),
    table(
        "evaluate ranking reference",
        ["evaluate", "--task", "ranking", "--predictions", "{in}/p.jsonl", "--reference", "{file}"],
        lambda _: ["1 hi\thello", "2 a table\ton it", "3 <SILENCE>\tapi_call x", "4 r R_phone p", ""],
        "t.txt",
        keep=5,
        batch=3,
        before=lambda folder, _: (
            (folder / "p.jsonl").write_text("".join(json.dumps(one) + "\n" for one in ANSWERS[:3])) and None
        ),
    ),
    table(
        "evaluate response goals file",
        [
            "evaluate",
            "--task",
            "response",
            "--predictions",
            "{in}/responses.jsonl",
            "--goals",
            "{file}",
            "--responses",
            "{in}/responses.jsonl",
        ],
        lambda _: [GOALS],
        "g.jsonl",
        keep=0,
        batch=1,
        before=_goals,
    ),
]

# Dialog bAbI, DSTC2, settings


def _rules(shared: Path) -> Path:
    argv = ["restaurants", "--tasks", "1", "--sizes", "train=20,dev=1,test=4", "--formats", "babi"]
    tasks = made(shared, "tasks", argv)
    train = ["--train", f"{tasks}/dialog-babi-task1-API-calls-trn.txt", "--match", str(next(tasks.glob("*kb-all.txt")))]
    made(shared, "rules", ["train", "rules", *train])
    candidates = ["--candidates", str(next(tasks.glob("*candidates.txt")))]
    for model in ("tfidf", "nearest"):
        made(shared, model, ["train", model, *train[:2], *(candidates if model == "tfidf" else [])])
    return tasks


def _babi(split: str) -> Callable[[Path], list[Json]]:
    """Dialogues of dialog bAbI, each a list of lines."""

    def seeds(shared: Path) -> list[Json]:
        text = (_rules(shared) / f"dialog-babi-task1-API-calls-{split}.txt").read_text()
        return [part.split("\n") for part in text.strip("\n").split("\n\n")]

    return seeds


def is_babi(record: Json) -> bool:
    """Whether the lines are a dialogue to the reader."""
    if not isinstance(record, list) or not all(isinstance(one, str) for one in record):
        return False
    try:
        return bool([*parse_dialogues("\n".join(record).encode())])
    except (InputError, UnicodeEncodeError):
        return False


def calls() -> Case:
    """A case of calls of DSTC2: a record has the log and the label of one."""

    def seeds(shared: Path) -> list[Json]:
        root = shared / "made" / "dstc2"
        if not root.exists():
            dstc2_calls.cheap_chinese(root, "Mar13_S0A0/voip-1")
            dstc2_calls.asian_oriental(root, "Mar13_S0A0/voip-2")
            dstc2_calls.write_lists(root, train=["Mar13_S0A0/voip-1"], test=["Mar13_S0A0/voip-2"])
        return [
            {name: json.loads((path / f"{name}.json").read_bytes()) for name in ("log", "label")}
            for path in sorted((root / "data/Mar13_S0A0").iterdir())
        ]

    def write(folder: Path, shared: Path, texts: Sequence[str]) -> None:
        seeds(shared)
        shutil.copytree(shared / "made" / "dstc2", folder / "dstc2")
        names = []
        for i, text in enumerate(texts):
            record = json.loads(text)
            names.append(f"Mar13_S1A1/voip-{i}")
            place = folder / "dstc2/data" / names[-1]
            place.mkdir(parents=True)
            for name in ("log", "label"):
                part = record.get(name) if isinstance(record, dict) else record
                (place / f"{name}.json").write_text(json_text(part))
        lists = folder / "dstc2/scripts/config/dstc2_train.flist"
        lists.write_text("".join(f"{name}\n" for name in ["Mar13_S0A0/voip-1", *names]))

    return Case(
        "babi_task6",
        lambda folder: ["babi_task6", "--logs", f"{folder}/dstc2", "--max_bad", "100%"],
        seeds,
        write,
        damaged="dstc2/data/Mar13_S0A0/voip-2/log.json",
        batch=60,
    )


def toml_text(value: Json) -> str:
    """An object as TOML, with whatever that cannot hold as a text."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(str(key))} = {toml_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_text, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else _quoted(value if isinstance(value, str) else repr(value))


def _quoted(text: str) -> str:
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")


def settings(
    name: str, command: Sequence[str], seed: Callable[[], Json], before: Callable[[Path, Path], None] = lambda *_: None
) -> Case:
    """A case of a file of settings in TOML: the record is all of it."""

    def write(folder: Path, shared: Path, texts: Sequence[str]) -> None:
        (folder / "shared").symlink_to(shared)
        before(folder, shared)
        values = [json.loads(text) for text in texts] or [seed()]
        value = values[0] if isinstance(values[0], dict) else {"a": values[0]}
        text = "".join(f"{_quoted(str(key))} = {toml_text(one)}\n" for key, one in value.items())
        (folder / "settings.toml").write_text(text, encoding="utf-8")

    def flags(folder: Path) -> list[str]:
        return [part.replace("{in}", str(folder)).replace("{file}", f"{folder}/settings.toml") for part in command]

    return Case(name, flags, lambda _: [seed()], write, damaged="settings.toml", batch=1)


@functools.cache
def _ontology() -> Json:
    return tomllib.loads((Path(restaurants.__file__).parent / "ontology.toml").read_text())


def _release() -> Json:
    corpus = {"path": "shared/corpus", "name": "original", "kind": "original", "splits": ["test"]}
    return {
        "name": "fuzz", "version": "1.0.0", "licence": "CC0-1.0", "description": "Text.", "authors": [{"name": "Ada"}],
        "corpora": [corpus], "title": "T", "language": ["en"], "changes": "new", "homepage": "https://x.org",
        "sources": [{"title": "S", "url": "https://x.org", "licence": "MIT", "authors": "A", "citation": "C"}],
    }  # fmt: skip


def _suite() -> Json:
    return {
        "title": "T", "corpus": {"sgd": "@sample", "splits": ["test"]}, "variants": {"pivots": ["zh"]},
        "sets": [{"perturbation": "typos", "env": [0.5]}, {"perturbation": "simple", "name": "s"}],
        "systems": [{"name": "k", "model": "parapet.evaluation.dst.baseline:Keywords"}],
        "steps": [{"pipeline": "few_shot", "sizes": "2"}], "compare": {"replicates": 10}, "seeds": [0, 1],
    }  # fmt: skip


SETTINGS = [
    settings(
        "restaurants ontology", ["restaurants", "--tasks", "1,4", "--sizes", "2", "--ontology", "{file}"], _ontology
    ),
    settings("release config", ["release", "build", "--config", "{file}"], _release),
    settings("suite", ["suite", "{file}", "--dry_run"], _suite),
]

OTHERS = [
    calls(),
    *(
        table(
            f"predict {model}",
            ["predict", model, "--model", f"{{shared}}/made/{model}", "--reference", "{file}"],
            _babi("tst"),
            "task1-tst.txt",
            keep=1,
            before=lambda _, shared: _rules(shared) and None,
            passes=is_babi,
        )
        for model in ("rules", "tfidf", "nearest")
    ),
    table(
        "train rules",
        ["train", "rules", "--train", "{file}", "--match", "{shared}/made/tasks/dialog-babi-kb-all.txt"],
        _babi("trn"),
        "task1-trn.txt",
        keep=20,
        batch=5,
        passes=is_babi,
    ),
]

CASES: list[Case] = [*SERVICES, *TABLES, *SCORES, *EVALUATED, *OTHERS, *SETTINGS]
