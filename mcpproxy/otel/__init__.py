"""Recordings for OpenTelemetry: calls as spans, in files and to collectors. It needs the extra ``otel``."""
