"""LibreTranslate, or whatever speaks the same HTTP."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse
from urllib3.util import Retry

from parapet.schemas.errors import InputError
from parapet.transforms import plugins
from parapet.transforms.refusals import Refused, Stopped
from parapet.transforms.translation.engine import Limits

KEY_VARIABLE = "LIBRETRANSLATE_API_KEY"

_LONGEST_WAIT = 60.0  # seconds, whatever a server asks for
_PASSING = (429, 502, 503, 504)

# A password in it would be told with the address.
_ADDRESS = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")
_OF_THE_KEY = re.compile(r"api key", re.IGNORECASE)
_OF_THE_PAIR = re.compile(r"is not supported|not available as a target", re.IGNORECASE)


class LibreTranslate:
    """Translates by ``POST /translate``, as plain text, on a server of one's own or a public one.

    A server that wants a key finds it in the environment variable ``LIBRETRANSLATE_API_KEY`` of whoever runs the
    workers: it is not pickled with the rest, and no message has it.

    Args:
      url: where the server is, ``http://127.0.0.1:5000``.
      model: the name under which the memory keeps its translations.
      texts: of one request, at most; a server may allow fewer, a batch is then sent in halves.
      codepoints: of one request, at most.
      seconds: the deadline of each try; without a GPU a text takes about one.
      tries: for what may go well later: too many requests, an outage, a connection that breaks.
      wait: seconds, doubled for each try from the third on. Where the server says how long to wait, that counts, up to
        a minute.
      parallel: requests under way at a time.

    Raises:
      InputError: the address is none.
    """

    provider = "libretranslate"
    dollars_per_million = 0.0

    def __init__(
        self,
        url: str,
        model: str = "libretranslate",
        texts: int = 25,
        codepoints: int = 2_000,
        seconds: float = 120,
        tries: int = 5,
        wait: float = 1,
        parallel: int = 1,
    ) -> None:
        if not _ADDRESS.fullmatch(url):
            raise InputError("is no address such as http://127.0.0.1:5000", "url", url)
        self.url, self.model, self.limits = url.rstrip("/"), model, Limits(texts, codepoints)
        self.seconds, self.tries, self.wait, self.parallel = seconds, tries, wait, parallel
        self._session: requests.Session | None = None
        self._key = ""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> LibreTranslate:
        """Of the flags ``libretranslate_url`` and ``parallel_calls``. Raises InputError where there is no address."""
        calls = plugins.parallel_calls(options)
        if "libretranslate_url" not in options:
            raise InputError("say where the server is", "--libretranslate_url")
        return cls(options["libretranslate_url"], parallel=calls)

    def open(self) -> None:
        """Makes a session, and asks for the languages to see whether anybody answers.

        Raises:
          InputError: nobody does.
        """
        self._key = os.environ.get(KEY_VARIABLE, "")
        self._session = requests.Session()
        self._session.headers["Accept-Language"] = "en"  # that of its errors
        retries = _Retry(
            total=self.tries - 1,
            read=1,  # a server that stalls is not waited for five times
            status_forcelist=_PASSING,
            allowed_methods=("GET", "POST"),
            backoff_factor=self.wait,
            backoff_max=_LONGEST_WAIT,
            raise_on_status=False,
        )
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retries))
        try:
            self._session.get(f"{self.url}/languages", timeout=self.seconds)
        except requests.RequestException as error:
            self.close()
            raise InputError(f"no LibreTranslate answers there: {_why(error)}", "url", self.url) from None

    def close(self) -> None:
        """Closes the connections. Once more does nothing."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """The translations, in order.

        Raises:
          Refused: ``invalid``: the server does not take these texts. ``failed``: it breaks over them. ``pair``: it does
            not know the languages. ``unavailable``: it does not answer, or not now. ``not_json``, ``wrong_answer``:
            what it answers is no translation.
          Stopped: ``key``, ``denied`` or ``address``.
        """
        assert self._session is not None, "open it first"
        body: dict[str, Any] = {"q": texts, "source": source, "target": target, "format": "text"}
        if self._key:
            body["api_key"] = self._key
        try:
            # A redirect would be followed without the body.
            answer = self._session.post(f"{self.url}/translate", json=body, timeout=self.seconds, allow_redirects=False)
        except requests.RequestException as error:
            raise Refused(f"unavailable: {_why(error)}") from None
        if answer.status_code != 200:
            raise self._meaning(answer, source, target)
        content = _json(answer)
        if content is None:
            raise Refused(f"not_json: {self._said(answer)}")
        found = content.get("translatedText")
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise Refused(f"wrong_answer: {self._told(answer.text)}")
        return found

    def _meaning(self, answer: requests.Response, source: str, target: str) -> Refused | Stopped:
        status = answer.status_code
        if 300 <= status < 400:
            return Stopped(f"address: {self.url} sends on to {answer.headers.get('Location')}: give that address")
        if status in (404, 405):
            return Stopped(f"address: there is no LibreTranslate at {self.url} (HTTP {status})")
        if status in _PASSING:
            return Refused(f"unavailable: {self._said(answer)}")
        if _json(answer) is None:
            return Refused(f"not_json: {self._said(answer)}")
        said = self._said(answer)
        if _OF_THE_KEY.search(said):
            return Stopped(f"key: {said}: set {KEY_VARIABLE}")
        if status in (401, 403):
            return Stopped(f"denied: {said}")
        if _OF_THE_PAIR.search(said):
            return Refused(f"pair: {source} to {target}: {said}")
        return Refused(f"{'failed' if status >= 500 else 'invalid'}: {said}", splits=True)

    def _said(self, answer: requests.Response) -> str:
        content = _json(answer)
        what = answer.headers.get("Content-Type", "") if content is None else str(content.get("error"))
        return f"HTTP {answer.status_code}: {self._told(what)}"

    def _told(self, message: str) -> str:
        """In one line, and without the key."""
        message = message.replace(self._key, "…") if self._key else message
        return " ".join(message.split())[:300]


class _Retry(Retry):
    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """As long as the server asks for, within reason."""
        asked = super().get_retry_after(response)
        return None if asked is None else min(asked, _LONGEST_WAIT)


def _json(answer: requests.Response) -> dict[str, Any] | None:
    """None where it is something else: a proxy's page, perhaps."""
    try:
        found = answer.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _why(error: Exception) -> str:
    """The innermost reason: the outer ones repeat the address."""
    reason = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    text = str(getattr(reason, "args", [reason])[-1]) or type(error).__name__
    return " ".join(text.rpartition(">: ")[2].split())[:300]
