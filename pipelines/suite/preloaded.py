"""Imported by the process from which the steps of a suite are forked: what all of them need."""

import logging

from parapet.pipelines import lean_imports

lean_imports.lean([])
logging.disable(logging.WARNING)  # Beam warns of the libraries that are hidden from it

import apache_beam  # noqa: E402, F401
import jinja2  # noqa: E402, F401
import pyarrow.parquet  # noqa: E402, F401

import parapet.pipelines.command  # noqa: E402, F401

logging.disable(logging.NOTSET)
