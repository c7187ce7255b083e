"""Loaded once, before commands are forked: a session reads megabytes of service descriptions, and keeps them."""

import boto3
import botocore.endpoint

from parapet.pipelines.mturk import session as work
from parapet.transforms.crowd.mturk import batch
from parapet.transforms.report import report

assert work
report.environment().get_template("report.html.jinja")
session = boto3.session.Session(region_name=batch.REGION)
boto3.session.Session = lambda **_: session
batch.connect("http://127.0.0.1:1")
botocore.endpoint.time.sleep = lambda _: None  # before a call is tried again
