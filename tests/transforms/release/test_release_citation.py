import re

import yaml
from hypothesis import given
from hypothesis import strategies as st
from release_manifests import SGD, manifest

from parapet.schemas.release import Author, Source
from parapet.transforms.release.documents import authors_line, bibtex, citation_cff, licence_text
from parapet.transforms.report.markdown import one_line

# The keys that CFF 1.2.0 allows and this file uses, and their formats.
TEXT, LINE, URL = r"(?s).+", r".+", r"https?://.+"
CFF = {"cff-version": r"1\.2\.0", "message": TEXT, "type": "dataset", "title": TEXT, "version": LINE, "abstract": TEXT}
CFF |= {"date-released": r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "license": r"[A-Za-z0-9.\-]+", "url": URL}
REFERENCE = {"type": "data", "title": TEXT, "url": URL, "license": CFF["license"], "notes": TEXT}
PERSON = {"family-names": LINE, "given-names": LINE, "name": LINE, "affiliation": LINE, "orcid": URL}


def check_values(values, patterns):
    for key, value in values.items():
        assert re.fullmatch(patterns[key], value), (key, value)


def read(text):
    """The file, checked against the schema as far as it concerns us."""
    cff = yaml.safe_load(text)
    assert {"cff-version", "message", "title", "authors"} <= set(cff)
    lists = {key: cff[key] for key in ("authors", "references", "keywords") if key in cff}
    check_values({key: value for key, value in cff.items() if key not in lists}, CFF)
    for author in [*cff["authors"], *(author for entry in cff.get("references", []) for author in entry["authors"])]:
        check_values(author, PERSON)
    for reference in cff.get("references", []):
        check_values({key: value for key, value in reference.items() if key != "authors"}, REFERENCE)
    return cff


def test_authors():
    assert read(citation_cff(manifest()))["authors"] == [
        {"name": "Ada Lovelace", "orcid": "https://orcid.org/0000-0002-1825-0097"},
        {"family-names": "Hopper", "given-names": "Grace Brewster"},
        {"name": "The Parapet authors"},
    ]
    assert authors_line(manifest().authors) == "Ada Lovelace; Hopper, Grace Brewster; The Parapet authors"
    assert "author = {{Ada Lovelace} and Hopper, Grace Brewster and {The Parapet authors}}" in bibtex(manifest())


def test_unknown_fields_are_left_out():
    source = Source("Some data", "not an address", "Their-Own")
    cff = read(citation_cff(manifest(licence="Our-Own", created="", homepage="ftp:/x", sources=[source])))
    assert not {"license", "url", "date-released"} & set(cff)
    assert cff["references"] == [{"type": "data", "title": "Some data", "authors": [{"name": "anonymous"}]}]
    assert "references" not in read(citation_cff(manifest(sources=[])))


LINES = st.one_of(
    st.sampled_from(["a: b # c", "- x", "'\"", "---\n...", "{x}", "*a", "&b", "!c", "%d", "@e", "yes", "1.0", "~"]),
    st.text(min_size=1, max_size=30),
).filter(one_line)


@given(LINES, LINES, LINES, LINES)
def test_any_text_is_valid_yaml(title, name, line, citation):
    source = Source(title, "https://example.org/" + line, "MIT", line, citation)
    cff = read(citation_cff(manifest(title=title, authors=[Author(name, line)], sources=[source], description=line)))
    assert (cff["title"], cff["references"][0]["title"]) == (one_line(title), cff["title"])


@given(st.text())
def test_bibtex_stays_balanced(title):
    text = bibtex(manifest(title=title, created=""))
    assert text.count("{") == text.count("}")
    fields = [line.split(" = ")[0].strip() for line in text.splitlines()[1:-1]]
    assert fields == ["author", "title", "version", "url", "note"]


def test_an_own_licence_comes_first():
    text = licence_text(manifest(licence="Our-Own", sources=[]), "Do as you like.\n\n")
    assert text.startswith("Do as you like.\n\nTiny X")
    assert text.endswith("Licence: Our-Own\n")


def test_the_notice_names_authors_and_sources():
    text = licence_text(manifest())
    assert text.startswith(
        "Tiny X: a release for tests, version 1.1.0\n"
        "by Ada Lovelace; Hopper, Grace Brewster; The Parapet authors\n\n"
        "Licence: Creative Commons Attribution-ShareAlike 4.0 International\n"
        "Text: https://spdx.org/licenses/CC-BY-SA-4.0.html\n"
    )
    assert f"- {SGD.title}\n  {SGD.authors}\n  {SGD.url}\n" in text
