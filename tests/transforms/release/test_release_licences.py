from kit import cases
from release_manifests import SGD, manifest

from parapet.schemas.release import Source
from parapet.transforms.release import citation
from parapet.transforms.release.citation import licence_text


def source(licence):
    return Source("Some data", "https://example.org", licence)


def problems(licence, *sources, has_file=False):
    return list(citation.problems(licence, [source(one) for one in sources], has_file))


@cases(
    "ours theirs",
    ("CC-BY-SA-4.0", "CC-BY-SA-4.0"),
    ("CC-BY-SA-4.0", "CC-BY-SA-3.0"),
    ("cc-by-sa-4.0", "CC-BY-4.0"),
    ("CC-BY-NC-4.0", "CC-BY-NC-3.0"),
    ("ODbL-1.0", "ODbL-1.0"),
)
def test_what_may_be_published(ours, theirs):
    assert problems(ours, theirs) == []


@cases(
    "ours theirs reason",
    ("CC-BY-4.0", "CC-BY-SA-4.0", "requires the release to have the same licence, but it has CC-BY-4.0"),
    ("CC-BY-4.0", "CC-BY-SA-3.0", "the same licence, or CC-BY-SA-4.0, but it has CC-BY-4.0"),
    ("CC-BY-SA-3.0", "CC-BY-SA-4.0", "the same licence, but it has CC-BY-SA-3.0"),
    ("CC-BY-SA-4.0", "ODbL-1.0", "the same licence, but it has CC-BY-SA-4.0"),
    ("MIT", "CC-BY-NC-4.0", "does not allow commercial use, but MIT does"),
    ("CC-BY-ND-4.0", "CC-BY-ND-4.0", "does not allow publishing anything that is made from it"),
)
def test_what_may_not(ours, theirs, reason):
    found = problems(ours, theirs)
    assert len(found) == 1
    assert found[0].startswith(f"'Some data' is under {theirs}, which ")
    assert found[0].endswith(reason)


def test_an_own_text_comes_first():
    text = licence_text(manifest(licence="Our-Own", sources=[]), "Do as you like.\n\n")
    assert text.startswith("Do as you like.\n\nTiny X")
    assert text.endswith("Licence: Our-Own, as above.\n")


def test_the_notice_names_authors_and_sources():
    text = licence_text(manifest())
    assert text.startswith(
        "Tiny X: a release for tests, version 1.1.0\n"
        "Copyright 2026 Ada Lovelace, Grace Brewster Hopper and The Parapet authors\n\n"
        "Licence: Creative Commons Attribution-ShareAlike 4.0 International (CC-BY-SA-4.0)\n"
        "Text: https://creativecommons.org/licenses/by-sa/4.0/\n"
    )
    assert "- publish what you make from this dataset under the same licence" in text
    assert f"- {SGD.title}\n  by {SGD.authors}\n  {SGD.url}\n" in text
    assert text.endswith("AAAI 2020\n  Changes were made.\n")
