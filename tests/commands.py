"""Command lines that run every command on small inputs, for the tests of all commands."""

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from shutil import copytree
from typing import Any

from dstc2_calls import ONTOLOGY, asian_oriental, cheap_chinese, write_lists
from kit import argv_of, dialogues_of, rows_of, run, write
from tool_files import write_tasks, write_variants

from parapet.pipelines.app import flags_of
from parapet.pipelines.main import PIPELINES, actions_of, command_of
from parapet.schemas import layout
from parapet.transforms.simulators import restaurants_simulation as ontology

# commands without workers of their own
ONE_PROCESS = ("evaluate", "train", "compare", "export", "leaderboard", "suite")
NAMES = ["--model", "parapet.evaluation.dst.trackers:Names"]
# Only a few short turns are used, since this is about files.
SPEECH = ["--longest", "14", "--wer", "0.4", "--snr", "25,-15"]

RELEASE = """
name = "sample"
version = "1.0.0"
licence = "CC0-1.0"
description = "The sample."
[[authors]]
name = "Ada"
[[corpora]]
path = "sgd"
name = "original"
kind = "original"
"""
RELEASE_OF_TEST = f'{RELEASE}splits = ["test"]\n'
SUITE = """
[corpus]
sgd = "sgd"
[[sets]]
perturbation = "typos"
env = [0.5]
[[systems]]
name = "names"
model = "parapet.evaluation.dst.trackers:Names"
"""
AUGMENTED = "backtrans,oracle,corrupted"
GOALS = {"MUL1": {"hotel": {"informable": {"area": "centre"}, "requestable": ["phone"]}}}
RESPONSES = [{"dialogue_id": "MUL1", "turn": 1, "response": "it is in the centre"}]


def write_inputs(place: Path) -> None:
    """Writes the inputs of :func:`lines` that no line makes: the sample, calls of DSTC2, settings, lists of values."""
    copytree(layout.sample_root(), place / "sgd")
    cheap_chinese(place / "dstc2", "Mar13_S0A0/voip-1")
    asian_oriental(place / "dstc2", "Mar13_S0A0/voip-2")
    write_lists(place / "dstc2", train=["Mar13_S0A0/voip-1"], test=["Mar13_S0A0/voip-2"])
    write(place / "kb.txt", "1 a R_phone b\n2 a R_area c\n")
    write(place / "ontology.json", ONTOLOGY)
    write(place / "release.toml", RELEASE_OF_TEST)
    write(place / "suite.toml", SUITE)
    write(place / "ontology.toml", (Path(ontology.__file__).parent / "ontology.toml").read_bytes())
    talk = [f"please explain {thing} of century {n}" for thing in ("volcanoes", "penguins", "haiku") for n in range(40)]
    write(place / "talk.txt", "\n".join(talk))
    kinds = ("city", "person", "business")
    said = ("I would like to book a taxi to the harbour", "Thank you very much")
    lines_of_chats = [[{"role": "user", "content": text}, {"role": "assistant", "content": "Sure."}] for text in said]
    write(place / "messages.jsonl", [{"id": f"chat {i}", "messages": of} for i, of in enumerate(lines_of_chats * 6)])
    write(place / "values.csv", [{"slot_or_kind": kind, "value": f"Value {i}"} for i in range(40) for kind in kinds])
    write(place / "goals.json", GOALS)
    write(place / "responses.jsonl", RESPONSES)
    write(place / "hotels.json", {"hotel": [{"name": "acorn", "area": "centre"}]})
    lengths = {name: len(dialogue["turns"]) for name, dialogue in dialogues_of(place / "sgd/test").items()}
    places = [{"dialogue_id": name, "turn": i} for name, n in lengths.items() for i in range(0, n, 2)]  # of the user
    write(place / "verdicts/original/all.jsonl", [{**turn, "predicted": "in_domain"} for turn in places])
    write(place / "submissions/copy/submission.toml", 'name = "copy"\n[predictions]\ndst = "states"\n')
    copytree(place / "sgd/test", place / "submissions/copy/states/original/test")
    tasks = write_tasks(place / "tasks")
    write_variants(place / "tool_variants", tasks.read_bytes())
    write(place / "calls.jsonl", [{"id": row["id"], "result": []} for row in rows_of(tasks)])


def lines(place: str, out: str) -> dict[str, list[str]]:
    """Makes command lines without ``--output``, by name, each after those whose outputs it reads.

    Args:
      place: the folder or ``gs://`` prefix that :func:`write_inputs` has filled.
      out: the folder below which each line writes, under its name.
    """
    sgd, crowd = f"{place}/sgd", f"{place}/sgd/crowd"
    answers = [f"{crowd}/{name}.csv" for name in ("names", "descriptions")]
    typos, babi = f"typos={out}/language_variations/typos", f"{out}/restaurants/dialog-babi"
    task = f"{babi}-task1-API-calls"
    test, kb, candidates = f"{task}-tst.txt", f"{babi}-kb-all.txt", f"{babi}-candidates.txt"
    every = {
        "hits": ["--task", "rewrites", "--dialogues", sgd, "--split", "test", "--turns", "3"],
        "hits names": ["--schemas", sgd],
        "compose": argv_of(schemas=sgd, responses=answers, decisions=f"{crowd}/decisions.csv", allow_partial=True),
        "hits shortfall": ["--schemas", sgd, "--shortfall", f"{out}/compose/shortfall.csv"],
        "rewrite": ["--sgd", sgd, "--variants", f"{out}/compose"],
        "rewrite tasks": ["--tasks", f"{place}/tasks/tasks.jsonl", "--variants", f"{place}/tool_variants"],
        "statistics": ["--sgd", sgd, "--variants", f"{out}/compose"],
        "back_translate": ["--schemas", sgd],
        "back_translate memory": argv_of(schemas=sgd, memory=f"{out}/back_translate/memory.parquet", pivots="pt"),
        "augment": argv_of(
            sgd=sgd, backtrans=f"{out}/back_translate", oracle=f"{out}/compose", sets=AUGMENTED, max_bad="30%"
        ),
        "compose_variations": argv_of(
            sgd=sgd, responses=f"{crowd}/rewrites.csv", decisions=f"{crowd}/rewrites_decisions.csv", hits=f"{out}/hits"
        ),
        "language_variations": ["--sgd", sgd, "--kinds", "typos", "--env", "0.5"],
        "language_variations rewritten": argv_of(
            sgd=sgd, kinds="verbose", rewritten=f"{out}/compose_variations/rewritten.jsonl"
        ),
        "perturb": ["simple", "--sgd", sgd],
        "language_variations messages": ["--messages", f"{place}/messages.jsonl", "--kinds", "typos,verbose"],
        "speech_errors": ["--sgd", sgd, *SPEECH],
        "unseen_entities": ["--sgd", sgd, "--training", sgd],
        "unseen_entities values": ["--sgd", sgd, "--values", f"{place}/values.csv", "--least_changed", "0"],
        "ood": ["--sgd", sgd, "--rates", "0.1"],
        "ood source": ["--sgd", sgd, "--source", f"{place}/talk.txt", "--rates", "0.1"],
        "anonymise": ["--chats", f"{sgd}/chats.jsonl", "--entities", f"{sgd}/entities.txt"],
        "few_shot": ["--sgd", sgd, "--sizes", "2", "--test", "2"],
        "few_shot unseen": ["--sgd", sgd, "--sizes", "4", "--test", "2", "--unseen_services", "--multi_domain"],
        "reminders": ["--dialogues", "4,0,4"],
        "restaurants": argv_of(
            tasks=1, sizes="train=20,dev=1,test=4", formats="babi", ontology=f"{place}/ontology.toml"
        ),
        "babi_task6": ["--logs", f"{place}/dstc2"],
        "babi_task6 knowledge": argv_of(logs=f"{place}/dstc2", kb=f"{place}/kb.txt", ontology=f"{place}/ontology.json"),
        "train rules": ["--ontology", f"{place}/ontology.toml", "--match", kb],
        "predict": ["rules", "--model", f"{out}/train rules", "--reference", test],
        "train classifier": ["--train", sgd, "--dev", sgd, "--steps", "2", "--buckets", "64"],
        "predict classifier": ["--model", f"{out}/train classifier", "--reference", sgd],
        "evaluate": ["--task", "dst", "--reference", sgd, "--sets", typos, *NAMES],
        "evaluate variants": ["--task", "dst", "--reference", sgd, "--variants", f"{out}/rewrite", *NAMES],
        "evaluate states": ["--task", "dst", "--reference", sgd, "--predictions", sgd],
        "evaluate intent": argv_of(task="intent", reference=sgd, predictions=f"{out}/predict classifier/predictions"),
        "evaluate ood": ["--task", "ood", "--reference", sgd, "--predictions", f"{place}/verdicts"],
        "evaluate goals": [
            *("--task", "response", "--predictions", f"{place}/responses.jsonl", "--goals", f"{place}/goals.json"),
            *("--responses", f"{place}/responses.jsonl", "--knowledge_base", f"{place}/hotels.json"),
        ],
        "evaluate ranking": argv_of(
            task="ranking", reference=test, candidates=candidates, predictions=f"{out}/predict/predictions"
        ),
        "evaluate tool_calls": argv_of(
            task="tool_calls", reference=f"{place}/tasks/tasks.jsonl", predictions=f"{place}/calls.jsonl"
        ),
        "evaluate generation": ["--task", "generation", "--predictions", "reference", "--reference", sgd],
        "evaluate response": ["--task", "response", "--predictions", "reference", "--reference", sgd],
        "hits ratings": ["--task", "ratings", "--scores", f"{out}/evaluate generation", "--faithful", "2"],
        "compare": ["--systems", f"a={out}/evaluate", f"b={out}/evaluate", "--replicates", "10"],
        "release": ["build", "--config", f"{place}/release.toml"],
        "export": ["--reference", f"{place}/tasks/tasks.jsonl", "--to", "promptfoo"],
        "leaderboard": ["--release", f"{out}/release/sample/1.0.0", "--submissions", f"{place}/submissions"],
        "suite": [f"{place}/suite.toml"],
    }
    return {name: [name.split()[0], *_action(name), *flags] for name, flags in every.items()}


def _action(name: str) -> list[str]:
    """Returns the model in ``train NAME`` and ``predict NAME``."""
    command, *rest = name.split()
    return rest if command in ("train", "predict") else []


def nets(place: str, out: str) -> dict[str, list[str]]:
    """Makes lines that train each other model for a step and predict with it, from checkpoints that do not exist."""
    sgd, babi = f"{place}/sgd", f"{out}/restaurants/dialog-babi"
    task, facts = f"{babi}-task1-API-calls", ["--match", f"{babi}-kb-all.txt"]
    texts = ["--train", f"{task}-trn.txt", "--dev", f"{task}-dev.txt", "--candidates", f"{babi}-candidates.txt"]
    few, short = ["--steps", "1", "--dev_frames", "4"], ["--max_length", "64"]
    t5, bert, gpt2 = (["--checkpoint", f"{place}/{name}"] for name in ("t5", "bert", "gpt2"))
    corpora = {
        "t5dst": [*t5, *few, *short],
        "sgp_dst": [*bert, *few, *short],
        "sgd_baseline": [*bert, *few, *short],
        "ft_t5": [*t5, "--steps", "1", "--max_input", "32"],
        "pt_t5": [*t5, "--steps", "1", "--max_input", "32"],
        "soloist": [*gpt2, "--steps", "1", "--max_length", "320"],
        "damd": ["--steps", "1"],
    }
    step = ["--steps", "1"]
    chats = {"tfidf": [*texts, *facts], "nearest": texts[:2]}
    chats |= {model: [*texts, *facts, *step] for model in ("embeddings", "memn2n")}
    every = {f"train {model}": ["train", model, "--train", sgd, *flags] for model, flags in corpora.items()}
    every |= {f"train {model}": ["train", model, *flags] for model, flags in chats.items()}
    for model in (*corpora, *chats):
        reference = sgd if model in corpora else f"{task}-tst.txt"
        more = t5 if model == "pt_t5" else []  # only its prompts are trained
        line = ["predict", model, "--model", f"{out}/train {model}", "--reference", reference, *more]
        every[f"predict {model}"] = line
    return every


def ended(argv: list[str], output: str) -> list[str]:
    """Completes a command line."""
    return [*argv, "--output", output, "--quiet"]


def registered() -> set[tuple[str, str, str]]:
    """Returns (command, action, flag) of all flags for inputs, from the commands' parsers."""
    return {
        (command, action, flag.name if flag.facts["positional"] else f"--{flag.name}")
        for command, action, flag in _flags()
        if flag.reads
    }


def takes(flag: str) -> set[str]:
    """Returns the commands that have a flag."""
    return {command for command, _, of in _flags() if flag == f"--{of.name}"}


@cache
def _flags() -> list[tuple[str, str, Any]]:
    actions = [(command, action) for command in PIPELINES for action in actions_of(command) or {"": ""}]
    return [(*action, flag) for action in actions for flag in flags_of(command_of(*action))]


def path_of(part: str) -> str:
    """Returns the path in an argument: for ``NAME=PATH``, the part after the name."""
    return re.sub(r"^\w+=(?=/|gs:)", "", part)


def inputs_of(argv: list[str], root: str) -> Iterator[tuple[int, str, str]]:
    """Yields (position, preceding flag, path) of each argument with a path below a folder; the flag may be empty."""
    flag = ""
    for i, part in enumerate(argv):
        if part.startswith("--"):
            flag = part
        elif path_of(part).startswith(root):
            yield i, flag, path_of(part)


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Locks out the other processes of a test run, which share the folder."""
    place.mkdir(exist_ok=True)
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ready(place: Path, name: str) -> list[str]:
    """Returns a line after it has written its inputs and run the lines whose outputs it reads."""
    with alone(place):
        return _ready(place, name)


def made(place: Path, name: str) -> Path:
    """Returns the output of a line, which it runs if necessary."""
    with alone(place):
        return _made(place, name)


def _ready(place: Path, name: str) -> list[str]:
    if not (place / "sgd").exists():
        write_inputs(place)
    out = place / "out"
    argv = lines(str(place), str(out))[name]
    for _, _, path in inputs_of(argv, f"{out}/"):
        _made(place, Path(path).relative_to(out).parts[0])
    return argv


def _made(place: Path, name: str) -> Path:
    output = place / "out" / name
    if not output.exists():
        run(*ended(_ready(place, name), str(output)))
    return output
