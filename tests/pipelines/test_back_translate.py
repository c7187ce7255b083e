"""``parapet back_translate`` as a person runs it: replays, engines against local servers, cuts and faults."""

import re

import kit
from google_server import GoogleServer

from parapet.schemas import layout
from parapet.schemas.service import parse_service
from parapet.transforms.variants.back_translation import source_texts


def translated(out, *flags, **options):
    """Translates the services of the sample's test split, unless options name others."""
    return kit.run("back_translate", *flags, output=out, **{"schemas": schema_file(), **options})


def schema_file():
    return layout.sample_root() / "test" / "schema.json"


def candidates():
    """The texts to send for each name and description."""
    services = map(parse_service, kit.json_of(schema_file()))
    return [[*source.candidates] for service in services for source in source_texts(service)]


def texts_to_translate():
    return {text for texts in candidates() for text in texts}


def google(server):
    return ["--engine", "google", "--google_project", "p", "--google_endpoint", server.url]


def test_a_limit_of_the_day_publishes_nothing_and_loses_nothing(tmp_path):
    with GoogleServer(["", "", "daily_limit"]) as server:
        stopped = translated(tmp_path / "out", *google(server), status=1).errors
        assert re.search(r"(\d+) of \1 texts of ko could not be translated", stopped)
        assert "daily_limit" in stopped
        assert not (tmp_path / "out" / "run.json").exists()
        server.faults = ()
        made = translated(tmp_path / "out", *google(server))
        assert set(server.texts.values()) == {1}
    with GoogleServer() as server:
        assert made.files == translated(tmp_path / "undisturbed", *google(server)).files
    schemas = [*made.folder.rglob("schema.json")]
    assert len(schemas) == 3
    for path in schemas:
        for service in map(parse_service, kit.json_of(path)):  # every reference is renamed, too
            for elements in (service.slots, service.intents):
                assert len({element.name for element in elements}) == len(elements)


def test_left_in_english_where_that_is_asked_for(tmp_path):
    def refuse(request):
        return "invalid" if request.target == "ja" and any("ferry" in text for text in request.contents) else ""

    with GoogleServer(refuse) as server:
        made = translated(tmp_path / "out", *google(server), pivots="ja,zh", max_bad="100%")
    expected = {text for text in texts_to_translate() if "ferry" in text}
    dead = {(one["text"], one["source"], one["target"], one["reason"].partition(":")[0]) for one in made.dead_letters}
    assert dead == {(text, "en", "ja", "invalid") for text in expected}
    assert f"{len(expected)} texts left in English" in made.errors
    rows = made.rows("translations.parquet")
    plain = {texts[0] for texts in candidates() if texts}
    assert {row["text"] for row in rows if row["reason"] == "not_translated"} == expected & plain
    statistics = made.json("statistics.json")["pivots"]
    assert statistics["ja"]["kept"]["not_translated"] > 0
    assert "not_translated" not in statistics["zh"]["kept"]


def test_dry_run_says_what_it_would_cost(tmp_path):
    with GoogleServer() as server:
        told = translated(tmp_path / "out", "--dry_run", *google(server))
        assert server.requests == []
    lines = told.output.splitlines()
    texts = texts_to_translate()
    size = sum(map(len, texts))
    first = lines.index(f"{len(texts)} texts, {size:,} characters in English")
    assert lines[first + 1] == f"zh: {2 * len(texts)} texts to translate, about {2 * size:,} characters"
    assert lines[-1] == f"about {6 * size:,} characters, ${6 * size * 20e-6:,.2f}; dry run: nothing was sent or written"
    assert not told.folder.exists()


@kit.cases(
    "flags said",
    ("--pivots zh,en", "--pivots: 'en' is not a language code"),
    ("--pivots ../x", "--pivots: '../x' is not a language code"),
    ("--pivots pt,de", "--pivots: the engine 'embedded' only supports pt, not de: choose another --engine"),
    ("--google_project p", "--google_project: is for --engine google"),
    ("--engine google", "--google_project: "),
    ("--engine local", "--model: "),
    ("--engine local --pivots zh --model en-zh=x", "--model: there is no model for zh-en"),
    ("--engine local --model facebook/m2m100_418M", "facebook/m2m100_418M: --model: there is no such folder"),
)
def test_a_mistake_is_said(flags, said, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    assert said in kit.refused("back_translate", *flags.split(" "), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_memory_alone_must_have_the_texts(tmp_path):
    said = kit.refused("back_translate", "--engine", "memory", "--pivots", "pt", output=tmp_path / "out")
    assert "there are no translations into pt: add a memory, or choose another --engine" in said
