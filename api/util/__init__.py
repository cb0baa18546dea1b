"""PyFlink's ways to the Java objects behind its own: see `java_utils`."""

__all__: list[str] = []
