import re
from functools import cache

import msgspec
import pyarrow as pa
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import holding
from markdown_it import MarkdownIt
from release_manifests import change, columns, composed, follows, manifest, measures
from release_pages import HOSTILE

from parapet.schemas.release import Author, Column, Input, Source
from parapet.transforms.release import documents
from parapet.transforms.release.documents import default_config

TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=15))


def card(of, more=None):
    return documents.card(of, {**columns(), **(more or {})})


def parts(text):
    """The front matter as ``huggingface_hub`` finds it, and the tokens of the rest."""
    found = re.search(r"^(\s*---[\r\n]+)([\S\s]*?)([\r\n]+---(\r\n|\n|$))", text)
    assert found
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text[found.end() :])
    return yaml.safe_load(found[2]), tokens


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


def test_statistics_of_compose():
    _, tokens = parts(card(manifest(statistics={"compose": composed()})))
    assert table(tokens, "variant", "name distance", "BLEU") == [["v1", "0.30", "19.0"]]


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
