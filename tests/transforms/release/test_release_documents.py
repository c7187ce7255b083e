"""The documents that a release is published with: card, changelog, citation, licence, croissant.json, report."""

import re
import tempfile
from functools import cache
from html.parser import HTMLParser

import mlcroissant
import msgspec
import orjson
import pyarrow as pa
import pytest
import release_folder as folder
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit import cases, holding
from markdown_it import MarkdownIt

from parapet.schemas.release import Author, Changes, Column, Input, Parent, Source, SplitChange
from parapet.schemas.rows import DIALOGUES, SERVICES
from parapet.transforms.release import documents
from parapet.transforms.release.building import write_documents
from parapet.transforms.release.documents import bibtex, changelog, citation_cff, croissant, licence_text
from parapet.transforms.release.reading import size
from parapet.transforms.report import markdown as md
from parapet.transforms.report.markdown import one_line
from parapet.transforms.report.report import page

SGD = Source("Schema-Guided Dialogue", "https://example.org/sgd", "CC-BY-SA-4.0", "Rastogi et al.", "AAAI 2020")
MEMORY = pa.schema(
    {
        "text": pa.string(),
        "split": pa.string(),  # a column of the name that the splits' field would have
        "a name, with: all of it": pa.int64(),
        "seen": pa.timestamp("us", tz="UTC"),
        "scores": pa.list_(pa.float64()),
        "raw": pa.binary(),
        "model": pa.struct([("name", pa.string()), ("sizes", pa.list_(pa.int32()))]),
        "day": pa.date32(),
        "good": pa.bool_(),
    }
)
TABLES = {**folder.sample_tables(), "memory": ("row", ["text"], MEMORY, [{"text": "a"}, {"text": "b"}])}
COLUMNS = {"schemas": SERVICES, "original": DIALOGUES, "noisy": DIALOGUES, **{key: of[2] for key, of in TABLES.items()}}
# As ``parapet statistics`` writes them.
FAR = {"slot_names_seen": 0.03, "intent_names_seen": 0.0, "name_distance": 0.545, "description_bleu": 2.32}
MEASURED = {"variants": {"v1": FAR, "v2": FAR}, "average": FAR, "self_bleu": 4.49, "split": "dev", "services": 34}


@cache
def written():
    """The manifest of a release of all kinds of data."""
    ada = Author("Ada Lovelace", "Analytical Society", "0000-0002-1825-0097")
    about = {"title": "Tiny X: a release for tests", "homepage": "https://example.org/x", "sources": [SGD]}
    about["authors"] = [ada, Author("Hopper, Grace Brewster"), Author("The Parapet authors")]
    with tempfile.TemporaryDirectory() as place:
        root = folder.write_release(
            place, folder.sample_corpora(1), TABLES, version="1.1.0", known_problems={"span": 7}, **about
        )
        found = folder.manifest_of(root)
    found.configs["original"].kind = "original"
    return msgspec.json.encode(msgspec.structs.replace(found, statistics={"variants": MEASURED}))


def manifest(**more):
    """That manifest; ``more`` replaces fields."""
    return msgspec.structs.replace(msgspec.json.decode(written(), type=folder.Manifest), **more)


def change(**more):
    rows = {"config": "original", "split": "train", "level": "major", "added": 3, "removed": 0, "changed": 1200}
    return SplitChange(**{**rows, "columns_added": [], "columns_removed": [], **more})


def follows(*splits, level="major"):
    """The fields of a manifest that has a parent, version 1.0.0."""
    return {"parent": Parent("1.0.0", "0" * 64), "changes": Changes(level, list(splits))}


# Texts that mean something in Markdown, HTML, YAML or templates.
HOSTILE = (
    *("a | b", "<script>alert(1)</script>", "line\n\n# heading", "`code` ``two``", "*bold* _under_ ~~gone~~", "---"),
    *("[link](javascript:x) ![image](x)", "1. one", "- item", "trailing \\", "&lt;b&gt; &amp;", "| --- |", "$x$"),
    *("===", "x: y # z", "one\n\ntwo", "```", "- [x]", "{{ 7*7 }}", '"><b>', "]]>", ""),
)


def card(of, **more):
    return documents.card(of, COLUMNS | more)


def parts(text):
    """The front matter as ``huggingface_hub`` finds it, and the tokens of the rest."""
    found = re.search(r"^(\s*---[\r\n]+)([\S\s]*?)([\r\n]+---(\r\n|\n|$))", text)
    assert found
    return yaml.safe_load(found[2]), commonmark(text[found.end() :])


def commonmark(text):
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def plain_text(tokens):
    return "".join(token.content for token in tokens or () if token.type in ("text", "code_inline"))


def tables(tokens):
    found = []
    for i, token in enumerate(tokens):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("td_open", "th_open"):
            found[-1][-1].append(plain_text(tokens[i + 1].children))
    return found


def table(tokens, *columns):
    return next(one[1:] for one in tables(tokens) if one[0] == list(columns))


def headings(tokens):
    places = [i for i, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h2"]
    return [plain_text(tokens[i + 1].children) for i in places]


def test_front_matter():
    front, _ = parts(card(manifest()))
    assert [front[key] for key in ("pretty_name", "license", "language")] == [manifest().title, "cc-by-sa-4.0", ["en"]]
    (original,) = (one for one in front["configs"] if one["config_name"] == "original")
    assert re.fullmatch("SHA-256 of the rows: [0-9a-f]{64}", original.pop("description"))
    files = [{"split": split, "path": f"data/original/{split}-*.parquet"} for split in ("train", "test")]
    assert original == {"config_name": "original", "data_files": files, "default": True}
    front, _ = parts(card(manifest(licence="Our-Own")))
    assert [front[f"license{key}"] for key in ("", "_name", "_link")] == ["other", "Our-Own", "LICENSE"]


def test_the_default_is_the_corpus_that_is_the_original_or_else_has_dialogues():
    schemas, original, noisy = (manifest().configs[name] for name in ("schemas", "original", "noisy"))
    every = {"schemas": schemas, "noisy": noisy}
    assert documents.default_config(manifest(configs={**every, "sgd": original})) == "sgd"
    assert documents.default_config(manifest(configs=every)) == "noisy"
    assert documents.default_config(manifest(configs={"schemas": schemas})) == "schemas"
    assert documents.default_config(manifest(configs={})) == ""


def test_what_there_is_not_is_not_spoken_of():
    nothing = {key: {} for key in ("statistics", "dispositions", "rejections", "known_problems", "counts")}
    text = card(manifest(**nothing, sources=[], files=[], created=""))
    assert "Answers of crowdworkers" not in headings(parts(text)[1])
    assert "None is known." in text
    assert not holding(text, "Statistics", "sgd/", "vouch", "\n\n\n")
    assert "\n\n\n" not in card(manifest())


def test_the_sources_of_answers():
    assert "Not all answers are blind" in card(manifest(is_blind=False))
    assert "Not all answers are blind" not in card(manifest())
    _, tokens = parts(card(manifest(answer_sources={"in_house": 3, "llm": 1})))
    assert table(tokens, "kind", "meaning", "answers")[0] == ["In house", "annotators of the authors", "3"]


def hostile(title, name, kind, reason, said, number, column, fault, corpus, author, licence):
    """A release whose texts are those of strangers."""
    found = manifest()
    of_row = msgspec.structs.replace(found.configs["memory"], kind=kind, columns=[Column(column, kind)], key=[column])
    url = f"https://example.org/{name}"
    return manifest(
        title=title,
        authors=[Author(author, author, author)],
        licence=licence,
        language=["no"],
        homepage=url,
        sources=[Source(name, url, licence, author, reason)],
        configs={**found.configs, "memory": of_row},
        inputs=[Input(corpus, kind, [])],
        counts={"dialogues": {corpus: {"train": 1}}},
        statistics={f"a{said}": {number: said}, f"b{name}": MEASURED},
        rejections={reason: 2},
        known_problems={fault: 3},
        **follows(change(columns_added=[column]), change(config=name)),
    )


@cache
def usual_parts():
    """The front matter, the tokens and the tags where all texts are plain."""
    usual = manifest(**follows(change()), statistics={"a": {"b": 1}, "c": MEASURED})
    return *parts(card(usual)), page_of(usual).tags


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=15)), min_size=11, max_size=11))
@settings(max_examples=12)
def test_text_of_strangers_changes_nothing_but_itself(texts):
    front, tokens = parts(card(hostile(*texts), memory=pa.schema([(texts[6], pa.string())])))
    plain, usual, tags = usual_parts()
    assert (front["configs"], front["language"]) == (plain["configs"], ["no"])
    named = [[one for one in headings(of) if not one.startswith("Statistics: ")] for of in (tokens, usual)]
    assert named[0] == named[1]
    assert [one[0] for one in tables(tokens)] == [
        ["corpus", "split", "dialogues"] if one[0][:2] == ["corpus", "split"] else one[0] for one in tables(usual)
    ]
    assert not {"html_inline", "html_block", "image"} & {token.type for token in flat(tokens)}
    fences = [token.info for token in tokens if token.type == "fence"]
    assert "bibtex" in fences
    assert fences[-1] == "sh"
    # Line breaks and backticks make "small" and "code".
    assert page_of(hostile(*texts)).tags <= tags | {"small", "code"}


def test_a_reason_of_a_person_is_shown_as_it_is():
    _, tokens = parts(card(manifest(rejections={"reviewer: <b>no | `way`</b>\nat all": 1}, answer_sources={})))
    assert table(tokens, "kind", "meaning", "answers")[0][0] == "Reviewer: <b>no | `way`</b> at all"


def test_newest_first():
    first = changelog(manifest(version="1.0.0", created="", release_notes="One."), "")
    second = changelog(manifest(version="1.0.1", release_notes="Two.", **follows(level="patch")), first)
    changes = follows(change(added=1), change(config="v1", split="test", added=0, changed=0, removed=2))
    third = changelog(manifest(version="2.0.0", title="Renamed", release_notes="Three.", **changes), second)
    assert third == (
        "# Changelog of Renamed\n\n"
        "## 2.0.0 (2026-01-02)\n\n"
        "Three.\n\n"
        "Against 1.0.0, major (rows of an existing split were added, removed or changed, or a column or split was "
        "removed):\n\n"
        "- original, train: 1 rows added, 0 removed, 1,200 changed\n"
        "- v1, test: 0 rows added, 2 removed, 0 changed\n\n"
        "## 1.0.1 (2026-01-02)\n\nTwo.\n\nThe same rows as 1.0.0.\n\n"
        "## 1.0.0\n\nOne.\n\nThe first version.\n"
    )


# The keys that CFF 1.2.0 allows and this file uses, and their formats.
TEXT, LINE, URL = r"(?s).+", r".+", r"https?://.+"
CFF = {"cff-version": r"1\.2\.0", "message": TEXT, "type": "dataset", "title": TEXT, "version": LINE, "abstract": TEXT}
CFF |= {"date-released": r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "license": r"[A-Za-z0-9.\-]+", "url": URL}
REFERENCE = {"type": "data", "title": TEXT, "url": URL, "license": CFF["license"], "notes": TEXT}
PERSON = {"family-names": LINE, "given-names": LINE, "name": LINE, "affiliation": LINE, "orcid": URL}


def read(text):
    """The file, checked against the schema as far as it concerns us."""
    cff = yaml.safe_load(text)
    assert {"cff-version", "message", "title", "authors"} <= set(cff)
    references = cff.get("references", [])
    people = [author for one in (cff, *references) for author in one["authors"]]
    patterns = [(cff, CFF), *((one, REFERENCE) for one in references), *((one, PERSON) for one in people)]
    for values, of_key in patterns:
        for key in values.keys() - {"authors", "references", "keywords"}:
            assert re.fullmatch(of_key[key], values[key]), (key, values)
    return cff


def test_authors():
    assert read(citation_cff(manifest()))["authors"] == [
        {"name": "Ada Lovelace", "orcid": "https://orcid.org/0000-0002-1825-0097"},
        {"family-names": "Hopper", "given-names": "Grace Brewster"},
        {"name": "The Parapet authors"},
    ]
    assert documents.authors_line(manifest().authors) == "Ada Lovelace; Hopper, Grace Brewster; The Parapet authors"
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


def test_the_notice_names_authors_and_sources(tmp_path):
    text = licence_text(manifest())
    assert text.startswith(
        "Tiny X: a release for tests, version 1.1.0\n"
        "by Ada Lovelace; Hopper, Grace Brewster; The Parapet authors\n\n"
        "Licence: Creative Commons Attribution-ShareAlike 4.0 International\n"
        "Text: https://spdx.org/licenses/CC-BY-SA-4.0.html\n"
    )
    assert f"- {SGD.title}\n  {SGD.authors}\n  {SGD.url}\n" in text
    write_documents(manifest(), COLUMNS, str(tmp_path), None, "Own terms.")
    assert (tmp_path / "LICENSE").read_text().startswith("Own terms.\n\n")


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
    metadata = mlcroissant.Dataset(jsonld=orjson.loads(croissant(found, {**COLUMNS, "memory": schema}))).metadata
    assert metadata.ctx.issues.errors == set()


def test_every_parquet_file_has_size_and_checksum():
    found = manifest()
    distribution = orjson.loads(croissant(found, COLUMNS))["distribution"]
    files = {one["@id"]: one for one in distribution if one["@type"] == "cr:FileObject"}
    keys = ("contentUrl", "contentSize", "sha256", "encodingFormat")
    assert {path: [one[key] for key in keys] for path, one in files.items()} == {
        file.path: [file.path, f"{file.bytes} B", file.sha256, "application/x-parquet"]
        for file in found.files
        if file.path.startswith("data/")
    }
    sets = [one for one in distribution if one["@type"] == "cr:FileSet"]
    assert [one["includes"] for one in sets] == [f"data/{name}/*.parquet" for name in found.configs]


class Page(HTMLParser):
    """The tags, links and ids of a page, and every element that was left open."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.links, self.ids, self.open = set(), [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open += [tag] if tag not in ("meta", "br") else []
        self.links += [value or "" for key, value in attrs if key in ("href", "src")]
        self.ids += [value or "" for key, value in attrs if key == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page_of(of):
    """The page read, after what holds for every one: all closed, no id twice, nothing from the network."""
    found = Page(page(documents.release_report(of, COLUMNS)))
    assert (found.open, len(found.ids)) == ([], len(set(found.ids)))
    assert not {"script", "link", "img", "iframe"} & found.tags
    files = r"\.\./(README\.md|MANIFEST\.json|SHA256SUMS)$"
    assert all(re.match(rf"https?://|{files}", link) for link in found.links)
    return found


def test_statistics_of_all_kinds():
    composed = {"variants": {"v1": {"name_distance": 0.3, "description_bleu": 19.0}}, "average": {"name_distance": 0.3}}
    composed["average"]["description_bleu"] = 19.0
    of = manifest(statistics={"variants": MEASURED, "compose": {**composed, "self_bleu": None}, "speech": {"wer": 0.1}})
    sections = documents.release_report(of, COLUMNS).sections
    (table,) = [section for section in sections if section.title == "Statistics: compose"]
    assert [list(row) for row in table.rows] == [["v1", "0.30", "19.0"]]
    assert page(documents.release_report(of, COLUMNS)).count("Low means diverse.") == 1


@cases("statistics", None, [], 3, "x", {"variants": 3, "average": {}}, {"variants": {}, "average": {}})
def test_statistics_of_no_known_form(statistics):
    page_of(manifest(statistics={"odd": statistics}))


@cases("n text", (999, "999 bytes"), (1500, "1.5 kB"), (2_340_000, "2.3 MB"), (5_000_000_000_000, "5,000.0 GB"))
def test_sizes(n, text):
    assert size(n) == text


# Markdown.


PIECES = st.text(alphabet="ab1. |<>`*_[]()#-+=~!&;\\\n\t$:/", max_size=20)
MARKDOWN = st.one_of(st.sampled_from(HOSTILE), PIECES, st.text())


def flat(tokens):
    return [one for token in tokens for one in (token, *flat(token.children or []))]


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
    cells = [plain_text(token.children) for token in tokens if token.type == "inline"][2:]
    assert cells == [md.one_line(cell) for row in rows for cell in row]
    assert not {"html_inline", "html_block", "link_open", "image"} & {token.type for token in flat(tokens)}


@given(st.lists(MARKDOWN, min_size=1, max_size=4))
@example(["-- -"])
def test_a_list_keeps_its_items(items):
    tokens = commonmark(md.bullets(items))
    kinds = [token.type for token in tokens]
    assert kinds.count("list_item_open") == len(items)
    assert not {"heading_open", "html_block", "fence", "code_block", "hr"} & set(kinds)
    assert [plain_text(token.children) for token in tokens if token.type == "inline"] == [
        md.one_line(item) for item in items if md.one_line(item)
    ]
