"""``make pictures``: the documentation's screenshots, of the real page over the first page's job, in Chromium.

They go into docs/pictures, which is not in git. The site is built with them where they are, and without them elsewhere.
"""

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from changelog_engine.cli.ui import page_server

DOCS = Path(__file__).resolve().parents[1]
PICTURES = DOCS / "pictures"
JOB = DOCS / "examples" / "payments" / "payments.py"
ACCOUNT = "acc-042"
BEFORE_THE_MISTAKE = 2  # a checkpoint


@contextmanager
def served(base: Path) -> Iterator[str]:
    """The address of a page over the jobs of a folder."""
    server = page_server(str(base))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server.address.url
    finally:
        server.stop()
        thread.join(30)


def take(page: Any, address: str) -> None:
    """The account's state at the checkpoint before the mistake, then all that happened to it."""
    page.goto(address)
    page.wait_for_selector("table.state")
    page.locator("#search").fill(ACCOUNT)
    page.locator("#slider").fill(str(BEFORE_THE_MISTAKE - 1))
    page.wait_for_selector(f"[data-part=state] h2 small:has-text('checkpoint {BEFORE_THE_MISTAKE},')")
    page.wait_for_function("document.querySelectorAll('table.state td.key').length === 1")
    page.screenshot(path=PICTURES / "page.png")
    page.locator("table.state td.key button, table.state td.key a").first.click()
    page.wait_for_selector("svg.life .mark")
    page.locator("#life").screenshot(path=PICTURES / "key.png")


def main() -> None:
    """Run the job, open its page, take the pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit(
            "there is no Chromium on this machine: install it (Debian, Ubuntu: apt-get install chromium)"
        )
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        subprocess.run([sys.executable, JOB], cwd=work, check=True, stdout=subprocess.DEVNULL)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with served(Path(work) / "changelog-data") as address:
            take(browser.new_page(viewport={"width": 1200, "height": 800}, color_scheme="light"), address)
        browser.close()
    print("\n".join(str(path.relative_to(DOCS.parent)) for path in sorted(PICTURES.glob("*.png"))))


if __name__ == "__main__":
    main()
