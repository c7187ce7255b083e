"""``parapet.perturb(corpus, "ood")`` gives what the command writes: a plan over the whole corpus, at exact rates."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kit import write
from test_same_as_commands import FOREIGN, SPLITS, data_of, run

import parapet
from parapet.schemas.layout import sample_root

ROOTS = {"all": sample_root(), "test": sample_root() / "test"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write(tmp_path_factory.mktemp("source") / "foreign.txt", "\n".join(FOREIGN) + "\n")


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
