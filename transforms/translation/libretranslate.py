"""LibreTranslate, or any server with the same HTTP interface."""

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
from parapet.transforms.running import plugins
from parapet.transforms.running.fence import SERVER, Refused, Stopped, in_one_line
from parapet.transforms.translation.memory import Limits

KEY_VARIABLE = "LIBRETRANSLATE_API_KEY"

_LONGEST_WAIT = 60.0  # seconds; the maximum, whatever a server asks for
_PASSING = (429, 502, 503, 504)

_OF_THE_KEY = re.compile(r"api key", re.IGNORECASE)
_OF_THE_PAIR = re.compile(r"is not supported|not available as a target", re.IGNORECASE)


class LibreTranslate:
    """Translates plain text by ``POST /translate`` on a private or a public server.

    If the server needs a key, each worker reads it from the environment variable ``LIBRETRANSLATE_API_KEY``: it is
    never pickled, and no message contains it.

    Args:
      url: the address of the server, such as ``http://127.0.0.1:5000``.
      model: the name under which the memory keeps its translations.
      texts: the maximum number of texts in one request; if the server allows fewer, a batch is sent in halves.
      codepoints: the maximum of one request.
      seconds: the deadline of each attempt; without a GPU a text takes about one second.
      tries: the maximum number of attempts on transient errors: rate limits, outages, broken connections.
      wait: the wait before the third attempt in seconds, doubled for each later one; or what the server asks for, up to
        a minute.
      parallel: the maximum number of concurrent requests.

    Raises:
      InputError: the address is invalid.
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
        if not SERVER.fullmatch(url):
            raise InputError("is not an address such as http://127.0.0.1:5000", "url", url)
        self.url, self.model, self.limits = url.rstrip("/"), model, Limits(texts, codepoints)
        self.seconds, self.tries, self.wait, self.parallel = seconds, tries, wait, parallel
        self._session: requests.Session | None = None
        self._key = ""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> LibreTranslate:
        """Create an engine from the flags ``libretranslate_url`` and ``parallel_calls``.

        Raises InputError without a URL.
        """
        calls = plugins.parallel_calls(options)
        if "libretranslate_url" not in options:
            raise InputError("is required: give the address of the server", "--libretranslate_url")
        return cls(options["libretranslate_url"], parallel=calls)

    def open(self) -> None:
        """Create a session, and request the languages to check that the server answers.

        Raises:
          InputError: the server does not answer.
        """
        self._key = os.environ.get(KEY_VARIABLE, "")
        self._session = requests.Session()
        self._session.headers["Accept-Language"] = "en"  # the language of error messages
        retries = _Retry(
            total=self.tries - 1,
            read=1,  # no repeated waits for a server that stalls
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
            raise InputError(
                f"no LibreTranslate server answers at this address: {_why(error)}", "url", self.url
            ) from None

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """Return the translations in order.

        Raises:
          Refused: ``invalid`` if the server rejects these texts, ``failed`` if it fails on them, ``pair`` if it does
            not support the languages, ``unavailable`` if it does not answer now, ``not_json`` or ``wrong_answer`` if
            its answer is not a translation.
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
            raise Refused(f"not_json: {self._error(answer)}")
        translations = content.get("translatedText")
        if not isinstance(translations, list) or not all(isinstance(text, str) for text in translations):
            raise Refused(f"wrong_answer: {self._cleaned(answer.text)}")
        return translations

    def _meaning(self, answer: requests.Response, source: str, target: str) -> Refused | Stopped:
        status = answer.status_code
        if 300 <= status < 400:
            return Stopped(f"address: {self.url} redirects to {answer.headers.get('Location')}: give that address")
        if status in (404, 405):
            return Stopped(f"address: there is no LibreTranslate at {self.url} (HTTP {status})")
        if status in _PASSING:
            return Refused(f"unavailable: {self._error(answer)}")
        if _json(answer) is None:
            return Refused(f"not_json: {self._error(answer)}")
        error = self._error(answer)
        if _OF_THE_KEY.search(error):
            return Stopped(f"key: {error}: set {KEY_VARIABLE}")
        if status in (401, 403):
            return Stopped(f"denied: {error}")
        if _OF_THE_PAIR.search(error):
            return Refused(f"pair: {source} to {target}: {error}")
        return Refused(f"{'failed' if status >= 500 else 'invalid'}: {error}", splits=True)

    def _error(self, answer: requests.Response) -> str:
        content = _json(answer)
        reason = answer.headers.get("Content-Type", "") if content is None else str(content.get("error"))
        return f"HTTP {answer.status_code}: {self._cleaned(reason)}"

    def _cleaned(self, message: str) -> str:
        return in_one_line(message, self._key)


class _Retry(Retry):
    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """Return the wait that the server asks for, up to a maximum."""
        seconds = super().get_retry_after(response)
        return None if seconds is None else min(seconds, _LONGEST_WAIT)


def _json(answer: requests.Response) -> dict[str, Any] | None:
    """Parse the JSON object; None for anything else, such as the page of a proxy."""
    try:
        content = answer.json()
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _why(error: Exception) -> str:
    """Return the innermost reason, because the outer ones repeat the address."""
    reason = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    text = str(getattr(reason, "args", [reason])[-1]) or type(error).__name__
    return " ".join(text.rpartition(">: ")[2].split())[:300]
