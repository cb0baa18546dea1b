"""A page in the browser over the jobs below a base path: timeline, state at any moment, differences, a key's life, now.

Invariants of the room:
    * It only shows: questions are answered by ``changelog_engine.inspection``, one by ``explain`` in a child process where
      the page was given a program (``explaining``); the page can change nothing.
    * Nothing is unpickled in its own process, and all that comes out of a log is escaped.
    * HTML and SVG are made here, out of templates; the browser gets one small script and nothing from elsewhere.
"""
