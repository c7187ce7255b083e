"""Jinja2 pages: HITs, the review page, reports. They are loaded as package data."""
