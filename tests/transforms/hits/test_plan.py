""""""

import msgspec
from hits_corpora import big_service

from parapet.transforms.crowd.hits.make_hits import plan_of
from parapet.transforms.crowd.hits.page import Settings
from parapet.transforms.crowd.hits.schema_pages import render_service


def test_json_has_decimals_as_strings():
    text = msgspec.json.encode(plan_of([render_service(0, big_service(2), Settings())], Settings()).to_json())
    assert isinstance(msgspec.json.decode(text)["total"]["cost"], str)
    assert b"e-" not in text
