"""``parapet speech_errors`` with Azure's SDK and a local service: what is asked, paid once, and what fails."""

import json
import signal
import zlib
from collections.abc import Callable

import killed
import pytest

pytest.importorskip("espeakng_loader")
pytest.importorskip("azure.cognitiveservices.speech")

from azure_speech_server import KEY, AzureSpeechServer
from heard_sets import both, dialogues_of, files_of, rows_of, run, three_dialogues, write_corpus

from parapet.pipelines.main import main
from parapet.transforms.perturbations.speech.spoken import load_normalisation, spoken_words


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """Three dialogues of the sample in two files, the dialogues, and their schema."""
    return three_dialogues(tmp_path_factory)


def mishears(word: str, snr: float) -> str:
    """More words are lost the louder the noise is; which, a hash says."""
    return word if zlib.crc32(word.encode()) % 100 >= 100 - 4 * snr else "what"


def azure(server: AzureSpeechServer) -> list[str]:
    return ["--engine", "azure", "--azure_endpoint", server.url, "--noise", "white", "--snr", "24,12", "--wer", "0.2"]


@pytest.fixture
def quick(monkeypatch):
    """The key, and no patience: what a service answers in a test is all that it will answer."""
    from parapet.transforms.perturbations.speech import azure

    monkeypatch.setenv("AZURE_SPEECH_KEY", KEY)
    for engine in (azure.AzureSynthesiser, azure.AzureRecogniser):
        monkeypatch.setattr(engine, "__init__", impatient(engine.__init__))


def impatient(init: Callable[..., None]) -> Callable[..., None]:
    return lambda self, *args, **given: init(self, *args, **{**given, "patience": 0, "seconds": 5})


@pytest.fixture(scope="module")
def words(some):
    """The distinct texts of the three dialogues."""
    rules = load_normalisation()
    said = (t["utterance"] for d in some[1] for t in d["turns"] if t["speaker"] == "USER")
    return {" ".join(word.text for word in spoken_words(utterance, rules)) for utterance in said}


@pytest.mark.usefixtures("quick")
def test_azure_speaks_and_listens(some, words, tmp_path, capsys):
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
def test_espeak_speaks_and_azure_listens(some, tmp_path, capsys):
    """What eSpeak says is noise to the server: it hears words that nobody said, and no set can be made of them."""
    with AzureSpeechServer() as server:
        mixed = [*azure(server)[2:], "--speaker", "embedded", "--listener", "azure"]
        assert run(tmp_path / "out", "--sgd", str(some[0]), *mixed) == 1
    assert {request.kind for request in server.requests} == {"hear"}
    assert "and the target is 20.0%; a higher --snr" in capsys.readouterr().err


@pytest.mark.usefixtures("quick")
def test_a_service_that_fails(some, words, tmp_path, capsys):
    """Some requests fail for good, after the sample: the run is not published, and the next asks for these alone."""
    # The server draws one at each handshake, and one at each request.
    faults = iter([*[""] * 33, "1007", *[""] * 11, "1007"])
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
    ("faults", "told"), [(["401"] * 50, "credentials: "), (["quota"] * 50, "quota: "), (["503"] * 200, "unavailable: ")]
)
def test_a_service_that_is_of_no_use(faults, told, some, tmp_path, capsys):
    with AzureSpeechServer(faults=faults) as server:
        assert run(tmp_path / "out", "--sgd", str(some[0]), *azure(server)) == 1
    said = capsys.readouterr().err
    assert f"no turn was transcribed, so nothing was published: {told}" in said
    assert KEY not in said


def without_snr(flags: list[str]) -> list[str]:
    at = flags.index("--snr")
    return flags[:at] + flags[at + 2 :]


@pytest.mark.usefixtures("quick")
def test_what_fails_later_can_be_left_out(some, tmp_path, capsys):
    """The quota ends after the sample: with thresholds carried over there is none, and every turn counts."""
    out = tmp_path / "out"
    with AzureSpeechServer(mishears=mishears) as server:
        flags = ["--sgd", str(some[0]), *azure(server), "--parallel_calls", "1"]
        assert run(out, *flags, "--quiet") == 0
    carried = ["--calibration", str(out / "calibration.json"), "--seed", "1", "--max_bad", "100%"]
    with AzureSpeechServer(mishears=mishears, faults=["", "", "", ""] + ["quota"] * 99) as server:
        again = ["--sgd", str(some[0]), *without_snr(azure(server)), "--parallel_calls", "1", *carried]
        assert run(tmp_path / "late", *again) == 0
    assert "or turns that keep their utterance" in capsys.readouterr().err
    letters = [json.loads(line) for line in (tmp_path / "late" / "dead_letters.jsonl").read_text().splitlines()]
    rows = both(tmp_path / "late")
    failed = {(row["dialogue_id"], f"turns[{row['turn']}]") for row in rows if row["status"] == "failed"}
    assert failed == {(letter["dialogue_id"], letter["where"]) for letter in letters}
    assert 0 < len(failed) < len(rows)
    assert all(row["utterance"] == row["original"] for row in rows if row["status"] == "failed")
    assert all(letter["reason"].startswith("quota: ") for letter in letters)


@pytest.mark.usefixtures("quick")
def test_killed_and_run_again_pays_once(some, words, tmp_path):
    """SIGKILL after some answers; the rerun asks for the rest, and ends as an undisturbed run."""
    out = tmp_path / "out"
    with AzureSpeechServer(mishears=mishears) as server:
        flags = ["speech_errors", "--sgd", str(some[0]), *azure(server), "--parallel_calls", "1", "--quiet"]
        process = killed.start(killed.command, [*flags, "--output", str(out)])
        answers = 0

        def kill_after_nine() -> str:
            nonlocal answers
            answers += 1
            if answers == 10:
                process.kill()
            return ""

        server.faults = kill_after_nine
        assert killed.ended(process, 60) == -signal.SIGKILL
        assert not (out / "run.json").exists()
        before = len(server.requests)
        assert main([*flags, "--output", str(out)]) == 0
        # The one that was under way may be asked for twice; all others are kept.
        assert 3 * len(words) <= len(server.requests) <= 3 * len(words) + 1
        assert 0 < before < 2 * len(words)
        assert main([*flags, "--output", str(tmp_path / "undisturbed")]) == 0
    assert files_of(out) == files_of(tmp_path / "undisturbed")


ODD = {"": "empty", "?!": "empty", "🙂🙂": "empty", "Привет, как дела": "script", "book it " * 1250: "too_long"}


@pytest.mark.usefixtures("quick")
def test_turns_that_nobody_can_say(some, tmp_path):
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
    counts = json.loads((tmp_path / "out" / "run.json").read_bytes())["counts"]
    assert counts["not_spoken/SR-20/test"] == 5
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
def test_broken_dialogues_and_files(some, tmp_path, capsys):
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
        assert run(tmp_path / "out", *flags, "--max_bad", "100%") == 0
    letters = [json.loads(line) for line in (tmp_path / "out" / "dead_letters.jsonl").read_text().splitlines()]
    assert [(letter["file"], letter["dialogue_id"], letter["reason"].split(":")[0]) for letter in letters] == [
        ("dialogues_001.json", "bad", "not_sgd"),
        ("dialogues_001.json", "far", "not_sgd"),
        ("dialogues_002.json", "", "broken_file"),
    ]
    ids = {one["dialogue_id"] for one in some[1]}
    assert set(dialogues_of(tmp_path / "out" / "SR-20")) == {*ids, "half\ud800"}
    assert {row["dialogue_id"] for row in rows_of(tmp_path / "out", "SR-20")} == {*ids, "half\\ud800"}


@pytest.mark.usefixtures("quick")
def test_a_dry_run_asks_nobody(some, words, tmp_path, capsys):
    with AzureSpeechServer() as server:
        assert run(tmp_path / "out", "--sgd", str(some[0]), *azure(server), "--dry_run") == 0
    assert server.requests == []
    said = capsys.readouterr().out
    assert f"{len(words)} distinct texts" in said
    assert f"{sum(map(len, words)):,} characters by azure:neural: $" in said
    assert not (tmp_path / "out").exists()
