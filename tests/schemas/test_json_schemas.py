"""The published JSON Schemas are those of the records."""

import json

import pytest

from parapet.schemas.json_schemas import FOLDER, RECORDS, json_schema


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_the_published_schema_is_that_of_the_record(name):
    assert (FOLDER / f"{name}.schema.json").read_bytes() == json_schema(name), (
        "run python -m parapet.schemas.json_schemas"
    )


def test_nothing_else_is_published():
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(f"{name}.schema.json" for name in RECORDS)


def test_a_schema_says_what_a_service_needs():
    services = json.loads(json_schema("schema"))
    assert services["type"] == "array"
    assert services["$defs"]["Service"]["required"] == ["service_name", "description", "slots", "intents"]
    assert services["$defs"]["Slot"]["properties"]["possible_values"]["items"] == {"type": "string"}
