"""How our client reaches a server: a process on stdio, or an endpoint over HTTP. Every byte is recorded."""
