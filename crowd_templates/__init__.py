"""Jinja2 pages: HITs, the review page, reports. Loaded as package data."""
