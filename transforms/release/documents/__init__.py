"""The documents of a release for people and programs: card, report, Croissant, citation, licence, changelog."""
