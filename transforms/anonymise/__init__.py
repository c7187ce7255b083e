"""Real chats without who is in them: entities and numbers replaced, then looked over by other means."""
