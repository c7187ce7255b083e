"""The input of ft_t5 and pt_t5: templates of acts, in T2G2's order; the user's own, in T2G2's format."""

import re

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kit import raised

from parapet.evaluation.generation.corpus import Act, ServiceWords, Words, key_of, read_templates, template_of
from parapet.evaluation.models.generation.data import sentence, text_of
from parapet.schemas.errors import InputError

WORDS = {
    "Cafes_1": ServiceWords(
        {"city": Words("city", "City of the cafe"), "has_garden": Words("has garden", "Whether it has a garden")},
        {"FindCafe": Words("find cafe", "find a cafe")},
    ),
    "Taxis_1": ServiceWords({}, {}),
}
# In the format of T2G2: generation/utterance_templates of google-research/task-oriented-dialogue.
CAFES = """\
CONFIRM!!city!!@\tYou go to @.
INFORM!!city!!@\tIt is in @.
INFORM!!city!!@@\tThey are in @ and @.
INFORM!!city!!dontcare\tThey are anywhere.
INFORM!!has_garden!!False\tYou sit inside.
INFORM!!has_garden!!True\tYou sit outside.
INFORM_COUNT!!FindCafe!!count!!@\tI found @ cafes.
NOTIFY_SUCCESS!!FindCafe\tYour table is booked.
OFFER!!city!!@\tHow about @?
OFFER_INTENT!!FindCafe\tShall I look for a cafe?
REQUEST!!city\tIn which place?
REQUEST!!city!!@@\tIn @ or @?
REQ_MORE\tAnything else?
"""


def act(name, slot="", *values, kind="free", service="Cafes_1", intent=""):
    return Act(service, name, slot, values, values, kind, intent)


def write(folder, **services):
    folder.mkdir(exist_ok=True)
    for service, lines in services.items():
        (folder / f"{service}.tsv").write_bytes(lines.encode())
    return folder


def test_sentences_in_the_words_of_the_schema():
    said = {
        act("REQUEST", "city"): "Request City of the cafe.",
        act("REQUEST", "city", "Oslo", "Rome"): "Request City of the cafe: Oslo or Rome.",
        act("INFORM", "city", "Oslo"): "City of the cafe is Oslo.",
        act("OFFER", "city", "Oslo"): "How about this: City of the cafe is Oslo.",
        act("CONFIRM", "city", "Oslo"): "City of the cafe is Oslo.",
        act("RECOMMEND_IT", "city", "St. Louis Mo."): "Recommend it: City of the cafe is St. Louis Mo.",
        act("INFORM", "has_garden", "False", kind="boolean"): "Whether it has a garden? No.",
        act("INFORM_COUNT", "count", "3", kind="marker"): "There are 3 results.",
        act("OFFER_INTENT", "intent", "FindCafe", kind="marker"): "Offer to find a cafe.",
        act("GOODBYE", kind="none"): "Goodbye.",
        act("SOMETHING", kind="none"): "Something.",
    }
    assert {one: sentence(one, WORDS["Cafes_1"]) for one in said} == said
    both = [act("OFFER", "city", "Oslo"), act("REQ_MORE", kind="none")]
    assert (text_of(both, WORDS), text_of([], WORDS)) == ("How about this: City of the cafe is Oslo. Request more.", "")


def test_the_keys_of_t2g2(tmp_path):
    templates, paths = read_templates(str(write(tmp_path / "t", Cafes_1=CAFES, Cafes_2="GOODBYE\tBye.\n")))
    assert [path.name for path in paths] == ["Cafes_1.tsv", "Cafes_2.tsv"]
    said = {
        act("INFORM", "city", "Oslo"): "It is in Oslo.",
        act("INFORM", "city", "@", "a\t{b}"): "They are in @ and a {b}.",
        act("INFORM", "city", "dontcare"): "They are anywhere.",
        act("INFORM", "has_garden", "False", kind="boolean"): "You sit inside.",
        act("INFORM_COUNT", "count", "3", kind="marker", intent="FindCafe"): "I found 3 cafes.",
        act("NOTIFY_SUCCESS", kind="none", intent="FindCafe"): "Your table is booked.",
        act("OFFER_INTENT", "intent", "FindCafe", kind="marker"): "Shall I look for a cafe?",
        act("REQUEST", "city"): "In which place?",
        act("REQUEST", "city", "Oslo", "Rome"): "In Oslo or Rome?",
        act("REQ_MORE", kind="none"): "Anything else?",
        # Without a template of its own.
        act("REQUEST", "city", "Oslo"): "Request City of the cafe: Oslo.",
        act("NOTIFY_SUCCESS", kind="none", intent="BuyCafe"): "The request was successful.",
        act("GOODBYE", kind="none"): "Goodbye.",
    }
    assert {one: text_of([one], WORDS, templates) for one in said} == said
    missing = [key_of(one) for one in said if template_of(one, templates) is None]
    assert missing == ["REQUEST!!city!!@", "NOTIFY_SUCCESS!!BuyCafe", "GOODBYE"]


SENTENCES = st.lists(st.sampled_from(["@", "{value}", "%s", "\\1", "It is", "!!", "é,", "."]), min_size=1, max_size=6)
VALUES = st.text(st.characters(codec="utf-8"), max_size=6)


def plainly(template, values):
    """A template with its values, one after another."""
    rest, done = template, ""
    for value in values:
        before, _, rest = rest.partition("@")
        done += before + value
    return " ".join((done + rest).split())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(SENTENCES, st.lists(VALUES, max_size=6), st.text("abc_", min_size=1, max_size=5))
def test_any_template_is_filled_with_any_values(tmp_path, parts, values, slot):
    template = " ".join(parts)
    given_values = tuple((values + ["x"] * 6)[: template.count("@")])
    one = act("INFORM", slot, *given_values)
    assume(key_of(one).count("@") == len(given_values))  # the key of a boolean has its value
    templates, _ = read_templates(str(write(tmp_path / "t", Cafes_1=f"{key_of(one)}\t{template}\r\n\n")))
    assert text_of([one], WORDS, templates) == plainly(template, given_values)
    # The same values in another number have no template: the sentence is ours, and says each of them.
    more = act("INFORM", slot, *given_values, "Oslo")
    assert template_of(more, templates) is None
    assert "Oslo" in text_of([more], WORDS, templates)


def test_lines_that_are_no_template_are_refused_by_file_and_line(tmp_path):
    expected = "expected a key, a tab and a sentence"
    for line, reason in {
        "GOODBYE": expected,
        "GOODBYE\t": expected,
        "GOODBYE\tBye\tBye": expected,
        "INFORM!!city!!@ It is @.": expected,
        "INFORM!!city!!@\tIt is here.": "the key has 1 @, but the sentence has 0: both must have one for each value",
        "INFORM!!city\tIt is @ @.": "the key has 0 @, but the sentence has 2: both must have one for each value",
    }.items():
        folder = write(tmp_path / "t", Cafes_1=f"\ufeffREQ_MORE\tAnything else?\n\n{line}\n")
        error = raised(InputError, read_templates, str(folder), match=re.escape(reason))
        assert (error.path, error.where) == (str(folder / "Cafes_1.tsv"), "line 3")
    (tmp_path / "t" / "Cafes_1.tsv").write_bytes(b"GOODBYE\t\xe9")
    raised(InputError, read_templates, str(folder), match="not UTF-8 at byte 8")
    for place in (tmp_path, tmp_path / "none", tmp_path / "t" / "Cafes_1.tsv"):
        raised(InputError, read_templates, str(place), match="contains no templates: expected a folder with SERVICE")


def test_of_lines_with_one_key_the_last_counts(tmp_path):
    folder = write(tmp_path / "t", Cafes_1="\ufeffGOODBYE\tBye.\nGOODBYE\tSee  you.\r\n")
    assert read_templates(str(folder))[0] == {"Cafes_1": {"GOODBYE": "See you."}}
