"""What a release tells people and programs: card, report, Croissant, citation, licence, changelog."""
