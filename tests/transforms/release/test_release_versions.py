"""Version numbers, and what a change asks of them."""

from kit import cases

from parapet.transforms.release.diff import contradiction


@cases(
    "new level said",
    ("1.2.4", "minor", "1.2.4 is a patch version after 1.2.3, but the data was changed at the minor level"),
    ("1.3.0", "major", "1.3.0 is a minor version after 1.2.3, but the data was changed at the major level"),
    ("1.2.3", "patch", "version 1.2.3 does not come after 1.2.3"),
    ("2.0.0", "patch", ""),
)
def test_a_number_that_says_too_little_contradicts(new, level, said):
    assert contradiction("1.2.3", new, level) == said
