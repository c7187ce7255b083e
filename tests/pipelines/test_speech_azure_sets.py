"""``parapet speech_errors`` with Azure's SDK and a local service: what is asked, paid once, and what fails."""

import zlib

import kit
import pytest

pytest.importorskip("hibari")
pytest.importorskip("azure.cognitiveservices.speech")

from azure_speech_server import KEY, AzureSpeechServer
from heard_sets import files_of, rows_of, three_dialogues, write_corpus

from parapet.transforms.perturb.speech.spoken import spoken_words


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """Three dialogues of the sample in two files, the dialogues, and their schema."""
    return three_dialogues(tmp_path_factory)


def mishears(word, snr):
    """More words are lost the louder the noise is; which, a hash says."""
    return word if zlib.crc32(word.encode()) % 100 >= 100 - 4 * snr else "what"


def azure(server):
    return ["--engine", "azure", "--azure_endpoint", server.url, "--noise", "white", "--snr", "24,12", "--wer", "0.2"]


def run(out, server, *flags, status=0, **options):
    return kit.run("speech_errors", *azure(server), *flags, output=out, status=status, **options)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The key, and no patience: what a service answers in a test is all that it will answer."""
    from parapet.transforms.perturb.speech import azure

    monkeypatch.setenv("AZURE_SPEECH_KEY", KEY)
    for engine in (azure.AzureSynthesiser, azure.AzureRecogniser):
        monkeypatch.setattr(engine, "__init__", impatient(engine.__init__))


def impatient(init):
    return lambda self, *args, **given: init(self, *args, **{**given, "patience": 0})


@pytest.fixture(scope="module")
def words(some):
    """The distinct texts of the three dialogues."""
    said = (t["utterance"] for d in some[1] for t in d["turns"] if t["speaker"] == "USER")
    return {" ".join(word.text for word in spoken_words(utterance)) for utterance in said}


@pytest.mark.thorough
def test_a_service_that_fails(some, tmp_path):
    """Some requests fail for good: the run is not published, and the next asks for these alone."""
    # The server draws one at each handshake, and one at each request.
    faults = iter([*[""] * 13, "1007", *[""] * 5, "1007"])
    options = {"sgd": some[0]}
    with AzureSpeechServer(mishears=mishears, faults=lambda: next(faults, "")) as server:
        stopped = run(tmp_path / "out", server, parallel_calls=1, status=1, **options)
        assert not kit.lacking(stopped.errors, "nothing was published", "invalid")
        assert "run.json" not in stopped.files
        before = len(server.requests)
        run(tmp_path / "out", server, parallel_calls=1, **options)
        assert len(server.requests) - before <= 6, "only what had failed is asked again"
    with AzureSpeechServer(mishears=mishears) as server:
        run(tmp_path / "undisturbed", server, **options)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


def test_a_service_that_refuses_the_key(some, tmp_path):
    with AzureSpeechServer(faults=["401"] * 50) as server:
        stopped = run(tmp_path / "out", server, sgd=some[0], status=1)
    assert "nothing was published: credentials: " in stopped.errors
    assert KEY not in stopped.errors


ODD = {"": "empty", "?!": "empty", "🙂🙂": "empty", "Привет, как дела": "script", "book it " * 1250: "too_long"}


@pytest.mark.thorough
def test_turns_that_nobody_can_say(some, tmp_path):
    """They are passed through and counted; what only looks odd is said. An id that is a path leads nowhere."""
    fine = {"a\0b": "a b", "Ça va? ☕ at 7": "ca va at seven", "ｙｅｓ": "yes", 'say "<b>&amp;"': "say b and amp"}
    turns = [turn for said in [*ODD, *fine] for turn in (kit.turn("USER", said), kit.turn("SYSTEM", "OK"))]
    root = write_corpus(tmp_path / "sgd", some[2], [kit.dialogue("../../../etc/passwd\0\n", *turns), *some[1]], [])
    with AzureSpeechServer(mishears=mishears) as server:
        made = run(tmp_path / "out", server, sgd=root, audio="wav")
    assert made.manifest["counts"]["not_spoken/SR-20/test"] == 5
    rows = {row["original"]: row for row in rows_of(tmp_path / "out", "SR-20")}
    for utterance, reason in ODD.items():
        row = rows[utterance]
        assert (row["status"], row["reason"], row["utterance"], row["wer"]) == ("not_spoken", reason, utterance, None)
    for utterance, spoken in fine.items():
        assert (rows[utterance]["status"], rows[utterance]["spoken"]) == ("heard", spoken)
    assert made.json("SR-20/test/dialogues_002.json") == []
    assert {path.name for path in tmp_path.iterdir()} == {"sgd", "out"}
    assert any("etc_passwd" in path.name for path in (tmp_path / "out" / "SR-20" / "audio").rglob("*.wav"))


def test_a_dry_run_asks_nobody(some, words, tmp_path):
    with AzureSpeechServer() as server:
        told = run(tmp_path / "out", server, "--dry_run", sgd=some[0])
    assert server.requests == []
    assert f"{len(words)} distinct texts" in told.output
    assert f"{sum(map(len, words)):,} characters with azure:neural, $" in told.output
    assert not told.folder.exists()
