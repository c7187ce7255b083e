"""A corpus of dialogues: its schemas, files and dialogues, their languages, and the services that a dialogue touches.

SGD only has frames for the services that a turn is about. MultiWOZ 2.2 (Zang et al. 2020) has a frame for every service
in every user turn: most are idle, and those of earlier services keep their values and often their intent. So neither
the frames nor the dialogue's list tell which services a dialogue is about; the content of the frames does.

A language is recognised from all user turns of a dialogue together, since a single turn may be a name or a short
answer; a turn counts as well if its own language is clear. English needs no model: most texts have enough of its
frequent words. Others are left to py3langid. It takes names for other languages, so its answer only counts if the
words, other than names, are more frequent there than in English, or hardly exist in English. No dialogue or user turn
of SGD is taken for another language.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from parapet.schemas import dialogue as sgd
from parapet.schemas import layout
from parapet.schemas.dialogue import (
    Dialogue,
    DialogueFile,
    Frame,
    State,
    dialogue_text,
    plain_service,
    read_messages,
    typed,
)
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import SINGLE, SPLITS, SplitSchemas, as_path, is_there
from parapet.schemas.limits import MAX_DIALOGUE_FILE, MAX_SCHEMA_FILE, open_path, read_whole
from parapet.schemas.service import Service
from parapet.transforms.core import inputs, progress
from parapet.transforms.report.text import counted

ENGLISH = "en"
UNKNOWN = "und"
OTHER_LANGUAGES = "other_languages"  # the count of dialogues that are kept for their language, by language

# Frequent words of English that are rare in other languages.
_FREQUENT = """
the and that you it with this not but from your they if one about what when there which would how some could should
where here good great please thanks thank yes know looking find book need them their our its these those who because
very much only then now other another does did been being sounds help search today tomorrow next right sure nothing
something anything everything tell
"""
_ENGLISH = frozenset(_FREQUENT.split())
_ENOUGH, _SOME = 0.2, 0.05  # share of these words that shows English, and that shows it if no other is clear
_WORD = re.compile(r"[^\W\d_]+")
_OTHER_SCRIPT = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
_ENDS = ".!?…¿¡"
# Least words, how much more frequent they must be than in English, as the mean difference of their logarithms to base
# 10, and the logarithm below which they are too rare for English.
_BOUNDS = ((8, 0.5, 3.5), (4, 1.0, 2.0), (2, 2.5, 0.0))
_COMMON = 4.2  # words that are so frequent in English on average are English: no other list of words is read
_CODES = {"no": "nb", "nn": "nb", "tl": "fil", "yue": "zh", "wuu": "zh"}  # of py3langid and of wordfreq
_SPACELESS = ("ja", "ko", "zh")  # wordfreq needs other packages for their words


class OtherLanguage(InputError):
    """A dialogue is in a language that the perturbation does not know. It is kept unchanged, and is no bad record."""


@lru_cache(10_000)
def language_of(text: str) -> str:
    """Returns the language of a text (ISO 639), ``und`` if it is another than English, or empty if that is unclear."""
    others = len(_OTHER_SCRIPT.findall(text)) if not text.isascii() else 0
    words = _WORD.findall(text.lower())
    if 2 * others > sum(map(len, words)) - others:
        return next(_guesses(text), UNKNOWN)
    share = sum(map(_ENGLISH.__contains__, words)) / max(1, len(words))
    if share >= _ENOUGH:
        return ENGLISH
    unclear = ENGLISH if share >= _SOME else ""
    words = _words_without_names(text)
    if (bounds := next((bounds for bounds in _BOUNDS if len(words) >= bounds[0]), None)) is None:
        return unclear
    _, least_lead, least_english = bounds
    english = _frequency(words, ENGLISH)
    if english >= _COMMON:
        return unclear
    guess = next((language for language in _guesses(text) if language in _listed()), UNKNOWN)
    if guess != UNKNOWN and _frequency(words, guess) - english >= least_lead:
        return guess
    return next(_guesses(text), UNKNOWN) if english < least_english else unclear


def _frequency(words: list[str], language: str) -> float:
    """Returns the mean logarithm of the frequencies of words."""
    from wordfreq import zipf_frequency

    return sum(zipf_frequency(word, language, "small") for word in words) / len(words)


@cache
def _listed() -> frozenset[str]:
    """Returns the languages whose words wordfreq knows."""
    from wordfreq import available_languages

    return frozenset(available_languages("small").keys() - {*_SPACELESS})


def _guesses(text: str) -> Iterator[str]:
    """Yields the languages other than English, the most likely first."""
    import py3langid

    for language, _ in py3langid.rank(text):
        if language != ENGLISH:
            yield _CODES.get(language, language)


def _words_without_names(text: str) -> list[str]:
    """Returns the words that are not capitalised inside a sentence."""
    if text.isupper():
        return _WORD.findall(text.lower())
    words = []
    for match in _WORD.finditer(text):
        before = text[max(0, match.start() - 3) : match.start()].rstrip()
        if not match[0][0].isupper() or not before or before[-1] in _ENDS:
            words.append(match[0].lower())
    return words


def other_language(dialogue: Dialogue, languages: Collection[str]) -> str:
    """Returns the language of what the user says, or an empty string if it is one of ``languages`` or unclear.

    Args:
      dialogue: the dialogue.
      languages: the known languages; if empty, all are known.
    """
    if not languages:
        return ""
    language = language_of(" ".join(turn.utterance for turn in dialogue.turns if turn.speaker == "USER"))
    return "" if language in languages else language


def check_language(dialogue: Dialogue, languages: Collection[str]) -> Dialogue:
    """Returns the dialogue. Raises OtherLanguage if it is not in one of the languages."""
    if language := other_language(dialogue, languages):
        raise OtherLanguage(f"other_language: {language}")
    return dialogue


def check_most(
    name: str, languages: Iterable[str], texts: int, others: Mapping[str, int], where: str = "", kind: str = "dialogue"
) -> None:
    """Raises InputError if most texts are in other languages.

    Args:
      name: the name of the perturbation.
      languages: the languages that it knows.
      texts: the number of texts or dialogues.
      others: the number of those in each other language.
      where: the flag that names them.
      kind: what is counted.
    """
    n = sum(others.values())
    if 2 * n <= texts:
        return
    frequent = ", ".join(language for language, _ in Counter(others).most_common(3))
    raise InputError(
        f"{name} only knows texts in {', '.join(languages)}, but {n:,} of {counted(texts, kind)} "
        f"{'is' if n == 1 else 'are'} in another language ({frequent}) and would stay unchanged: give texts in a "
        "language that it knows",
        where,
    )


SAVE = "save"  # the pipeline in run.json of saved corpora

_MESSAGES_FLAG = "--messages"
_FIRST = 1000  # dialogues of a file whose language is recognised before a run
_SUFFIX = re.compile(r"_\d+$")


class Item(NamedTuple):
    """A dialogue of a file.

    Attributes:
      position: its position in the file, from 0.
      raw: the dialogue in the format of its file.
      error: why it cannot be used, or None.
      rows: the changes, if the corpus is perturbed.
      dialogue: ``raw`` as a typed object; None if it was not parsed.
    """

    position: int
    raw: Any
    error: InputError | None = None
    rows: Sequence[dict[str, Any]] = ()
    dialogue: Dialogue | None = None


class Corpus:
    """A schema-guided dialogue corpus. Dialogues are read lazily, one at a time.

    ``parapet.load_corpus`` opens one, ``parapet.corpus_of`` makes one from dialogues in memory.

    Attributes:
      files: the dialogue files, largest first.
      folders: the schemas of each split, by folder below the root (``""`` is the root itself).
      schemas: the schema files, as (path below the root, content).
      problems: one line for each service that breaks a rule of the format and was left out.
    """

    def __init__(
        self, files: Sequence[DialogueFile], folders: Mapping[str, SplitSchemas], schemas: Mapping[str, bytes]
    ) -> None:
        self.files, self.folders = list(files), dict(folders)
        self.schemas = sorted(schemas.items())
        self.problems = list(dict.fromkeys(str(bad.error) for of_split in folders.values() for bad in of_split.bad))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self.splits)}; {len(self.files)} dialogue files>"

    @property
    def splits(self) -> tuple[str, ...]:
        """Returns the names of the splits, such as ``("train", "dev", "test")``.

        A single folder of dialogues is one split, named after the folder, or ``"all"`` if that is not the name of a
        split.
        """
        return tuple(split_name(folder, schemas) for folder, schemas in self.folders.items())

    def services(self, split: str | None = None) -> list[dict[str, Any]]:
        """Returns the services of one split, or of all splits (without duplicates), as dicts in the SGD format.

        Raises:
          InputError: the split does not exist.
        """
        return list(layout.raw_by_name([self.folders[folder] for folder in self.folders_of(split)]).values())

    def dialogues(self, split: str | None = None) -> Iterator[dict[str, Any]]:
        """Yields the dialogues of one split, or of all splits, as dicts in the SGD format, in the order of the files.

        Raises:
          InputError: there is no such split, a file cannot be read, or a dialogue is not in the SGD format. The error
            has the file and the place.
        """
        for file in self.files_of(split):
            for item in checked_items(self, file):
                yield item.raw

    def files_of(self, split: str | None = None) -> list[DialogueFile]:
        """Returns the dialogue files of one split, or of all splits, ordered by split and name."""
        folders = self.folders_of(split)
        return sorted(
            (file for file in self.files if file.split in folders), key=lambda f: (folders.index(f.split), f.name)
        )

    def paths(self) -> list[str]:
        """Returns the paths of the files, sorted. Raises InputError if a dialogue's id is in two files of a split."""
        sgd.check_no_id_twice(self.files)
        return sorted(file.path for file in self.files)

    def read(self, file: DialogueFile) -> Iterator[Item]:
        """Yields the dialogues of one file, each with the error that makes it unusable, if any.

        Raises:
          InputError: the file cannot be read; possibly raised after some of its dialogues.
        """
        for position, raw, dialogue in dialogues_of(file):
            if isinstance(dialogue, InputError):
                yield Item(position, raw, dialogue)
            else:
                yield Item(position, raw, dialogue=dialogue)

    def save(self, folder: str | Path) -> None:
        """Writes the corpus to a folder in the SGD layout, with the rows of a perturbed corpus as Parquet files.

        Files are written atomically, and ``run.json`` last. A folder written by an earlier ``save`` is replaced.

        Raises:
          InputError: a dialogue cannot be used, the folder has other content, or the corpus was read from it.
        """
        from parapet.transforms.core import files
        from parapet.transforms.core.disk import writing
        from parapet.transforms.core.files import SetFiles

        if not isinstance(folder, str | os.PathLike):
            raise InputError(f"expected the path of a folder, not {folder!r}")
        folder = str(folder)
        for path in [file.path for file in self.files] + [schemas.path for schemas in self.folders.values()]:
            if path and is_there(path) and as_path(path).resolve().is_relative_to(as_path(folder).resolve()):
                raise InputError("the corpus was read from this folder: choose another folder", folder)
        with writing(folder):
            files.prepare(folder, SAVE)
            written = [files.write_staged(folder, path, content) for path, content in self.schemas]
            dialogues = 0
            for file in self.files:
                rows: list[dict[str, Any]] = []
                with ExitStack() as stack:
                    whole = SetFiles(folder, [""], file.relative, stack)
                    for item in checked_items(self, file):
                        whole.add("", item_text(file, item))
                        rows += item.rows
                    whole.close()
                written += whole.written()
                written += [files.write_staged(folder, path, data) for path, data in self.row_files(file, rows)]
                dialogues += whole.dialogues[""]
            counts = {"files": len(self.files), "dialogues": dialogues}
            files.publish(folder, files.manifest_of(run_header(SAVE, self.provenance()), counts, written))

    def row_files(self, file: DialogueFile, rows: Sequence[dict[str, Any]]) -> list[tuple[str, bytes]]:
        """Returns the files that record the changes in a dialogue file, as (path, content)."""
        return []

    def provenance(self) -> dict[str, Any]:
        """Returns how the corpus was derived, for ``run.json``; empty if it was loaded."""
        return {}

    def folders_of(self, split: str | None) -> list[str]:
        """Returns the folder of one split, or of all splits. Raises InputError if the split does not exist."""
        if split is None:
            return list(self.folders)
        if split not in self.splits:
            raise InputError(f"there is no split {split!r}: must be one of {', '.join(self.splits)}")
        return [folder for folder, name in zip(self.folders, self.splits, strict=True) if name == split]


def split_name(folder: str, schemas: SplitSchemas) -> str:
    """Returns the name of a split's folder; for the root, the name of its folder, or ``all`` if that is not a split."""
    return folder or layout.split_of_folder(schemas.path) or "all"


def checked_items(corpus: Corpus, file: DialogueFile) -> Iterator[Item]:
    """Yields the dialogues of one file of a corpus. Raises InputError with file and place if one cannot be used."""
    for item in corpus.read(file):
        if item.error is not None:
            where = f"[{item.position}]" + (f".{item.error.where}" if item.error.where else "")
            raise InputError(item.error.reason, file.path or file.relative, where)
        yield item


def item_text(file: DialogueFile, item: Item) -> bytes:
    """Formats a dialogue as in a file. Raises InputError, with file and place, if JSON cannot represent it."""
    try:
        return dialogue_text(item.raw)
    except InputError as error:
        raise InputError(error.reason, file.path or file.relative, f"[{item.position}]") from None


def inline(corpus: Corpus, file: DialogueFile) -> DialogueFile:
    """Returns a file with its content, unless it can be read from disk."""
    if type(corpus) is Corpus:
        return file
    content = sgd.file_bytes([item_text(file, item) for item in checked_items(corpus, file)])
    return msgspec.structs.replace(file, path="", size=len(content), content=content)


def inlined(corpus: Corpus, folders: Collection[str] = ()) -> list[DialogueFile]:
    """Returns the dialogue files of some splits, by folder, or of all if none is named, after :func:`inline`."""
    return [inline(corpus, file) for file in corpus.files if not folders or file.split in folders]


def read_corpus(root: str | Path, splits: Sequence[str] | None) -> Corpus:
    """Lists the dialogues of some or all splits.

    Args:
      root: the path of the corpus, of a split's folder, or of a schema file.
      splits: the names of the splits; None for all existing ones, possibly without dialogues.

    Raises:
      InputError: files cannot be read, or a split does not exist.
    """
    originals = layout.read_root(root, leave_out_bad=True)
    folders = sgd.dialogue_folders(as_path(root), originals)
    if splits is None:
        # A split may have only schemas: those of train tell which services a tracker has seen.
        alone = {
            "" if schemas.split == SINGLE else schemas.split: schemas
            for schemas in originals
            if schemas not in folders.values()
        }
        every = {**folders, **alone}
        files = sgd.list_files(as_path(root), folders) if folders else []
        folders = {name: every[name] for name in ("", *SPLITS) if name in every}
        return Corpus(files, folders, _bytes_of(folders))
    if set(folders) != {""}:  # a single split has no folders
        if not splits:
            raise InputError("must be one or more of train, dev, test", "--split")
        for split in splits:
            if split not in folders:
                known = ", ".join(folder for folder in folders if folder)
                if not known:
                    expected = f"expected {split}/dialogues_001.json, or dialogues_001.json beside schema.json"
                    raise InputError(f"contains schemas, but no dialogues: {expected}", root)
                raise InputError(
                    f"there are no dialogues in {split!r}; these splits have some: {known}", root, "--split"
                )
        folders = {split: folders[split] for split in splits}
    return Corpus(sgd.list_files(as_path(root), folders), folders, _bytes_of(folders))


def _bytes_of(folders: Mapping[str, SplitSchemas]) -> dict[str, bytes]:
    return {schemas.relative_path: read_whole(as_path(schemas.path), MAX_SCHEMA_FILE) for schemas in folders.values()}


def corpus_of(dialogues: Mapping[str, Iterable[Any]], services: Mapping[str, Sequence[Any]]) -> Corpus:
    """Makes a corpus from dialogues in memory.

    Args:
      dialogues: the dialogues of each split, as dicts in the SGD format.
      services: the services of each split, as dicts in the form of ``schema.json``.

    Raises:
      InputError: a split has no services, a service breaks a rule of the format, or JSON cannot represent a dialogue.

    Example:
      >>> import parapet
      >>> sample = parapet.load_corpus()
      >>> one = next(sample.dialogues("test"))
      >>> corpus = parapet.corpus_of({"test": [one]}, {"test": sample.services("test")})
      >>> corpus.splits, next(corpus.dialogues()) == one
      (('test',), True)
    """
    folders, files = {}, []
    for split in sorted({**services, **dialogues}, key=lambda name: (*SPLITS, name).index(name)):
        if split not in SPLITS:
            raise InputError(f"{split!r} is not a split: must be one of {', '.join(SPLITS)}")
        if split not in services:
            raise InputError(f"the split {split!r} has dialogues, but no services")
        folders[split] = of_split = layout.parse_services(list(services[split]), f"services[{split!r}]", split)
        if of_split.bad:
            raise of_split.bad[0].error
    for split, listed_dialogues in dialogues.items():
        texts = []
        for i, dialogue in enumerate(listed_dialogues):
            try:
                texts.append(dialogue_text(dialogue))
            except InputError as error:
                raise InputError(f"{error.reason}, in dialogue {i}", f"dialogues[{split!r}]") from None
        content = sgd.file_bytes(texts)
        files.append(DialogueFile(split, "dialogues_001.json", f"dialogues[{split!r}]", len(content), content))
    schemas = {}
    for split, of_split in folders.items():
        try:
            schemas[of_split.relative_path] = layout.schema_bytes(of_split.raw)
        except TypeError as error:
            raise InputError(f"is not JSON: {error}", f"services[{split!r}]") from None
    return Corpus(files, folders, schemas)


def messages_corpus(paths: Sequence[str]) -> Corpus:
    """Creates a corpus of chat messages from files of JSON lines, see :mod:`parapet.schemas.dialogue`.

    Raises:
      InputError: a file cannot be read or has no chat messages, or two files have the same name.
    """
    files: dict[str, DialogueFile] = {}
    for path in map(as_path, paths):
        if path.name in files:
            raise InputError(f"two files are called {path.name!r}: rename one", path, _MESSAGES_FLAG)
        if not is_there(path):
            raise InputError("there is no such file", path, _MESSAGES_FLAG)
        with open_path(path) as handle:
            if b'"messages"' not in handle.read(1 << 20):
                reason = (
                    'has no chat messages: expected lines such as {"messages": [{"role": "user", "content": "Hi"}]}'
                )
                raise InputError(reason, path, _MESSAGES_FLAG)
        files[path.name] = DialogueFile("", path.name, str(path), path.stat().st_size, form=sgd.MESSAGES)
    in_order = sorted(files.values(), key=lambda file: (-file.size, file.relative))
    return Corpus(in_order, {"": layout.parse_services([plain_service()], "", SINGLE)}, {})


def read_file(file: DialogueFile) -> bytes:
    """Returns the bytes of a dialogue file. Raises InputError if it cannot be read and a retry would not help."""
    return inputs.read_input(file.path, MAX_DIALOGUE_FILE) if file.content is None else file.content


def read_items(file: DialogueFile) -> Iterator[Any]:
    """Yields the items of a file of any form, in the form of ``parapet.schemas.dialogue.read_each``.

    Raises:
      InputError: the file cannot be read, or is not a list; may come after some items.
    """
    read = read_messages if file.form == sgd.MESSAGES else sgd.read_each
    items = read(read_file(file), file.path)
    if not file.repeated:
        return items
    repeated = {position: InputError(reason) for position, reason in file.repeated}
    return (repeated.get(i, item) for i, item in enumerate(items))


def in_languages(file: DialogueFile, languages: Collection[str]) -> DialogueFile:
    """Returns a file of which :func:`dialogues_of` gives an error for each dialogue in another language."""
    return msgspec.structs.replace(file, languages=tuple(languages))


def check_languages(name: str, languages: Sequence[str], corpus: Corpus, where: str = "") -> None:
    """Raises InputError if a perturbation does not know the languages of a corpus, as its first dialogues show.

    Three files are looked at, and of a file on disk the first dialogues. At the end of a run, all are counted.
    """
    every = corpus.files_of() if languages else []
    dialogues, others, is_most = 0, Counter[str](), True
    for file in {file.relative: file for file in (*every[:1], *every[len(every) // 2 :][:1], *every[-1:])}.values():
        with suppress(InputError):  # the step that reads all dialogues reports it
            usable = (item for item in corpus.read(file) if item.error is None)
            known = [item.dialogue or typed(item.raw) for item in islice(usable, _FIRST)]
            of_file = Counter(filter(None, (other_language(dialogue, languages) for dialogue in known)))
            is_most = is_most and 2 * of_file.total() > len(known)
            dialogues, others = dialogues + len(known), others + of_file
    if is_most:
        check_most(name, languages, dialogues, others, where)


def dialogues_of(file: DialogueFile) -> Iterator[tuple[int, Any, Dialogue | InputError]]:
    """Yields (position, raw dialogue, typed dialogue or error).

    Raises:
      InputError: the file cannot be read or is not a list; possibly raised after some dialogues.
    """
    for position, raw in enumerate(progress.tracked(read_items(file), "dialogues", progress.READING)):
        try:
            yield position, raw, check_language(typed(raw), file.languages)
        except InputError as error:
            yield position, raw, error


def listed(given: str) -> list[str]:
    """Splits a comma-separated list, such as ``0.1, 0.2``, and remove blanks."""
    return [part for part in given.replace(" ", "").split(",") if part]


def domain_of(service: str) -> str:
    """Returns the domain of a service: ``Restaurants`` for ``Restaurants_2``."""
    return _SUFFIX.sub("", service)


NO_INTENT = "NONE"


def touched_in_turns(dialogue: Dialogue) -> list[tuple[str, ...]]:
    """Returns the services that each turn touches, in the order of its frames.

    A frame touches its service if it has a span, an action, a call or its results, a requested slot, or a state that
    differs from the service's previous frame: other values, or an intent that was not active. An unchanged state does
    not touch its service. The dialogue's list of services is ignored, since it may contain all services.
    """
    states: dict[str, State] = {}
    touched = []
    for turn in dialogue.turns:
        touched.append(
            tuple(dict.fromkeys(frame.service for frame in turn.frames if _touches(frame, states.get(frame.service))))
        )
        states.update((frame.service, frame.state) for frame in turn.frames if frame.state)
    return touched


def services_in_turns(dialogue: Dialogue) -> list[tuple[str, ...]]:
    """Returns the services that each turn is about: those it touches, or else those of the last turn that touched some.

    Turns before the first such turn get its services; in a dialogue that touches none, turns get the services of their
    frames, or those in the dialogue's list.
    """
    touched = touched_in_turns(dialogue)
    current = next(filter(None, touched), ())
    spoken_of = []
    for turn, services in zip(dialogue.turns, touched, strict=True):
        current = services or current
        named = current or [frame.service for frame in turn.frames] or dialogue.services
        spoken_of.append(tuple(dict.fromkeys(named)))
    return spoken_of


def touched_services(dialogue: Dialogue) -> tuple[str, ...]:
    """Returns the services that a dialogue touches, sorted; without any frames, those in its list."""
    if not any(turn.frames for turn in dialogue.turns):
        return tuple(sorted(set(dialogue.services)))
    return tuple(sorted({service for services in touched_in_turns(dialogue) for service in services}))


def domains_of(dialogue: Dialogue) -> tuple[str, ...]:
    """Returns the domains of the services that a dialogue touches, sorted: ``Restaurants`` for ``Restaurants_2``."""
    return tuple(sorted({domain_of(service) for service in touched_services(dialogue)}))


def services_in(dialogue: Dialogue, services: Mapping[str, Service]) -> list[str]:
    """Returns the services in the list of a dialogue or in frames, which a schema for the dialogue needs, sorted.

    Args:
      dialogue: the dialogue.
      services: the services of its split, by name.

    Raises:
      InputError: the split's schema lacks a service of the dialogue.
    """
    named = {*dialogue.services, *(frame.service for turn in dialogue.turns for frame in turn.frames)}
    if unknown := sorted(named - services.keys()):
        raise InputError(f"unknown_service: {unknown[0]!r} is not in the split's schema")
    return sorted(named)


def without(raw: dict[str, Any], services: Collection[str]) -> dict[str, Any]:
    """Removes services that a dialogue does not touch: their frames, and their names in its list.

    Args:
      raw: the dialogue in the format of its file; it is not modified.
      services: the services to remove.
    """
    turns = [
        {**turn, "frames": [frame for frame in turn["frames"] if frame["service"] not in services]}
        for turn in raw["turns"]
    ]
    return {**raw, "services": [name for name in raw["services"] if name not in services], "turns": turns}


def _touches(frame: Frame, before: State | None) -> bool:
    if frame.slots or frame.actions or frame.service_call or frame.service_results:
        return True
    if not frame.state:
        return False
    values, intent = (before.slot_values, before.active_intent) if before else ({}, NO_INTENT)
    return bool(
        frame.state.requested_slots
        or frame.state.slot_values != values
        or frame.state.active_intent not in (NO_INTENT, "", intent)
    )
