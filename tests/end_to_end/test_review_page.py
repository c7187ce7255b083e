"""The review page in a real browser, opened as a file, without a network."""

import io

import pytest
from kit import cases, decisions_csv

from parapet.schemas.decisions import COLUMNS, Decision, parse_decisions
from parapet.transforms.crowd.answer_files import read_records
from parapet.transforms.crowd.report import ReviewItem, review_order, review_pages, review_sheet

EXPLANATIONS = {"oov": "Has a word that is in no dictionary.", "language": "Does not look like English."}
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<img src='http://127.0.0.1:9/pixel'><iframe src=javascript:alert(1)></iframe>",
    '" autofocus onfocus="alert(1)" \'',
    "\u202e<script>alert(1)</script>\u2028\u200b",
    '=HYPERLINK("http://127.0.0.1:9")',
    "x" * 5000,
    "Z\u0351\u036b\u0343" * 300,
]


def items(count=6):
    made = []
    for i in range(count):
        element = f"{'Hotels_1' if i < 4 else 'Movies_1'}/slot/field_{i // 2}"
        texts = ("Start date", "check_in", f"answer {i}", f"answer_{i}")  # prompt, original, answer, canonical
        reasons, task = ["oov"] if i % 3 else ["oov", "language"], "names" if i % 2 else "descriptions"
        more = {"reasons": reasons, "neighbours": [("arrival_date", "used")]}
        made.append(ReviewItem(f"A{i}:slot_{i // 2}", element, task, *texts, **more))
    return made


def ids(of):
    return [i.response_id for i in sorted(of, key=review_order)]


def parsed(data):
    """The decisions in a downloaded sheet, and its bad rows."""
    return parse_decisions(read_records(io.StringIO(data.decode("utf-8-sig"), newline=""), COLUMNS), "d")


class Review:
    """A review page, open; what it must never do is collected in ``trouble``."""

    def __init__(self, browser, folder, of, width=1280, script=""):
        for name, data in review_pages(sorted(of, key=review_order), EXPLANATIONS):
            (folder / name).write_bytes(data)
        self.folder = folder
        self.trouble = []
        self.context = browser.new_context(viewport={"width": width, "height": 800})
        if script:
            self.context.add_init_script(script)
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("dialog", lambda dialog: (self.trouble.append(dialog.message), dialog.dismiss()))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("request", lambda request: self.requested(request.url))
        self.page.goto((self.folder / "review.html").as_uri())

    def requested(self, url):
        if not url.startswith((self.folder.as_uri(), "blob:")):
            self.trouble.append(url)

    def do(self, index, what):
        self.page.locator(f"#c{index} [data-do={what}]").click()

    def press(self, keys):
        for key in keys.split():
            self.page.keyboard.press(key)

    def fix(self, index, text):
        self.do(index, "fix")
        self.page.locator(f"#t{index}").fill(text)

    def progress(self):
        return self.page.locator("#progress").inner_text()

    def message(self):
        return self.page.locator("#message").inner_text()

    def load(self, name, data):
        """Takes decisions from a file; returns what the page says to it."""
        self.page.set_input_files("#load", {"name": name, "mimeType": "text/csv", "buffer": data})
        self.page.wait_for_function("document.getElementById('message').textContent")
        return self.message()

    def shown(self):
        return [int(card.get_attribute("id")[1:]) for card in self.page.locator(".card:visible").all()]

    def download(self):
        with self.page.expect_download() as event:
            self.page.locator("#download").click()
        path = self.folder / "downloaded.csv"
        event.value.save_as(path)
        assert event.value.suggested_filename == "decisions.csv"
        return path.read_bytes()

    def decisions(self):
        good, bad = parsed(self.download())
        assert bad == []
        return [(d.response_id, d.decision, d.text, d.reason, d.reviewer) for d in good]


@pytest.fixture
def review(browser, tmp_path):
    opened = []

    def start(of=None, **options):
        opened.append(Review(browser, tmp_path, items() if of is None else of, **options))
        return opened[-1]

    yield start
    for each in opened:
        each.context.close()
        assert each.trouble == []


def test_decide_by_click_and_download(review):
    page = review()
    names = ids(items())
    page.page.fill("#reviewer", "EL")
    page.do(0, "accept")
    page.do(1, "reject")
    page.page.fill("#r1", "-not English")
    page.fix(2, '=a "better" name,\nreally')
    page.do(3, "reject")
    page.do(3, "accept")
    page.do(4, "accept")
    page.do(4, "undo")
    assert page.progress() == "4 of 6 decided"
    assert page.page.locator("#c1 [data-do=reject]").get_attribute("aria-pressed") == "true"
    decided = [("accept", "", ""), ("reject", "", "-not English"), ("fix", '=a "better" name,\nreally', "")]
    expected = zip(names, [*decided, ("accept", "", "")], strict=False)
    assert page.decisions() == [(name, *decision, "EL") for name, decision in expected]


def test_the_browser_writes_what_python_writes(review):
    page = review()
    texts = ["=1+1", "'=1", "''-", '\u202e, ;"" é 漢 👍', "'tis", "＝1"]
    for i, text in enumerate(texts):
        page.fix(i, text + " x")
        page.page.fill(f"#r{i}", text)
    data = page.download()
    good, _ = parsed(data)
    assert ([(d.text, d.reason) for d in good], decisions_csv(good)) == ([(text + " x", text) for text in texts], data)


def test_decide_by_keyboard(review):
    page = review()
    page.press("a")  # nothing chosen yet: goes to the first item and decides nothing
    assert page.progress() == "0 of 6 decided"
    page.press("a r k u j f")
    page.page.keyboard.type("departure arj")  # letters in a box are letters
    page.press("Enter k k a")
    first, second, third, *_ = ids(items())
    accepted = [(first, "accept", ""), (second, "accept", "")]
    assert [d[:3] for d in page.decisions()] == [*accepted, (third, "fix", "departure arj")]
    page.page.locator("#shortcuts").uncheck()
    page.page.locator("#c5").focus()
    page.press("a")
    assert page.progress() == "3 of 6 decided"


def test_an_empty_fix_is_no_decision(review):
    page = review()
    page.fix(0, " … ")
    assert page.progress() == "0 of 6 decided"
    page.press("Enter")
    assert "Write the text" in page.message()
    page.page.locator("#download").click()
    assert page.message() == "Nothing is decided yet."
    page.fix(1, "x")
    page.press("Escape")
    assert page.page.evaluate("document.activeElement.id") == "c1"


def test_a_reload_keeps_everything(review):
    page = review()
    page.page.fill("#reviewer", "EL")
    page.do(0, "accept")
    page.fix(1, "arrival_day")
    page.page.fill("#r0", "fine")
    before = page.decisions()
    for _ in range(20):  # Chromium may read sooner than it has written, on a busy machine
        page.page.reload()
        if page.progress() != "0 of 6 decided":
            break
    assert (page.progress(), page.page.locator("#t1").input_value()) == ("2 of 6 decided", "arrival_day")
    assert page.decisions() == before


@cases(
    "script",
    "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } });",
    "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };",
    "try { Storage.prototype.getItem = () => '{\"broken'; } catch {}",
    'try { Storage.prototype.getItem = () => \'[[1],["__proto__","accept","",""],null]\'; } catch {}',
)
def test_storage_that_fails_or_holds_nonsense(review, script):
    page = review(script=script)
    page.do(0, "accept")
    assert page.progress() == "1 of 6 decided"
    assert "does not keep your decisions" in page.message() or "getItem" in script
    assert [d[:2] for d in page.decisions()] == [(ids(items())[0], "accept")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_resume_from_a_file(review, encoding):
    page = review()
    names = ids(items())
    given = [Decision(names[0], "fix", '=x,\n"y"', "'-", "MK"), Decision(names[4], "reject", "", "no; no", "MK")]
    other = [Decision("unknown:slot_0", "accept")]
    data = decisions_csv(given + other).decode() + f'"{names[1]}","perhaps","","",""\r\n"{names[2]}","","","",""\r\n'
    others = "about answers that are not on this page: 1; rows that cannot be used: 1."
    assert page.load("mk.csv", data.encode(encoding)) == f"Decisions taken from mk.csv: 2; {others}"
    assert page.decisions() == [(d.response_id, d.decision, d.text, d.reason, d.reviewer) for d in given]


@cases("data said", (b"\xe9;\xe8\n", "not UTF-8"), (b"a,b\n1,2\n", "no columns"), (b"", "no columns"))
def test_resume_from_a_file_that_is_none(review, data, said):
    assert said in review().load("x.csv", data)


def test_resume_from_the_sheet_as_a_spreadsheet_saves_it(review):
    page = review()
    data = b"".join(review_sheet(items(), EXPLANATIONS)).decode().replace('"A3:slot_1",""', '"A3:slot_1","Accept"')
    data = "\ufeff" + data.replace('","', '";"').replace("\n", "\r\n")
    assert page.load("review.csv", data.encode()) == "Decisions taken from review.csv: 1."
    assert [d[:2] for d in page.decisions()] == [("A3:slot_1", "accept")]


def test_filters(review):
    page = review()
    page.do(0, "accept")
    page.page.select_option("#by-status", "undecided")
    assert page.shown() == [1, 2, 3, 4, 5]
    page.do(1, "accept")
    assert page.shown() == [1, 2, 3, 4, 5]  # stays in sight until the filters are touched
    page.page.select_option("#by-service", "Movies_1")
    assert page.shown() == [4, 5]
    page.page.select_option("#by-status", "")
    page.page.select_option("#by-service", "")
    page.page.select_option("#by-flag", "language")
    assert page.shown() == [i for i, name in enumerate(ids(items())) if int(name[1]) % 3 == 0]
    page.page.select_option("#by-flag", "")
    page.page.fill("#by-text", "ANSWER_5")
    assert [ids(items())[i] for i in page.shown()] == ["A5:slot_2"]
    page.page.fill("#by-text", "no such text")
    assert page.shown() == []
    assert page.page.locator("#none").is_visible()


def test_the_keyboard_keeps_to_what_is_shown(review):
    page = review()
    page.page.select_option("#by-service", "Movies_1")
    page.page.locator("body").click(position={"x": 5, "y": 5})
    page.press("j a r")
    assert page.message() == "No undecided item below; 4 left elsewhere."
    assert [d[1] for d in page.decisions()] == ["accept", "reject"]


@pytest.mark.parametrize("width", [375, 1280])
def test_hostile_texts_do_nothing_and_fit(review, width):
    of = []
    for i, text in enumerate(HOSTILE):
        more = ([text, "oov"], 2, [(text, text)])
        of.append(ReviewItem(f"{text[:60]}{i}:slot_0", f"S/slot/{text}", "names", *[text] * 3, f"{text} ", *more))
    page = review(of, width=width)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    for i in range(len(of)):
        page.do(i, "accept")
    assert [d[0] for d in page.decisions()] == ids(of)
    assert page.page.evaluate("document.querySelectorAll('.card img, .card iframe, .card script').length") == 0


def test_fits_a_telephone_and_every_control_has_a_name(review):
    page = review(width=375)
    page.fix(0, "x" * 300)
    page.do(1, "reject")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 375
    for button in page.page.locator(".card button:visible, #download").all():
        assert button.bounding_box()["height"] >= 40
    unnamed = page.page.evaluate(
        """[...document.querySelectorAll("input, select, textarea, progress")].filter((e) => !e.labels.length).length"""
    )
    assert (unnamed, page.page.locator("#progress").get_attribute("role")) == (0, "status")
