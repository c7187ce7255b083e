"""The functions of the public API on corpora. Import them from ``parapet``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there, sample_root
from parapet.transforms.corpora import Corpus, read_corpus

if TYPE_CHECKING:
    from parapet.transforms.perturbation import Perturbation
    from parapet.transforms.perturbed import PerturbedCorpus
    from parapet.transforms.rewrite.renaming import RenamedCorpus, Variants


def load_corpus(root: str | Path | None = None, *, name: str = "original") -> Corpus:
    """Opens a schema-guided dialogue corpus. Dialogues are read when they are asked for.

    Args:
      root: a folder in the SGD layout (``ROOT/{train,dev,test}/schema.json`` and ``dialogues_NNN.json``), the folder of
        one split, a schema file, or the folder of a release of Parapet's; local or in a bucket (``gs://``). None: the
        sample that comes with Parapet.
      name: of a release, which of its corpora.

    Returns:
      The corpus.

    Raises:
      InputError: there is nothing there that is a corpus.

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
    corpora = as_path(root) / "sgd"
    if is_there(as_path(root) / "MANIFEST.json") and is_there(corpora):
        names = sorted(path.name for path in corpora.iterdir())
        if name not in names:
            raise InputError(f"the release has no corpus {name!r}: it has {', '.join(names)}", root)
        return read_corpus(corpora / name, None)
    return read_corpus(root, None)


def corpus_from(corpus: Corpus | str | Path | None) -> Corpus:
    """A corpus, or the one at a place. Raises InputError where it is neither."""
    if corpus is None or isinstance(corpus, str | Path):
        return load_corpus(corpus)
    if not isinstance(corpus, Corpus):
        what = f"expected a corpus of parapet.load_corpus or parapet.corpus_of, found {type(corpus).__name__}"
        raise InputError(what, "corpus")
    return corpus


def perturbations() -> Mapping[str, type[Perturbation]]:
    """The perturbations that are installed: name to class, built in and plug-ins.

    A class is imported when it is looked up, so that a broken plug-in is in nobody else's way.

    Example:
      >>> import parapet
      >>> "typos" in parapet.perturbations()
      True
      >>> parapet.perturbations()["typos"].name
      'typos'
    """
    from parapet.transforms.perturbation import Registry

    return Registry()


def perturb(
    corpus: Corpus | str | Path,
    perturbation: str | type[Perturbation] | Perturbation,
    *,
    set_name: str | None = None,
    **options: Any,
) -> PerturbedCorpus:
    """Perturbs the dialogues of a corpus, when they are read.

    Args:
      corpus: a corpus, which is not changed, or a place as :func:`load_corpus` takes it.
      perturbation: the name of one that is installed, a class of your own, or an object of one.
      set_name: which set, where the perturbation makes several: one for each rate, say.
      options: of the perturbation; all have ``seed``, of everything that is drawn (default 0).

    Returns:
      A corpus again, with ``rows``, an Arrow table of what was changed. The same dialogues and rows as the command
      makes, byte for byte where they are saved.

    Raises:
      InputError: there is no such perturbation, set or option, or the corpus cannot be perturbed so.

    Example:
      >>> import parapet
      >>> typos = parapet.perturb(parapet.load_corpus(), "typos", seed=1)
      >>> typos.rows.column_names[:6]
      ['dialogue_id', 'turn', 'status', 'reason', 'original', 'utterance']
      >>> typos.save("my_typos")  # doctest: +SKIP
    """
    from parapet.transforms.perturbation import perturbation_of, set_of
    from parapet.transforms.perturbed import perturbed_sets

    made = perturbation_of(perturbation, options)
    name = set_of(made, set_name)
    return perturbed_sets(corpus_from(corpus), made, [name])[name]


def perturb_sets(
    corpus: Corpus | str | Path, perturbation: str | type[Perturbation] | Perturbation, **options: Any
) -> dict[str, PerturbedCorpus]:
    """All sets of a perturbation, by name. Arguments and errors as of :func:`perturb`.

    Example:
      >>> import parapet
      >>> sorted(parapet.perturb_sets(parapet.load_corpus(), "typos", env=(0.1, 0.5)))
      ['typos', 'typos-env1', 'typos-env2']
    """
    from parapet.transforms.perturbation import perturbation_of
    from parapet.transforms.perturbed import perturbed_sets

    return perturbed_sets(corpus_from(corpus), perturbation_of(perturbation, options))


def apply_variants(
    corpus: Corpus | str | Path, variants: str | Path | Variants, *, names: Sequence[str] = ()
) -> dict[str, RenamedCorpus]:
    """The dialogues of a corpus under the names of schema variants, as the command ``rewrite`` has them (SGD-X).

    Args:
      corpus: the original: a corpus, or a place as :func:`load_corpus` takes it.
      variants: a folder of variants (``DIR/v1/train/schema.json``), as SGD-X is published and ``parapet compose``
        writes it; or variants in memory, name to split to services, as ``parapet.compose`` gives them.
      names: which of them; all where none are named.

    Returns:
      Name to corpus.

    Raises:
      InputError: there are no such variants, or no service of one matches the corpus. A service without a counterpart
        is an error of the dialogues that touch it, when they are read.

    Example:
      >>> import parapet
      >>> corpus = parapet.load_corpus()
      >>> renamed = [dict(service, service_name=service["service_name"] + "1") for service in corpus.services("test")]
      >>> v1 = parapet.apply_variants(corpus, {"v1": {"test": renamed}})["v1"]
      >>> next(v1.dialogues("test"))["services"]
      ['Repairs_11']
    """
    from parapet.transforms.rewrite.renaming import renamed_corpora

    return renamed_corpora(corpus_from(corpus), variants, names)
