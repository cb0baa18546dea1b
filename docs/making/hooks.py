"""What mkdocs does with a page before it renders it, so that the same file reads well here and on GitHub."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_PICTURE = re.compile(r"^<!-- picture: (?P<name>[\w.-]+) \| (?P<words>.+?) -->$", re.MULTILINE)
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+) (?P<mark>run|file|output)(=(?P<name>\S+))?$", re.MULTILINE
)


_README = re.compile(r"\]\((?:\.\./)+README\.md(#[^)]*)?\)")
_INTO_DOCS = re.compile(r"\[(?P<words>[^\]]*)\]\(docs/(?P<target>[^)]*)\)")


def on_files(files: Any, config: Any) -> Any:
    """README is a page too; it lies outside of the documentation's folder."""
    docs = Path(config.docs_dir)

    def inside(found: re.Match[str]) -> str:
        """A link as it is from within the folder; folders are no pages."""
        return (
            found["words"] if (docs / found["target"]).is_dir() else f"[{found['words']}]({found['target']})"
        )

    text = (docs.parent / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "readme.md", content=_INTO_DOCS.sub(inside, text)))
    return files


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

    linked = _README.sub(lambda found: f"]({up}readme.md{found[1] or ''})", markdown)
    return _FENCE.sub(fence, _PICTURE.sub(picture, linked))
