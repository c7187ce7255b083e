"""``parapet few_shot`` as a person runs it: nested, covering, apart from the tests, the same in any order."""

import pytest
from kit import cases, holding, lacking, refused_at_once, run
from multiwoz_corpus import write_corpus

from parapet.schemas.layout import read_root

FLAGS = ["--sizes", "1,3,4", "--test", "2"]


def few_shot(out, *flags, **more):
    return run("few_shot", *flags, output=out, **more)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return few_shot(tmp_path_factory.mktemp("made") / "out", *FLAGS).folder


def test_what_is_short_is_told(made, tmp_path):
    assert not lacking((made / "README.md").read_text(), "- Ferries: only 1 of 2 test dialogues", "| Gyms | 4 | 4 |")
    said = few_shot(tmp_path / "out", *FLAGS, "--require_full", domains="Gyms,Ferries", status=2).errors
    assert "error: Ferries: only 1 of 2 test dialogues" in said
    assert (tmp_path / "out" / "run.json").exists()  # what there is, is there
    assert not (tmp_path / "out" / "Museums").exists()
    for path in ("Gyms/4/train/dialogues_001.json", "Ferries/test/dialogues_001.json"):
        assert (tmp_path / "out" / path).read_bytes() == (made / path).read_bytes()


def test_training_without_the_services_of_the_test(tmp_path):
    """Idle frames of the domain are removed from training, too."""
    parts = [["hotel"], ["hotel", "train"], ["train", "taxi"], ["restaurant"], ["taxi"]]
    root = write_corpus(tmp_path / "mw", {"train": parts, "test": parts}, lists_all=True)
    flags = {"sgd": root, "sizes": 9, "test": 9, "domains": "hotel"}
    made = few_shot(tmp_path / "out", "--unseen_services", "--multi_domain", **flags)
    assert "hotel: training sets of 3; 2 test dialogues" in made.output
    for dialogue in made.dialogues("hotel/9/train").values():
        frames = [frame["service"] for turn in dialogue["turns"] for frame in turn["frames"]]
        assert "hotel" not in {*frames, *dialogue["services"]}
    assert "hotel" not in [service.service_name for service in read_root(tmp_path / "out/hotel/9/train")[0].services]
    assert "hotel" in [service.service_name for service in read_root(tmp_path / "out/hotel/test")[0].services]
    alone = few_shot(tmp_path / "alone", "--unseen_services", **flags)
    assert "hotel: training sets of 2; 1 test dialogue" in alone.output


@cases(
    "flags told",
    (["--sizes", "0"], "--sizes: 0: must be a number from 1 to 999,999"),
    (["--test", "0"], "--test: 0: must be 1 or more"),
    (["--domains", "Hotels"], "--domains: there is no domain 'Hotels': must be one of Ferries, Gyms,"),
    (["--test_split", "train"], "--test_split: must differ from --train_split"),
    (["--test_split", "x"], "--test_split: there are no dialogues in 'x'; these splits have some: train, dev, test"),
)
def test_mistakes(flags, told, tmp_path):
    assert told in refused_at_once("few_shot", *flags, output=tmp_path / "out")


@pytest.mark.thorough
def test_real_dialogues(real_data, tmp_path):
    made = few_shot(tmp_path / "out", sgd=real_data / "sgd", test_split="dev", domains="Restaurants")
    of = made.json("statistics.json")["domains"]["Restaurants"]
    assert [one["dialogues"] for one in of["train"].values()] == [5, 10, 25, 50]
    assert (of["train"]["50"]["slots_missing"], of["test"]["dialogues"]) == ([], 29)


def test_a_corpus_with_frames_of_every_service(tmp_path):
    """As MultiWOZ 2.2 is: a set has dialogues that touch its domain, and the advice is about those that there are."""
    parts = [["hotel"], ["hotel", "train"], ["train", "taxi"], ["hotel", "restaurant"], ["restaurant"]] * 2
    root = write_corpus(tmp_path / "mw", {"train": parts, "test": parts}, lists_all=True)
    flags = {"sgd": root, "sizes": 2, "test": 2}
    reported = few_shot(tmp_path / "alone", **flags)
    assert "hotel: training sets of 2; 2 test dialogues" in reported.output
    no_set = "these domains get no set"
    touching_others = f"{no_set} without --multi_domain, because their training dialogues also touch other domains: "
    untouched = f"{no_set}, because no training dialogue touches them: "
    told = f"{touching_others}taxi (2), train (4)\n", f"{untouched}attraction, bus, hospital, police\n"
    assert not lacking(reported.errors, *told)
    assert sorted(path.name for path in (tmp_path / "alone").iterdir() if path.is_dir()) == ["hotel", "restaurant"]

    several = few_shot(tmp_path / "several", "--multi_domain", **flags)
    assert touching_others not in several.errors
    for domain in ("hotel", "train", "taxi"):
        found = [several.dialogues(f"{domain}/{folder}") for folder in ("2/train", "test")]
        assert [*map(len, found)] == [2, 2]
        for one in (*found[0].values(), *found[1].values()):
            values = [frame["state"]["slot_values"] for frame in one["turns"][-2]["frames"]]
            assert any(slot.startswith(f"{domain}-") for slots in values for slot in slots)
            assert len(one["services"]) == len(values) == 8  # as in the input
        assert read_root(tmp_path / "several" / domain / "test")[0].services
    assert not holding([path.name for path in several.folder.iterdir()], "police", "bus")
    assert touching_others + "taxi (2)" in few_shot(tmp_path / "none", **flags, domains="taxi,bus", status=1).errors
    said = few_shot(tmp_path / "none", "--multi_domain", **flags, domains="bus", status=1).errors
    assert f"{untouched}bus" in said
    assert "--multi_domain" not in said
