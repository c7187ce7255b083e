"""Anonymisation of real chats: entities and numbers are replaced, then an independent check looks for missed ones."""
