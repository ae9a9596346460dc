"""The bridge between stdio and Streamable HTTP: see the README beside this file."""
