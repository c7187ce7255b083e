"""``parapet speech_errors`` as a person runs it: against a plain loop, on two processes, again, with mistakes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from two_workers import TWO_WORKERS

pytest.importorskip("espeakng_loader")
pytest.importorskip("pocketsphinx")

import soundfile
from azure_speech_server import KEY
from heard_sets import Some, both, dialogues_of, files_of, rows_of, run, three_dialogues, write_corpus

from transforms.speech.alignment import align
from transforms.speech.audio import digest, read_sound
from transforms.speech.espeak import Espeak
from transforms.speech.noise import plain, through_noise
from transforms.speech.sphinx import Sphinx
from transforms.speech.spoken import load_normalisation, spoken_words

EMBEDDED = ["--wer", "0.2", "--language_model", "own", "--snr", "14,7"]


@pytest.fixture(scope="session")
def some(tmp_path_factory: pytest.TempPathFactory) -> Some:
    """Three dialogues of the sample in two files, the dialogues, and their schema."""
    return three_dialogues(tmp_path_factory)


@pytest.fixture(scope="session")  # a worker that comes back to this module does not listen again
def heard(some: Some, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """These as the embedded engines hear them."""
    out = tmp_path_factory.mktemp("heard") / "out"
    assert run(out, "--sgd", str(some[0]), *EMBEDDED, "--audio", "flac", "--quiet") == 0
    return out


def test_a_set_is_what_a_plain_loop_makes(heard: Path, some: Some) -> None:
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


def test_the_same_in_any_order_on_two_workers(heard: Path, some: Some, tmp_path: Path) -> None:
    """Dialogues in another order and other files, two workers, nothing known from before."""
    _, chosen, schema = some
    root = write_corpus(tmp_path / "sgd", schema, [chosen[2], chosen[0]], [chosen[1]])
    assert run(tmp_path / "out", "--sgd", str(root), *EMBEDDED, *TWO_WORKERS, "--quiet") == 0
    assert dialogues_of(tmp_path / "out" / "SR-20") == dialogues_of(heard / "SR-20")
    for name in ("statistics.json", "calibration.json", "README.md"):
        assert (tmp_path / "out" / name).read_bytes() == (heard / name).read_bytes(), name


def test_a_rerun_listens_to_nothing_and_writes_the_same(heard: Path, some: Some, tmp_path: Path, capsys) -> None:
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


def test_thresholds_are_carried_over(heard: Path, some: Some, tmp_path: Path, capsys) -> None:
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


def sound(path: Path, shape: tuple[int, ...], subtype: str) -> None:
    drawn = np.random.default_rng(1).uniform(-0.5, 0.5, shape)
    soundfile.write(path, drawn, 8000, subtype=subtype)


def test_recordings_as_noise(some: Some, tmp_path: Path) -> None:
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


def test_a_target_that_cannot_be_had(some: Some, heard: Path, tmp_path: Path, capsys) -> None:
    flags = ["--sgd", str(some[0]), *EMBEDDED, "--cache", str(heard / ".heard"), "--wer", "0.95"]
    assert run(tmp_path / "out", *flags) == 1
    assert "and 95.0% are asked for; a louder --snr makes more errors" in capsys.readouterr().err
    assert not (tmp_path / "out" / "run.json").exists()
