"""The documents that a release is published with: card, changelog, citation, licence, croissant.json, report."""

import re
from functools import cache
from html.parser import HTMLParser

import mlcroissant
import msgspec
import orjson
import pyarrow as pa
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit import cases, holding
from markdown_it import MarkdownIt
from release_manifests import SGD, change, columns, composed, follows, manifest, measures

from parapet.schemas.release import DOCUMENTS, Author, Column, Input, Source
from parapet.transforms.release import documents
from parapet.transforms.release.building import write_documents
from parapet.transforms.release.documents import (
    authors_line,
    bibtex,
    changelog,
    citation_cff,
    croissant,
    default_config,
    licence_text,
    release_report,
)
from parapet.transforms.release.reading import Release, size
from parapet.transforms.report import markdown as md
from parapet.transforms.report.markdown import one_line
from parapet.transforms.report.report import page

# Texts that mean something in Markdown, HTML, YAML or templates.
HOSTILE = (
    "a | b",
    "<script>alert(1)</script>",
    "line\n\n# heading",
    "`code` ``two``",
    "*bold* _under_ ~~gone~~",
    "[link](javascript:x) ![image](x)",
    "---",
    "1. one",
    "- item",
    "trailing \\",
    "&lt;b&gt; &amp;",
    "| --- |",
    "$x$",
    "===",
    "x: y # z",
    "one\n\ntwo",
    "```",
    "- [x]",
    "{{ 7*7 }}",
    "",
)


def test_all_documents(tmp_path):
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.0.0\n\nThe first version.\n")
    parent = Release(tmp_path, manifest())
    write_documents(manifest(**follows()), columns(), str(tmp_path / "new"), parent, "Own terms.")
    found = {path: (tmp_path / "new" / path).read_bytes() for path in DOCUMENTS}
    assert found["README.md"].startswith(b"---\npretty_name: ")
    assert found["CHANGELOG.md"].endswith(b"## 1.0.0\n\nThe first version.\n")
    assert found["LICENSE"].startswith(b"Own terms.\n\n")
    assert orjson.loads(found["croissant.json"])["@type"] == "sc:Dataset"
    assert yaml.safe_load(found["CITATION.cff"])["type"] == "dataset"
    assert found["report/index.html"].startswith(b"<!DOCTYPE html>")
    assert all(data.endswith(b"\n") for data in found.values())


TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=15))


def card(of, more=None):
    return documents.card(of, {**columns(), **(more or {})})


def parts(text):
    """The front matter as ``huggingface_hub`` finds it, and the tokens of the rest."""
    found = re.search(r"^(\s*---[\r\n]+)([\S\s]*?)([\r\n]+---(\r\n|\n|$))", text)
    assert found
    return yaml.safe_load(found[2]), commonmark(text[found.end() :])


def shown(token):
    return "".join(one.content for one in token.children or [] if one.type in ("text", "code_inline"))


def tables(tokens):
    found = []
    for i, token in enumerate(tokens):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("td_open", "th_open"):
            found[-1][-1].append(shown(tokens[i + 1]))
    return found


def table(tokens, *columns):
    return next(one[1:] for one in tables(tokens) if one[0] == list(columns))


def headings(tokens):
    places = [i for i, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h2"]
    return [shown(tokens[i + 1]) for i in places]


def test_front_matter():
    front, _ = parts(card(manifest()))
    assert (front["pretty_name"], front["license"]) == ("Tiny X: a release for tests", "cc-by-sa-4.0")
    assert front["language"] == ["en"]
    configs = front["configs"][:2]
    assert all(re.fullmatch("SHA-256 of the rows: [0-9a-f]{64}", one.pop("description")) for one in configs)
    assert configs == [
        {
            "config_name": "original",
            "data_files": [
                {"split": "train", "path": "data/original/train-*.parquet"},
                {"split": "test", "path": "data/original/test-*.parquet"},
            ],
            "default": True,
        },
        {"config_name": "v1", "data_files": [{"split": "test", "path": "data/v1/test-*.parquet"}]},
    ]


def test_the_default_is_the_corpus_that_is_the_original_or_else_has_dialogues():
    found = manifest()
    schemas, original, v1 = (found.configs[name] for name in ("schemas", "original", "v1"))
    assert default_config(manifest(configs={"schemas": schemas, "v1": v1, "sgd": original})) == "sgd"
    assert default_config(manifest(configs={"schemas": schemas, "v1": v1})) == "v1"
    assert default_config(manifest(configs={"schemas": schemas})) == "schemas"
    assert default_config(manifest(configs={})) == ""


def test_a_licence_that_the_hub_does_not_know():
    front, _ = parts(card(manifest(licence="Our-Own")))
    assert {key: front[key] for key in front if key.startswith("license")} == {
        "license": "other",
        "license_name": "Our-Own",
        "license_link": "LICENSE",
    }


def test_what_there_is_not_is_not_spoken_of():
    found = manifest(
        statistics={}, dispositions={}, rejections={}, known_problems={}, sources=[], counts={}, files=[], created=""
    )
    text = card(found)
    _, tokens = parts(text)
    assert "Answers of crowdworkers" not in headings(tokens)
    assert "Statistics" not in text
    assert "None is known." in text
    assert not holding(text, "sgd/", "vouch", "\n\n\n")
    assert "\n\n\n" not in card(manifest())


def test_the_sources_of_answers():
    assert "Not all answers are blind" in card(manifest(is_blind=False))
    assert "Not all answers are blind" not in card(manifest())
    _, tokens = parts(card(manifest(answer_sources={"in_house": 3, "llm": 1})))
    assert table(tokens, "kind", "meaning", "answers")[0] == ["In house", "annotators of the authors", "3"]


@cache
def usual_parts():
    return parts(card(manifest(**follows(change()), statistics={"a": {"b": 1}, "c": measures()})))


@given(st.lists(TEXTS, min_size=11, max_size=11))
@settings(max_examples=12)
def test_text_of_strangers_changes_nothing_but_itself(texts):
    title, name, kind, reason, said, number, column, fault, corpus, author, licence = texts
    found = manifest()
    of_row = msgspec.structs.replace(found.configs["memory"], kind=kind, columns=[Column(column, kind)], key=[column])
    hostile = msgspec.structs.replace(
        found,
        title=title,
        description="Said.",
        release_notes="Notes.",
        authors=[Author(author, author, author)],
        licence=licence,
        homepage=f"https://example.org/{name}",
        language=["no"],
        sources=[Source(name, f"https://example.org/{name}", licence, author, reason)],
        configs={**found.configs, "memory": of_row},
        inputs=[Input(corpus, kind, [])],
        counts={"dialogues": {corpus: {"train": 1}}},
        statistics={f"a{said}": {number: said}, f"b{name}": measures()},
        dispositions={"used": 1},
        rejections={reason: 2},
        known_problems={fault: 3},
        **follows(change(columns_added=[column])),
    )
    front, tokens = parts(card(hostile, {"memory": pa.schema([(column, pa.string())])}))
    plain, usual = usual_parts()
    assert front["configs"] == plain["configs"]
    assert front["language"] == ["no"]
    named = [[one for one in headings(of) if not one.startswith("Statistics: ")] for of in (tokens, usual)]
    assert named[0] == named[1]
    assert [one[0] for one in tables(tokens)] == [
        ["corpus", "split", "dialogues"] if one[0][:2] == ["corpus", "split"] else one[0] for one in tables(usual)
    ]
    every = [one for token in tokens for one in (token, *(token.children or []))]
    assert not {"html_inline", "html_block", "image"} & {token.type for token in every}
    fences = [token.info for token in tokens if token.type == "fence"]
    assert "bibtex" in fences
    assert fences[-1] == "sh"


def test_a_reason_of_a_person_is_shown_as_it_is():
    _, tokens = parts(card(manifest(rejections={"reviewer: <b>no | `way`</b>\nat all": 1})))
    assert table(tokens, "kind", "meaning", "answers")[0][0] == "Reviewer: <b>no | `way`</b> at all"


def test_newest_first():
    first = changelog(manifest(version="1.0.0", created="", release_notes="One."), "")
    second = changelog(manifest(version="1.0.1", release_notes="Two.", **follows(level="patch")), first)
    third = changelog(
        manifest(
            version="2.0.0",
            title="Renamed",
            release_notes="Three.",
            **follows(change(added=1), change(config="v1", split="test", added=0, changed=0, removed=2)),
        ),
        second,
    )
    assert third == (
        "# Changelog of Renamed\n\n"
        "## 2.0.0 (2026-02-03)\n\n"
        "Three.\n\n"
        "Against 1.0.0, major (rows of an existing split were added, removed or changed, or a column or split was "
        "removed):\n\n"
        "- original, train: 1 rows added, 0 removed, 1,200 changed\n"
        "- v1, test: 0 rows added, 2 removed, 0 changed\n\n"
        "## 1.0.1 (2026-02-03)\n\nTwo.\n\nThe same rows as 1.0.0.\n\n"
        "## 1.0.0\n\nOne.\n\nThe first version.\n"
    )


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


def test_the_notice_names_authors_and_sources():
    text = licence_text(manifest())
    assert text.startswith(
        "Tiny X: a release for tests, version 1.1.0\n"
        "by Ada Lovelace; Hopper, Grace Brewster; The Parapet authors\n\n"
        "Licence: Creative Commons Attribution-ShareAlike 4.0 International\n"
        "Text: https://spdx.org/licenses/CC-BY-SA-4.0.html\n"
    )
    assert f"- {SGD.title}\n  {SGD.authors}\n  {SGD.url}\n" in text


NAMES = st.one_of(
    st.sampled_from(["a b", "a/b", "@id", "x:y", "http://e.org/#x", '"', "<b>", "\\u0000", "%", "é", "where"]),
    st.text(min_size=1, max_size=10),
)


@given(NAMES, NAMES, NAMES, st.sampled_from([pa.int8(), pa.string(), pa.list_(pa.string()), pa.binary(), None]))
@settings(max_examples=8)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of rdflib and pandas, as mlcroissant calls them
def test_any_text_is_valid_croissant(title, column, name, kind):
    found = manifest(title=title, description=title, release_notes=name, authors=[Author(name)], homepage=name)
    kind = kind or pa.struct([(name, pa.int8())])
    schema = pa.schema([(column, kind), ("text", pa.string())])
    described = [Column(field.name, str(field.type)) for field in schema]
    found.configs["memory"] = msgspec.structs.replace(found.configs["memory"], kind=name, columns=described)
    metadata = mlcroissant.Dataset(jsonld=orjson.loads(croissant(found, {**columns(), "memory": schema}))).metadata
    assert metadata.ctx.issues.errors == set()


def test_every_parquet_file_has_size_and_checksum():
    found = manifest()
    distribution = orjson.loads(croissant(found, columns()))["distribution"]
    files = {one["@id"]: one for one in distribution if one["@type"] == "cr:FileObject"}
    assert {
        path: (one["contentUrl"], one["contentSize"], one["sha256"], one["encodingFormat"])
        for path, one in files.items()
    } == {
        file.path: (file.path, f"{file.bytes} B", file.sha256, "application/x-parquet")
        for file in found.files
        if file.path.startswith("data/")
    }
    sets = [one for one in distribution if one["@type"] == "cr:FileSet"]
    assert [one["includes"] for one in sets] == [f"data/{name}/*.parquet" for name in found.configs]


class Page(HTMLParser):
    """The tags, links and ids of a page, its words, and every element that was left open."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, html):
        super().__init__()
        self.tags, self.links, self.ids, self.open, self.words = set(), [], [], [], ""
        self.feed(html)
        self.words = " ".join(self.words.split())

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.links += [value or "" for key, value in attrs if key in ("href", "src")]
        self.ids += [value or "" for key, value in attrs if key == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words += f"{data} "


def page_of(of):
    """The page read, after what holds for every one: all closed, no id twice, nothing from the network."""
    found = Page(page(release_report(of, columns())))
    assert (found.open, len(found.ids)) == ([], len(set(found.ids)))
    assert not {"script", "link", "img", "iframe"} & found.tags
    files = r"\.\./(README\.md|MANIFEST\.json|SHA256SUMS)$"
    assert all(re.match(rf"https?://|{files}", link) for link in found.links)
    return found


def test_statistics_of_all_kinds():
    of = manifest(statistics={"variants": measures(), "compose": composed(), "speech": {"wer": 0.12345}})
    (table,) = [section for section in release_report(of, columns()).sections if section.title == "Statistics: compose"]
    assert [list(row) for row in table.rows] == [["v1", "0.30", "19.0"]]
    assert page_of(of).words.count("Low means diverse.") == 1


@cases("statistics", None, [], 3, "x", {"variants": 3, "average": {}}, {"variants": {}, "average": {}})
def test_statistics_of_no_known_form(statistics):
    page_of(manifest(statistics={"odd": statistics}))


MARKUP = st.one_of(st.sampled_from(["<script>alert(1)</script>", '"><b>', "]]>", "{{ 7*7 }}"]), st.text(max_size=15))


@given(MARKUP, MARKUP, MARKUP)
@settings(max_examples=15)
def test_text_of_strangers_is_text_in_the_report(one, two, three):
    hostile = manifest(
        title=one,
        authors=[Author(two)],
        sources=[Source(one, f"https://example.org/{two}", three, two, one)],
        inputs=[Input(three, two, [])],
        counts={"dialogues": {one: {two: 1}}},
        statistics={two: {one: three}, three: measures()},
        rejections={one: 1},
        dispositions={two: 1},
        known_problems={three: 1},
        **follows(change(config=one, columns_added=[two])),
    )
    usual = manifest(**follows(change()), statistics={"a": {"b": 1}, "c": measures()})
    assert page_of(hostile).tags <= page_of(usual).tags | {"small", "code"}  # what line breaks and backticks make


@cases("n text", (999, "999 bytes"), (1500, "1.5 kB"), (2_340_000, "2.3 MB"), (5_000_000_000_000, "5,000.0 GB"))
def test_sizes(n, text):
    assert size(n) == text


# Markdown.


MARKDOWN = st.one_of(
    st.sampled_from(HOSTILE), st.text(alphabet="ab1. |<>`*_[]()#-+=~!&;\\\n\t$:/", max_size=20), st.text()
)


def commonmark(text):
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def flat(tokens):
    return [one for token in tokens for one in (token, *flat(token.children or []))]


def plain_text(tokens):
    return "".join(token.content for token in tokens if token.type in ("text", "code_inline"))


@given(MARKDOWN)
@example("1)")
def test_text_shows_as_it_is(value):
    tokens = flat(commonmark(md.text(value)))
    assert {token.type for token in tokens} <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}
    assert plain_text(tokens) == md.one_line(value)


@given(st.lists(st.tuples(MARKDOWN, MARKDOWN), min_size=1, max_size=4))
def test_a_table_keeps_its_cells(rows):
    tokens = commonmark(md.table(("text", "code"), [(one, md.code(two)) for one, two in rows]))
    assert [tokens[0].type, tokens[-1].type] == ["table_open", "table_close"]
    cells = [plain_text(token.children or []) for token in tokens if token.type == "inline"][2:]
    assert cells == [md.one_line(cell) for row in rows for cell in row]
    assert not {"html_inline", "html_block", "link_open", "image"} & {token.type for token in flat(tokens)}


@given(st.lists(MARKDOWN, min_size=1, max_size=4))
def test_a_list_keeps_its_items(items):
    tokens = commonmark(md.bullets(items))
    kinds = [token.type for token in tokens]
    assert kinds.count("list_item_open") == len(items)
    assert not {"heading_open", "html_block", "fence", "code_block", "hr"} & set(kinds)
    assert [plain_text(token.children or []) for token in tokens if token.type == "inline"] == [
        md.one_line(item) for item in items if md.one_line(item)
    ]
