"""Laws for every command: it writes the same bytes, publishes all or nothing, loses nothing, and escapes its input.

Each law is tested once here, on a small line of each command (``commands.lines``), rather than command by command.
"""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import commands
import killed
import pytest
from commands import ended, inputs_of, made, path_of, ready
from fuzzing.watching import CANARY, output_findings
from kit import THOROUGH, TWO_WORKERS, edit, files_of, holding, json_of, lacking, raised, rows_of, run, write

from parapet import __version__
from parapet.pipelines.main import PIPELINES
from parapet.schemas.errors import InputError
from parapet.schemas.layout import check_published
from parapet.transforms.core.seeding import stable_hash

NAMES = list(commands.lines("", ""))
LINES = commands.lines("/place", "/place/out")
SLOW = ("speech_errors", "suite", "train classifier")
QUICK = [name for name in NAMES if THOROUGH or name not in SLOW]
BEAM = [name for name in NAMES if LINES[name][0] not in commands.ONE_PROCESS]
SHOWN = ("hits", "compose", "compose_variations", "anonymise", "ood", "language_variations", "evaluate", "hits ratings")
LEAVE_OUT = [name for name in QUICK if "--sgd" in LINES[name] and LINES[name][0] in commands.takes("--max_bad")]
INPUTS = [(name, i, flag) for name in QUICK for i, flag, _ in inputs_of(LINES[name], "/place")]
# Commands whose tests use servers, or that write nothing.
ELSEWHERE = {"check", "collect", "mturk", "doctor", "plan", "proxy"}
RARE = {
    *(("predict", flag) for flag in ("--knowledge_base", "--templates", "--variants", "--sets")),
    # Flags of language models, which no line has: see test_endpoint_tasks.
    *(("predict", flag) for flag in ("--candidates", "--domains", "--examples", "--prompt")),
    ("evaluate", "--prompt"),
    *(("train", flag) for flag in ("--foreign", "--templates", "--knowledge_base")),
    *(("evaluate", "--dev"), ("evaluate", "--hits"), ("predict", "--also")),
    ("leaderboard", "--ood"),
    ("speech_errors", "--messages"),
    *(("suite", "--tasks"), ("export", "--variants"), ("export", "--sets")),
}


def test_every_command_and_every_input_has_a_line():
    assert {line[0] for line in LINES.values()} == set(PIPELINES) - ELSEWHERE
    every = [*LINES.values(), *commands.nets("/place", "/place/out").values()]
    known = {(argv[0], flag) for argv in every for _, flag, _ in inputs_of(argv, "/place")}
    assert {(command, flag) for command, _, flag in commands.registered() if command not in ELSEWHERE} - known == RARE


def published(folder):
    """Reads the files that a command publishes; what has a dot before its name is kept for the next run."""
    return {path: data for path, data in files_of(folder).items() if path[0] != "."}


# The first line of each command, or all of them. A suite says where its steps write, and its steps publish.
FIRST = {LINES[name][0]: name for name in reversed(QUICK)}.values()
AGAIN = [name for name in QUICK if (THOROUGH or name in FIRST) and name != "suite"]


@pytest.mark.parametrize("name", AGAIN)
def test_run_again_on_two_workers_over_its_own_output_it_writes_the_same_bytes(name, place, tmp_path):
    first, out = made(place, name), tmp_path / "out"
    if name != "release":  # a published release never changes
        shutil.copytree(first, out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    run(*ended(ready(place, name), str(out)), *(TWO_WORKERS if name in BEAM else []))
    assert files_of(out) == files_of(first)
    assert any(path.stat().st_mtime_ns != before.get(path) for path in out.rglob("*"))


@pytest.mark.parametrize("name", [name for name in QUICK if name != "suite"])
def test_the_manifest_lists_the_files_and_their_bytes(name, place):
    files = published(made(place, name))
    if name == "release":
        sums = dict(line.split("  ")[::-1] for line in files.pop("sample/1.0.0/SHA256SUMS").decode().splitlines())
        files = {path.removeprefix("sample/1.0.0/"): data for path, data in files.items() if "latest" not in path}
        assert {path: hashlib.sha256(data).hexdigest() for path, data in files.items()} == sums
        return
    listed = json.loads(files.pop("run.json"))["files"]
    assert {path: hashlib.sha256(data).hexdigest() for path, data in files.items()} == {
        path: facts if isinstance(facts, str) else facts["sha256"] for path, facts in listed.items()
    }


# The last digits of trained models and of translations by nets depend on the processor.
VARYING = ("back_translate", "back_translate memory", "evaluate intent", "train classifier", "predict classifier")
RECORDED = [name for name in QUICK if name not in (*VARYING, *SLOW)]
RECORD = Path(__file__).parent / "recorded.json"


def rounded(value):
    """Rounds the numbers of a JSON value to six digits, as the last bits may vary."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list | tuple) else str(value)


def content_of(path):
    """Returns the content of a file; for a page only its numbers, since its wording may change."""
    if path.suffix in (".html", ".svg"):
        return re.findall(r"-?\d+(?:\.\d+)?", path.read_text("utf-8").replace(__version__, ""))
    if path.suffix == ".json":
        return rounded(json.loads(path.read_bytes()))
    return rounded(rows_of(path)) if path.suffix == ".parquet" else path.read_bytes().hex()


@pytest.mark.parametrize("name", RECORDED)
def test_the_data_is_that_on_record(name, place):
    """Compares outputs with the record, so that changes are deliberate: PARAPET_RECORD=1 writes the record anew."""
    out, found = made(place, name), {}
    for path in sorted(out.rglob("*")):
        inside = path.relative_to(out)
        if path.suffix in (".html", ".svg", ".json", ".jsonl", ".parquet", ".csv", ".txt", ".tsv") and not (
            path.name in ("run.json", "croissant.json", "MANIFEST.json")
            or "backtrans" in inside.parts
            or (name == "augment" and inside.parent == Path())  # counts translated texts
        ):
            kind = f"{inside.parent}/*{path.suffix}"
            found.setdefault(kind, hashlib.sha256()).update(json.dumps([path.name, content_of(path)]).encode())
    digests = {kind: digest.hexdigest()[:12] for kind, digest in found.items()}
    if os.environ.get("PARAPET_RECORD"):
        with commands.alone(place):
            edit(RECORD, lambda record: dict(sorted((record | {name: digests}).items())))
        return
    assert json.loads(RECORD.read_bytes())[name] == digests


# Of a suite and of speech, processes of their own publish.
KILLED = (
    [name for name in NAMES if name not in ("suite", "speech_errors")]
    if THOROUGH
    else ["rewrite", "evaluate", "hits ratings", "restaurants"]
)


@pytest.mark.parametrize("name", KILLED)
def test_killed_at_a_file_and_run_again_it_writes_the_same_bytes(name, place, tmp_path):
    """``make test-faults`` kills some commands at every operation; a reader then refuses the output."""
    argv, out = ended(ready(place, name), str(tmp_path / "out")), tmp_path / "out"
    count = len(published(made(place, name)))
    assert killed.at_rename(stable_hash("kill", name) % count, argv) == -9
    if name != "release" and not (out / "run.json").exists() and out.exists() and any(out.iterdir()):
        raised(InputError, check_published, str(out))
    run(*argv)
    assert published(out) == published(made(place, name))


def spoiled(path, way, target):
    """Makes a bad input to replace a good one."""
    if way == "missing":
        return target
    if way == "empty" and path.is_dir():
        target.mkdir()
    else:
        target.write_bytes(b"" if way == "empty" else b"\x00\xff{[" * 99)
    return target


def error_of(said):
    """Returns the one line of a refusal; empty for a command that ran."""
    assert said.status in (0, 1, 2), said.errors
    assert not holding(said.errors, "Traceback", "PARAPET_DEBUG")
    errors = [line for line in said.errors.splitlines() if line.startswith("error: ")]
    assert len(errors) == bool(said.status), said.errors
    return errors[0] if errors else ""


@pytest.mark.parametrize("way", ["missing", "empty", "garbage"])
@pytest.mark.parametrize(("name", "position", "flag"), INPUTS)
def test_a_bad_input_is_refused_by_name_before_anything_is_written(name, position, flag, way, place, tmp_path):
    argv = ready(place, name)
    path = Path(path_of(argv[position]))
    bad = spoiled(path, way, tmp_path / path.name)
    argv[position] = argv[position].replace(str(path), str(bad))
    out = tmp_path / "made"
    said = run(*ended(argv, str(out)), status=None)
    error = error_of(said)
    assert said.status
    assert bad.name in error or (flag and flag in error)
    # Unreadable answers are dead letters: a run that composes nothing still reports what is missing.
    assert flag == "--responses" or not any(out.rglob("run.json"))


@pytest.mark.parametrize(("name", "position", "flag"), INPUTS)
def test_the_output_of_another_line_fits_or_is_refused_by_name(name, position, flag, place, tmp_path):
    """``make test-all`` tries every output, or a part of it, ``make test`` one output (docs/formats.md)."""
    argv = ready(place, name)
    path = path_of(argv[position])
    others = [other for other in QUICK if other != name]
    draw = stable_hash("other", f"{name} {position}")
    for i, other in enumerate(others if THOROUGH else [others[draw % len(others)]]):
        output = made(place, other)
        parts = [output, *sorted(output.glob("[!.]*"))] if THOROUGH else [output]
        value = parts[(draw + i) % len(parts)]
        out = tmp_path / f"{other} {value.name}"
        line = [part.replace(path, str(value)) if at == position else part for at, part in enumerate(argv)]
        said = run(*ended(line, str(out)), status=None)
        error = error_of(said)
        if not error:
            made_some = name == "release" or any((said.manifest.get("counts") or {"all": 1}).values())
            assert made_some, f"{value} as {flag}"
        else:
            beside = [path for _, _, path in inputs_of(argv, f"{place}/")]  # a reference fits, but not its predictions
            assert any(mark in error for mark in (value.name, other, (flag or "/").lstrip("-"), "--", *beside)), error


@pytest.fixture(scope="session")
def bad_corpus(tmp_path_factory, sample):
    """The sample with a second dialogue in each file whose turns are invalid."""
    root = tmp_path_factory.mktemp("bad") / "sgd"
    shutil.copytree(sample, root)
    for path in root.glob("*/dialogues_*.json"):
        edit(path, lambda dialogues: dialogues[1].update(turns=7))
    return root


@pytest.mark.parametrize("name", LEAVE_OUT)
def test_a_bad_record_is_a_dead_letter_up_to_max_bad(name, place, bad_corpus, tmp_path):
    out = str(tmp_path / "out")
    argv = [part.replace(f"{place}/sgd", str(bad_corpus)) for part in ready(place, name)]
    argv = [part for i, part in enumerate(argv) if "--max_bad" not in argv[max(0, i - 1) : i + 1]]
    assert not lacking(run(*ended([*argv, "--max_bad", "0%"], out), status=1).errors, "not_sgd", "--max_bad")
    assert not Path(out, "run.json").exists()
    made = run(*ended([*argv, "--max_bad", "100%"], out))
    letters = [letter for letter in made.dead_letters if letter["split"]]  # others concern rows for such a dialogue
    files = {f"{letter['split']}/{letter['file']}" for letter in letters}
    bad = {(path.parent.name, path.name): json_of(path)[1]["dialogue_id"] for path in bad_corpus.glob("*/dialogues_*")}
    assert files
    assert {letter["dialogue_id"] for letter in letters} == {bad[tuple(file.split("/"))] for file in files}
    assert all(letter["reason"].startswith("not_sgd") for letter in letters)
    texts = [data for path, data in made.files.items() if "dialogues_" in path]
    assert not any(f'"{name}"'.encode() in data for data in texts for name in bad.values())


@pytest.mark.parametrize("name", QUICK)
def test_what_stands_where_the_output_goes_is_not_lost(name, place, tmp_path):
    """The output path may be the input itself, a file, or another command's output."""
    argv = ready(place, name)
    shutil.copytree(made(place, "hits names" if name.split()[0] != "hits" else "reminders"), tmp_path / "others")
    (tmp_path / "file").write_text("mine")
    corpora = {path for _, _, path in inputs_of(argv, f"{place}/sgd") if Path(path).is_dir()}
    takes_any = name == "release"  # it writes next to existing files
    for folder in (tmp_path / "others", tmp_path / "file", *map(Path, corpora)):
        before = files_of(folder)
        said = run(*ended(argv, str(folder)), status=None)
        assert takes_any or said.status in (1, 2), folder
        assert takes_any or "error: " in said.errors
        assert files_of(folder).items() >= before.items()
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("name", QUICK)
def test_output_and_inputs_are_apart(name, place):
    """An output that is an input, lies inside one or contains one is refused before anything is written."""
    argv = ready(place, name)
    for _, flag, path in inputs_of(argv, f"{place}/"):
        if flag in ("", "--memory", "--decisions") or name.startswith("release"):
            continue  # no flag, or a file that a run may read again
        inside = [f"{path}/new/"] if Path(path).is_dir() else []
        around = [str(Path(path).parent)] if Path(path).is_dir() else []
        for output in (path, *inside, *around):
            said = run(*ended(argv, output), status=2).errors
            assert re.search(r"--output: (is the same as|contains) --", said), said
        assert not Path(path, "new").exists()


@pytest.mark.parametrize("name", QUICK)
def test_an_empty_output_is_refused(name, place):
    assert "--output: is empty: give a path" in run(*ended(ready(place, name), ""), status=2).errors


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """The inputs with markup and control characters in texts by people: turns, answers, chats."""
    place = tmp_path_factory.mktemp("hostile")
    commands.write_inputs(place)
    text = f" {CANARY}\x1b[31m\u202e"

    def dialogues(found):
        for dialogue in found:
            for turn in dialogue["turns"]:
                turn["utterance"] += text

    for path in (place / "sgd").glob("*/dialogues_*.json"):
        edit(path, dialogues)
    for name in ("names", "descriptions", "rewrites"):
        answers = rows_of(place / f"sgd/crowd/{name}.csv")
        first = answers[0]  # the other answers remain valid
        first.update({key: value + text for key, value in first.items() if key.startswith("Answer.") and value})
        write(place / f"sgd/crowd/{name}.csv", answers)
    chats = place / "sgd/chats.jsonl"
    chats.write_text(chats.read_text().replace('"text": "', f'"text": {json.dumps(text)[:-1]}'))
    return place


# Speech needs short turns, and hostile ones are long; submissions that suit no corpus have a test of their own.
ESCAPED = [name for name in QUICK if "speech" not in name and name != "leaderboard"] if THOROUGH else SHOWN


@pytest.mark.parametrize("name", ESCAPED)
def test_no_page_has_the_input_raw(name, hostile):
    assert not list(output_findings(made(hostile, name)))
