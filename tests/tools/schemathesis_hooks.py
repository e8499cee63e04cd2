"""What schemathesis cannot guess from the description: how a tarball, an image and a line of text look."""

import base64
import io
import os
import tarfile

import schemathesis
from hypothesis import strategies as st
from schemathesis import openapi


def tarball(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for name, body in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            tar.addfile(entry, io.BytesIO(body))
    return packed.getvalue()


names = st.sampled_from(["index.html", "a/b.css", "404.html", "_headers", "_redirects", "ü.txt"])
tarballs = st.dictionaries(names, st.binary(max_size=200), min_size=1).map(tarball)
openapi.media_type("application/gzip", tarballs)

# One line without control or invisible characters.
openapi.format("single-line", st.text("aZ0 -.ß€漢😀", min_size=1, max_size=100))

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
# The service looks at the bytes, not at the type: a PNG passes for any of the four.
openapi.media_type("image/png", st.just(PIXEL), aliases=["image/jpeg", "image/webp", "image/gif"])


@schemathesis.hook
def before_call(context, case, kwargs):
    """Spares the token that signs every request: a scenario finds its id in GET /tokens, and would revoke it.

    Another revocation takes its place, of an id that belongs to nobody.
    """
    if case.method == "DELETE" and (case.path_parameters or {}).get("id") == os.environ["SVC_TOKEN_ID"]:
        case.path_parameters["id"] = "tok_" + "0" * 20
