"""``make pictures``: the documentation's pictures, of the real page over the first page's job, and of the console.

Screenshots and the moving picture of the slider are taken in Chromium; the console's are drawings of what commands print.

They go into docs/pictures, which is not in git. The site is built with them where they are, and without them elsewhere.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import expect, sync_playwright
from rich.console import Console
from rich.text import Text

from changelog_engine.cli.ui import page_server

DOCS = Path(__file__).resolve().parents[1]
PICTURES = DOCS / "pictures"
JOB = DOCS / "examples" / "payments" / "payments.py"
ACCOUNT = "acc-042"
COLUMNS = 110
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
    expect(page.locator("table.state td.key")).to_have_count(1)
    page.screenshot(path=PICTURES / "page.png")
    page.locator("table.state td.key button, table.state td.key a").first.click()
    page.wait_for_selector("svg.life .mark")
    page.locator("#life").screenshot(path=PICTURES / "key.png")


def record(page: Any, address: str) -> None:
    """The slider on its way from the first checkpoint to the newest, beside the state of an account, as a moving picture."""
    page.goto(address)
    page.wait_for_selector("table.state")
    page.locator("#search").fill(ACCOUNT)
    frames = []
    newest = int(page.locator("#slider").get_attribute("max"))
    for place in [*range(newest + 1), *range(newest - 1, 0, -1)]:
        page.locator("#slider").fill(str(place))
        page.wait_for_selector(f"[data-part=state] h2 small:has-text('checkpoint {place + 1},')")
        expect(page.locator("table.state td.key")).to_have_count(1)
        frames.append(Image.open(BytesIO(page.screenshot())).convert("RGB"))
    first, *others = frames
    first.save(
        PICTURES / "slider.webp",
        save_all=True,
        append_images=others,
        duration=1_200,
        loop=0,
        quality=80,
        method=4,
    )


def draw_console(work: Path) -> None:
    """What some commands print, as drawings of a terminal."""
    job = "changelog-data/payments"
    for name, commands in {
        "demo": [["demo", "--small"]],
        "status": [["status", job], ["timeline", job]],
        "explain": [["explain", JOB.name, job, "--key", ACCOUNT, "--state", "blocked"]],
    }.items():
        screen = Console(
            record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor"
        )
        for words in commands:
            done = subprocess.run(
                [sys.executable, "-m", "changelog_engine", *words],
                cwd=work,
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "COLUMNS": str(COLUMNS)},
            )
            screen.print(Text(f"$ {shlex.join(['changelog-engine', *words])}", style="bold"))
            screen.print(Text.from_ansi(done.stdout.decode().strip("\n")))
            screen.print()
        drawing = screen.export_svg(title="changelog-engine", unique_id=name)
        # Its fonts would be fetched from elsewhere; the machine's own do.
        (PICTURES / f"{name}.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawing, flags=re.DOTALL))


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
            small = {"width": 960, "height": 720}
            record(browser.new_page(viewport=small, color_scheme="light"), address)
        browser.close()
        shutil.copy(JOB, work)
        draw_console(Path(work))
    print("\n".join(str(path.relative_to(DOCS.parent)) for path in sorted(PICTURES.iterdir())))


if __name__ == "__main__":
    main()
