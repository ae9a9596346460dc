"""The output formats, from findings and events made by hand."""
