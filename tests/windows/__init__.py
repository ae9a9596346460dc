"""mcpproxy on Windows, as far as Wine shows it."""
