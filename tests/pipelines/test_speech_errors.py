"""``parapet speech_errors`` as a person runs it: against a plain loop, on two processes, with a service that fails."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("espeakng_loader")
pytest.importorskip("pocketsphinx")
pytest.importorskip("azure.cognitiveservices.speech")

import soundfile
from azure_speech_server import KEY, AzureSpeechServer

from pipelines.main import main
from transforms.speech.alignment import align
from transforms.speech.audio import digest, read_sound
from transforms.speech.espeak import Espeak
from transforms.speech.noise import plain, through_noise
from transforms.speech.sphinx import Sphinx
from transforms.speech.spoken import load_normalisation, spoken_words

TWO_PROCESSES = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
EMBEDDED = ["--wer", "0.2", "--language_model", "own", "--snr", "14,7"]


def run(out: Path, *flags: str) -> int:
    return main(["speech_errors", "--output", str(out), *flags])


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        name: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not (name := str(path.relative_to(folder))).startswith(".heard")
    }


def rows_of(out: Path, name: str, file: str = "test/dialogues_001") -> list[dict[str, Any]]:
    return pq.read_table(out / name / "turns" / f"{file}.parquet").to_pylist()


def both(out: Path) -> list[dict[str, Any]]:
    """The rows of the two files of ``some``."""
    return [row for n in (1, 2) for row in rows_of(out, "SR-20", f"test/dialogues_{n:03}")]


def dialogues_of(folder: Path, split: str = "test") -> dict[str, Any]:
    """By id, of all files of a split."""
    files = sorted((folder / split).glob("dialogues_*.json"))
    return {one["dialogue_id"]: one for file in files for one in json.loads(file.read_bytes())}


def write_corpus(root: Path, schema: Path, *files: list[Any]) -> Path:
    (root / "test").mkdir(parents=True)
    (root / "test" / "schema.json").write_bytes(schema.read_bytes())
    for i, dialogues in enumerate(files, 1):
        (root / "test" / f"dialogues_{i:03}.json").write_text(json.dumps(dialogues))
    return root


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any], Path]:
    """Three dialogues of the sample in two files, the dialogues, and their schema."""
    from schemas.layout import sample_root

    schema = sample_root() / "test" / "schema.json"
    every = json.loads((sample_root() / "test" / "dialogues_001.json").read_bytes())
    chosen = every[:3]
    return write_corpus(tmp_path_factory.mktemp("some") / "sgd", schema, chosen[:2], chosen[2:]), chosen, schema


@pytest.fixture(scope="module")
def heard(some: tuple[Path, list[Any], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """These as the embedded engines hear them."""
    out = tmp_path_factory.mktemp("heard") / "out"
    assert run(out, "--sgd", str(some[0]), *EMBEDDED, "--audio", "flac", "--quiet") == 0
    return out


def test_a_set_is_what_a_plain_loop_makes(heard: Path, some: tuple[Path, list[Any], Path]) -> None:
    """Every turn spoken, put through its noise, heard and aligned here, one after the other."""
    one = json.loads((heard / "statistics.json").read_bytes())["sets"]["SR-20"]
    (model,) = (path.stem for path in (heard / ".heard" / "models").glob("*.arpa"))
    espeak, sphinx = Espeak(), Sphinx(str(heard / ".heard" / "models"), model)
    espeak.open()
    sphinx.open()
    rules = load_normalisation()
    written = dialogues_of(heard / "SR-20")
    rows = {
        (row["dialogue_id"], row["turn"]): row for n in "12" for row in rows_of(heard, "SR-20", f"test/dialogues_00{n}")
    }
    errors = words = 0
    for dialogue in some[1]:
        name = dialogue["dialogue_id"]
        for t, turn in enumerate(dialogue["turns"]):
            new = written[name]["turns"][t]
            if turn["speaker"] == "SYSTEM":
                assert new == turn
                continue
            said = " ".join(word.text for word in spoken_words(turn["utterance"], rules))
            drawn = int.from_bytes(hashlib.sha256(f"0\0draw\0{name}\0{t}".encode()).digest()[:8], "big") % 10_000
            snr = one["snr_loud"] if drawn < one["threshold"] else one["snr_quiet"]
            sound = through_noise(espeak.speak(said, "klatt4"), plain("pink"), snr, f"0\0klatt4\0{said}")
            hypothesis = sphinx.hear(sound)
            row = rows[name, t]
            assert (new["utterance"], row["hypothesis"], row["snr"]) == (hypothesis, hypothesis, snr)
            assert (row["original"], row["spoken"], row["audio_sha256"]) == (turn["utterance"], said, digest(sound))
            aligned = align(said.split(), hypothesis.split())
            errors += aligned.substitutions + aligned.deletions + aligned.insertions
            words += len(said.split())
            for frame, before in zip(new["frames"], turn["frames"], strict=True):
                assert {**frame, "slots": 0} == {**before, "slots": 0}
                assert {span["slot"] for span in frame["slots"]} <= {span["slot"] for span in before["slots"]}
    assert one["words"] == words
    assert one["wer"] == pytest.approx(errors / words)
    assert abs(one["wer"] - 0.2) < 0.05  # a single turn weighs that much here
    assert {row["status"] for row in rows.values()} == {"heard"}


def test_spans_are_where_values_were_heard(heard: Path) -> None:
    rules = load_normalisation()
    kept = lost = 0
    written = dialogues_of(heard / "SR-20")
    for row in both(heard):
        utterance = written[row["dialogue_id"]]["turns"][row["turn"]]["utterance"]
        for slot in row["slots"]:
            if slot["status"] == "kept":
                found = utterance[slot["heard_start"] : slot["heard_exclusive_end"]]
                assert found == " ".join(word.text for word in spoken_words(slot["value"], rules))
                kept += 1
            else:
                lost += 1
    spans = [
        s
        for d in written.values()
        for t in d["turns"]
        if t["speaker"] == "USER"
        for f in t["frames"]
        for s in f["slots"]
    ]
    assert len(spans) == kept
    assert kept > lost


def test_what_was_listened_to_can_be_listened_to(heard: Path) -> None:
    rows = rows_of(heard, "SR-20")
    files = sorted((heard / "SR-20" / "audio" / "test" / "dialogues_001").iterdir())
    assert [digest(read_sound(file.read_bytes())) for file in files] == [row["audio_sha256"] for row in rows]


def test_the_same_in_any_order_on_two_processes(
    heard: Path, some: tuple[Path, list[Any], Path], tmp_path: Path
) -> None:
    """Dialogues in another order and other files, workers in processes of their own, nothing known from before."""
    _, chosen, schema = some
    root = write_corpus(tmp_path / "sgd", schema, [chosen[2], chosen[0]], [chosen[1]])
    assert run(tmp_path / "out", "--sgd", str(root), *EMBEDDED, *TWO_PROCESSES, "--quiet") == 0
    assert dialogues_of(tmp_path / "out" / "SR-20") == dialogues_of(heard / "SR-20")
    for name in ("statistics.json", "calibration.json", "README.md"):
        assert (tmp_path / "out" / name).read_bytes() == (heard / name).read_bytes(), name


def test_a_rerun_listens_to_nothing_and_writes_the_same(
    heard: Path, some: tuple[Path, list[Any], Path], tmp_path: Path, capsys
) -> None:
    """From the cache of the other run alone; and a new set from the same sounds."""
    flags = ["--sgd", str(some[0]), *EMBEDDED, "--audio", "flac", "--cache", str(heard / ".heard")]
    assert run(tmp_path / "again", *flags) == 0
    assert "decoded 0" in capsys.readouterr().err
    assert files_of(tmp_path / "again") == files_of(heard)
    assert run(tmp_path / "more", *flags, "--wer", "0.25", "--form", "restored") == 0
    assert "decoded 0" in capsys.readouterr().err
    for row in rows_of(tmp_path / "more", "SR-25"):
        if row["wer"] == 0:
            assert row["utterance"] == row["original"]


def test_thresholds_are_carried_over(heard: Path, some: tuple[Path, list[Any], Path], tmp_path: Path, capsys) -> None:
    flags = ["--sgd", str(some[0]), "--language_model", "own", "--cache", str(heard / ".heard")]
    carried = [*flags, "--wer", "0.2", "--calibration", str(heard / "calibration.json")]
    assert run(tmp_path / "out", *carried, "--seed", "0") == 0
    told = capsys.readouterr().err
    assert "decoded 0" in told
    assert "warning" not in told
    assert dialogues_of(tmp_path / "out" / "SR-20") == dialogues_of(heard / "SR-20")
    assert run(tmp_path / "other", *carried, "--voices", "adam", "--dry_run") == 0
    assert "calibrated with voices ['klatt4'], this run has ['adam']" in capsys.readouterr().err
    assert run(tmp_path / "other", *flags, "--wer", "0.3", "--calibration", str(heard / "calibration.json")) == 2
    assert "has no SR-30; it has SR-20" in capsys.readouterr().err


def mishears(word: str, snr: float) -> str:
    """More words are lost the louder the noise is; which, a hash says."""
    return word if zlib.crc32(word.encode()) % 100 >= 100 - 4 * snr else "what"


def azure(server: AzureSpeechServer) -> list[str]:
    return ["--engine", "azure", "--azure_endpoint", server.url, "--noise", "white", "--snr", "24,12", "--wer", "0.2"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key, and no patience: what a service answers in a test is all that it will answer."""
    from transforms.speech import azure

    monkeypatch.setenv("AZURE_SPEECH_KEY", KEY)
    for engine in (azure.AzureSynthesiser, azure.AzureRecogniser):
        monkeypatch.setattr(engine, "__init__", impatient(engine.__init__))


def impatient(init: Callable[..., None]) -> Callable[..., None]:
    return lambda self, *args, **given: init(self, *args, **{**given, "patience": 0, "seconds": 5, "first_wait": 0})


@pytest.fixture(scope="module")
def words(some: tuple[Path, list[Any], Path]) -> set[str]:
    """The different texts of the three dialogues."""
    rules = load_normalisation()
    said = (t["utterance"] for d in some[1] for t in d["turns"] if t["speaker"] == "USER")
    return {" ".join(word.text for word in spoken_words(utterance, rules)) for utterance in said}


@pytest.mark.usefixtures("quick")
def test_azure_speaks_and_listens(some: tuple[Path, list[Any], Path], words: set[str], tmp_path: Path, capsys) -> None:
    with AzureSpeechServer(mishears=mishears) as server:
        flags = ["--sgd", str(some[0]), *azure(server)]
        assert run(tmp_path / "out", *flags) == 0
        spoken = [request.text for request in server.requests if request.kind == "speak"]
        assert sorted(spoken) == sorted(words)  # each once
        assert len([request for request in server.requests if request.kind == "hear"]) == 2 * len(words)
        assert 0.1 < json.loads((tmp_path / "out" / "statistics.json").read_bytes())["sets"]["SR-20"]["wer"] < 0.3
        asked = len(server.requests)
        # Whatever was paid for is in the cache: also for another seed of draws only what is new is asked.
        assert run(tmp_path / "again", *flags, "--cache", str(tmp_path / "out" / ".heard")) == 0
        assert len(server.requests) == asked
    assert files_of(tmp_path / "again") == files_of(tmp_path / "out")
    assert KEY not in capsys.readouterr().err
    assert not any(KEY.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.usefixtures("quick")
def test_espeak_speaks_and_azure_listens(some: tuple[Path, list[Any], Path], tmp_path: Path, capsys) -> None:
    """What eSpeak says is noise to the server: it hears words that nobody said, and no set can be made of them."""
    with AzureSpeechServer() as server:
        mixed = [*azure(server)[2:], "--speaker", "embedded", "--listener", "azure"]
        assert run(tmp_path / "out", "--sgd", str(some[0]), *mixed) == 1
    assert {request.kind for request in server.requests} == {"hear"}
    assert "and 20.0% are asked for; a quieter --snr" in capsys.readouterr().err


@pytest.mark.usefixtures("quick")
def test_a_service_that_fails(some: tuple[Path, list[Any], Path], words: set[str], tmp_path: Path, capsys) -> None:
    """Some requests fail for good, after the sample: the run is not published, and the next asks for these alone."""
    faults = iter([*[""] * 16, "1007", *[""] * 5, "1007"])
    with AzureSpeechServer(mishears=mishears, faults=lambda: next(faults, "")) as server:
        flags = ["--sgd", str(some[0]), *azure(server), "--parallel_calls", "1", "--sample", "4"]
        assert run(tmp_path / "out", *flags) == 1
        told = capsys.readouterr().err
        assert "nothing was published" in told
        assert "invalid" in told
        assert not (tmp_path / "out" / "run.json").exists()
        before = len(server.requests)
        assert run(tmp_path / "out", *flags) == 0
        # Only what had failed is asked again.
        assert len(server.requests) - before <= 4
    undisturbed = tmp_path / "undisturbed"
    with AzureSpeechServer(mishears=mishears) as server:
        assert run(undisturbed, "--sgd", str(some[0]), *azure(server), "--sample", "4") == 0
    assert files_of(tmp_path / "out") == files_of(undisturbed)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("faults", "told"),
    [
        (["401"] * 50, "credentials: "),
        (["quota"] * 50, "quota: "),
        (["503"] * 200, "unavailable: "),
    ],
)
def test_a_service_that_is_of_no_use(
    faults: list[str], told: str, some: tuple[Path, list[Any], Path], tmp_path: Path, capsys
) -> None:
    with AzureSpeechServer(faults=faults) as server:
        assert run(tmp_path / "out", "--sgd", str(some[0]), *azure(server)) == 1
    said = capsys.readouterr().err
    assert f"nothing was heard, so nothing was published: {told}" in said
    assert KEY not in said


def without_snr(flags: list[str]) -> list[str]:
    at = flags.index("--snr")
    return flags[:at] + flags[at + 2 :]


@pytest.mark.usefixtures("quick")
def test_what_fails_later_can_be_left_out(some: tuple[Path, list[Any], Path], tmp_path: Path, capsys) -> None:
    """The quota ends after the sample: with thresholds carried over there is none, and every turn counts."""
    out = tmp_path / "out"
    with AzureSpeechServer(mishears=mishears) as server:
        flags = ["--sgd", str(some[0]), *azure(server), "--parallel_calls", "1"]
        assert run(out, *flags, "--quiet") == 0
    carried = ["--calibration", str(out / "calibration.json"), "--seed", "1", "--leave_out"]
    with AzureSpeechServer(mishears=mishears, faults=["", "", "", ""] + ["quota"] * 99) as server:
        again = ["--sgd", str(some[0]), *without_snr(azure(server)), "--parallel_calls", "1", *carried]
        assert run(tmp_path / "late", *again) == 0
    assert "as they were written" in capsys.readouterr().err
    letters = [json.loads(line) for line in (tmp_path / "late" / "dead_letters.jsonl").read_text().splitlines()]
    rows = both(tmp_path / "late")
    failed = {(row["dialogue_id"], f"turns[{row['turn']}]") for row in rows if row["status"] == "failed"}
    assert failed == {(letter["dialogue_id"], letter["where"]) for letter in letters}
    assert 0 < len(failed) < len(rows)
    assert all(row["utterance"] == row["original"] for row in rows if row["status"] == "failed")
    assert all(letter["reason"].startswith("quota: ") for letter in letters)


@pytest.mark.usefixtures("quick")
def test_killed_and_run_again_pays_once(some: tuple[Path, list[Any], Path], words: set[str], tmp_path: Path) -> None:
    """SIGKILL after some answers; the rerun asks for the rest, and ends as an undisturbed run."""
    out = tmp_path / "out"
    with AzureSpeechServer(mishears=mishears) as server:
        flags = ["speech_errors", "--sgd", str(some[0]), *azure(server), "--parallel_calls", "1", "--quiet"]
        command = [sys.executable, "-m", "pipelines.main", *flags, "--output", str(out)]
        process = subprocess.Popen(command, env={**os.environ, "AZURE_SPEECH_KEY": KEY})
        answers = 0

        def kill_after_nine() -> str:
            nonlocal answers
            answers += 1
            if answers == 10:
                process.kill()
            return ""

        server.faults = kill_after_nine
        assert process.wait(60) == -signal.SIGKILL
        assert not (out / "run.json").exists()
        before = len(server.requests)
        assert main([*flags, "--output", str(out)]) == 0
        # The one that was under way may be asked for twice; all others are kept.
        assert 3 * len(words) <= len(server.requests) <= 3 * len(words) + 1
        assert 0 < before < 2 * len(words)
        assert main([*flags, "--output", str(tmp_path / "undisturbed")]) == 0
    assert files_of(out) == files_of(tmp_path / "undisturbed")


ODD = {
    "": "empty",
    "?!": "empty",
    "🙂🙂": "empty",
    "Привет, как дела": "script",
    "book it " * 1250: "too_long",
}


@pytest.mark.usefixtures("quick")
def test_turns_that_nobody_can_say(some: tuple[Path, list[Any], Path], tmp_path: Path, capsys) -> None:
    """They are passed through and counted; what only looks odd is said. An id that is a path leads nowhere."""
    fine = {
        "a\0b": "a b",
        "Ça va? Yes ☕ at 7": "ca va yes at seven",
        "ｙｅｓ": "yes",
        'say "<b>&amp;"': "say b and amp",
    }
    turns = []
    for utterance in [*ODD, *fine]:
        turns.append({"speaker": "USER", "utterance": utterance, "frames": []})
        turns.append({"speaker": "SYSTEM", "utterance": "OK", "frames": []})
    dialogue = {"dialogue_id": "../../../etc/passwd\0\n", "services": [], "turns": turns}
    root = write_corpus(tmp_path / "sgd", some[2], [dialogue, *some[1]], [])
    with AzureSpeechServer(mishears=mishears) as server:
        flags = ["--sgd", str(root), *azure(server), "--audio", "wav"]
        assert run(tmp_path / "out", *flags) == 0
    assert "5 with nothing to say" in capsys.readouterr().out
    rows = {row["original"]: row for row in rows_of(tmp_path / "out", "SR-20")}
    for utterance, reason in ODD.items():
        row = rows[utterance]
        assert (row["status"], row["reason"], row["utterance"], row["wer"]) == ("not_spoken", reason, utterance, None)
    for utterance, spoken in fine.items():
        assert (rows[utterance]["status"], rows[utterance]["spoken"]) == ("heard", spoken)
    assert json.loads((tmp_path / "out" / "SR-20" / "test" / "dialogues_002.json").read_bytes()) == []
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
    assert {path.parts[0] for path in written} == {"sgd", "out"}
    assert any("etc_passwd" in path.name for path in (tmp_path / "out" / "SR-20" / "audio").rglob("*.wav"))


@pytest.mark.usefixtures("quick")
def test_broken_dialogues_and_files(some: tuple[Path, list[Any], Path], tmp_path: Path, capsys) -> None:
    far = json.loads(json.dumps(some[1][0]).replace(some[1][0]["dialogue_id"], "far"))
    far["turns"][0]["frames"][0]["slots"] = [{"slot": "city", "start": 2**63, "exclusive_end": 2**63 + 1}]
    half = {**some[1][1], "dialogue_id": "half\ud800"}
    bad = {"dialogue_id": "bad", "turns": 7}
    root = write_corpus(tmp_path / "sgd", some[2], [some[1][0], bad, far, half, *some[1][1:]])
    (root / "test" / "dialogues_002.json").write_text('[{"dialogue_id"')
    with AzureSpeechServer(mishears=mishears) as server:
        flags = ["--sgd", str(root), *azure(server)]
        assert run(tmp_path / "out", *flags) == 1
        assert "dialogue bad" in capsys.readouterr().err
        assert run(tmp_path / "out", *flags, "--leave_out") == 0
    letters = [json.loads(line) for line in (tmp_path / "out" / "dead_letters.jsonl").read_text().splitlines()]
    assert [(letter["file"], letter["dialogue_id"], letter["reason"].split(":")[0]) for letter in letters] == [
        ("dialogues_001.json", "bad", "not_sgd"),
        ("dialogues_001.json", "far", "not_sgd"),
        ("dialogues_001.json", "half\ud800", "not_sgd"),
        ("dialogues_002.json", "", "broken_file"),
    ]
    assert set(dialogues_of(tmp_path / "out" / "SR-20")) == {one["dialogue_id"] for one in some[1]}


def sound(path: Path, shape: tuple[int, ...], subtype: str) -> None:
    drawn = np.random.default_rng(1).uniform(-0.5, 0.5, shape)
    soundfile.write(path, drawn, 8000, subtype=subtype)


def test_recordings_as_noise(some: tuple[Path, list[Any], Path], tmp_path: Path) -> None:
    """A stereo file and one of 8 bits, both shorter than what is said through them."""
    (tmp_path / "noise").mkdir()
    sound(tmp_path / "noise" / "stereo.wav", (4000, 2), "PCM_16")
    sound(tmp_path / "noise" / "eight.wav", (3000,), "PCM_U8")
    (tmp_path / "noise" / "licence.txt").write_text("CC0")
    root = write_corpus(tmp_path / "sgd", some[2], some[1][:1])
    flags = ["--sgd", str(root), "--noise", str(tmp_path / "noise"), *EMBEDDED, "--snr", "16,4", "--quiet"]
    assert run(tmp_path / "out", *flags) == 0
    (name,) = {row["noise"] for row in rows_of(tmp_path / "out", "SR-20")}
    assert name.startswith("recordings:")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--wer", "20"], "--wer: 20 is no word error rate: give shares between 0 and 1, such as 0.2"),
        (["--wer", "a"], "--wer: 'a' is no rate"),
        (["--wer", "0.1,0.1"], "--wer: give each word error rate once"),
        (["--snr", "12"], "--snr: give two or more different ratios"),
        (["--noise", "brown"], "--noise: is neither a kind of noise (white, pink, babble) nor a folder of recordings"),
        (["--voices", "nobody"], "--voices: 'nobody' is no voice of eSpeak"),
        (["--voices", ","], "--voices: give one or more voices"),
        (["--split", "validation"], "there are no dialogues in 'validation'; there are in: train, dev, test"),
        (["--language_model", "nowhere.arpa"], "nowhere.arpa: --language_model: cannot be read"),
        (["--calibration", "nowhere.json"], "nowhere.json: --calibration: cannot be read"),
        (["--normalisation", "nowhere.toml"], "nowhere.toml"),
        (["--azure_region", "westeurope"], "--azure_region: is for --engine azure, and this is embedded"),
        (["--sample", "0"], "--sample: 0 is too few"),
        (
            ["--calibration", "c.json", "--sample", "9"],
            "--calibration: carries noises over: leave --snr and --sample out",
        ),
        (["--seed", "a\nb"], "--seed: give a text of printable characters"),
        (["--engine", "azure"], "--azure_region: is not given"),
        (["--engine", "azure", "--azure_endpoint", "http://x"], "--azure_endpoint: is no address"),
        (["--engine", "azure", "--azure_region", "x", "--parallel_calls", "99"], "--parallel_calls: 99 cannot be"),
        (["--engine", "azure", "--azure_region", "x", "--voices", "klatt4"], "'klatt4' is no voice of Azure's"),
    ],
)
def test_mistakes(flags: list[str], told: str, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_SPEECH_REGION", raising=False)
    monkeypatch.setenv("AZURE_SPEECH_KEY", KEY)
    assert run(tmp_path / "out", "--language_model", "own", *flags) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_target_that_cannot_be_had(some: tuple[Path, list[Any], Path], heard: Path, tmp_path: Path, capsys) -> None:
    flags = ["--sgd", str(some[0]), *EMBEDDED, "--cache", str(heard / ".heard"), "--wer", "0.95"]
    assert run(tmp_path / "out", *flags) == 1
    assert "and 95.0% are asked for; a louder --snr makes more errors" in capsys.readouterr().err
    assert not (tmp_path / "out" / "run.json").exists()


@pytest.mark.usefixtures("quick")
def test_a_dry_run_asks_nobody(some: tuple[Path, list[Any], Path], words: set[str], tmp_path: Path, capsys) -> None:
    with AzureSpeechServer() as server:
        assert run(tmp_path / "out", "--sgd", str(some[0]), *azure(server), "--dry_run") == 0
    assert server.requests == []
    said = capsys.readouterr().out
    assert f"{len(words)} different texts" in said
    assert f"{sum(map(len, words)):,} characters by azure:neural: $" in said
    assert not (tmp_path / "out").exists()
