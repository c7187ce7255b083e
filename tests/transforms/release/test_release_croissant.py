import mlcroissant
import msgspec
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from release_manifests import columns, manifest

from parapet.schemas.release import Author, Column
from parapet.transforms.release.documents import croissant

# Of rdflib and pandas, as mlcroissant calls them.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


TEXTS = st.one_of(
    st.sampled_from(["a b", "a/b", "@id", "x:y", "http://e.org/#x", '"', "<b>", "\\u0000", "%", "é", "where"]),
    st.text(min_size=1, max_size=10),
)


@given(TEXTS, TEXTS, TEXTS, st.sampled_from([pa.int8(), pa.string(), pa.list_(pa.string()), pa.binary(), None]))
@settings(max_examples=8)
def test_any_text_is_valid(title, column, name, kind):
    found = manifest(title=title, description=title, release_notes=name, authors=[Author(name)], homepage=name)
    kind = kind or pa.struct([(name, pa.int8())])
    schema = pa.schema([(column, kind), ("text", pa.string())])
    described = [Column(field.name, str(field.type)) for field in schema]
    found.configs["memory"] = msgspec.structs.replace(found.configs["memory"], kind=name, columns=described)
    metadata = mlcroissant.Dataset(jsonld=orjson.loads(croissant(found, {**columns(), "memory": schema}))).metadata
    assert metadata.ctx.issues.errors == set()


def read(found):
    return dict(orjson.loads(croissant(found, columns())))


def test_every_parquet_file_has_size_and_checksum():
    found = manifest()
    files = {one["@id"]: one for one in read(found)["distribution"] if one["@type"] == "cr:FileObject"}
    assert {
        path: (one["contentUrl"], one["contentSize"], one["sha256"], one["encodingFormat"])
        for path, one in files.items()
    } == {
        file.path: (file.path, f"{file.bytes} B", file.sha256, "application/x-parquet")
        for file in found.files
        if file.path.startswith("data/")
    }
    sets = [one for one in read(found)["distribution"] if one["@type"] == "cr:FileSet"]
    assert [one["includes"] for one in sets] == [f"data/{name}/*.parquet" for name in found.configs]
