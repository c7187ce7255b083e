"""Keep worker ids private: replace them by keyed hashes, and mask them in all output that quotes crowd input.

Ids are recognised by their form. The worker's own id, which the record contains, is also recognised in any letter case
and with other characters in between. A record that cannot be split into columns is not shown at all, since an id may be
anywhere in it; see :func:`withheld`.
"""

import hashlib
import hmac
import os
import re
import secrets
from functools import lru_cache
from pathlib import Path

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.rows import DeadLetter
from parapet.transforms.core import disk

MASK = "[worker id]"
VARIABLE = "PARAPET_WORKER_KEY"

_SHORTEST = 5  # minimum length of a worker's own id
_LEAST = 8  # a shorter id is only masked as a whole word
_SHORTEST_MIXED = 3  # minimum length of an id that has letters and digits

# "A" and 9 to 20 capitals and digits: MTurk's ids of HITs and assignments have 30 and begin with a 3. People also write
# words in capitals, so in an answer an id must contain a digit.
_IN_ANSWERS = re.compile(
    r"(?<![A-Za-z0-9])(?:A(?=[A-Z]{0,20}[0-9])[A-Z0-9]{9,20}"
    r"|[Aa](?=[A-Za-z]{0,20}[0-9][A-Za-z]{0,20}[0-9])[A-Za-z0-9]{11,20})(?![A-Za-z0-9])"
)
_ANYWHERE = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{0,8}?A[A-Z0-9]{9,20}|[Aa](?=[A-Za-z]{0,20}[0-9])[A-Za-z0-9]{9,20})(?![A-Za-z0-9])"
)
_OF_MTURK_ALONE = re.compile(r"(?<![A-Za-z0-9])A(?=[A-Z]{0,20}[0-9])[A-Z0-9]{9,20}(?![A-Za-z0-9])")
_DOUBLED = re.compile(r"^(.+?)(?: ?[,;| ] ?\1)+$")


def redact(text: str, worker_id: str = "", is_answer: bool = False) -> str:
    """Masks the worker ids in a text.

    Args:
      text: any text.
      worker_id: the id of the worker who wrote the text, as in the file.
      is_answer: whether the text is an answer in a form field.
    """
    return (_IN_ANSWERS if is_answer else _ANYWHERE).sub(MASK, _own(worker_id).sub(MASK, text))


def plain_id(worker_id: str) -> str:
    """Normalises a worker id, so that it has one hash.

    Blanks become single, or go from what is an id of MTurk without them; an id that a tool has doubled (``W,W``) counts
    once.
    """
    text = _DOUBLED.sub(r"\1", " ".join(worker_id.split()))
    together = text.replace(" ", "")
    return together if _OF_MTURK_ALONE.fullmatch(together) else text


def without_own_id(assignment_id: str, own: str, digest: str) -> str:
    """Replaces the worker's id as a word of an assignment's id, such as ``anna-1``, by its hash.

    Args:
      assignment_id: the id, which outputs contain.
      own: the worker's id, see :func:`plain_id`; one of a few letters or digits is no name.
      digest: its hash.
    """
    if len(own) < _SHORTEST_MIXED or own.isdigit():
        return assignment_id
    return re.sub(rf"(?<![^\W_]){re.escape(own)}(?![^\W_])", digest, assignment_id, flags=re.IGNORECASE)


@lru_cache(maxsize=1 << 12)
def _own(worker_id: str) -> re.Pattern[str]:
    """Returns a pattern for a worker's own id, also with blanks in it; it matches nothing if the id is too short."""
    own = re.sub(r"[^A-Za-z0-9]+", "", plain_id(worker_id))
    is_mixed = not (own.isdigit() or own.isalpha())
    if len(own) < (_SHORTEST_MIXED if is_mixed else _SHORTEST):
        return re.compile(r"(?!)")
    spaced = "[^A-Za-z0-9]*+".join(own)
    if len(own) < _LEAST:
        spaced = rf"(?<![A-Za-z0-9]){spaced if is_mixed else own}(?![A-Za-z0-9])"
    return re.compile(spaced, re.IGNORECASE | re.ASCII)


def without_ids(letter: DeadLetter) -> DeadLetter:
    """Masks the worker ids that a dead letter quotes, also in the name of its file."""
    masked = {name: redact(getattr(letter, name)) for name in ("key", "reason", "payload")}
    return msgspec.structs.replace(letter, **masked, source=_OF_MTURK_ALONE.sub(MASK, letter.source))


def withheld(key: bytes, text: str) -> str:
    """Returns a placeholder for a record that cannot be split into columns.

    Args:
      key: the key for hashing worker ids; it keeps others from testing which id has this hash.
      text: the record.
    """
    digest = hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]
    return f"[not shown, because it may contain a worker id: {len(text):,} characters, keyed hash {digest}]"


def key_file() -> Path:
    """Returns the default path of the key of the hashes."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "parapet" / "worker_key"


def load_worker_key() -> bytes:
    """Loads the key from ``PARAPET_WORKER_KEY``, or from the key file.

    The file is created (mode 0600) if it does not exist.

    Raises:
      InputError: the key is shorter than 16 characters, or the file cannot be written.
    """
    place: object = VARIABLE
    if not (key := os.environ.get(VARIABLE, "").encode()):
        place = path = key_file()
        try:
            disk.make_folder(path.parent)
            if not path.exists():
                disk.write(path, secrets.token_hex(32).encode(), private=True)
            key = path.read_bytes().strip()
        except OSError as error:
            raise InputError(f"cannot store the worker key: {error.strerror}; set {VARIABLE} instead", path) from None
    if len(key) < 16:
        reason = "the key has fewer than 16 characters, so that worker ids could be guessed from their hashes"
        raise InputError(f"{reason}: set a longer one", place)
    return key
