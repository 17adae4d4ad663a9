"""Hooks of scripts/fuzz-api."""

import schemathesis


@schemathesis.hook
def filter_case(context, case):
    """Leave out what is no defect.

    HTTP lets every request carry header fields that nobody knows, and a request line that is longer than a header may
    be gets 431 from net/http itself.
    """
    if len(str(case.query)) > 8192:
        return False
    return "x-schemathesis-unknown-property" not in {name.lower() for name in case.headers or {}}


@schemathesis.hook
def map_case(context, case):
    """Let requests reach the code behind the preconditions.

    A made-up revision has not arrived (503), and a made-up ETag is stale (412): documented answers with tests of their
    own, and nearly every generated request would end there. Values that do not fit the contract stay as they are.
    """
    for name, value in list((case.headers or {}).items()):
        text = str(value)
        if name.lower() == "x-fleet-min-revision" and text.isascii() and text.isdigit() and int(text) < 2**63:
            case.headers[name] = "0"
        if name.lower() == "if-match" and text.startswith(('"', "W/")):
            case.headers[name] = "*"
    return case
