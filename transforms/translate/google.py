"""Google Cloud Translation v3 with its own client, or any server at another endpoint with the same gRPC interface."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Any

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.core import plugins
from parapet.transforms.core.fence import Refused, Stopped
from parapet.transforms.translate.memory import Limits

# Google's codes that differ from BCP 47.
LANGUAGES = {"zh": "zh-CN", "zh-Hans": "zh-CN", "zh-Hant": "zh-TW", "nb": "no"}

_LOGIN = "run 'gcloud auth application-default login', or set GOOGLE_APPLICATION_CREDENTIALS to a key file"

_ADDRESS = re.compile(r"http://[^\s/:@]+:\d+/?|(https://)?[^\s/:@]+(:\d+)?/?")
_RATE = re.compile(r"user ?rate ?limit ?exceeded", re.IGNORECASE)
_DAILY = re.compile(r"daily ?limit|per day", re.IGNORECASE)
# The client fetches the token for a call itself; a refused token looks like an outage.
_NO_TOKEN = re.compile(
    r"metadata from plugin failed(?:(?!metadata from).)*(invalid_|unauthorized|impersonat|reauth)",
    re.IGNORECASE | re.DOTALL,
)
# Errors that depend on the languages or the settings, not on the texts.
_OF_THE_PAIR = re.compile(r"language|resource name", re.IGNORECASE)
_SECRETS = re.compile(r"ya29\.[\w.-]+|AIza[\w-]+|(?<![\w-])eyJ[\w-]+\.[\w.-]*|bearer +\S+|-----BEGIN.*", re.IGNORECASE)


class Google:
    """Translates plain text by ``TranslateText``.

    Transient errors (an outage, a quota per minute, a deadline, a broken connection) are retried with exponential
    backoff and jitter. Google does not charge for failed requests, but a retry after a deadline or a broken connection
    may be charged twice, because the first answer may have been lost.

    Args:
      project: the id of the Google Cloud project that pays.
      location: ``global``, or a region such as ``us-central1``, which custom models belong to.
      model: ``general/nmt``, ``general/translation-llm``, or the id or full name of a custom model.
      endpoint: ``HOST:PORT`` instead of Google's, with TLS and the application default credentials; with the prefix
        ``http://`` (a local server) unencrypted and without credentials.
      seconds: the deadline of each attempt.
      patience: how long a request is retried, in seconds. After that, later requests have one attempt each until one
        succeeds, so that not every batch waits for the end of an outage.
      first_wait: the maximum wait before the second attempt, in seconds.
      longest_wait: the maximum wait before any attempt, in seconds.
      parallel: the maximum number of concurrent requests.

    Raises:
      InputError: an argument is invalid.
    """

    provider = "google"
    limits = Limits(texts=1024, codepoints=5_000)  # recommended; up to 30,000 are accepted
    # The list price of NMT beyond the free 500,000 a month, from a copy of cloud.google.com/translate/pricing read in
    # November 2026. Custom models cost more.
    dollars_per_million = 20.0

    def __init__(
        self,
        project: str,
        location: str = "global",
        model: str = "general/nmt",
        endpoint: str = "",
        seconds: float = 60,
        patience: float = 300,
        first_wait: float = 1,
        longest_wait: float = 32,
        parallel: int = 1,
    ) -> None:
        if endpoint and not _ADDRESS.fullmatch(endpoint):
            raise InputError("is not an address such as HOST:PORT or http://127.0.0.1:8080", "endpoint", endpoint)
        self.model = model
        self.parallel = parallel
        self.parent = f"projects/{project}/locations/{location}"
        self.model_name = model if model.startswith("projects/") else f"{self.parent}/models/{model}"
        self.endpoint = endpoint.rstrip("/")
        self.seconds, self.patience = seconds, patience
        self.first_wait, self.longest_wait = first_wait, longest_wait
        self._client: Any = None
        self._down = False

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Google:
        """Creates an engine from the flags ``google_...`` and ``parallel_calls``.

        Raises InputError without a project.
        """
        calls = plugins.parallel_calls(options)
        arguments = {
            name.removeprefix("google_"): value for name, value in options.items() if name.startswith("google_")
        }
        project = arguments.pop("project", None) or os.environ.get("GOOGLE_CLOUD_PROJECT")
        if not project:
            raise InputError("is required: name the project that pays, or set GOOGLE_CLOUD_PROJECT", "--google_project")
        return cls(project, parallel=calls, **arguments)

    def open(self) -> None:
        """Creates the client. This sends no request yet, but may fetch credentials.

        Raises:
          InputError: google-cloud-translate is not installed, or there are no credentials.
        """
        try:
            from google.auth.exceptions import GoogleAuthError
            from google.cloud import translate_v3 as _  # noqa: F401
        except ImportError:
            raise MissingExtra("google-cloud-translate", "google") from None
        try:
            self._client = _connect(self.endpoint)
        except GoogleAuthError as error:
            raise InputError(f"no Google credentials: {_LOGIN} ({message_of(error)})") from None

    def close(self) -> None:
        """Closes the connection. A second call does nothing."""
        if self._client is not None:
            self._client.transport.close()
            self._client = None

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """Returns the translations in order.

        Raises:
          Refused: ``invalid`` if Google rejects these texts, ``pair`` if it rejects the languages, ``unavailable`` if
            it did not answer while the request was retried, ``failed`` on any other error.
          Stopped: ``daily_limit``, ``credentials``, ``denied`` or ``not_found``.
        """
        from google.api_core.exceptions import GoogleAPICallError, RetryError

        request = self._request(texts, source, target)
        try:
            # With the client's own retry, the deadline would cover all attempts together.
            answer = self._retry()(self._client.translate_text)(request=request, timeout=self.seconds, retry=None)
        except RetryError as error:
            self._down = True
            raise Refused(f"unavailable: {message_of(error.cause)}") from None
        except UnicodeEncodeError:
            raise Refused("invalid: the text is not valid Unicode", splits=True) from None
        except GoogleAPICallError as error:
            raise self._meaning(error, source, target) from None
        self._down = False
        return [translation.translated_text for translation in answer.translations]

    def _request(self, texts: list[str], source: str, target: str) -> dict[str, Any]:
        return {
            "parent": self.parent,
            "contents": texts,
            "mime_type": "text/plain",  # otherwise the text is read as HTML and the answer is escaped
            "source_language_code": LANGUAGES.get(source, source),
            "target_language_code": LANGUAGES.get(target, target),
            "model": self.model_name,
        }

    def _retry(self) -> Any:
        from google.api_core.retry import Retry

        return Retry(
            predicate=_may_pass,
            initial=self.first_wait,
            maximum=self.longest_wait,
            timeout=0 if self._down else self.patience,
            on_error=lambda error: logging.info("Google Translate: %s; trying again", message_of(error)),
        )

    def _meaning(self, error: Exception, source: str, target: str) -> Refused | Stopped:
        """Translates an error that a retry would not change into an error of ours."""
        from google.api_core import exceptions as api

        message = message_of(error)
        if _is_daily(error):
            return Stopped(f"daily_limit: {message}: continue after midnight Pacific time, or request a higher quota")
        if isinstance(error, api.Unauthorized) or _NO_TOKEN.search(str(error)):
            return Stopped(f"credentials: Google rejected them: {_LOGIN}")
        if isinstance(error, api.Forbidden):
            advice = (
                "enable billing and the Cloud Translation API, and give the account the role Cloud Translation API User"
            )
            return Stopped(f"denied: {message}: in {self.parent.split('/')[1]}, {advice}")
        if isinstance(error, api.NotFound):
            return Stopped(f"not_found: {message}: check the model and the location")
        if isinstance(error, api.InvalidArgument):
            if not _OF_THE_PAIR.search(message):
                return Refused(f"invalid: {message}", splits=True)
            return Refused(f"pair: {source} to {target}: {message}")
        return Refused(f"failed: {message} ({type(error).__name__})")


def _connect(endpoint: str) -> Any:
    from google.cloud import translate_v3

    if not endpoint.startswith("http://"):
        options = {"api_endpoint": endpoint.removeprefix("https://")} if endpoint else None
        return translate_v3.TranslationServiceClient(client_options=options)
    import grpc

    # With only api_endpoint, the client creates a TLS channel and looks for credentials.
    host = endpoint.removeprefix("http://")
    transport = translate_v3.TranslationServiceClient.get_transport_class("grpc")
    return translate_v3.TranslationServiceClient(transport=transport(channel=grpc.insecure_channel(host), host=host))


def _may_pass(error: Exception) -> bool:
    """Whether the error is transient."""
    from google.api_core import exceptions as api

    if _is_daily(error) or _NO_TOKEN.search(str(error)):
        return False
    if isinstance(error, api.Forbidden):
        return _RATE.search(str(error)) is not None
    passing = (api.ServiceUnavailable, api.ResourceExhausted, api.DeadlineExceeded, api.InternalServerError)
    return isinstance(error, passing)


def _is_daily(error: Exception) -> bool:
    from google.api_core import exceptions as api

    return isinstance(error, api.Forbidden | api.ResourceExhausted) and _DAILY.search(str(error)) is not None


def message_of(error: BaseException | None) -> str:
    """Returns Google's message in one line, without anything that looks like a token or key."""
    message = getattr(error, "message", None) or str(error)
    return _SECRETS.sub("…", " ".join(message.split()))[:300]
