"""``python -m changelog_engine`` is the console command, where that is not on the PATH."""

from changelog_engine.cli import main

if __name__ == "__main__":
    main(prog_name="changelog-engine")
