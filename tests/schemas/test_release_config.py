"""``release.toml``: what is read, and what is refused in words."""

from kit import cases, raised, write

from parapet.schemas.errors import InputError
from parapet.schemas.release import read_config

GOOD = """
name = "my_set"
version = "1.0.0"
licence = "CC0-1.0"
description = "A set."

[[authors]]
name = "Ada"

[[corpora]]
path = "sgd"
name = "original"
kind = "original"
"""


def read(folder, text):
    read_config(write(folder / "release.toml", text))


@cases(
    "old new said",
    ('name = "my_set"\nversion = "1.0.0"\n', "", "release.toml: lacks name, version; docs/release.md shows"),
    ("my_set", "../up", "release.toml: name: must consist of letters"),
    ("my_set", "a/b", "release.toml: name: must consist of letters"),
    ("1.0.0", "1.0", "release.toml: version: '1.0' must be MAJOR.MINOR.PATCH"),
    ("1.0.0", "01.0.0", "release.toml: version: '01.0.0' must be MAJOR.MINOR.PATCH"),
    ("A set.", " ", "release.toml: description: must not be empty"),
    ('kind = "original"', 'kin = "original"', "release.toml: corpora[0]: Object contains unknown field `kin`"),
    ('kind = "original"', "kind = 3", "release.toml: corpora[0].kind: Expected `str`, got `int`"),
    ('kind = "original"', 'kind = "o"\nkindd = 1', "corpora[0]: Object contains unknown field `kindd`"),
    ('version = "1.0.0"', 'version = "1.0.0"\nhub = "my_set"', "hub: 'my_set' must be OWNER/NAME"),
    ('name = "my_set"', "name = my_set", "release.toml: not TOML: "),
    ('[[authors]]\nname = "Ada"', "authors = []", "release.toml: authors: must name at least one author"),
)
def test_what_cannot_be_is_said(old, new, said, tmp_path):
    assert old in GOOD
    assert said in str(raised(InputError, read, tmp_path, GOOD.replace(old, new)))


def test_no_file(tmp_path):
    raised(InputError, read_config, tmp_path / "release.toml", match="there is no such file; docs/release")


def test_a_license_is_a_licence(tmp_path):
    read(tmp_path, GOOD.replace("licence", "license"))
    both = GOOD.replace('licence = "CC0-1.0"', 'licence = "CC0-1.0"\nlicense = "MIT"')
    raised(InputError, read, tmp_path, both, match="unknown field `license`")
