"""The functions of the public API on corpora. Import them from ``parapet``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, check_published, is_there, sample_root
from parapet.transforms.perturb.corpora import Corpus, read_corpus

if TYPE_CHECKING:
    from parapet.transforms.perturb.apply import PerturbedCorpus
    from parapet.transforms.perturb.base import Perturbation
    from parapet.transforms.variants.perturbation import RenamedCorpus, Variants


def load_corpus(root: str | Path | None = None, *, name: str = "original") -> Corpus:
    """Opens a schema-guided dialogue corpus. Dialogues are read lazily.

    Args:
      root: a folder in the SGD layout (``ROOT/{train,dev,test}/schema.json`` and ``dialogues_NNN.json``), the folder of
        a single split, a schema file, or a release made by ``parapet release``. Local, or in a bucket
        (``gs://``). By default, the sample that comes with Parapet.
      name: which corpus of a release to open.

    Raises:
      InputError: there is no corpus at ``root``, its schemas cannot be read, or the run that wrote the folder was
        interrupted.

    Example:
      >>> import parapet
      >>> corpus = parapet.load_corpus()
      >>> corpus.splits
      ('train', 'dev', 'test')
      >>> [service["service_name"] for service in corpus.services("test")]
      ['Ferries_1', 'Gyms_1', 'Libraries_2', 'Repairs_1']
      >>> next(corpus.dialogues("test"))["dialogue_id"]
      '1_00000'
    """
    if root is None:
        return read_corpus(sample_root(), None)
    check_published(root)
    corpora = as_path(root) / "sgd"
    if is_there(as_path(root) / "MANIFEST.json") and is_there(corpora):
        names = sorted(path.name for path in corpora.iterdir())
        if name not in names:
            raise InputError(f"the release has no corpus {name!r}: must be one of {', '.join(names)}", root)
        return read_corpus(corpora / name, None)
    return read_corpus(root, None)


def corpus_from(corpus: Corpus | str | Path | None) -> Corpus:
    """Returns a corpus as it is, or opens a path. Raises InputError for anything else."""
    if corpus is None or isinstance(corpus, str | Path):
        return load_corpus(corpus)
    if not isinstance(corpus, Corpus):
        problem = f"expected a corpus from parapet.load_corpus or parapet.corpus_of, found {type(corpus).__name__}"
        raise InputError(problem, "corpus")
    return corpus


def perturbations() -> Mapping[str, type[Perturbation]]:
    """The installed perturbations, built in and from plug-ins, as a mapping from name to class.

    A class is imported only when it is looked up, so a broken plug-in does not affect the others.

    Example:
      >>> import parapet
      >>> "typos" in parapet.perturbations()
      True
      >>> parapet.perturbations()["typos"].name
      'typos'
    """
    from parapet.transforms.perturb.apply import Registry

    return Registry()


def perturb(
    corpus: Corpus | str | Path,
    perturbation: str | type[Perturbation] | Perturbation,
    *,
    set_name: str | None = None,
    **options: Any,
) -> PerturbedCorpus:
    """Perturbs a corpus. Dialogues are perturbed lazily, as they are read.

    Args:
      corpus: a corpus, or anything that ``load_corpus`` accepts. It is not modified.
      perturbation: the name of an installed perturbation, or a class or instance of your own.
      set_name: which set to make, if the perturbation makes several, such as one for each rate.
      options: options of the perturbation. All of them take ``seed`` (default 0).

    Returns:
      A corpus, with an Arrow table ``rows`` of the changes. ``save`` writes the same bytes that the
      command writes.

    Raises:
      InputError: there is no such perturbation, set or option, or this corpus cannot be perturbed with them.

    Example:
      >>> import parapet
      >>> typos = parapet.perturb(parapet.load_corpus(), "typos", seed=1)
      >>> typos.rows.column_names[:6]
      ['dialogue_id', 'turn', 'status', 'reason', 'original', 'utterance']
      >>> typos.save("my_typos")  # doctest: +SKIP
    """
    from parapet.transforms.perturb.apply import perturbation_of, perturbed_sets
    from parapet.transforms.perturb.base import set_of

    instance = perturbation_of(perturbation, options)
    name = set_of(instance, set_name)
    return perturbed_sets(corpus_from(corpus), instance, [name])[name]


def perturb_sets(
    corpus: Corpus | str | Path, perturbation: str | type[Perturbation] | Perturbation, **options: Any
) -> dict[str, PerturbedCorpus]:
    """Makes all sets of a perturbation at once, and returns them by name. See ``perturb`` for arguments and errors.

    Example:
      >>> import parapet
      >>> sorted(parapet.perturb_sets(parapet.load_corpus(), "typos", env=(0.1, 0.5)))
      ['typos', 'typos-env1', 'typos-env2']
    """
    from parapet.transforms.perturb.apply import perturbation_of, perturbed_sets

    return perturbed_sets(corpus_from(corpus), perturbation_of(perturbation, options))


@overload
def perturb_text(text: str, perturbation: str | type[Perturbation] | Perturbation, **options: Any) -> str: ...


@overload
def perturb_text(
    text: Iterable[str], perturbation: str | type[Perturbation] | Perturbation, **options: Any
) -> list[str]: ...


def perturb_text(
    text: str | Iterable[str],
    perturbation: str | type[Perturbation] | Perturbation,
    *,
    protect: Iterable[str] = (),
    set_name: str | None = None,
    **options: Any,
) -> str | list[str]:
    """Perturbs a single utterance, or each of a list.

    A text that the perturbation cannot change is returned as it is. ``typos``, ``verbose``, ``simple`` and
    ``paraphrase`` depend on the text, the options and the seed alone: a text becomes the same whether it is
    perturbed by itself or in a list. ``speech_errors`` finds the noise for a word error rate over all texts of a call:
    give it many.

    Args:
      text: what a user says, or an iterable of such texts.
      perturbation: the name of a perturbation that needs no annotation (``typos``, ``verbose``, ``simple``,
        ``paraphrase``, ``speech_errors``, or that of a plug-in), or a class or instance of your own.
      protect: values that must not change, such as names and places, wherever they are whole words of a text, in upper
        or lower case. Numbers, times, money and words that say yes or no never change.
      set_name: which set to make, if the perturbation makes several.
      options: options of the perturbation. All of them take ``seed`` (default 0).

    Returns:
      The perturbed text; for an iterable the list of perturbed texts, in its order.

    Raises:
      InputError: there is no such perturbation, set or option, the perturbation needs a corpus, or a text cannot be
        perturbed.

    Example:
      >>> import parapet
      >>> parapet.perturb_text("I need a taxi", "typos", seed=1)
      'I need a tadi'
      >>> parapet.perturb_text(["I need a taxi to Port Alder"], "typos", seed=1, protect=["taxi", "Port Alder"])
      ['I neeed a taxi to Port Alder']
    """
    from parapet.transforms.perturb.apply import perturb_texts

    if not isinstance(text, Iterable):
        raise InputError(f"expected a text or a list of texts, found {type(text).__name__}", "text")
    texts = [text] if isinstance(text, str) else list(text)
    results = perturb_texts(texts, perturbation, set_name, protect, options)
    return results[0] if isinstance(text, str) else results


def apply_variants(
    corpus: Corpus | str | Path, variants: str | Path | Variants, *, names: Sequence[str] = ()
) -> dict[str, RenamedCorpus]:
    """Renames schema elements in dialogues as in schema variants, as ``parapet rewrite`` does (SGD-X, section 3).

    Args:
      corpus: a corpus, or anything that ``load_corpus`` accepts.
      variants: a folder of variants (``DIR/v1/train/schema.json``), in the layout in which SGD-X is published and
        ``parapet compose`` writes; or variants in memory, ``{name: {split: services}}``, such as the ``variants`` of
        a ``Composition``.
      names: which variants to apply; all by default.

    Returns:
      A corpus for each variant, by name. Dialogues are renamed lazily. A dialogue with a service that the variant does
      not have raises InputError when it is read.

    Raises:
      InputError: there are no such variants, or a variant has no service that matches one of the corpus.

    Example:
      >>> import parapet
      >>> corpus = parapet.load_corpus()
      >>> renamed = [dict(service, service_name=service["service_name"] + "1") for service in corpus.services("test")]
      >>> v1 = parapet.apply_variants(corpus, {"v1": {"test": renamed}})["v1"]
      >>> next(v1.dialogues("test"))["services"]
      ['Repairs_11']
    """
    from parapet.transforms.variants.perturbation import renamed_corpora

    return renamed_corpora(corpus_from(corpus), variants, names)
