"""write.py SITE OUT: packs a folder with Python's tarfile, zipfile and shutil."""

import os
import shutil
import sys
import tarfile
import zipfile

site, out = sys.argv[1:]
os.chdir(site)


class Pipe:
    """A file in which nobody can go back: zipfile then writes sizes behind the files."""

    def __init__(self, path):
        self.file = open(path, "wb")

    def write(self, data):
        return self.file.write(data)

    def flush(self):
        self.file.flush()


def paths(with_folders=False):
    for folder, folders, names in os.walk("."):
        for name in sorted(names) + (sorted(folders) if with_folders else []):
            path = os.path.relpath(os.path.join(folder, name), ".")
            if not os.path.islink(path):
                yield path


FORMATS = {"gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
if os.path.basename(site) == "plain":
    FORMATS["ustar"] = tarfile.USTAR_FORMAT
for name, form in FORMATS.items():
    with tarfile.open(f"{out}/python-{name}.tar.gz", "w:gz", format=form) as tar:
        tar.add(".")
    with open(f"{out}/python-{name}-stream.tar.gz", "wb") as file, tarfile.open(
        fileobj=file, mode="w|gz", format=form
    ) as tar:
        for path in paths():
            tar.add(path)
with tarfile.open(f"{out}/python-headers.tar.gz", "w:gz", pax_headers={"comment": "global"}) as tar:
    tar.add(".")
shutil.make_archive(f"{out}/python-shutil", "gztar", ".", ".")
shutil.make_archive(f"{out}/python-shutil", "zip", ".", ".")
for name, method in {"deflate": zipfile.ZIP_DEFLATED, "store": zipfile.ZIP_STORED}.items():
    with zipfile.ZipFile(f"{out}/python-{name}.zip", "w", method) as archive:
        for path in paths(with_folders=True):
            archive.write(path)
    with zipfile.ZipFile(Pipe(f"{out}/python-{name}-pipe.zip"), "w", method) as archive:
        for path in paths():
            archive.write(path)
with zipfile.ZipFile(f"{out}/python-zip64.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.comment = b"a comment"
    for path in paths():
        with open(path, "rb") as file, archive.open(path, "w", force_zip64=True) as entry:
            shutil.copyfileobj(file, entry)
