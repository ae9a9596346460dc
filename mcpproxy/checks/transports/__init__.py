"""stdio and Streamable HTTP, with authorization, sessions and streams."""
