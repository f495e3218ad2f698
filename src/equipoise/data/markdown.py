"""Words of others in Markdown: shown as they are, never taken for markup."""

from __future__ import annotations

import re

__all__ = ["as_code", "as_text"]


def as_text(text: str) -> str:
    """``text`` for a line or a cell of a table: what would be markup is shown as it is.

    >>> print(as_text("<b>a|b</b>"))
    &lt;b&gt;a\\|b&lt;/b&gt;
    """
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"[\r\n]+", " ", plain.replace("|", "\\|"))


def as_code(text: str) -> str:
    """``text`` between backticks, more of them than it has itself.

    >>> print(as_code("sd-v1-5"), as_code("a`b"))
    `sd-v1-5` `` a`b ``
    """
    line = re.sub(r"[\r\n]+", " ", text)
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    return f"`{line}`" if not longest else f"{'`' * (longest + 1)} {line} {'`' * (longest + 1)}"
