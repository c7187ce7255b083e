"""HIT pages in a real browser: preview, filling in, refusals, and what a local server receives."""

import re
import shutil
from urllib.parse import quote

import apache_beam as beam
import kit
import pytest
from kit import rows_of, run, write
from page_form import serve

from parapet.transforms.core.files import prepare
from parapet.transforms.core.runs import RunInfo
from parapet.transforms.crowd.hits.make_hits import MakeHits
from parapet.transforms.crowd.hits.page import PlainAct, RatedItem, Settings

WIDTHS = (375, 1280)
TASKS = ("names", "descriptions")

SIGNED = ("Whether \U0001f600 someone has to sign ]]> \u202efor it", "True", "False", "W" * 300)
SLOTS = [kit.slot("weight", "How heavy the parcel is"), kit.slot("signature_needed", *SIGNED)]
SLOTS.append(kit.slot("type", "Sort of parcel, " + "unbroken" * 40))
SEND = kit.intent("SendParcel", "Give a parcel to the carrier")
SCHEMA = [kit.service("Parcels_1", SLOTS, [SEND], "Sends parcels & letters <everywhere>")]

SAID = "Please book O'Neill & Sons for 2 people tomorrow evening."
BARS = kit.frame("Bars_1", kit.act("INFORM", "guests", "2"), slots=[kit.span("name", SAID, "O'Neill & Sons")])
DIALOGUES = [
    kit.dialogue(
        "../<i>1",
        kit.turn("USER", "Any bars <b>near</b> \U0001f600 ]]> \u202eme? " + "unbroken" * 60),
        *(kit.turn("SYSTEM", f"Try number {i}, it is good.") for i in range(30)),
        kit.turn("USER", SAID, BARS),
    ),
    kit.dialogue("yes", kit.turn("USER", "Yes.")),
]
REWRITES = {
    "paraphrase": "A table at O'Neill & Sons tomorrow night, we are 2",
    "typos": "plaese book O'Neill & Sons for 2 poeple tomorow evening",
    "verbose": "Could you be so kind and book O'Neill & Sons for the 2 of us, for tomorrow evening?",
    "simplified": "O'Neill & Sons, 2 people, tomorrow evening.",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hits")
    run("hits", schemas=write(folder / "schema.json", SCHEMA), output=folder / "out")
    yield from serve(folder / "out")


@pytest.fixture(scope="module")
def dialogues(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rewrites")
    run("hits", task="rewrites", dialogues=write(folder / "dialogues_001.json", DIALOGUES), output=folder / "out")
    yield from serve(folder / "out")


HOSTILE = "</span></fieldset><script>alert(1)</script> ${body} ]]> \U0001f600 \u202eme " + "unbroken" * 60
ITEMS = [
    RatedItem("1", 1, "faithful", True, "Bars_1", (PlainAct("Ask for", "city of the bar"),), "", "Which city?"),
    RatedItem("2", 1, "invalid", False, "Bars_1", (PlainAct("Tell", HOSTILE, HOSTILE),), HOSTILE, HOSTILE),
    RatedItem("3", 1, "unfaithful", False, "Bars_1", (PlainAct("Say goodbye"),), "Bye.", ""),
]
RATINGS = {f"{name}_{i}": value for i in range(3) for name, value in (("faithful", "no"), ("natural", str(i + 3)))}


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ratings")
    prepare(str(folder), "hits")
    with beam.Pipeline() as pipeline:
        pipeline | MakeHits([tuple(ITEMS)], Settings(tasks=("ratings",)), RunInfo("hits", str(folder), {}))
    (page,) = folder.glob("pages/*.html")
    shutil.copy(page, folder / "pages/page.html")
    yield from serve(folder)


@pytest.fixture(scope="module")
def window(browser):
    """One for all tests, for each new one is a process: the pages keep nothing, and every test opens its own."""
    return browser.new_page()


# Every page is looked at in both widths, by fits(); that it works is shown on a telephone.
@pytest.fixture(params=[WIDTHS[0], pytest.param(WIDTHS[1], marks=pytest.mark.thorough)])
def page(request, window):
    window.set_viewport_size({"width": request.param, "height": 800})
    troubles = []

    def fails(error):
        troubles.append(str(error))

    def says(message):
        troubles.extend([message.text] if message.type == "error" else [])

    window.on("pageerror", fails)
    window.on("console", says)
    yield window
    window.goto("about:blank")  # nothing of it is left to the next one
    window.remove_listener("pageerror", fails)
    window.remove_listener("console", says)
    # The browser itself asks for an icon that no page mentions.
    assert [trouble for trouble in troubles if "404" not in trouble] == []


def url(server, task, query="?assignmentId=3XYZ&hitId=1&workerId=A1"):
    return f"{server.url}/pages/Parcels_1.{task}.html{query}"


def answers(task):
    said = {
        "names": "hand over|how heavy|Must be signed|shape",
        "descriptions": "Post something|Kilos on the scales|Does somebody confirm?|Box or envelope|A courier",
    }[task]
    return dict(zip(("intent_0", "slot_0", "slot_1", "slot_2", "service"), said.split("|"), strict=False))


def fits(page):
    """Whether nothing is beside the page, at every width."""
    found, size = [], page.viewport_size
    for width in WIDTHS:
        page.set_viewport_size({**size, "width": width})
        found.append(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
    page.set_viewport_size(size)
    return all(found)


def is_preview(page):
    """Says how many controls there are, of which none works on a preview, which is said to be one and fits."""
    controls = page.locator("button, .q input, .q textarea, [name=assignmentId]")
    assert page.get_by_text("This is a preview").is_visible()
    assert all(control.is_disabled() for control in controls.all())
    assert fits(page)
    return controls.count()


def inside_the_site(server, task):
    """The requester's template with the variables of the first HIT in the site's own form with its button."""
    row = rows_of(server.folder / f"requester/{task}.csv")[0]
    template = (server.folder / f"requester/{task}.html").read_text()
    filled = re.sub(r"\$\{(\w+)\}", lambda found: row[found.group(1)], template)
    (server.folder / "site.html").write_text(
        "<!DOCTYPE html><meta charset=utf-8><body><form name='mturk_form' method='post' id='mturk_form' "
        "action='https://www.mturk.com/mturk/externalSubmit'><input type='hidden' value='' name='assignmentId' "
        f"id='assignmentId'/>{filled}<p><input type='submit' id='submitButton' value='Submit' /></p></form></body>"
    )
    return f"{server.url}/site.html?assignmentId=3XYZ"


def fill(page, answers):
    for field, text in answers.items():
        page.fill(f"#{field}", text)


def sent(page, server, button="button"):
    """What the server receives once the form is submitted."""
    page.click(button)
    page.wait_for_url("**/mturk/externalSubmit")
    return server.posted.pop()


def error_of(page, field):
    place = page.locator(f"#{field}-e")
    if not place.is_visible():
        return ""
    assert place.get_attribute("role") == "alert"
    assert f"{field}-e" in page.locator(f"#{field}").get_attribute("aria-describedby")
    return place.inner_text()


def refuse_one(page, field, message, server):
    page.click("button")
    assert error_of(page, field).startswith(message)
    assert page.locator("#hit-wrong").inner_text() == "1 answer needs another look."
    assert page.evaluate("document.activeElement.id") == field
    assert fits(page)
    assert not server.posted


@pytest.mark.parametrize("task", TASKS)
def test_preview_is_disabled_and_says_so(page, server, task):
    page.goto(url(server, task, "?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE"))
    assert is_preview(page) == len(answers(task)) + 2


@pytest.mark.parametrize("task", TASKS)
def test_good_answers_are_posted_and_nothing_else(page, server, task):
    page.goto(url(server, task))
    assert not page.get_by_text("This is a preview").is_visible()
    assert page.locator("#hit-left").inner_text() == f"{len(answers(task))} of {len(answers(task))} left"
    for field, text in answers(task).items():
        page.fill(f"#{field}", f" {text} ")
    assert page.locator("#hit-left").inner_text() == f"All {len(answers(task))} answered"
    assert fits(page)
    assert sent(page, server) == [("assignmentId", "3XYZ"), *answers(task).items()]


PROMPTS = {"names": ("slot_0", "how HEAVY, the parcel is!"), "descriptions": ("slot_1", "Signature needed")}


WRONG = [
    ({"slot_0": "   "}, "slot_0", "Please write a"),
    ({"slot_0": "123"}, "slot_0", "Please use words"),
    ({"slot_0": "word " * 26}, "slot_0", "Too long: 26 words"),
    ({"slot_0": "w" * 201}, "slot_0", "Too long: 201 letters"),
    ({"slot_0": "the same thing", "slot_2": "TheSame_thing"}, "slot_2", "The same as answer 2"),
]


@pytest.mark.parametrize("task", TASKS)
def test_no_answers_and_wrong_ones_are_refused_with_a_message(page, server, task):
    field, copy = PROMPTS[task]
    page.goto(url(server, task))
    page.click("button")
    for empty in answers(task):
        assert error_of(page, empty).startswith("Please write a ")
        assert page.locator(f"#{empty}").get_attribute("aria-invalid") == "true"
    assert page.locator("#hit-wrong").inner_text() == f"{len(answers(task))} answers need another look."
    assert page.evaluate("document.activeElement.id") == "intent_0"
    assert fits(page)
    assert not server.posted
    for changes, wrong, message in [*WRONG, ({field: copy}, field, "This only repeats the text above")]:
        fill(page, {**answers(task), **changes})
        refuse_one(page, wrong, message, server)
        # Mended, the message goes at once.
        page.fill(f"#{wrong}", "something else")
        assert error_of(page, wrong) == ""
        assert not page.locator("#hit-wrong").is_visible()
    assert dict(sent(page, server))[field] == "something else"


def test_an_ambiguous_name_shows_its_meaning_and_refuses_a_copy_of_it(page, server):
    page.goto(url(server, "descriptions"))
    meaning = page.locator("#slot_2-m .p").inner_text()
    assert meaning.startswith("Sort of parcel")
    assert page.locator("#slot_0-m").count() == 0
    page.fill("#slot_2", meaning[:190])
    page.locator("#slot_2").blur()
    assert error_of(page, "slot_2") == ""
    page.fill("#slot_0", "weight")
    page.locator("#slot_0").blur()
    assert error_of(page, "slot_0").startswith("This only repeats")


def test_texts_are_shown_as_they_are_and_enter_goes_on_to_the_next_answer(page, server):
    page.goto(url(server, "names"))
    page.focus("#intent_0")
    page.keyboard.type("hand over")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "slot_0"
    assert not server.posted
    assert page.locator("label[for=slot_1]").inner_text() == "Whether \U0001f600 someone has to sign ]]> \u202efor it"
    page.goto(url(server, "descriptions"))
    assert page.locator("#slot_1-v").inner_text().startswith("Possible values: True, False, WWW")


def test_everything_has_a_label_and_a_legend(page, server):
    for task in TASKS:
        page.goto(url(server, task))
        assert page.locator("html").get_attribute("lang") == "en"
        for field in page.locator(".q input, .q textarea").all():
            assert field.evaluate("e => e.labels.length === 1 && e.labels[0].innerText.trim() !== ''")
            assert field.evaluate("e => e.closest('fieldset').querySelector('legend').innerText.trim() !== ''")
            for place in field.get_attribute("aria-describedby").split(" "):
                assert page.locator(f"#{place}").count() == 1


@pytest.mark.parametrize("task", TASKS)
def test_the_requester_template_works_inside_the_sites_form(page, server, task):
    page.goto(inside_the_site(server, task))
    assert not page.locator("#submitButton").is_visible()
    page.click("#hit button")
    assert page.locator("#hit-wrong").is_visible()
    fill(page, answers(task))
    assert fits(page)
    assert sent(page, server, "#hit button") == [("assignmentId", "3XYZ"), *answers(task).items()]


def rewrite_url(dialogues, query="?assignmentId=3XYZ", page="%2E.%2F%3Ci%3E1.31"):
    return f"{dialogues.url}/pages/{quote(page)}.rewrites.html{query}"


def test_a_rewrites_page_shows_the_dialogue_and_the_sentence(page, dialogues):
    page.goto(rewrite_url(dialogues, ""))
    assert is_preview(page) == len(REWRITES) + 2
    assert page.locator("#hit-said").inner_text() == SAID
    assert page.locator("#hit-said b").all_inner_texts() == ["O'Neill & Sons", "2"]
    turns = page.locator("#hit-past li")
    assert turns.count() == 31
    assert turns.first.inner_text().startswith("User Any bars <b>near</b> \U0001f600 ]]> \u202eme?")
    assert turns.last.inner_text() == "Assistant Try number 29, it is good."
    # Long as it is, the end of it is in view, and the rest can be scrolled to.
    past = page.locator("#hit-past")
    assert past.bounding_box()["height"] <= 240
    assert past.evaluate("e => e.scrollTop > 0 && e.scrollTop + e.clientHeight >= e.scrollHeight - 1")
    assert past.get_attribute("tabindex") == "0"


def test_good_rewritings_are_posted_with_quotes_made_straight(page, dialogues):
    page.goto(rewrite_url(dialogues))
    for field, text in REWRITES.items():
        page.fill(f"#{field}", f" {text} ".replace("'", "\u2019"))
    assert page.locator("#hit-left").inner_text() == "All 4 answered"
    assert sent(page, dialogues) == [("assignmentId", "3XYZ"), *REWRITES.items()]


WRONG_REWRITES = [
    ("paraphrase", "?!", "Please use words."),
    ("paraphrase", "A table at O'Neill and Sons for 2", 'Keep "O\'Neill & Sons" as it is.'),
    ("paraphrase", "a table at o'neill & sons for 12, at 2:30", 'Keep "O\'Neill & Sons" and "2" as they are.'),
    ("paraphrase", SAID.upper().replace("O'NEILL & SONS", "O'Neill & Sons"), "This only repeats"),
    ("verbose", REWRITES["paraphrase"], "The same as answer 1"),
    ("verbose", "Kindly book O'Neill & Sons for 2 people", "Not longer: 7 words, and the sentence above has 9."),
    ("simplified", "Get me O'Neill & Sons for 2 people this evening", "Not shorter: 9 words. Please write at most 8."),
    ("typos", SAID.lower().replace("o'neill & sons", "O'Neill & Sons"), "No letter is changed."),
    ("typos", "Pleeeeeease buuuuuuk O'Neill & Sons for 2 ppl", "Too many changes: mistype at most 17 letters"),
]


def test_wrong_rewritings_are_refused_with_a_message(page, dialogues):
    page.goto(rewrite_url(dialogues))
    fill(page, REWRITES)
    for field, text, message in WRONG_REWRITES:
        page.fill(f"#{field}", text)
        refuse_one(page, field, message, dialogues)
        page.fill(f"#{field}", REWRITES[field])
        assert error_of(page, field) == ""


def test_a_sentence_of_a_word_can_be_rewritten(page, dialogues):
    page.goto(rewrite_url(dialogues, page="yes.0"))
    assert page.locator("#hit-past, #hit-keep").count() == 0
    rewritten = dict(zip(REWRITES, ("Sure thing", "Yse.", "Yes, please do that.", "Yep"), strict=True))
    fill(page, rewritten)
    assert sent(page, dialogues)[1:] == [*rewritten.items()]


@pytest.mark.parametrize("place", ["page", "site"])
def test_ratings_are_posted_once_all_are_chosen(page, ratings, place):
    alone = f"{ratings.url}/pages/page.html?assignmentId=3XYZ"
    page.goto(alone if place == "page" else inside_the_site(ratings, "ratings"))
    assert page.locator("#hit-left").inner_text() == "6 of 6 left"
    page.click("#hit button")
    assert page.locator("#hit-wrong").inner_text() == "6 questions need an answer."
    assert page.evaluate("document.activeElement.name") == "faithful_0"
    assert page.locator("#natural_2-e").inner_text() == "Please choose an answer."
    assert fits(page)
    for name, value in RATINGS.items():
        page.check(f"[name={name}][value='{value}']")
        assert page.locator(f"#{name}-e").inner_text() == ""
    assert page.locator("#hit-left").inner_text() == "All 6 answered"
    assert not page.locator("#hit-wrong").is_visible()
    page.keyboard.press("Enter")
    assert not ratings.posted
    assert sent(page, ratings, "#hit button") == [("assignmentId", "3XYZ"), *RATINGS.items()]


def test_a_preview_of_ratings_is_disabled_and_texts_are_shown_as_they_are(page, ratings):
    page.goto(f"{ratings.url}/pages/page.html")
    is_preview(page)
    assert page.locator(".said").all_inner_texts() == ["Which city?", HOSTILE, "(no reply)"]
    assert page.locator(".acts li").nth(1).inner_text() == f"Tell: {HOSTILE} – {HOSTILE}"
    for choice in page.locator(".q input").all():
        assert choice.evaluate("e => e.labels.length === 1 && e.labels[0].innerText.trim() !== ''")
        assert choice.evaluate("e => e.closest('fieldset').querySelector('legend').innerText.trim().endsWith('?')")
    page.goto(f"{ratings.url}/index.html")
    assert fits(page)
    page.get_by_role("link", name=":ratings").click()
