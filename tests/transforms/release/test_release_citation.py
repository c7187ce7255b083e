import re

import yaml
from hypothesis import given
from hypothesis import strategies as st
from kit import cases
from release_manifests import manifest

from parapet.schemas.release import Author, Source
from parapet.transforms.release import citation as names
from parapet.transforms.release.citation import Name, bibtex, citation_cff
from parapet.transforms.reports.markdown import one_line

# Of the schema of CFF 1.2.0: the keys that this file may have, and what they look like.
TEXT, LINE, URL = r"(?s).+", r".+", r"https?://.+"
CFF = {"cff-version": r"1\.2\.0", "message": TEXT, "type": "dataset", "title": TEXT, "version": LINE, "abstract": TEXT}
CFF |= {"date-released": r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "license": r"[A-Za-z0-9.\-]+", "license-url": URL, "url": URL}
REFERENCE = {"type": "data", "title": TEXT, "url": URL, "license": CFF["license"], "notes": TEXT}
ENTITY = {"name": LINE, "orcid": r"https://orcid\.org/[0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{3}[0-9X]"}
PERSON = {"family-names": LINE, "given-names": LINE, "affiliation": LINE, "orcid": ENTITY["orcid"]}


def fits(found, rules):
    for key, value in found.items():
        assert isinstance(value, str), key
        assert re.fullmatch(rules[key], value), (key, value)


def people_fit(found):
    assert found
    for i, one in enumerate(found):
        fits(one, ENTITY if "name" in one else PERSON)
        assert one not in found[:i]


def read(text):
    """The file, checked against the schema as far as it concerns us."""
    found = yaml.safe_load(text)
    assert {"cff-version", "message", "title", "authors"} <= set(found)
    lists = {key: found[key] for key in ("authors", "references", "keywords") if key in found}
    fits({key: value for key, value in found.items() if key not in lists}, CFF)
    people_fit(found["authors"])
    for reference in lists.get("references", []):
        assert {"type", "title", "authors"} <= set(reference)
        people_fit(reference["authors"])
        fits({key: value for key, value in reference.items() if key != "authors"}, REFERENCE)
    return dict(found)


def test_what_is_not_known_is_left_out():
    source = Source("Some data", "not an address", "Their-Own")
    text = citation_cff(
        manifest(licence="Our-Own", created="", homepage="ftp:/x", sources=[source, source], authors=[Author("X")] * 2)
    )
    found = read(text)
    assert not {"license", "license-url", "url", "date-released"} & set(found)
    assert found["authors"] == [{"name": "X"}]
    assert found["references"] == [{"type": "data", "title": "Some data", "authors": [{"name": "anonymous"}]}]
    assert read(citation_cff(manifest(licence="CDLA-Permissive-2.0")))["license-url"].startswith("https://cdla.dev")
    assert "references" not in read(citation_cff(manifest(sources=[])))


LINES = st.one_of(
    st.sampled_from(
        ["a: b # c", "- x", "'\"", "---\n...", "{x}", "[y]", "*a", "&b", "!c", "%d", "@e", "yes", "1.0", "~"]
    ),
    st.text(min_size=1, max_size=30),
).filter(one_line)


@given(LINES, LINES, LINES, LINES)
def test_any_text_is_valid_yaml(title, name, line, citation):
    source = Source(title, "https://example.org/" + line, "MIT", line, citation)
    found = read(citation_cff(manifest(title=title, authors=[Author(name, line)], sources=[source], description=line)))
    assert (found["title"], found["references"][0]["title"]) == (one_line(title), found["title"])


def test_an_orcid_is_a_persons():
    author = Author("Jo Group", orcid="https://orcid.org/0000-0002-1825-009X")
    assert names.author_name(author) == Name("Group", "Jo")
    assert names.orcid_url(author) == "https://orcid.org/0000-0002-1825-009X"
    assert names.orcid_url(Author("A B", orcid="0000")) == ""


@given(st.text())
def test_bibtex_stays_balanced(title):
    text = bibtex(manifest(title=title, created=""))
    assert text.count("{") == text.count("}")
    fields = [line.split(" = ")[0].strip() for line in text.splitlines()[1:-1]]
    assert fields == ["author", "title", "version", "url", "note"]


@cases(
    "line families",
    ("Ada Lovelace and Grace Hopper", ["Lovelace", "Hopper"]),
    ("Ada Lovelace, Grace Hopper, and Alan Turing", ["Lovelace", "Hopper", "Turing"]),
    ("Lovelace, Ada and Hopper, Grace", ["Lovelace", "Hopper"]),
    ("Lovelace, Ada; Hopper, Grace", ["Lovelace", "Hopper"]),
    ("Lovelace et al.", ["Lovelace et al."]),
    ("", ["anonymous"]),
    (";", [";"]),
)
def test_names_of_a_line(line, families):
    assert [name.family for name in names.names_of(line)] == families
