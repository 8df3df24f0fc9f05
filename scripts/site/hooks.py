"""Hooks of MkDocs: links out of docs/ lead to pages of the repository, which are not pages of the site."""

import re
from typing import Any

_ABOVE = re.compile(r"\]\(\.\./(?:\.\./)?(README|CONTRIBUTING|CHANGELOG|SECURITY)\.md([^)]*)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    return _ABOVE.sub(lambda match: f"] ({match[1]}.md in the repository)", markdown)
