"""Calls as OpenTelemetry spans, in files and to collectors. This package needs the extra ``otel``."""
