"""The proxy between real clients and a real upstream."""

import json

import httpx
import pytest
from apis import DIALECTS
from upstream import proxy, upstream
from wordings import toolset

from parapet.schemas.tools import Tool
from parapet.transforms.variants.tool_variants import renamings_of


def events_in(text):
    data = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data:")]
    return [line if line == "[DONE]" else json.loads(line) for line in data]


def in_variant(calls, functions, variant):
    texts = variant.tools["tools"]
    renamings = renamings_of([Tool(each) for each in functions], texts)[1]
    return [
        (texts[name].name, renamings[name].arguments(arguments)) if name in texts else (name, arguments)
        for name, arguments in calls
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("streamed", [False, True])
def test_random_calls_come_back_over_http(dialect, streamed):
    functions, variant = toolset(5)
    request = dialect.request([dialect.tool(each) for each in functions], [], functions[0]["name"])
    with upstream() as (app, address), proxy(f"{address}/v1", {"v1": variant}) as (_, own):
        with httpx.Client(base_url=own, trust_env=False) as client:
            n = 0
            for seed in map(str, range(40)):
                response = client.post(
                    f"/v1{dialect.path}", json={**request, "stream": streamed}, headers={"x-seed": seed}
                )
                assert response.status_code == 200
                calls = dialect.streamed(events_in(response.text)) if streamed else dialect.calls(response.json())
                assert in_variant(calls, functions, variant) == app.calls[seed]
                n += len(calls)
            table = client.get("/parapet/statistics").json()["v1"]
        assert table["requests"] == 40
        assert table["calls_mapped"] == n
        assert not table["calls_unmapped"]
