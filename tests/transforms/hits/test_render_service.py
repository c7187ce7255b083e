import re

import pytest
from hits_corpora import big_service

from parapet.schemas.service import TASKS
from parapet.transforms.crowd.hits.page import Settings, requester_html
from parapet.transforms.crowd.hits.schema_pages import render_service


def test_sandbox_changes_where_the_form_goes_and_nothing_else():
    service = big_service(3)
    live = render_service(0, service, Settings()).pages[0].html.decode()
    sandbox = render_service(0, service, Settings(sandbox=True)).pages[0].html.decode()
    assert 'action="https://www.mturk.com/mturk/externalSubmit"' in live
    assert sandbox == live.replace("//www.mturk.com/", "//workersandbox.mturk.com/")


@pytest.mark.parametrize("task", TASKS)
def test_requester_template_has_its_variable_and_no_other(task):
    template = requester_html(task)
    assert re.findall(r"\$\{(\w+)\}", template) == ["body"]
    assert template.count("${") == 1
    assert "`" not in template
    assert not re.search(r"<(form|body|html)\b", template)
