"""What MkDocs does besides: links that lead out of docs/ go to the repository, and a fence's second word goes."""

import re

REPOSITORY = "https://github.com/flux-resourceset/flux-resourceset/blob/main/"


def on_page_markdown(markdown, **_):
    markdown = re.sub(r"\]\(\.\./([^)\s]+)\)", rf"]({REPOSITORY}\1)", markdown)
    # "```sh exit=1" and "```json output" tell our tests what to do with a block, and no reader.
    return re.sub(r"^```(\w+) (?:output|error|exit=\d+)$", r"```\1", markdown, flags=re.MULTILINE)
