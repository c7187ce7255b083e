"""Imports shared by all steps of a suite, for the process from which steps are forked."""

import logging

from parapet.pipelines import lean_imports

lean_imports.lean([])
logging.disable(logging.WARNING)  # Beam warns about the libraries that are hidden from it

import apache_beam  # noqa: E402, F401
import jinja2  # noqa: E402, F401
import pyarrow.parquet  # noqa: E402, F401

import parapet.pipelines.command  # noqa: E402, F401

logging.disable(logging.NOTSET)
