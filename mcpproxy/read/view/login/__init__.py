"""Show the login of a client (OAuth) as numbered steps, each a request and its answer."""
