"""The bridge between stdio and Streamable HTTP; see the README in this folder."""
