"""What mkdocs does with a page before it renders it, so that the same file reads well here and on GitHub."""

import re
from pathlib import Path
from typing import Any

_PICTURE = re.compile(r"^<!-- picture: (?P<name>[\w.-]+) \| (?P<words>.+?) -->$", re.MULTILINE)
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+) (?P<mark>run|file|output)(=(?P<name>\S+))?$", re.MULTILINE
)


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """The page with its pictures, where `make pictures` has made them, and with its scripts' names as titles."""
    made = Path(config.docs_dir) / "pictures"
    up = "../" * page.file.src_uri.count("/")

    def picture(found: re.Match[str]) -> str:
        there = (made / found["name"]).exists()
        return f"![{found['words']}]({up}pictures/{found['name']})" if there else ""

    def fence(found: re.Match[str]) -> str:
        title = f' title="{found["name"]}"' if found["mark"] in ("run", "file") and found["name"] else ""
        return f"{found['indent']}```{found['language']}{title}"

    return _FENCE.sub(fence, _PICTURE.sub(picture, markdown))
