"""Values and keys as the log's text, exactly: every value comes back as it was, and people can read it with SQL."""
