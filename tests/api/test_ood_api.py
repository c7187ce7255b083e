"""``parapet.perturb(corpus, "ood")`` gives what the command writes: a plan over the whole corpus, at exact rates."""

import tempfile
from itertools import product
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kit import cases
from test_same_as_commands import SPLITS, data_of, run

import parapet
from parapet.schemas.layout import sample_root


@cases(
    "options message",
    ({}, r"^ood makes 3 sets: set_name is required and must be one of ood-10, ood-20, ood-50$"),
    ({"rates": 2}, r"^rates: 2 is not a number above 0"),
    ({"rates": ()}, r"^rates: each rate must appear once"),
    ({"rates": 0.9}, r"^rates: too few places: .*, or use place append$"),
    ({"rates": 0.5}, r"^rates: too few foreign utterances for ood-50: .*, or use another source$"),
    ({"rates": 0.1, "source": "nowhere"}, r"^nowhere: source: there is no such file or folder"),
    ({"rates": 0.1, "place": "before"}, r"^place: 'before' must be one of append, between$"),
    ({"rates": 0.1, "max_bad": "1%"}, r"^max_bad: '1%' is not a number between 0 and 1$"),
)
def test_bad_options(options, message, capfd):
    with pytest.raises(parapet.InputError, match=message):
        parapet.perturb(sample_root(), "ood", **options)
    assert capfd.readouterr() == ("", "")


ROOTS = {"all": sample_root(), "test": sample_root() / "test"}


WHO, DID, WHAT = (
    ("uncle", "beekeeper", "goalkeeper", "volcano", "orchestra", "penguin", "librarian", "glacier"),
    ("swallowed", "painted", "juggled", "invented", "misplaced", "embroidered"),
    ("harmonica", "parachute", "meteorite", "saxophone", "windmill", "lighthouse", "typewriter"),
)


WHO, DID, WHAT = (
    ("uncle", "beekeeper", "goalkeeper", "volcano", "orchestra", "penguin", "librarian", "glacier"),
    ("swallowed", "painted", "juggled", "invented", "misplaced", "embroidered"),
    ("harmonica", "parachute", "meteorite", "saxophone", "windmill", "lighthouse", "typewriter"),
)


WHO, DID, WHAT = (
    ("uncle", "beekeeper", "goalkeeper", "volcano", "orchestra", "penguin", "librarian", "glacier"),
    ("swallowed", "painted", "juggled", "invented", "misplaced", "embroidered"),
    ("harmonica", "parachute", "meteorite", "saxophone", "windmill", "lighthouse", "typewriter"),
)


FOREIGN = [f"The {who} {did} his {what} twice" for who, did, what in product(WHO, DID, WHAT)]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "foreign.txt"
    path.write_text("\n".join(FOREIGN) + "\n")
    return path


@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])  # a shrink would take minutes
@given(
    root=st.sampled_from(sorted(ROOTS)),
    own=st.booleans(),
    rates=st.sampled_from([("0.05",), ("0.02", "0.06"), ("0.3", "0.8", "0.1")]),
    place=st.sampled_from(["between", "append"]),
    seed=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=4),
)
def test_it_is_what_the_command_writes(source, root, own, rates, place, seed):
    if own:
        rates = tuple(rate for rate in rates if float(rate) < 0.1) or ("0.04",)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        flags = ["--rates", ",".join(rates), "--place", place, "--seed", seed, "--split", SPLITS]
        flags += [] if own else ["--source", str(source)]
        run("ood", "--sgd", str(ROOTS[root]), *flags, "--output", f"{out}/c")
        options = {"rates": [float(rate) for rate in rates], "place": place, "seed": seed}
        sets = parapet.perturb_sets(ROOTS[root], "ood", source="own" if own else source, **options)
        assert sorted(sets) == sorted(path.name for path in (out / "c").iterdir() if path.name.startswith("ood-"))
        for name, corpus in sets.items():
            corpus.save(out / name)
            assert data_of(out / name) == data_of(out / "c" / name)
