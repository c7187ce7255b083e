"""``parapet speech_errors`` as a person runs it: against a plain loop, on two processes, again, with mistakes."""

import hashlib
import json

import pytest
from kit import corpus, refused

pytest.importorskip("espeakng_loader")
pytest.importorskip("pocketsphinx")

from azure_speech_server import KEY
from heard_sets import both, dialogues_of, run, three_dialogues

from parapet.transforms.perturbations.speech.alignment import align, share
from parapet.transforms.perturbations.speech.embedded import Espeak, Sphinx
from parapet.transforms.perturbations.speech.sound import digest, plain, through_noise
from parapet.transforms.perturbations.speech.spoken import load_normalisation, spoken_words

EMBEDDED = ["--wer", "0.1,0.3", "--language_model", "own", "--snr", "14,9,6,3", "--sample", "4"]


@pytest.fixture(scope="session")
def some(tmp_path_factory):
    """Three dialogues of the sample in two files, the dialogues, and their schema."""
    return three_dialogues(tmp_path_factory)


@pytest.fixture(scope="session")  # a worker that comes back to this module does not listen again
def heard(some, tmp_path_factory):
    """These as the embedded engines hear them."""
    out = tmp_path_factory.mktemp("heard") / "out"
    assert run(out, "--sgd", str(some[0]), *EMBEDDED, "--audio", "flac", "--quiet") == 0
    return out


def errors_of(said, heard):
    aligned = align(said, heard)
    return aligned.substitutions + aligned.deletions + aligned.insertions


@pytest.mark.thorough
def test_a_set_is_what_a_plain_loop_makes(heard, some):
    """Every turn spoken, put through its noise, heard and aligned here, one after the other."""
    numbers = json.loads((heard / "statistics.json").read_bytes())["sets"]
    (model,) = (path.stem for path in (heard / ".heard" / "models").glob("*.arpa"))
    espeak, sphinx = Espeak(), Sphinx(str(heard / ".heard" / "models"), model)
    espeak.open()
    sphinx.open()
    rules = load_normalisation()
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
                said = " ".join(word.text for word in spoken_words(turn["utterance"], rules))
                row = rows[name, t]
                sound = through_noise(espeak.speak(said, "klatt4"), plain("pink"), row["snr"], f"0\0klatt4\0{said}")
                hypothesis = sphinx.hear(sound)
                assert (new["utterance"], row["hypothesis"]) == (hypothesis, hypothesis)
                assert (row["original"], row["spoken"], row["audio_sha256"]) == (turn["utterance"], said, digest(sound))
                errors[name, t] = errors_of(said.split(), hypothesis.split())
                words += len(said.split())
                for frame, before in zip(new["frames"], turn["frames"], strict=True):
                    assert {**frame, "slots": 0} == {**before, "slots": 0}
                    assert {span["slot"] for span in frame["slots"]} <= {span["slot"] for span in before["slots"]}
        one = numbers[set_name]
        assert one["words"] == words
        assert one["wer"] == pytest.approx(sum(errors.values()) / words)
        assert abs(one["wer"] - target) < 0.05  # a single turn weighs that much here
        assert {row["status"] for row in rows.values()} == {"heard"}
    assert all(wrong["SR-10"][turn] <= n for turn, n in wrong["SR-30"].items())
    assert sum(wrong["SR-10"].values()) < sum(wrong["SR-30"].values())


def test_turns_are_heard_through_what_a_plain_search_chooses(heard):
    """Of the noises that a turn was heard through, which the cache knows, the nearest to its draw's share of errors."""
    made = json.loads((heard / "calibration.json").read_bytes())
    kept = {}
    for file in (heard / ".heard" / "heard").glob("*.json"):
        kept |= {one["audio"]: one["words"] for one in json.loads(file.read_bytes()).values()}
    speak = Espeak()
    speak.open()
    for setting in made["settings"]:
        for row in both(heard, f"SR-{setting['target']:.0%}".rstrip("%")):
            said = row["spoken"].split()
            hashed = hashlib.sha256(f"0\0draw\0{row['dialogue_id']}\0{row['turn']}".encode()).digest()
            wanted = share(int.from_bytes(hashed[:8], "big") % 10_000, setting["level"]) * len(said)
            spoken, key = speak.speak(row["spoken"], "klatt4"), f"0\0klatt4\0{row['spoken']}"
            sounds = [digest(through_noise(spoken, plain("pink"), snr, key)) for snr in made["ratios"]]
            found = [errors_of(said, kept[sound].split()) for sound in sounds if sound in kept]
            errors = row["substitutions"] + row["deletions"] + row["insertions"]
            assert abs(errors - wanted) == min(abs(n - wanted) for n in found)


def test_thresholds_are_carried_over(heard, some, tmp_path, capsys):
    flags = ["--sgd", str(some[0]), "--language_model", "own", "--cache", str(heard / ".heard")]
    carried = [*flags, "--wer", "0.1,0.3", "--calibration", str(heard / "calibration.json")]
    assert run(tmp_path / "out", *carried, "--seed", "0") == 0
    told = capsys.readouterr().err
    assert "decoded 0" in told
    assert "warning" not in told
    assert dialogues_of(tmp_path / "out" / "SR-30") == dialogues_of(heard / "SR-30")
    assert run(tmp_path / "other", *carried, "--voices", "adam", "--dry_run") == 0
    assert "calibrated with voices ['klatt4'], this run has ['adam']" in capsys.readouterr().err
    assert run(tmp_path / "other", *flags, "--wer", "0.2", "--calibration", str(heard / "calibration.json")) == 2
    assert "has no SR-20; it has SR-10, SR-30" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--wer 20", "--wer: 20 is no word error rate"),
        ("--wer a", "--wer: 'a'"),
        ("--snr 12", "--snr: "),
        ("--noise brown", "--noise: "),
        ("--voices nobody", "--voices: 'nobody'"),
        ("--voices ,", "--voices: give one or more"),
        ("--split validation", "'validation'; there are in: train, dev, test"),
        ("--language_model nowhere.arpa", "nowhere.arpa: --language_model: cannot be read"),
        ("--calibration nowhere.json", "nowhere.json: --calibration: "),
        ("--normalisation nowhere.toml", "nowhere.toml"),
        ("--azure_region westeurope", "--azure_region: is for --engine azure"),
        ("--sample 0", "--sample: 0"),
        (f"--calibration {__file__} --sample 9", "--calibration: has its own ratios: leave --snr and --sample out"),
        ("--seed a\0b", "--seed: "),
        ("--engine azure", "--azure_region: is not given"),
        ("--engine azure --azure_endpoint http://x", "--azure_endpoint: is no address"),
        ("--engine azure --azure_region x --parallel_calls 99", "--parallel_calls: 99"),
        ("--engine azure --azure_region x --voices klatt4", "'klatt4' is no voice of Azure's"),
    ],
)
def test_mistakes(flags, told, tmp_path, monkeypatch):
    monkeypatch.delenv("AZURE_SPEECH_REGION", raising=False)
    monkeypatch.setenv("AZURE_SPEECH_KEY", KEY)
    said = refused("speech_errors", "--language_model", "own", *flags.split(" "), output=tmp_path / "out")
    assert told in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_sgd_as_it_lies(real_data, tmp_path, capsys):
    """Some turns of its dev split beside one file of train, of another service: with the defaults 10 % is reached."""
    every = json.loads((real_data / "sgd" / "dev" / "dialogues_001.json").read_bytes())
    chosen = [{**one, "turns": one["turns"][:4]} for one in every[::20][:5]]
    corpus(tmp_path / "sgd", json.loads((real_data / "sgd" / "dev" / "schema.json").read_bytes()), dev=chosen)
    (tmp_path / "sgd" / "train").symlink_to(real_data / "sgd" / "train")
    out = tmp_path / "out"
    assert run(out, "--sgd", str(tmp_path / "sgd"), "--split", "dev", "--wer", "0.1", "--sample", "3") == 0
    assert "the split train alone" in capsys.readouterr().err
    assert json.loads((out / "statistics.json").read_bytes())["sets"]["SR-10"]["wer"] == pytest.approx(0.1, abs=0.04)
    made = json.loads((out / "run.json").read_bytes())
    assert made["options"]["language_model"] == "mixed"
    assert made["options"]["perplexity"] > 100
    assert made["counts"]["perfect/SR-10/dev"] > 0
    assert "has seen the text" in (out / "README.md").read_text().replace("**", "")


@pytest.mark.thorough
@pytest.mark.parametrize(("wer", "ratios", "hint"), [("0.95", "14,10,6", "a lower"), ("0.1", "4,2,0,-5", "a higher")])
def test_a_target_out_of_reach_is_told_after_the_first_texts(wer, ratios, hint, some, tmp_path, capsys):
    """Transcript through the two ends of what may be used, and through nothing between them."""
    out = tmp_path / "out"
    flags = ["--language_model", "own", "--wer", f"{wer},0.5", "--snr", ratios, "--sample", "3"]
    assert run(out, "--sgd", str(some[0]), *flags) == 1
    told = capsys.readouterr().err
    assert f"and the target is {float(wer):.1%}; {hint} --snr" in told
    assert sum(len(json.loads(file.read_bytes())) for file in (out / ".heard/heard").glob("*.json")) == 6
    assert not (out / "run.json").exists()
