"""Finds hidden text in a page. The tests run it over whole corpora; pages pass because they are made without it."""

import re
from collections.abc import Iterable
from html.parser import HTMLParser

from parapet.schemas.service import FIELD, Service, Task, elements_of
from parapet.transforms.crowd.hits.markup import shown as shown_text
from parapet.transforms.report.text import name_words

_PART = re.compile(r"[^\W_]+")


def hidden_texts(service: Service, task: Task, meanings: Iterable[str] = ()) -> list[str]:
    """What a page of ``task`` must not tell: the names, or the descriptions but those in ``meanings``."""
    visible = set(meanings)
    texts = (element.text(task) for element in elements_of(service, task))
    return [text for text in texts if shown_text(text) not in visible]


def leaks(page: str, shown: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """The hidden texts whose words stand somewhere in the page, side by side, outside the texts that it has to show.

    Looks at text, comments, scripts, styles and the values of attributes: markup itself (``<title>``, ``type=``) is
    the same whatever is hidden. Form fields (``intent_0``) are a contract and tell a kind and a position only.

    Args:
      page: HTML, or an HTMLQuestion.
      shown: the texts that the page shows for its questions.
      hidden: what it must not tell.
    """
    reader = _Reader(frozenset(shown))
    reader.feed(page)
    reader.close()
    # A line break never stands in a word: it keeps words of two places from reading as one phrase.
    places = "\n".join(f" {' '.join(_words(place))} " for place in reader.places)
    found = []
    for text in hidden:
        if any(f" {phrase} " in places for phrase in ({" ".join(_words(text)), " ".join(name_words(text))} - {""})):
            found.append(text)
    return found


def _words(text: str) -> list[str]:
    # Every part both as it is and split at capitals, so that neither spelling hides a word.
    return [word for part in _PART.findall(text) for word in (name_words(part) or (part.casefold(),))]


class _Reader(HTMLParser):
    """Collects what a page says, place by place, less the texts it has to show."""

    def __init__(self, shown: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.shown, self.places = shown, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for _, value in attrs:
            self._add(" ".join(part for part in (value or "").split() if not _is_field(part)))

    def _add(self, text: str) -> None:
        if text.strip() and text.strip() not in self.shown:
            self.places.append(text)

    handle_data = handle_comment = handle_decl = unknown_decl = handle_pi = _add


def _is_field(text: str) -> bool:
    return FIELD.fullmatch(re.sub(r"-[hevm]$", "", text)) is not None
