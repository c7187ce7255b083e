"""A proxy between an agent and its model or its MCP server, which rewords tools on the way and maps calls back."""
