"""``parapet.perturb(corpus, "ood")`` gives what the command writes: a plan over the whole corpus, at exact rates."""

import pytest
from kit import cases

import parapet
from parapet.schemas.layout import sample_root


@cases(
    "options message",
    ({}, r"^ood makes 3 sets: give set_name, one of ood-10, ood-20, ood-50$"),
    ({"rates": 2}, r"^rates: 2 is no rate"),
    ({"rates": ()}, r"^rates: give each rate once"),
    ({"rates": 0.9}, r"^rates: too few places: .*, or place append$"),
    ({"rates": 0.5}, r"^rates: too few foreign utterances for ood-50: .*, or another source$"),
    ({"rates": 0.1, "source": "nowhere"}, r"^nowhere: source: there is no such file or folder"),
    ({"rates": 0.1, "place": "before"}, r"^place: 'before' is none of append, between$"),
    ({"rates": 0.1, "max_bad": "1%"}, r"^max_bad: '1%' is no share: give 0 to 1$"),
)
def test_bad_options(options, message, capfd):
    with pytest.raises(parapet.InputError, match=message):
        parapet.perturb(sample_root(), "ood", **options)
    assert capfd.readouterr() == ("", "")
