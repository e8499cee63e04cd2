"""What MkDocs does not do by itself for these pages."""

import re

# A code block's first line says behind the language whether a test runs it, or why none does: tests/handbook.rs reads that.
# On the page only the language stands.
INFO = re.compile(r"^([ \t]*```[a-z]+) [^\n]*$", re.MULTILINE)


def on_page_markdown(markdown, **_):
    return INFO.sub(r"\1", markdown)
