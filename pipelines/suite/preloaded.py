"""Imports shared by all steps of a suite, for the process from which steps are forked."""

import logging

import jinja2  # noqa: F401

from parapet.pipelines import command

logging.disable(logging.WARNING)  # Beam warns about the packages that it does not find
command.import_beam()

import pyarrow.parquet  # noqa: E402, F401

logging.disable(logging.NOTSET)
