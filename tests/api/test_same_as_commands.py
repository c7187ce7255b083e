"""The API gives what the commands write, the same dialogues and rows byte for byte; and refuses what it cannot use."""

import gc
import shutil
import tempfile
from itertools import product

import pytest
from heard_sets import three_dialogues
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kit import THOROUGH, argv_of, cases, files_of, holding, raised, run, write

import parapet
from parapet.schemas.layout import sample_root

SPLITS = "train,dev,test"
WHO, DID, WHAT = (
    ("uncle", "beekeeper", "goalkeeper", "volcano", "orchestra", "penguin", "librarian", "glacier"),
    ("swallowed", "painted", "juggled", "invented", "misplaced", "embroidered"),
    ("harmonica", "parachute", "meteorite", "saxophone", "windmill", "lighthouse", "typewriter"),
)
FOREIGN = [f"The {who} {did} his {what} twice" for who, did, what in product(WHO, DID, WHAT)]
ONE_ENV = {"env": "none"}
HEARD = {"snr": (6, 2, -1, -4)}


def data_of(folder):
    """The dialogues, schemas and rows of sets; not what says how they were made."""
    wanted, others = (".json", ".parquet"), ("run.json", "statistics.json", "memory.parquet", ".heard")
    files = files_of(folder).items()
    return {name: data for name, data in files if name.endswith(wanted) and not holding(name, *others)}


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """Corpora by name: the sample, a split of it, three dialogues that are soon heard."""
    source = write(tmp_path_factory.mktemp("source") / "foreign.txt", "\n".join(FOREIGN) + "\n")
    some, *_ = three_dialogues(tmp_path_factory)
    sample = sample_root()
    return {"sample": sample, "test": sample / "test", "dev": sample / "dev", "some": some, "source": source}


# (perturbation, corpus, options of both, flags of the command alone, options of Python alone)
CASES = {
    "options of typos": (
        *("typos", "sample", {"seed": "q", "perturb_values": True}),
        {"rates": "word=0.4", **ONE_ENV},
        {"rates": {"word": 0.4}},
    ),
    "mixed": ("verbose", "sample", {"seed": "7"}, {"env": "0.2,0.9"}, {"env": (0.2, 0.9)}),
    "paraphrase": ("paraphrase", "dev", {"seed": "Zz"}, ONE_ENV, {}),
    "own texts": ("ood", "sample", {"seed": "b"}, {"rates": "0.02,0.06"}, {"rates": [0.02, 0.06]}),
    "a source": ("ood", "test", {"source": "{source}"}, {"rates": "0.3,0.8,0.1"}, {"rates": [0.3, 0.8, 0.1]}),
    "generated values": ("unseen_entities", "sample", {"training": "{sample}"}, {"least_changed": 0}, {}),
    "speech": ("speech_errors", "some", HEARD, {"wer": "0.1,0.3"}, {"wer": (0.1, 0.3)}),
}


@pytest.mark.parametrize("name", [name for name in CASES if THOROUGH or name != "speech"])
def test_the_sets_of_a_command(name, roots, tmp_path, monkeypatch):
    kind, root, both, flags, options = CASES[name]
    command = kind if kind in ("ood", "unseen_entities", "speech_errors") else "language_variations"
    if command == "speech_errors":
        pytest.importorskip("hibari")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests have caches of their own meanwhile
    both = {key: value.format(**roots) if isinstance(value, str) else value for key, value in both.items()}
    given = {key: ",".join(map(str, value)) if isinstance(value, tuple) else value for key, value in both.items()}
    if command == "language_variations":
        flags = {"kinds": kind, **flags}
    shared = {"sgd": roots[root], "split": "test" if root == "some" else SPLITS, "output": tmp_path / "c"}
    run(*argv_of(command, **shared, **given, **flags))
    sets = parapet.perturb_sets(roots[root], kind, **both, **options)
    for of, corpus in sets.items():
        corpus.save(tmp_path / "a" / of)
    expected, found = data_of(tmp_path / "c"), data_of(tmp_path / "a")
    if command == "unseen_entities":  # writes one set
        found = {path.partition("/")[2]: data for path, data in found.items()}
    more = found.keys() - expected.keys()
    assert all("-env" in path and "/turns/" in path for path in more)  # of mixes, whose rows the command leaves out
    assert {path: found[path] for path in found.keys() - more} == expected
    rows = [row for corpus in sets.values() for row in corpus.rows.to_pylist()]
    assert any(row.get("status", "inserted") in ("varied", "heard", "replaced", "inserted") for row in rows)
    assert command != "speech_errors" or {row["status"] for row in rows} == {"heard"}


def test_rewritten_turns(tmp_path):
    corpus = parapet.load_corpus(sample_root() / "dev")
    rows = [row for row in parapet.perturb(corpus, "verbose").rows.to_pylist() if row["status"] == "varied"]
    columns = ("dialogue_id", "turn", "utterance")
    lines = [{"kind": "verbose", **{name: row[name] for name in columns}} for row in rows if row["turn"] % 4 == 0]
    path = write(tmp_path / "lines.jsonl", lines)
    shared = {"env": "none", "split": SPLITS, "sgd": sample_root() / "dev"}
    run("language_variations", rewritten=path, output=tmp_path / "c", **shared)
    parapet.perturb(corpus, "verbose", rewritten=path).save(tmp_path / "a")
    assert data_of(tmp_path / "a") == data_of(tmp_path / "c" / "verbose")


def test_apply_variants_and_perturb_one(tmp_path):
    """Typos in v2: the commands on each other's folders, the API on its own corpora."""
    variants = run("compose", "--allow_partial", output=tmp_path / "variants").folder
    run("rewrite", variants=variants, output=tmp_path / "r")
    renamed = parapet.apply_variants(parapet.load_corpus(), variants)
    assert list(renamed) == ["v1", "v2", "v3", "v4", "v5"]
    for name, corpus in renamed.items():
        corpus.save(tmp_path / name)
        assert data_of(tmp_path / name) == data_of(tmp_path / "r" / name)
    run("language_variations", sgd=tmp_path / "r" / "v2", output=tmp_path / "c", kinds="typos", env="0.5", split=SPLITS)
    parapet.perturb_sets(renamed["v2"], "typos", env=[0.5])["typos"].save(tmp_path / "a")
    assert data_of(tmp_path / "a") == data_of(tmp_path / "c" / "typos")


@pytest.mark.thorough
@settings(max_examples=3, phases=[Phase.explicit, Phase.generate])  # a shrink would take minutes
@given(st.sampled_from(["pink", "white"]), st.sampled_from(["0", "another"]), st.sampled_from([1000, 60]))
def test_what_the_command_heard_is_not_heard_again(roots, tmp_path_factory, noise, seed, longest):
    """The transcripts of the command are found in its cache."""
    out = tmp_path_factory.mktemp("options")
    both = {"noise": noise, "seed": seed, "longest": longest, "wer": 0.2}
    run("speech_errors", sgd=roots["some"], split="test", snr="30,0", output=out / "c", **both)
    cache = shutil.copytree(out / "c" / ".heard", out / "cache")
    kept = files_of(cache)
    parapet.perturb(roots["some"], "speech_errors", cache=cache, snr=(30, 0), **both).save(out / "a")
    assert (data_of(out / "a"), files_of(cache)) == (data_of(out / "c" / "SR-20"), kept)


@pytest.mark.thorough
def test_caches_of_speech_end_with_their_sets(roots, tmp_path, monkeypatch):
    pytest.importorskip("hibari")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sets = parapet.perturb_sets(roots["some"], "speech_errors", wer=0.2, **{**HEARD, "snr": (14, 3)})
    assert len(list(tmp_path.glob("parapet-speech-*"))) == 1
    del sets
    gc.collect()
    assert not list(tmp_path.glob("parapet-speech-*"))


def test_bad_rows_of_a_source(tmp_path, roots, capfd):
    few, many = tmp_path / "few.txt", tmp_path / "many.txt"
    few.write_bytes("\n".join(FOREIGN).encode() + b"\n\xff")
    many.write_bytes("\n".join(FOREIGN[:60]).encode() + b"\n\xff")
    assert parapet.perturb(roots["test"], "ood", source=few, rates=0.1).rows.num_rows
    reason = "1 of 61 source rows could not be used, more than max_bad 1% allows"
    raised(parapet.InputError, parapet.perturb, roots["test"], "ood", source=many, rates=0.1, match=reason)
    assert parapet.perturb(roots["test"], "ood", source=many, rates=0.1, max_bad=0.02).rows.num_rows
    assert capfd.readouterr() == ("", "")


KNOWN = "seed, values, training"
UNSEEN = (
    r"it is not known which values occur in training, because there are no dialogues in 'train' "
    r".these splits have some: test.: training must be the corpus"
)


@cases(
    "name options message",
    ("ood", {}, r"^ood makes 3 sets: set_name is required and must be one of ood-10, ood-20, ood-50$"),
    ("ood", {"rates": 0.1, "source": "nowhere"}, r"^nowhere: source: there is no such file or folder"),
    ("ood", {"rates": 0.1, "max_bad": "1%"}, r"^max_bad: '1%' is not a number between 0 and 1$"),
    ("speech_errors", {"wer": 20}, r"^wer: 20 is not a word error rate"),
    ("unseen_entities", {"values": "nowhere.csv"}, r"^nowhere.csv: values: cannot be read: No such file or directory$"),
    ("unseen_entities", {"training": 7}, r"^training: expected a corpus or a path, found int$"),
    ("unseen_entities", {"training": "nowhere"}, r"^nowhere: there is no such file or folder$"),
    ("unseen_entities", {"splits": "test"}, rf"^unseen_entities got .* 'splits': its options are {KNOWN}"),
    ("unseen_entities", {"training": "test only"}, UNSEEN),
)
def test_bad_options(name, options, message, capfd):
    sample = parapet.load_corpus()
    test = parapet.corpus_of({"test": sample.dialogues("test")}, {"test": sample.services("test")})
    if options == {"training": "test only"}:
        options = {"training": test}
    if name == "speech_errors":
        sample = test
    raised(parapet.InputError, parapet.perturb, sample, name, match=message, **options)
    assert capfd.readouterr() == ("", "")
