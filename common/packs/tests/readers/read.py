"""Reads archives with Python's tarfile and zipfile, one after another: a line `tar 123` or `zip 123`, then so many bytes. Answers each
with a line of JSON: the SHA-256 of each file, the names as the archive has them, and those of symlinks; or why it cannot be read."""

import hashlib
import io
import json
import posixpath
import sys
import tarfile
import zipfile

MOST = 64 * 1024 * 1024


def read_tar(data):
    files, names, links = {}, [], []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", errorlevel=2) as tar:
        for member in tar:
            names.append(member.name)
            path = posixpath.normpath(member.name)
            if member.size > MOST:
                raise ValueError("too large")
            if member.issym():
                links.append(path)
            elif member.isreg():
                body = tar.extractfile(member).read()
                if len(body) != member.size:
                    raise ValueError("cut off")
                files[path] = hashlib.sha256(body).hexdigest()
            elif member.islnk():
                names.append(member.linkname)
                files[path] = files[posixpath.normpath(member.linkname)]
    return {"files": files, "names": names, "links": links}


def read_zip(data):
    files, names, links = {}, [], []
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            names.append(member.filename)
            kind = (member.external_attr >> 28) & 0xF if member.create_system == 3 else 0
            if member.is_dir():
                continue
            if member.file_size > MOST:
                raise ValueError("too large")
            body = archive.read(member)
            path = posixpath.normpath(member.filename)
            if kind == 0xA:
                links.append(path)
            else:
                files[path] = hashlib.sha256(body).hexdigest()
    return {"files": files, "names": names, "links": links}


while line := sys.stdin.buffer.readline():
    form, length = line.split()
    data = sys.stdin.buffer.read(int(length))
    try:
        answer = (read_tar if form == b"tar" else read_zip)(data)
    except Exception as error:
        answer = {"error": repr(error)}
    # Names need not be UTF-8.
    text = json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    print(text, flush=True)
