"""A recording as one HTML file to send."""
