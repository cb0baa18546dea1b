"""Keyed state: the backend protocol, the heap backend, and the handles that user functions hold."""
