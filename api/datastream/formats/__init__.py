"""Formats: how connectors turn rows into bytes and bytes into rows."""
