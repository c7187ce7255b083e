"""Tool calls of agents, scored."""
