"""``parapet doctor``: what it says of the core, extras, models, credentials and the machine; nothing that is secret."""

import json
import os
import socket
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata, version
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest
from kit import run, write
from packaging.requirements import Requirement

from parapet.pipelines import doctor
from parapet.pipelines.doctor import Finding
from parapet.schemas.errors import DISTRIBUTION, install_line
from parapet.transforms.crowd import worker_ids

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAHUSHHUSH",
    "AWS_SECRET_ACCESS_KEY": "hush-aws",
    "AZURE_SPEECH_KEY": "hush-azure",
    "LIBRETRANSLATE_API_KEY": "hush-libre",
    "HF_TOKEN": "hf_hush",
    "PARAPET_WORKER_KEY": "hush-worker-key-of-many-letters",
}


@pytest.fixture(autouse=True)
def bare(tmp_path, monkeypatch):
    """A home with nothing in it, an environment without accounts, and no network."""
    others = ("AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "LIBRETRANSLATE_", "HF_", "HUGGING_FACE_", "XDG_")
    for name in [name for name in os.environ if name.startswith(others)]:
        monkeypatch.delenv(name)
    monkeypatch.delenv(worker_ids.VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path))

    def refused(*_, **__):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refused)
    doctor.installed.cache_clear()
    yield tmp_path
    doctor.installed.cache_clear()


def absent(monkeypatch, **versions):
    """As if these distributions were of other versions, or not there (None)."""
    others = {name.replace("_", "-"): given for name, given in versions.items()}

    def told(name):
        given = others.get(name, version(name) if name not in others else None)
        if given is None:
            raise PackageNotFoundError(name)
        return given

    monkeypatch.setattr(doctor, "version", told)
    doctor.installed.cache_clear()


def by_name(findings):
    return {one.name: one for one in findings}


def report(*flags, status=0):
    return json.loads(run("doctor", "--format", "json", *flags, status=status).output)


def test_every_extra_is_said_to_be_for_something():
    assert set(doctor.ENABLES) >= set(metadata(DISTRIBUTION).get_all("Provides-Extra") or [])


def test_what_the_core_lacks_is_a_failure(monkeypatch):
    absent(monkeypatch, orjson=None, jinja2="1.0", python_Levenshtein="0.1")
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.9.1")
    told = report(status=1)
    assert told["core_works"] is False
    found = {one["name"]: one for one in told["core"]}
    assert {found[name]["state"] for name in ("Python", "python-Levenshtein")} == {"wrong"}
    assert found["Python"]["detail"].endswith(">=3.11 is required")
    assert found["orjson"]["detail"] == "orjson is not installed"
    assert found["orjson"]["next"] == f"pip install 'orjson{specifier_of('orjson')}'"
    assert found["jinja2"]["detail"] == f"jinja2 1.0 is installed, {specifier_of('jinja2')} is required"
    assert "The core does not work: see above." in run("doctor", "--quiet", status=1).output


def specifier_of(name):
    return next(str(one.specifier) for one in doctor.requirements_of(DISTRIBUTION) if one.name == name)


def test_levenshtein_may_be_absent(monkeypatch):
    absent(monkeypatch, python_Levenshtein=None)
    found = {one["name"]: one for one in report()["core"]}["python-Levenshtein"]
    assert (found["state"], found["detail"]) == ("missing", "not installed: rapidfuzz gives the same values")


def test_no_secret_is_told(monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PARAPET_DEBUG", "1")
    for form in ("text", "json"):
        result = run("doctor", "--format", form)
        told = result.output + result.errors
        assert "AWS_" not in told or "AZURE_SPEECH_KEY is set" in told
        assert not [value for value in SECRETS.values() if value in told]
        assert "hush" not in told.lower()


def test_where_aws_credentials_are_from(bare, monkeypatch):
    pytest.importorskip("boto3")
    assert doctor._aws().state == "missing"
    folder = bare / ".aws"
    write(
        folder / "config",
        "[profile role]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = default\n"
        "[profile login]\nsso_start_url = https://example.org\n"
        "[profile program]\ncredential_process = touch ran\n",
    )
    keys = "aws_access_key_id = AKIAHUSH\naws_secret_access_key = hush\n"
    (folder / "credentials").write_text(f"[default]\n{keys}[lab]\n{keys}", encoding="utf-8")
    assert doctor._aws().detail == "from the profile 'default', shared-credentials-file"
    for profile, said in {
        "lab": "the profile 'lab', shared-credentials-file",
        "role": "a role, according to the profile 'role'; not tried here",
        "login": "single sign-on, according to the profile 'login'; not tried here",
        "program": "a program, according to the profile 'program'; not tried here",
    }.items():
        monkeypatch.setenv("AWS_PROFILE", profile)
        assert doctor.aws_source() == said
    assert not (Path.cwd() / "ran").exists()
    monkeypatch.setenv("AWS_PROFILE", "nosuch")
    found = doctor._aws()
    assert (found.state, "nosuch" in found.detail) == ("wrong", True)
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAHUSH")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    assert doctor.aws_source() == "the environment"


def test_google_credentials(bare, monkeypatch):
    assert [one.state for one in doctor._google()] == ["missing", "missing"]
    place = bare / ".config" / "gcloud" / "application_default_credentials.json"
    write(place, '{"type": "authorized_user", "refresh_token": "hush"}')
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
    adc, project = doctor._google()
    assert (adc.state, adc.detail) == ("there", f"from {place} (authorized_user)")
    assert (project.state, project.detail) == ("there", "my-project")
    for content in ("", "[]", "{"):
        place.write_text(content, encoding="utf-8")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(place))
        assert next(doctor._google()).state == "wrong"


def test_the_token_of_the_hugging_face_hub(bare, monkeypatch):
    assert doctor._hugging_face().next == "set HF_TOKEN, or run: hf auth login"
    place = bare / ".cache" / "huggingface" / "token"
    place.parent.mkdir(parents=True)
    place.touch()
    assert doctor._hugging_face().state == "missing"
    place.write_text("hf_hush", encoding="utf-8")
    assert doctor._hugging_face().detail == f"from {place}"
    monkeypatch.setenv("HF_HOME", str(bare / "elsewhere"))
    assert doctor._hugging_face().state == "missing"
    monkeypatch.setenv("HF_TOKEN", "hf_hush")
    assert doctor._hugging_face().detail == "HF_TOKEN is set"


def test_the_worker_key_is_looked_at_and_not_made(bare, monkeypatch):
    place = bare / ".config" / "parapet" / "worker_key"
    assert doctor._worker_key().detail == f"{place} is created on the first run"
    assert not place.exists()
    worker_ids.load_worker_key()
    assert doctor._worker_key().detail == str(place)
    place.chmod(0o644)
    assert doctor._worker_key().next == f"chmod 600 {place}"
    monkeypatch.setenv(worker_ids.VARIABLE, "short")
    assert doctor._worker_key().state == "wrong"


def test_models_that_come_as_packages(tmp_path, monkeypatch):
    assert {one.name for one in doctor.models()} >= {"Hibari model", "Moonshine model"}
    info = tmp_path / "en_tiny-3.8.0.dist-info"
    write(info / "METADATA", "Metadata-Version: 2.1\nName: en_tiny\nVersion: 3.8.0\n")
    (info / "entry_points.txt").write_text("[spacy_models]\nen_tiny = en_tiny\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = by_name(list(doctor.models()))["en_tiny"]
    assert (found.state, found.detail) == ("there", f"en_tiny 3.8.0, spaCy {version('spacy')}")
    assert doctor.data_of("voices", "nosuch_module", "data", "").state == "missing"
    assert doctor.data_of("voices", "json", "data", "").state == "wrong"


# config.json, the files beside it; and what is said of the folder.
FOLDERS = {
    "t5": (
        {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]},
        ["model.safetensors", "spiece.model"],
        *("there", "train t5dst, ft_t5, pt_t5 --checkpoint DIR"),
    ),
    "marian": (
        {"model_type": "marian"},
        ["pytorch_model.bin", "source.spm", "target.spm", "vocab.json"],
        *("there", "back_translate --engine local --model DIR"),
    ),
    "nli": (
        {
            "model_type": "roberta",
            "architectures": ["RobertaForSequenceClassification"],
            "id2label": {"0": "contradiction", "1": "neutral", "2": "entailment"},
        },
        ["model.safetensors", "tokenizer.json"],
        "there",
        "evaluate --task generation --scorer nli --nli_model DIR; train sgp_dst, classifier --checkpoint DIR",
    ),
    "bare": ({"model_type": "gpt2", "architectures": ["GPT2LM"]}, [], "wrong", "GPT2LM: has no weights"),
    "vision": ({"model_type": "vit"}, ["model.safetensors"], "wrong", "a model of type 'vit': no command takes it"),
    "empty": (None, [], "wrong", "has no config.json"),
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_what_a_folder_could_be_used_for(kind, tmp_path):
    config, files, state, said = FOLDERS[kind]
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name in files:
        (tmp_path / name).touch()
    found = doctor.inspect(str(tmp_path))
    assert found.state == state
    assert (found.enables or found.detail).replace(str(tmp_path), "DIR").startswith(said)


def test_a_model_of_our_own(tmp_path):
    (tmp_path / "model.json").write_text('{"model": "memn2n", "format": 1}', encoding="utf-8")
    assert doctor.inspect(str(tmp_path)).enables == f"predict memn2n --model {tmp_path}"
    (tmp_path / "model.json").write_text("[", encoding="utf-8")
    assert doctor.inspect(str(tmp_path)).state == "wrong"


def test_gpus_and_the_torch_that_is_built_for_them(tmp_path, monkeypatch):
    write(tmp_path / "0000:01:00.0" / "information", "Model: \t\t NVIDIA H200\nIRQ: 1\n")
    assert doctor.gpus(tmp_path) == ["NVIDIA H200"]
    write(tmp_path / "torch" / "__init__.py", "raise ImportError")
    folder = tmp_path / "torch"
    spec = spec_from_file_location("torch", folder / "__init__.py", submodule_search_locations=[str(folder)])
    for cuda, expected in (("'12.6'", "12.6"), ("None", "")):
        (tmp_path / "torch" / "version.py").write_text(f"cuda: Optional[str] = {cuda}\n", encoding="utf-8")
        with monkeypatch.context() as patched:
            patched.setattr(doctor, "find_spec", lambda _: spec)
            assert doctor.torch_cuda() == expected
    monkeypatch.setattr(doctor, "gpus", lambda: ["NVIDIA H200"])
    monkeypatch.setattr(doctor, "torch_cuda", lambda: "")
    found = doctor._torch()
    assert (found.state, found.enables) == ("missing", "training on a GPU")
    monkeypatch.setattr(doctor, "torch_cuda", lambda: "12.6")
    assert doctor._torch().detail.endswith("built for CUDA 12.6; NVIDIA H200: computes on the GPU")


def test_a_folder_that_cannot_be_written(tmp_path):
    assert doctor._writable(tmp_path).state == "there"
    found = doctor._writable(tmp_path / "nosuch")
    assert (found.state, found.next) == ("missing", "change to another folder, or give an --output elsewhere")


def test_it_imports_nothing_large():
    code = (
        "import sys\n"
        "from parapet.pipelines.main import main\n"
        "main(['doctor', '--quiet'])\n"
        "heavy = {'apache_beam', 'spacy', 'nltk', 'pyarrow', 'numpy', 'torch', 'transformers', 'google.auth'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_extras_that_are_missing_and_broken(monkeypatch):
    absent(monkeypatch, boto3=None, google_cloud_translate="1.0")
    found = by_name(doctor.extras())
    assert found["mturk"] == Finding("mturk", "missing", "mturk", "boto3 is not installed", install_line("mturk"))
    assert found["google"].state == "wrong"
    assert found["google"].detail.startswith("google-cloud-translate 1.0 is installed, ")
    assert found["speech"].state == "there"
    assert f"jiwer {version('jiwer')}" in found["speech"].detail


def test_an_extra_of_a_requirement_is_looked_into(monkeypatch):
    absent(monkeypatch, google_cloud_storage=None)
    assert "google-cloud-storage is not installed" in list(doctor.problems(Requirement("apache-beam[gcp]>=2")))
    assert list(doctor.problems(Requirement("apache-beam>=2"))) == []
    assert by_name(doctor.extras())["gcp"].next == install_line("gcp")


def test_marks_in_ascii_where_the_terminal_has_no_others():
    found = {"extras": [Finding("mturk", "missing", "mturk", "boto3 is not installed", "pip install x")]}
    told = [line for line, _ in doctor.lines(found, works=True, plain=True)]
    assert told[:4] == ["Extras", "  -- mturk  mturk", f"{'':12}boto3 is not installed", f"{'':12}-> pip install x"]
    assert all(line.isascii() for line in told)
