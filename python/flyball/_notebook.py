"""What notebooks show of the program's pages."""

from __future__ import annotations

import html

LARGEST_PAGE = 8 << 20  # characters; a notebook keeps each page that it shows


def framed(page: str, title: str) -> str:
    """A page in a frame of its own, which keeps its styles and scripts to itself and reaches neither the notebook nor
    the network."""
    return (f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" width="100%" height="800" '
            f'style="border: 0" title="{html.escape(title)}"></iframe>')
