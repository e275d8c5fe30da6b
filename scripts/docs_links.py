"""A hook of mkdocs. Pages may link to files of the repository outside docs/, which the site does not contain; the hook replaces
these links with their text and the path."""

import os
import re

LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown, page, **_):
    def plain(match):
        path = os.path.normpath(os.path.join(os.path.dirname(page.file.src_uri), match[2]))
        if not path.startswith("../"):
            return match[0]
        path, text = path[3:], match[1].strip("`")
        return f"`{path}`" if text == path else f"{match[1]} (`{path}`)"

    return LINK.sub(plain, markdown)
