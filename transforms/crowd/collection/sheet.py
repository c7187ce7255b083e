"""Convert blind forms to plain text, and check answers as the form does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html.parser import HTMLParser

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.serving.forms import Form
from parapet.transforms.reports.text import clean, name_words

_UNSEEN = frozenset({"head", "style", "script", "noscript", "button"})
_VOID = frozenset({"input", "meta", "link", "br", "img", "hr"})
_INLINE = frozenset({"b", "em", "i", "code", "span", "strong", "a", "input", "textarea"})
_MARKS = {"good": "\N{CHECK MARK} ", "bad": "\N{BALLOT X} "}  # drawn by the style sheet


class Sheet(msgspec.Struct, frozen=True):
    """A form as plain text.

    Attributes:
      form: the form.
      text: the text that a person sees, line by line. The name of a field comes before its question.
      given: form field to the texts shown in its question, which must not be copied as answers.
      noun: the form's word for an answer: ``name`` or ``description``.
      words: the maximum number of words in an answer, as ``letters`` is of letters.
    """

    form: Form
    text: str
    given: Mapping[str, tuple[str, ...]]
    noun: str
    words: int
    letters: int

    def fault(self, field: str, answer: str, others: Iterable[str] = ()) -> tuple[str, str]:
        """Return (reason id, the page's message) if the page would refuse an answer; else empty strings.

        Args:
          field: the form field.
          answer: the cleaned text.
          others: accepted answers to other fields.
        """
        key = name_words(answer)
        if not answer:
            return "blank", f"Please write a {self.noun}."
        if not any(c.isalpha() for word in key for c in word):
            return "no_words", "Please use words."
        if len(key) > self.words:
            return "too_long", f"Too long: {len(key):,} words. Please use at most {self.words}."
        if len(answer) > self.letters:
            return "too_long", f"Too long: {len(answer):,} letters. Please use at most {self.letters}."
        if any(name_words(text) == key for text in self.given[field]) or _is_message(key):
            return "copied", "This only repeats the text above. Please use your own words."
        if any(name_words(other) == key for other in others):
            return "repeated", f"The same as another answer. Every {self.noun} must be different."
        return "", ""


_MESSAGES = ("This only repeats the text above", "The same as another answer", "Please use your own words")


def _is_message(key: tuple[str, ...]) -> bool:
    """Whether an answer repeats one of the form's messages, as weak models do."""
    return any(key[: len(words)] == words for words in map(name_words, _MESSAGES))


def read_sheet(form: Form) -> Sheet:
    """Convert a served form to text. Raises InputError if it does not ask for names or descriptions."""
    if form.task not in TASKS:
        reason = f"asks for {form.task}; a language model fills in forms for names and descriptions only"
        raise InputError(reason, form.task_id, "--hits")
    reader = _Reader()
    reader.feed("".join(form.parts))
    reader.close()
    missing = [field for field in form.fields if field not in reader.given]
    if missing or not reader.limits:
        raise InputError(
            "is not a page of this version of 'parapet hits': make the pages again", form.task_id, "--hits"
        )
    lines = (" ".join(line.split()) for line in reader.lines)
    noun, words, letters = reader.limits
    return Sheet(
        form,
        "\n".join(line for line in lines if line),
        {field: tuple(map(clean, reader.given[field])) for field in form.fields},
        noun,
        int(words),
        int(letters),
    )


class _Reader(HTMLParser):
    """Collects the lines that a browser shows, and the texts in each question."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = [""]
        self.given: dict[str, list[str]] = {}
        self.limits: tuple[str, str, str] | None = None
        self._hidden = 0  # depth inside of hidden elements
        self._open: list[tuple[str, bool]] = []  # tag, and whether its text is part of a question
        self._shown: list[str] = []  # texts of the current question

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        classes = (attributes.get("class") or "").split()
        if self._hidden or tag in _UNSEEN or "hidden" in attributes:
            self._hidden += tag not in _VOID
            return
        if attributes.get("id") == "hit":
            self.limits = (
                attributes.get("data-noun") or "answer",
                attributes.get("data-words") or "0",
                attributes.get("data-letters") or "0",
            )
        if "q" in classes:
            self._shown = []
        if tag in ("input", "textarea") and (name := attributes.get("name")) and attributes.get("type") != "hidden":
            self.given[name] = self._shown
        if tag not in _INLINE:
            self._new_line()
        if tag == "label":
            self.lines[-1] += f"{attributes.get('for')}: "
        elif tag == "li" and "q" not in classes:
            self.lines[-1] += "- "
        for name in classes:
            self.lines[-1] += _MARKS.get(name, "") if tag == "dd" else ""
        if tag not in _VOID:
            is_shown = "p" in classes
            self._open.append((tag, is_shown))
            if is_shown:
                self._shown.append("")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= tag not in _VOID
        elif any(name == tag for name, _ in self._open):
            while self._open.pop()[0] != tag:
                pass
            if tag not in _INLINE:
                self._new_line()

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        self.lines[-1] += data.replace("\n", " ")
        if any(is_shown for _, is_shown in self._open):
            self._shown[-1] += data

    def _new_line(self) -> None:
        if self.lines[-1]:
            self.lines.append("")
