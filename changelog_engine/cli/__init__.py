"""The console command ``changelog-engine``."""

try:
    from changelog_engine.cli.program import main
except KeyboardInterrupt:
    # The imports take most of the time until a command begins. It ends as Ctrl-C ends any.
    raise SystemExit(130) from None

__all__ = ["main"]
