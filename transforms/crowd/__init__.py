"""Crowdsourcing: task pages, Mechanical Turk, and the conversion of workers' answers to schema variants."""
