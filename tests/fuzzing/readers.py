"""Every reader, called on damaged files: it returns, or raises an InputError, in time.

A reader is called on a path. Of JSON, lines of JSON and tables the values are mutated as often as the bytes are.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import shutil
import time
import wave
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import dstc2_calls

from fuzzing import of_dialogues
from fuzzing.cases import corpus_services, csv_text, good_dialogues
from fuzzing.mutations import json_text, mutated, mutated_bytes, mutated_rows
from fuzzing.of_rows import GOALS, INTENTS, SAMPLE, made
from fuzzing.running import Found, Workshop, smaller_bytes
from fuzzing.watching import Finding, call
from parapet.evaluation import intent, ranking, sets
from parapet.evaluation.board import submission
from parapet.evaluation.compare import leaderboard, results
from parapet.evaluation.dst import frames as dst_files
from parapet.evaluation.models import saving
from parapet.evaluation.models.babi import data as babi_data
from parapet.evaluation.ratings import judgements
from parapet.evaluation.response import goals as multiwoz
from parapet.local_mturk import question
from parapet.pipelines.suite import suite_file
from parapet.schemas import decisions, dialogue, dialogue_table, layout, release
from parapet.schemas.errors import InputError
from parapet.transforms.anonymise import chats, mentions
from parapet.transforms.crowd import ingest
from parapet.transforms.crowd.hits import page as hits_page
from parapet.transforms.crowd.hits import schema_pages
from parapet.transforms.crowd.ingest import Unusable, parse_answer_xml, parse_time
from parapet.transforms.crowd.mturk import collect, pay, publish, qualifications
from parapet.transforms.crowd.rewritten_turns import tasks
from parapet.transforms.perturbation import corpora
from parapet.transforms.perturbations import rewritten
from parapet.transforms.perturbations.entities import choosing
from parapet.transforms.perturbations.ood import sources as ood_sources
from parapet.transforms.perturbations.speech import alignment, spoken
from parapet.transforms.perturbations.speech import sound as audio
from parapet.transforms.release import reading
from parapet.transforms.simulators import babi_format
from parapet.transforms.simulators.restaurants import ontology
from parapet.transforms.simulators.task6 import calls, rules
from parapet.transforms.storage import checkpoints, compressed
from parapet.transforms.translation import memory
from parapet.transforms.variants import matching

KEY = b"a worker key for fuzzing only"


class Reader(NamedTuple):
    """A reader of a file.

    Attributes:
      name: the function, as ``module.function`` without the package.
      file: the name of the file, which may say its format.
      seed: the content of a good one, given the folder of what all share.
      read: reads it.
      others: errors besides InputError that are its own: it is called where these are caught.
    """

    name: str
    file: str
    seed: Callable[[Path], bytes]
    read: Callable[[Path], Any]
    others: tuple[type[Exception], ...] = ()


def _json(value: Any) -> Callable[[Path], bytes]:
    return lambda _: json.dumps(value).encode()


def _lines(values: Iterable[Any]) -> Callable[[Path], bytes]:
    return lambda _: "".join(json.dumps(one) + "\n" for one in values).encode()


def _text(text: str) -> Callable[[Path], bytes]:
    return lambda _: text.encode()


def _sample(name: str) -> Callable[[Path], bytes]:
    return lambda _: (Path(SAMPLE) / name).read_bytes()


def _of(name: str, argv: list[str], file: str) -> Callable[[Path], bytes]:
    """A file that a command wrote."""
    return lambda shared: next(iter(sorted(made(shared, name, argv).rglob(file)))).read_bytes()


def _all(values: Iterable[Any]) -> list[Any]:
    return list(values)


def _wav(_: Path) -> bytes:
    handle = io.BytesIO()
    with wave.open(handle, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16_000)
        sound.writeframes(bytes(range(256)) * 20)
    return handle.getvalue()


def _dialogue_file(path: Path) -> None:
    file = dialogue.DialogueFile("test", path.name, str(path), path.stat().st_size)
    for item in corpora.items_of(file):
        if item.error is None:
            dialogue.dialogue_text(item.raw, item.plain)


def _ood_source(path: Path) -> None:
    for file in ood_sources.list_sources(str(path)):
        _all(ood_sources.read_source(file))


def _chats(path: Path) -> None:
    for file in chats.list_chats([str(path)]):
        _all(chats.read_chats(file))


def _known(_: Path) -> dict[str, Any]:
    return layout.services_by_name(layout.read_root(SAMPLE))


def _beside(path: Path, *names: str) -> Path:
    """Puts the other files of a command's output beside one that is read."""
    for made_by, name in (name.split("/") for name in names):
        if not (path.parent / name).exists():
            shutil.copy(path.parent / "shared" / "made" / made_by / name, path.parent)
    return path.parent


def _hits(path: Path) -> None:
    folder = _beside(path, "hits/manifest.jsonl", "hits/run.json", "hits/plan.json")
    _all(publish.read_hits(str(folder), publish.PRODUCTION))


def _validity(shared: Path) -> bytes:
    made(shared, "typos", ["perturb", "typos", "--sgd", "{shared}/corpus"])
    return _of("validity", VALIDITY, "manifest.jsonl")(shared)


def _board(shared: Path) -> bytes:
    scored = made(shared, "scored", SCORED)
    return _of(
        "board", ["compare", "--systems", f"a={scored}", f"b={scored}", "--replicates", "10"], "leaderboard.json"
    )(shared)


def _goals(path: Path) -> None:
    rows = [{"dialogue_id": name, "turn": 1, "response": "it is in the centre"} for name in GOALS]
    (path.parent / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    multiwoz.read_reference(str(path), None, str(path.parent / "r.jsonl"))


def _outcome(path: Path) -> None:
    results.read_outcome(str(_beside(path, "scored/metrics.json", "scored/run.json")))


DIALOGUES = _json(good_dialogues("test"))
TASKS = ["hits", "--task", "rewrites", "--dialogues", SAMPLE]
SCHEMAS = ["hits", "--schemas", SAMPLE]
COMPOSED = [
    "compose",
    "--schemas",
    SAMPLE,
    "--responses",
    *(f"{SAMPLE}/crowd/{one}.csv" for one in ("names", "descriptions")),
    "--allow_partial",
]
SCORED = ["evaluate", "--task", "dst", "--model", "parapet.evaluation.dst.baseline:Keywords"]
VALIDITY = ["hits", "--task", "validity", "--dialogues", "{shared}/corpus", "--sets", "a={shared}/made/typos/typos"]
RELEASE = 'name = "a"\nversion = "1.0.0"\nlicence = "MIT"\ndescription = "d"\n[[authors]]\nname = "A"\n[[corpora]]\n' \
    'path = "sgd"\nkind = "original"\nname = "o"\n'  # fmt: skip
SUBMISSION = f'system = "a"\nauthors = ["A"]\ndate = 2026-01-01\n[release]\nname = "a"\nversion = "1.0.0"\n' \
    f'manifest_sha256 = "{"0" * 64}"\n[tasks]\ndst = "p"\n'  # fmt: skip
SUITE = '[corpus]\nsgd = "@sample"\n[[sets]]\nperturbation = "typos"\n[[systems]]\nname = "a"\nmodel = "m:N"\n'
HEARD = ["speech_errors", *of_dialogues.HEARD]
MANIFEST = ["release", "build", "--config", "{shared}/release.toml"]
RULES = (Path(rules.__file__).parent / "task6_rules.toml").read_bytes()
ONTOLOGY = (Path(ontology.__file__).parent / "ontology.toml").read_bytes()
NORMAL = (Path(spoken.__file__).parent / "normalisation.toml").read_bytes()
XML = (
    "<QuestionFormAnswers><Answer><QuestionIdentifier>slot_0</QuestionIdentifier><FreeText>a</FreeText>"
    "</Answer></QuestionFormAnswers>"
)
BABI = "1 hi\thello\n2 r_a R_phone r_a_phone\n3 a table\tapi_call a b c d\n\n1 hi\thello\n"
CELLS = b"a,b\n1,2\n" * 99
CSVS = {
    "shortfall": "service_name,task,field,have,need\nGyms_1,names,slot_0,1,5\nGyms_1,descriptions,slot_1,1,5\n",
    "bonus": "assignment_id,amount,reason\n3A,0.50,good\n3B,1,better\n",
    "rejections": "assignment_id,feedback\n3A,empty\n3B,copied\n",
    "cues": "service_name,cue\nGyms_1,find a place to exercise\nFerries_1,travel by sea\n",
    "values": "slot_or_kind,value\ncity,Oslo\nGyms_1/gym_name,Lift\n",
}

READERS: list[Reader] = [
    Reader("schemas.layout.read_root", "schema.json", _json(corpus_services()), lambda p: layout.read_root(p, True)),
    Reader(
        "schemas.layout.read_schema_file",
        "schema.json",
        _json(corpus_services()[:2]),
        lambda p: layout.read_schema_file(p, "test"),
    ),
    Reader("schemas.layout.parse_json", "a.json", DIALOGUES, lambda p: layout.parse_json(p.read_bytes(), p)),
    Reader("schemas.dialogue.read_dialogues", "a.json", DIALOGUES, dialogue.read_dialogues),
    Reader("schemas.dialogue.read_each", "a.json", DIALOGUES, _dialogue_file),
    Reader(
        "schemas.dialogue_table.dialogue_lines",
        "a.json",
        DIALOGUES,
        lambda p: dialogue_table.lines_table(dialogue_table.dialogue_lines(p.read_bytes(), p.name, p).lines),
    ),
    Reader(
        "schemas.decisions.parse_decisions",
        "d.csv",
        _sample("crowd/decisions.csv"),
        lambda p: decisions.parse_decisions(p.read_bytes(), p),
    ),
    Reader("schemas.release.read_config", "release.toml", _text(RELEASE), release.read_config),
    Reader(
        "schemas.release.parse_manifest",
        "MANIFEST.json",
        _of("release", MANIFEST, "MANIFEST.json"),
        lambda p: release.parse_manifest(p.read_bytes(), p),
    ),
    Reader(
        "transforms.release.reading.open_release",
        "MANIFEST.json",
        _of("release", MANIFEST, "MANIFEST.json"),
        lambda p: reading.open_release(p.parent),
    ),
    Reader(
        "transforms.release.reading.read_rows",
        "a.parquet",
        _of("composed", COMPOSED, "responses.parquet"),
        lambda p: _all(reading.read_rows(p)),
    ),
    *(
        Reader(
            f"transforms.crowd.ingest.read_responses {name}",
            name,
            _sample(f"crowd/{name}"),
            lambda p: _all(ingest.read_responses(str(p), KEY, "utf-8")),
        )
        for name in ("names.csv", "assignments.jsonl", "rewrites.csv")
    ),
    Reader(
        "transforms.crowd.ingest.read_sheet",
        "d.csv",
        _sample("crowd/decisions.csv"),
        lambda p: ingest.read_sheet(str(p)),
    ),
    Reader(
        "transforms.crowd.ingest.parse_answer_xml",
        "a.xml",
        _text(XML),
        lambda p: parse_answer_xml(p.read_bytes().decode("utf-8", "surrogateescape")),
        (Unusable,),
    ),
    Reader(
        "transforms.crowd.ingest.parse_time",
        "time.txt",
        _text("Wed Jun 11 07:23:58 PDT 2025"),
        lambda p: parse_time(p.read_bytes().decode("utf-8", "replace")),
    ),
    Reader(
        "transforms.crowd.rewritten_turns.tasks.read_tasks",
        "manifest.jsonl",
        _of("rewrites", TASKS, "manifest.jsonl"),
        lambda p: tasks.read_tasks([str(p.parent)]),
    ),
    Reader(
        "transforms.storage.compressed.read_bytes gz",
        "a.csv.gz",
        lambda _: gzip.compress(CELLS),
        lambda p: compressed.read_bytes(str(p)),
    ),
    Reader(
        "transforms.storage.compressed.read_bytes bz2",
        "a.csv.bz2",
        lambda _: bz2.compress(CELLS),
        lambda p: compressed.read_bytes(str(p)),
    ),
    Reader(
        "transforms.storage.compressed.open_input",
        "a.jsonl.gz",
        lambda _: gzip.compress(CELLS),
        lambda p: compressed.open_input(str(p)).read(),
    ),
    Reader(
        "transforms.storage.checkpoints.read_json",
        "config.json",
        _json({"model_type": "t5", "d_model": 8}),
        lambda p: checkpoints.read_json(p.parent, p.name),
    ),
    Reader(
        "transforms.crowd.hits.schema_pages.read_ambiguous",
        "a.txt",
        _text("Gyms_1/slot/gym_name\n# no\n"),
        lambda p: schema_pages.read_ambiguous(p, ["Gyms_1/slot/gym_name"]),
    ),
    Reader(
        "transforms.crowd.hits.schema_pages.read_cues",
        "cues.csv",
        _text(CSVS["cues"]),
        lambda p: schema_pages.read_cues(p, _known(p)),
    ),
    Reader(
        "transforms.crowd.hits.page.read_shortfall",
        "shortfall.csv",
        _text(CSVS["shortfall"]),
        lambda p: hits_page.read_shortfall(str(p), _known(p)),
    ),
    Reader(
        "transforms.translation.memory.read_memory csv",
        "m.csv",
        lambda _: b"".join((Path(SAMPLE) / "translations.csv").read_bytes().splitlines(True)[:20]),
        memory.read_memory,
    ),
    Reader(
        "transforms.translation.memory.read_memory parquet",
        "m.parquet",
        _of(
            "translated",
            ["back_translate", "--schemas", SAMPLE, "--memory", f"{SAMPLE}/translations.csv"],
            "memory.parquet",
        ),
        memory.read_memory,
    ),
    Reader(
        "transforms.variants.matching.read_mapping",
        "mapping.json",
        _json(
            {"v1": {"Gyms_1": {"service": "Gyms_11", "slots": {"city": "town"}, "intents": {"FindClass": "GetClass"}}}}
        ),
        lambda p: matching.read_mapping(p.read_bytes(), p),
    ),
    Reader(
        "transforms.perturbations.rewritten.read_lines",
        "r.jsonl",
        _lines({"dialogue_id": "1", "turn": i, "kind": "typos", "utterance": "a"} for i in range(5)),
        lambda p: _all(rewritten.read_lines(str(p))),
    ),
    Reader(
        "transforms.anonymise.mentions.read_entities",
        "e.txt",
        _text("Port Alder\nPERSON\tAnn Lee\n"),
        lambda p: mentions.read_entities(str(p)),
    ),
    *(
        Reader(f"transforms.anonymise.chats.read_chats {file}", file, seed, _chats)
        for file, seed in (
            ("c.jsonl", _sample("chats.jsonl")),
            ("c.csv", _text("chat_id,speaker,text\n1,Ann,hi\n1,agent,hello\n2,Bob,yes\n")),
            ("c.txt", _text(BABI)),
        )
    ),
    Reader(
        "transforms.simulators.task6.rules.read_script",
        "rules.toml",
        lambda _: RULES,
        lambda p: rules.read_script(p.read_bytes(), p),
    ),
    Reader(
        "transforms.simulators.task6.calls.read_knowledge",
        "kb.txt",
        _text("1 a R_phone b\n2 a R_area c\n"),
        lambda p: calls.read_knowledge(str(p)),
    ),
    Reader(
        "transforms.simulators.task6.calls.read_ontology",
        "ontology.json",
        _json(dstc2_calls.ONTOLOGY),
        lambda p: calls.read_ontology(str(p.parent), str(p)),
    ),
    Reader(
        "transforms.simulators.babi_format.parse_dialogues",
        "t.txt",
        _text(BABI),
        lambda p: _all(babi_format.parse_dialogues(p.read_bytes(), p)),
    ),
    Reader(
        "transforms.simulators.babi_format.parse_facts",
        "kb.txt",
        _text("1 a R_phone b\n1 a R_area c\n"),
        lambda p: _all(babi_format.parse_facts(p.read_bytes(), p)),
    ),
    Reader(
        "transforms.simulators.babi_format.parse_candidates",
        "c.txt",
        _text("1 hello\n1 bye\n"),
        lambda p: babi_format.parse_candidates(p.read_bytes(), p),
    ),
    Reader(
        "transforms.perturbations.entities.choosing.read_gazetteer",
        "v.csv",
        _text(CSVS["values"]),
        lambda p: choosing.read_gazetteer(str(p)),
    ),
    *(
        Reader(f"transforms.perturbations.ood.sources.read_source {file}", file, seed, _ood_source)
        for file, seed in (
            ("s.txt", _text("where is it\nhow tall is it\n")),
            ("s.jsonl", _lines({"text": f"a b {i}", "id": i} for i in range(5))),
            ("s.json", DIALOGUES),
            ("log.json", _json({"session-id": "v", "turns": [{"turn-index": 0, "input": {"live": {"asr-hyps": []}}}]})),
        )
    ),
    Reader(
        "transforms.simulators.restaurants.ontology.read_ontology",
        "o.toml",
        lambda _: ONTOLOGY,
        lambda p: ontology.read_ontology(p.read_bytes(), p),
    ),
    Reader(
        "transforms.crowd.mturk.pay.read_audit",
        "responses.parquet",
        _of("composed", COMPOSED, "responses.parquet"),
        lambda p: (
            (p.parent / "run.json").write_text("{}"),
            (p.parent / "dead_letters.jsonl").touch(),
            pay.read_audit(str(p.parent)),
        ),
    ),
    Reader(
        "transforms.crowd.mturk.pay.read_rejections",
        "r.csv",
        _text(CSVS["rejections"]),
        lambda p: pay.read_rejections(str(p), ["3A", "3B"]),
    ),
    Reader(
        "transforms.crowd.mturk.qualifications.read_block_list",
        "b.txt",
        _text("A1B2C3D4E5F6G7\n# no\n"),
        lambda p: qualifications.read_block_list(str(p)),
    ),
    Reader(
        "transforms.crowd.mturk.collect.load",
        collect.FILE,
        _sample("crowd/assignments.jsonl"),
        lambda p: collect.load(p.parent),
    ),
    Reader(
        "transforms.crowd.mturk.pay.read_bonuses",
        "b.csv",
        _text(CSVS["bonus"]),
        lambda p: pay.read_bonuses(str(p), {"3A": {}, "3B": {}}),
    ),
    Reader(
        "transforms.crowd.mturk.publish.read_lacks",
        "shortfall.csv",
        _text(CSVS["shortfall"]),
        lambda p: publish.read_lacks(str(p)),
    ),
    *(
        Reader(f"transforms.crowd.mturk.publish.read_hits {file}", file, _of("hits", SCHEMAS, file), _hits)
        for file in ("manifest.jsonl", "run.json")
    ),
    Reader(
        "transforms.perturbations.speech.sound.read_sound",
        "a.wav",
        _wav,
        lambda p: audio.read_sound(p.read_bytes()),
        (Exception,),
    ),
    Reader(
        "transforms.perturbations.speech.alignment.read_calibration",
        "c.json",
        _of("heard", HEARD, "calibration.json"),
        lambda p: alignment.read_calibration(str(p), [0.4], {"seed": "0"}),
    ),
    Reader(
        "transforms.perturbations.speech.spoken.load_normalisation",
        "n.toml",
        lambda _: NORMAL,
        spoken.load_normalisation,
    ),
    Reader(
        "evaluation.dst.frames.parse_dialogues",
        "a.json",
        DIALOGUES,
        lambda p: dst_files.parse_dialogues(p.read_bytes(), p),
    ),
    Reader(
        "evaluation.dst.frames.read_predictions",
        "p.jsonl",
        _lines(
            {
                "dialogue_id": "1",
                "turn": 0,
                "service": "Gyms_1",
                "state": {"active_intent": "a", "requested_slots": [], "slot_values": {}},
            }
            for _ in range(3)
        ),
        lambda p: _all(dst_files.read_predictions(str(p))),
    ),
    Reader(
        "evaluation.dst.frames.read_parts",
        "a.json",
        DIALOGUES,
        lambda p: _all(dst_files.read_parts(str(p))),
    ),
    Reader(
        "evaluation.intent.Intent",
        "i.jsonl",
        _lines(INTENTS),
        lambda p: intent.Intent(predictions=str(p)).read(),
    ),
    Reader(
        "evaluation.intent.read_intents",
        "i.txt",
        _text("fly\nswim\n"),
        lambda p: intent.read_intents(str(p)),
    ),
    Reader(
        "evaluation.sets.read_lines",
        "l.jsonl",
        _lines({"dialogue_id": "1", "turn": i, "id": i} for i in range(5)),
        lambda p: _all(sets.read_lines(str(p), sets.Keyed)),
    ),
    Reader(
        "evaluation.ranking.read_candidates",
        "c.txt",
        _text("1 hello\n1 bye\n"),
        lambda p: ranking.read_candidates(str(p)),
    ),
    Reader(
        "evaluation.response.multiwoz.read_entities",
        "kb.json",
        _json({"hotel": [{"name": "a", "area": "b"}]}),
        lambda p: multiwoz.read_entities(str(p)),
    ),
    Reader("evaluation.response.multiwoz.read_reference", "goals.json", _json(GOALS), _goals),
    Reader("evaluation.compare.results.read_outcome", "metrics.json", _of("scored", SCORED, "metrics.json"), _outcome),
    Reader("evaluation.compare.results.read_outcome run", "run.json", _of("scored", SCORED, "run.json"), _outcome),
    Reader(
        "evaluation.compare.leaderboard.read_board",
        "leaderboard.json",
        _board,
        lambda p: leaderboard.read_board(str(p)),
    ),
    Reader(
        "evaluation.board.submission.read_submission",
        "submission.toml",
        _text(SUBMISSION),
        lambda p: submission._read(p.parent),
    ),
    Reader(
        "evaluation.ratings.judgements.read_hits",
        "manifest.jsonl",
        _validity,
        lambda p: judgements.read_hits(str(p.parent), "validity"),
    ),
    Reader(
        "evaluation.models.saving.read_card",
        "model.json",
        _json({"model": "rules", "format": 1, "settings": {}}),
        lambda p: saving.read_card(str(p.parent), "rules", babi_data.Card, 1),
    ),
    Reader(
        "evaluation.models.babi.data.read_dialogues", "t.txt", _text(BABI), lambda p: babi_data.read_dialogues(str(p))
    ),
    Reader(
        "evaluation.models.babi.data.read_candidates",
        "c.txt",
        _text("1 hello\n1 bye\n"),
        lambda p: babi_data.read_candidates(str(p)),
    ),
    Reader(
        "evaluation.models.babi.data.read_facts",
        "kb.txt",
        _text("1 a R_phone b\n"),
        lambda p: babi_data.read_facts(str(p)),
    ),
    Reader(
        "pipelines.suite.suite_file.read_suite", "suite.toml", _text(SUITE), lambda p: suite_file.read_suite(str(p))
    ),
    Reader(
        "local_mturk.question.read_form",
        "page.html",
        _of("hits", SCHEMAS, "*.html"),
        lambda p: question.read_form(p.read_bytes().decode("utf-8", "replace")),
    ),
]


CALLS = 200  # of a round
SECONDS = 10.0  # of a call


def again(reader: Reader, workshop: Workshop, data: bytes) -> list[Finding]:
    """Calls a reader on the bytes of a file."""
    folder = workshop.folder / "readers" / reader.name.replace(" ", "_")
    if not folder.is_dir():
        folder.mkdir(parents=True)
        (folder / "shared").symlink_to(workshop.shared)
    path = folder / reader.file
    path.write_bytes(data)
    finding = call(lambda: _read(reader, path), SECONDS)
    return [finding] if finding else []


def _read(reader: Reader, path: Path) -> None:
    try:
        reader.read(path)
    except InputError:
        raise
    except reader.others:
        pass


def round_of(reader: Reader, workshop: Workshop, rng: Random, known: set[str]) -> tuple[int, list[Found]]:
    """Calls a reader on a few hundred damaged files: how many, and what is new of what was found."""
    whole = reader.seed(workshop.shared)
    found = []
    calls = int(CALLS * workshop.part)
    for _ in range(calls):
        data = damaged(reader.file, whole, rng)
        for finding in again(reader, workshop, data):
            key = f"{reader.name.split()[0]}: {finding.kind}"
            if key not in known:
                known.add(key)
                found.append(Found(reader.name, finding, [], _small(reader, workshop, finding, data)))
    return calls, found


def _small(reader: Reader, workshop: Workshop, finding: Finding, data: bytes) -> bytes:
    def same(some: bytes) -> bool:
        return any(one.kind == finding.kind for one in again(reader, workshop, some))

    return smaller_bytes(data, same, time.monotonic() + workshop.patience)


def damaged(file: str, whole: bytes, rng: Random) -> bytes:
    """A file with mutated values or mutated bytes."""
    data = whole
    if rng.random() < 0.5:
        try:
            data = _of_values(file, whole, rng)
        except ValueError:  # it is of no format whose values we know
            data = mutated_bytes(whole, rng)
        if rng.random() < 0.8:
            return data
    return mutated_bytes(data, rng, [whole])


def _of_values(file: str, whole: bytes, rng: Random) -> bytes:
    if file.endswith(".json"):
        return json_text(mutated(json.loads(whole), rng), rng).encode("utf-8", "surrogatepass")
    if file.endswith(".jsonl"):
        rows = [json.loads(line) for line in whole.splitlines()]
        for _ in range(rng.choice([1, 1, 3])):
            i = rng.randrange(len(rows))
            rows[i] = mutated(rows[i], rng, rows[:3])
        return "\n".join(json_text(row, rng).replace("\n", " ") for row in rows).encode("utf-8", "surrogatepass")
    if file.endswith(".csv"):
        header, *cells = csv.reader(io.StringIO(whole.decode(), newline=""))
        if rng.random() < 0.3:
            header, cells = mutated_rows(header, cells, rng)
            return csv_text(header, cells)
        i = rng.randrange(len(cells))
        return csv_text(header, [*cells[:i], mutated(cells[i], rng, cells[:3]), *cells[i + 1 :]])
    raise ValueError(file)


# Functions that are called like readers, and why they are none of the above: by the beginning of their names.
ELSEWHERE = {
    "schemas.json_text.": "every reader of JSON",
    "schemas.layout.parse_schema_items": "by read_root",
    "schemas.limits.": "every reader of a file",
    "schemas.dialogue.parse_dialogues": "by read_dialogues",
    "schemas.release.parse_config": "by read_config",
    "transforms.anonymise.writing.parse_splits": "a flag",
    "transforms.splits.augment.plan.parse_": "flags",
    "transforms.crowd.": "the cases of compose",
    "transforms.simulators.task6.calls.read_": "the case of babi_task6",
    "transforms.storage.compressed.open_plain": "by open_input",
    "transforms.storage.compressed.read_input": "by read_bytes and open_input",
    "transforms.perturbation.corpora.read_": "the cases of dialogues",
    "transforms.crowd.hits.page.read_manifest": "by read_hits of ratings and validity, and read_tasks",
    "transforms.crowd.mturk.pay.read_rows": "by read_rejections and read_bonuses",
    "transforms.perturbations.ood.": "the cases of ood",
    "transforms.release.": "of a release that open_release has opened",
    "transforms.simulators.restaurants.": "by read_ontology, and flags",
    "transforms.perturbations.speech.": "flags, and the dictionary that comes with the engine",
    "transforms.splits.": "the cases of few_shot and unseen_services",
    "transforms.variants.table1.read_": "the cases of statistics",
    "transforms.storage.toml.parse_toml": "by read_script and read_ontology",
    "transforms.translation.": "models, and parts that this very run wrote",
    "transforms.perturbations.": "flags, and rewritten.read_lines",
    "evaluation.board.submission.open_released": "by open_release",
    "evaluation.generation.": "the cases of evaluate generation",
    "evaluation.sets.read_keyed": "by read_lines",
    "evaluation.models.": "models of torch, whose files are weights; their cards are read by saving.read_card",
    "evaluation.ood.": "the case of evaluate ood",
    "evaluation.ratings.": "read_hits; their rows are of evaluate generation",
    "evaluation.response.": "the cases of evaluate response",
    "evaluation.sets.": "the cases of evaluate",
    "evaluation.validity.": "the cases of evaluate validity",
}
