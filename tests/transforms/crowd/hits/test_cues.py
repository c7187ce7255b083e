"""What pages say of the app as a whole: from a file, from the description, from the name."""

import re

from kit import cases, raised, write
from page_form import html_of

from parapet.schemas.errors import InputError
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.crowd.hits.page import Settings
from parapet.transforms.crowd.hits.schema_pages import choose_cue, read_cues, render_service, revealed_by

PAYMENT = Service(
    "Payment_1",
    "The fast, simple way to pay in apps, on the web, and in millions of stores",
    [Slot("payment_method", "The source of money"), Slot("amount", "How much to send"), Slot("to", "Who gets it")],
    [Intent("RequestPayment", "Request payment from someone")],
)
SERVICES = {"Payment_1": PAYMENT}


def file_of(folder, *rows, head="service_name,cue"):
    return write(folder / "cues.csv", "\n".join([head, *rows]))


def pages(service, **settings):
    """Task to the page."""
    made = render_service(service, Settings(**settings)).pages
    return {page.record.task: html_of(page.question) for page in made}


def test_without_a_file_the_description_is_the_cue():
    assert f'<b dir="auto">{PAYMENT.description}</b>' in pages(PAYMENT)["names"]
    assert "What the app is" not in pages(PAYMENT, cues="none")["names"]
    assert "What the app is" not in pages(PAYMENT, cues={"Payment_1": ""})["names"]
    assert choose_cue(PAYMENT, "names", {"Other_1": "x"}) == PAYMENT.description


@cases("text", "", "  ", "Does get_alarms well", "Alarm_1 of old", "Does GetAlarms", "x" * 300)
def test_no_cue_where_the_description_is_blank_or_reads_as_names(text):
    assert choose_cue(Service("A_1", text, [], []), "names", "auto") == ""


def test_a_long_description_is_cut_between_words():
    cue = choose_cue(Service("A_1", "many words " * 5_000, [], []), "names", "auto")
    assert re.fullmatch(r"(many words )+(many )?…", cue)
    assert len(cue) <= 202
    assert "\n" not in cue


@cases(
    "rows message",
    (["Payment_1,payments like Venmo"], "the cue of Payment_1 contains 'payment'"),
    (["Payment_2,x"], "row 2: there is no service 'Payment_2' in the schemas"),
    (["Payment_1,x", "Payment_1,y"], "row 3: there is a second cue for Payment_1"),
    (["Payment_1,like PayPal, or such"], "row 2: the row has 3 cells, but the header has 2"),
    (['Payment_1,"like PayPal', "x,y"], "row 2: a quote is not closed"),
    ([f"Payment_1,{'word ' * 60}"], "the cue has 299 letters, over the limit of 200"),
)
def test_cues_that_cannot_be_used(tmp_path, rows, message):
    raised(InputError, read_cues, file_of(tmp_path, *rows), SERVICES, match=message)


def test_files_that_are_no_cues(tmp_path):
    path = file_of(tmp_path, head="service_name,like")
    raised(InputError, read_cues, path, SERVICES, match="row 1: the header lacks cue")
    (tmp_path / "cues.csv").write_bytes(b"service_name,cue\nPayment_1,\xff")
    raised(InputError, read_cues, tmp_path / "cues.csv", SERVICES, match="not UTF-8 at byte")
    missing = tmp_path / "nowhere.csv"
    raised(InputError, read_cues, missing, SERVICES, match=r"cannot be read: No such file or directory$")


def test_names_of_generic_words_tell_nothing():
    assert revealed_by("pay to whom you like, on any date", ["to", "date", "type"]) == ""
    assert revealed_by("book rooms of hotels", ["hotel_room"]) == ""
    assert revealed_by("book hotel rooms", ["hotel_room"]) == "hotel_room"
    assert (revealed_by("a ferry service", ["Ferries"]), revealed_by("glass", ["glas"])) == ("Ferries", "")
