"""Serve the forms of ``parapet hits`` to people: assignment of forms, storage, pages and limits."""
