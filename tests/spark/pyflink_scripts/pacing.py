"""A module of the user: the workers import it by its name, and it imports pyflink."""

import time

from pyflink.datastream import MapFunction


class Slowly(MapFunction):
    """Lets an element pass every few milliseconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def map(self, value):
        from pyflink.common import Row  # resolves in the worker, too

        time.sleep(self.seconds)
        return Row(number=value)
