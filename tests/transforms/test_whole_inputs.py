"""What Parapet has written is read whole or not at all, whoever reads it; what others have written as it is."""

import shutil

import kit
import pytest
from kit import cases, raised, write
from test_files import Killed, run

import parapet
import parapet.beam
from parapet.schemas.errors import InputError
from parapet.schemas.layout import check_published, sample_root
from parapet.transforms.core import files

SCHEMA = (sample_root() / "test/schema.json").read_bytes()
VARIANTS = {f"v{i}/{split}/schema.json": SCHEMA for i in (1, 2, 3) for split in ("dev", "test")}
REST = {"responses.parquet": b"rows", "review.csv": b"a,b\n", "report.html": b"<p>", "statistics.json": b"{}"}
FIRST = {**VARIANTS, **REST}
SECOND = {path: data.replace(b"_1", b"_7") + b" " for path, data in FIRST.items() if not path.startswith("v3")}
BROKEN_OFF = "a run of 'parapet compose' was interrupted here: run that command again to finish it"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A composition over which another was killed: v1 is of the second, the others of the first."""
    folder = tmp_path_factory.mktemp("mixed")
    output = folder / "out"
    run(output, FIRST)
    move = files.move_staged

    def move_one(batch, output):
        move([path for path in batch if path.startswith("v1/")], output)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "move_staged", move_one)
        raised(Killed, run, output, SECOND)
    replaced = {path for path, data in kit.files_of(output).items() if path in VARIANTS and data != FIRST[path]}
    assert replaced == {"v1/dev/schema.json", "v1/test/schema.json"}
    assert not (output / "run.json").exists()
    for name in ("model", "rows", "ours"):
        (folder / name).mkdir()
    config = 'name = "n"\nversion = "1.0.0"\ntitle = "t"\ndescription = "d"\nlicence = "CC-BY-4.0"\nlanguage = ["en"]\n'
    config += '[[authors]]\nname = "A"\n'
    sample = f'[[corpora]]\nname = "original"\npath = "{sample_root()}"\nkind = "original"\n'
    (folder / "release.toml").write_text(f'{config}[[corpora]]\npath = "{output}"\nkind = "variants"\n')
    (folder / "audit.toml").write_text(f'{config}{sample}[[audits]]\npath = "{output}"\n')
    (folder / "suite.toml").write_text(f'[corpus]\nsgd = "@sample"\n[variants]\npath = "{output}"\n')
    return folder


READERS = [
    *("rewrite --variants OUT", "rewrite --variants OUT/v1", "rewrite --variants OUT/v1/test/schema.json"),
    *("statistics --variants OUT", "statistics --sgd OUT/v1 --variants OUT", "augment --oracle OUT"),
    *("augment --backtrans OUT", "few_shot --sgd OUT/v1", "ood --sgd OUT/v1"),
    *("speech_errors --sgd OUT/v1", "language_variations --sgd OUT/v1", "perturb typos --sgd OUT/v1"),
    *("unseen_entities --sgd OUT/v1", "unseen_entities --training OUT/v1", "back_translate --schemas OUT/v1"),
    *("hits --schemas OUT/v1", "compose --schemas OUT/v1", "compose --responses OUT/review.csv"),
    *("compose --decisions OUT/review.csv", "train damd --train OUT/v1", "train damd --dev OUT/v1"),
    *("predict t5dst --model OUT", "predict t5dst --model MODEL --variants OUT"),
    *("evaluate --task dst --predictions OUT", "evaluate --task dst --predictions MODEL --variants OUT"),
    *("evaluate --task dst --model Names --sets v1=OUT/v1", "evaluate --task dst --reference OUT/v1 --model Names"),
    *("compare --systems a=OUT", "release build --config release.toml"),
    *("release build --config audit.toml", "suite suite.toml", "leaderboard --release OUT --submissions ROWS"),
]


@pytest.mark.parametrize("command", READERS)
def test_every_reader_refuses_a_mix_of_two_runs(mixed, command, tmp_path, monkeypatch):
    monkeypatch.chdir(mixed)
    words = [word.replace("OUT", "out").replace("MODEL", "model").replace("ROWS", "rows") for word in command.split()]
    assert BROKEN_OFF in kit.refused(*words, output=tmp_path / "output")
    assert not (tmp_path / "output").exists()


# --- what was changed since ------------------------------------------------------------------------------------------


@pytest.fixture
def output(tmp_path):
    run(tmp_path / "out", FIRST)
    return tmp_path / "out"


def refused(place, match):
    raised(InputError, check_published, place, match=match)


@pytest.mark.parametrize("place", ["", "v1", "v1/test", "v1/test/schema.json"])
def test_a_file_of_another_size_is_refused(output, place):
    path = write(output / "v1/test/schema.json", SCHEMA + b" ")
    told = "has been changed since 'parapet compose' wrote this folder: run that command again, or remove run"
    refused(output / place, f"v1/test/schema.json: {told}")
    assert check_published(output / "v2") is not None
    path.write_bytes(SCHEMA)
    assert check_published(output / place) is not None


def test_what_is_missing_is_named(output):
    (output / "v3/dev/schema.json").unlink()
    refused(output, "v3/dev/schema.json: has been removed since 'parapet compose' wrote this folder")
    assert check_published(output / "v2") is not None


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """What ``cp -r`` without hidden files copies of a composition that is being published."""
    output = tmp_path_factory.mktemp("unfinished") / "out"
    kit.run("compose", "--allow_partial", "--quiet", output=output)
    (output / "run.json").unlink()
    shutil.rmtree(output / "v5")
    return output


@cases("line", "statistics --variants OUT", "rewrite --variants OUT/v1", "perturb typos --sgd OUT/v1/test/schema.json")
def test_an_unfinished_output_is_refused_by_every_command(unfinished, tmp_path, line):
    words = [word.replace("OUT", str(unfinished)) for word in line.split()]
    told = kit.refused_at_once(*words, output=tmp_path / "new")
    assert f"{unfinished}: has dead_letters.jsonl but no run.json" in told


def test_another_output_below_one_is_its_own(output):
    run(output / "deeper/other", FIRST)
    assert check_published(output) is not None
    assert check_published(output / "deeper/other/v1").folder == str(output / "deeper/other")


# --- what is not of Parapet ------------------------------------------------------------------------------------------


def test_foreign_folders_are_taken_as_they_are(sample, tmp_path):
    shutil.copytree(sample, tmp_path / "corpus")
    (tmp_path / "run.json").write_text('{"pipeline": 1, "files": []}')
    (tmp_path / "corpus/run.json").write_text('{"name": "of another program"}')
    assert check_published(tmp_path / "corpus") is None
    assert check_published(tmp_path / "absent") is None
    assert parapet.load_corpus(tmp_path / "corpus").splits == ("train", "dev", "test")


@pytest.mark.parametrize("content", [b"", b"{", b'{"pipeline": "compo'])
def test_a_torn_manifest_is_refused(output, content):
    (output / "run.json").write_bytes(content)
    refused(output, r"run.json: is not JSON")


@pytest.mark.parametrize("place", ["", "sgd/original", "sgd/original/test/schema.json", "data"])
def test_half_a_release_is_refused(tmp_path, sample, place):
    shutil.copytree(sample, tmp_path / "sgd/original")
    (tmp_path / "data").mkdir()
    (tmp_path / "MANIFEST.json").write_text('{"format": "another"}')
    assert check_published(tmp_path / place) is None
    (tmp_path / "MANIFEST.json").write_text('{"format": "parapet-release/1"}')
    told = "the release is incomplete, SHA256SUMS is missing: build it again, or copy the whole folder"
    refused(tmp_path / place, told)
    (tmp_path / "SHA256SUMS").touch()
    assert check_published(tmp_path / place) is None


def test_a_run_that_has_only_begun_is_named(tmp_path):
    (tmp_path / "out/.incomplete").mkdir(parents=True)
    refused(tmp_path / "out", "a run of Parapet was interrupted here")
    assert check_published(tmp_path) is None


@pytest.mark.parametrize("apply", [parapet.apply_variants, parapet.beam.ApplyVariants])
def test_the_library_takes_no_variants_that_are_not_whole(apply, tmp_path):
    run(tmp_path, FIRST)
    shutil.rmtree(tmp_path / "v3")
    arguments = [parapet.load_corpus(), tmp_path] if apply is parapet.apply_variants else [tmp_path]
    told = r"v3/dev/schema\.json: .*has been removed since 'parapet compose' wrote this folder"
    raised(InputError, apply, *arguments, match=told)


def test_people_may_edit_sheets_and_pages_and_add_files(output):
    (output / "review.csv").write_text("another,sheet\n")
    (output / "report.html").unlink()
    (output / "v1/notes.txt").write_text("mine")
    assert check_published(output) is not None
