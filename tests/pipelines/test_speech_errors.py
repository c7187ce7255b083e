"""``parapet speech_errors`` as a person runs it: against a plain loop, and with Azure's SDK and a local service."""

import zlib

import kit
import pytest
from kit import cases, corpus, json_of, lacking, refused_at_once

pytest.importorskip("hibari")

from azure_speech_server import KEY, AzureSpeechServer
from heard_sets import both, dialogues_of, files_of, rows_of, run, three_dialogues, write_corpus

from parapet.transforms.perturb.speech.alignment import align, respelled, word_errors
from parapet.transforms.perturb.speech.embedded import Hibari, Moonshine
from parapet.transforms.perturb.speech.sound import Mixer, digest, make_noise
from parapet.transforms.perturb.speech.spoken import spoken_words

EMBEDDED = ["--wer", "0.1,0.3", "--snr", "6,2,-1,-4"]


@pytest.fixture(scope="session")
def some(tmp_path_factory):
    """Three dialogues of the sample in two files, the dialogues, and their schema."""
    return three_dialogues(tmp_path_factory)


@pytest.fixture(scope="session")  # a worker that comes back to this module does not listen again
def heard(some, tmp_path_factory):
    """These as the embedded engines hear them."""
    out = tmp_path_factory.mktemp("heard") / "out"
    run(out, "--sgd", str(some[0]), *EMBEDDED, "--audio", "flac", "--quiet")
    return out


def errors_of(said, heard):
    return word_errors(align(said, heard)).total()


@pytest.mark.thorough
def test_a_set_is_what_a_plain_loop_makes(heard, some):
    """Every turn spoken, put through its noise, heard and aligned here, one after the other."""
    numbers = json_of(heard / "statistics.json")["sets"]
    speaker, listener = Hibari(), Moonshine()
    listener.open()
    wrong = {}
    for set_name, target in (("SR-10", 0.1), ("SR-30", 0.3)):
        written = dialogues_of(heard / set_name)
        rows = {(row["dialogue_id"], row["turn"]): row for row in both(heard, set_name)}
        errors, words = wrong.setdefault(set_name, {}), 0
        for dialogue in some[1]:
            name = dialogue["dialogue_id"]
            for t, turn in enumerate(dialogue["turns"]):
                new = written[name]["turns"][t]
                if turn["speaker"] == "SYSTEM":
                    assert new == turn
                    continue
                said = " ".join(word.text for word in spoken_words(turn["utterance"]))
                row = rows[name, t]
                voice = row["voice"]
                sound = Mixer(speaker.speak(said, voice), make_noise("pink"), f"0\0{voice}\0{said}").at(row["snr"])
                words_heard = [word.text for word in spoken_words(listener.hear(sound))]
                hypothesis = " ".join(respelled(said.split(), words_heard))
                heard_again = " ".join(word.text for word in spoken_words(new["utterance"]))  # values keep their digits
                assert (heard_again, row["hypothesis"]) == (hypothesis, hypothesis)
                assert (row["original"], row["spoken"], row["audio_sha256"]) == (turn["utterance"], said, digest(sound))
                errors[name, t] = errors_of(said.split(), hypothesis.split())
                words += len(said.split())
                for frame, before in zip(new["frames"], turn["frames"], strict=True):
                    assert {**frame, "slots": 0} == {**before, "slots": 0}
                    assert {span["slot"] for span in frame["slots"]} <= {span["slot"] for span in before["slots"]}
        one = numbers[set_name]
        assert (one["words"], one["wer"]) == (words, pytest.approx(sum(errors.values()) / words))
        assert abs(one["wer"] - target) < 0.05  # a single turn weighs that much here
        assert {row["status"] for row in rows.values()} == {"heard"}
    assert all(wrong["SR-10"][turn] <= n for turn, n in wrong["SR-30"].items())
    assert sum(wrong["SR-10"].values()) < sum(wrong["SR-30"].values())


@cases(
    "flags told",
    ("--wer 20", "--wer: 20 is not a word error rate"),
    ("--transcripts none.json", "--transcripts: cannot be read"),
    ("--transcripts setup.py", "--transcripts: contains no transcripts"),
    ("--voices nobody", "--voices: 'nobody'"),
    ("--azure_region westeurope", "--azure_region: is for --engine azure"),
    ("--engine azure", "--azure_region: must be the region"),
    ("--engine azure --azure_endpoint http://x", "--azure_endpoint: is not an address"),
    ("--engine azure --azure_region x --parallel_calls 99", "--parallel_calls: 99"),
    ("--engine azure --azure_region x --voices heart", "'heart' is not a voice of Azure's"),
)
def test_mistakes(flags, told, tmp_path, monkeypatch):
    monkeypatch.delenv("AZURE_SPEECH_REGION", raising=False)
    monkeypatch.setenv("AZURE_SPEECH_KEY", KEY)
    assert told in refused_at_once("speech_errors", *flags.split(" "), output=tmp_path / "out")


@pytest.mark.thorough
def test_sgd_as_it_lies(real_data, tmp_path):
    """Some turns of its dev split: with the defaults 10 % is reached, and words are misheard, not left out."""
    every = json_of(real_data / "sgd" / "dev" / "dialogues_001.json")
    chosen = [{**one, "turns": one["turns"][:4]} for one in every[::20][:5]]
    corpus(tmp_path / "sgd", json_of(real_data / "sgd" / "dev" / "schema.json"), dev=chosen)
    out = tmp_path / "out"
    run(out, "--sgd", str(tmp_path / "sgd"), "--split", "dev", "--wer", "0.1,0.3")
    sets = json_of(out / "statistics.json")["sets"]
    assert sets["SR-10"]["wer"] == pytest.approx(0.1, abs=0.04)
    assert sets["SR-30"]["substitutions"] > 2 * sets["SR-30"]["deletions"]


# With Azure's SDK: what is asked, paid once, and what fails.


def mishears(word, snr):
    """More words are lost the louder the noise is; which, a hash says."""
    return word if zlib.crc32(word.encode()) % 100 >= 100 - 4 * snr else "what"


def azure(server):
    return ["--engine", "azure", "--azure_endpoint", server.url, "--noise", "white", "--snr", "24,12", "--wer", "0.2"]


def run_azure(out, server, *flags, status=0, **options):
    return kit.run("speech_errors", *azure(server), *flags, output=out, status=status, **options)


@pytest.fixture
def quick(monkeypatch):
    """The key, and no patience: what a service answers in a test is all that it will answer."""
    pytest.importorskip("azure.cognitiveservices.speech")
    from parapet.transforms.perturb.speech import azure

    monkeypatch.setenv("AZURE_SPEECH_KEY", KEY)
    for engine in (azure.AzureSynthesiser, azure.AzureRecogniser):
        monkeypatch.setattr(engine, "__init__", impatient(engine.__init__))


def impatient(init):
    return lambda self, *args, **given: init(self, *args, **{**given, "patience": 0})


@pytest.mark.thorough
def test_a_service_that_fails(some, quick, tmp_path):
    """Some requests fail for good: the run is not published, and the next asks for these alone."""
    # The server draws one at each handshake, and one at each request.
    faults = iter([*[""] * 13, "1007", *[""] * 5, "1007"])
    options = {"sgd": some[0]}
    with AzureSpeechServer(mishears=mishears, faults=lambda: next(faults, "")) as server:
        stopped = run_azure(tmp_path / "out", server, parallel_calls=1, status=1, **options)
        assert not kit.lacking(stopped.errors, "nothing was published", "invalid")
        assert "run.json" not in stopped.files
        before = len(server.requests)
        run_azure(tmp_path / "out", server, parallel_calls=1, **options)
        assert len(server.requests) - before <= 6, "only what had failed is asked again"
    with AzureSpeechServer(mishears=mishears) as server:
        run_azure(tmp_path / "undisturbed", server, **options)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


def test_a_service_that_refuses_the_key(some, quick, tmp_path):
    with AzureSpeechServer(faults=["401"] * 50) as server:
        stopped = run_azure(tmp_path / "out", server, sgd=some[0], status=1)
    assert "nothing was published: credentials: " in stopped.errors
    assert KEY not in stopped.errors


ODD = {"": "empty", "?!": "empty", "🙂🙂": "empty", "Привет, как дела": "script", "book it " * 1250: "too_long"}


@pytest.mark.thorough
def test_turns_that_nobody_can_say(some, quick, tmp_path):
    """They are passed through and counted; what only looks odd is said. An id that is a path leads nowhere."""
    fine = {"a\0b": "a b", "Ça va? ☕ at 7": "ca va at seven", "ｙｅｓ": "yes", 'say "<b>&amp;"': "say b and amp"}
    turns = [turn for said in [*ODD, *fine] for turn in (kit.turn("USER", said), kit.turn("SYSTEM", "OK"))]
    root = write_corpus(tmp_path / "sgd", some[2], [kit.dialogue("../../../etc/passwd\0\n", *turns), *some[1]], [])
    with AzureSpeechServer(mishears=mishears) as server:
        made = run_azure(tmp_path / "out", server, sgd=root, audio="wav")
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


def test_a_dry_run_asks_nobody(some, quick, tmp_path):
    said = (turn["utterance"] for one in some[1] for turn in one["turns"] if turn["speaker"] == "USER")
    words = {" ".join(word.text for word in spoken_words(utterance)) for utterance in said}
    with AzureSpeechServer() as server:
        told = run_azure(tmp_path / "out", server, "--dry_run", sgd=some[0])
    assert server.requests == []
    size = f"{sum(map(len, words)):,} characters with azure:neural, $"
    assert not lacking(told.output, f"{len(words)} distinct texts", size)
    assert not told.folder.exists()
