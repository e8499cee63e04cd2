#!/usr/bin/env bash
# all.sh SITES OUT: packs each folder of SITES in every way that people use, into the folder of its name in OUT.
#   plain  short names of ASCII
#   full   names beyond 100 and 255 bytes, and of other characters
#   links  plain, with a hard link and symlinks
# TOOLS is the folder in which `.ci/tools` installs, NODE its node.
# shellcheck disable=SC2016 # what stands in single quotes is for the shell that is started
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SITES=$1
OUT=$2
mkdir -p "$OUT"/{plain,full,links}

# pack NAME SITE COMMAND…: runs it in the site's folder; it writes the archive to its output.
pack() {
  local name=$1 site=$2
  shift 2
  (cd "$SITES/$site" && "$@") >"$OUT/$site/$name"
}

# pack_file NAME SITE COMMAND…: the same for a command that writes to the file $FILE, which is not there yet.
pack_file() {
  export FILE=$OUT/$2/$1
  (cd "$SITES/$2" && "${@:3}") >/dev/null
}

gnu_tar() {
  local site format
  for site in plain full links; do
    for format in gnu oldgnu posix; do
      pack "gnu-$format.tar.gz" "$site" tar --format="$format" -czf - .
    done
    pack gnu.tar.zst "$site" tar --zstd -cf - .
    pack gnu-names.tar.gz "$site" bash -c 'tar -czf - * .[!.]*'
    pack gnu-sorted.tar.gz "$site" tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -czf - .
    pack gnu-pax-times.tar.gz "$site" tar --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,atime:=1,ctime:=2 -czf - .
    pack gnu-pax-global.tar.gz "$site" tar --format=posix --pax-option=comment=a-comment,globexthdr.name=global -czf - .
    pack gnu-label.tar.gz "$site" tar -V "a label" -czf - .
    pack_file gnu-incremental.tar.gz "$site" bash -c 'tar -g "$FILE.snar" -czf "$FILE" . && rm "$FILE.snar"'
    pack gnu-blocks.tar.gz "$site" tar -b 1 -czf - .
    pack gnu-record.tar.gz "$site" tar -b 200 -czf - .
    pack gnu-large-ids.tar.gz "$site" tar --owner=a:4294967295 --group=b:4000000000 -czf - .
    pack gnu-long-ago.tar.gz "$site" tar --mtime=1901-01-01 -czf - .
    pack gnu-xattrs.tar.gz "$site" tar --format=posix --xattrs --acls --selinux -czf - .
    pack gnu-pipe.tar.gz "$site" bash -c 'tar -cf - . | gzip -9n'
    pack gnu-no-recursion.tar.gz "$site" bash -c 'find . -type f -print0 | tar --null --no-recursion -T - -czf -'
    pack gnu-members.tar.gz "$site" bash -c 'tar -cf - . | split -b 700 --filter=gzip'
    pack gnu-frames.tar.zst "$site" bash -c 'tar -cf - . | split -b 700 --filter="zstd -c"'
    pack gnu-19.tar.zst "$site" bash -c 'tar -cf - . | zstd -19'
    pack gnu-no-check.tar.zst "$site" bash -c 'tar -cf - . | zstd --no-check --fast'
  done
  for format in ustar v7; do
    pack "gnu-$format.tar.gz" plain tar --format="$format" -czf - .
  done
  pack gnu-dereferenced.tar.gz plain tar -h --hard-dereference -czf - .
  pack_file gnu-appended.tar.gz plain bash -c 'tar -cf "$FILE.tar" index.html && tar -rf "$FILE.tar" . && gzip <"$FILE.tar" >"$FILE" && rm "$FILE.tar"'
  pack_file gnu-updated.tar.gz plain bash -c 'tar -cf "$FILE.tar" . && tar -uf "$FILE.tar" . && gzip <"$FILE.tar" >"$FILE" && rm "$FILE.tar"'
}

bsd_tar() {
  local site format
  for site in plain full links; do
    for format in pax gnutar; do
      pack "bsd-$format.tar.gz" "$site" bsdtar --format="$format" -czf - .
    done
    pack bsd-blocks.tar.gz "$site" bsdtar -b 1 -czf - .
    pack bsd-record.tar.gz "$site" bsdtar -b 128 -czf - .
    pack bsd-pipe.tar.gz "$site" bash -c 'bsdtar -cf - . | gzip'
    pack bsd.tar.zst "$site" bsdtar --zstd -cf - .
    pack bsd-names.tar.gz "$site" bash -c 'bsdtar -czf - * .[!.]*'
    pack_file bsd-file.tar.gz "$site" bash -c 'bsdtar -czf "$FILE" .'
    pack_file bsd.zip "$site" bash -c 'bsdtar --format=zip -cf "$FILE" .'
    pack_file bsd-store.zip "$site" bash -c 'bsdtar --format=zip --options zip:compression=store -cf "$FILE" .'
    pack bsd-pipe.zip "$site" bsdtar --format=zip -cf - .
    pack bsd-from-gnu.tar.gz "$site" bash -c 'tar -cf - . | bsdtar -czf - @-'
  done
  for format in ustar v7; do
    pack "bsd-$format.tar.gz" plain bsdtar --format="$format" -czf - .
  done
}

others() {
  local site
  for site in plain full links; do
    pack busybox.tar.gz "$site" busybox tar -czf - .
    pack busybox-pipe.tar.gz "$site" bash -c 'busybox tar -cf - . | busybox gzip'
    pack_file info.zip "$site" bash -c 'zip -qr "$FILE" .'
    pack_file info-store.zip "$site" bash -c 'zip -q0r "$FILE" .'
    pack_file info-symlinks.zip "$site" bash -c 'zip -qry "$FILE" . -x latest'
    pack_file info-no-folders.zip "$site" bash -c 'zip -qrDX "$FILE" .'
    pack_file info-zip64.zip "$site" bash -c 'zip -qr -fz "$FILE" .'
    pack info-pipe.zip "$site" bash -c 'zip -qr - . | cat'
    rm -rf "$OUT/git"
    git init --quiet "$OUT/git"
    git --git-dir="$OUT/git/.git" --work-tree="$SITES/$site" add --all --force
    git --git-dir="$OUT/git/.git" -c user.name=a -c user.email=a@localhost commit --quiet --message a
    pack git.tar.gz "$site" git --git-dir="$OUT/git/.git" archive --format=tar.gz HEAD
    pack git.zip "$site" git --git-dir="$OUT/git/.git" archive --format=zip HEAD
    rm -rf "$OUT/git"
    pack_file perl.tar.gz "$site" perl "$HERE/write.pl"
    "$TOOLS/venv/bin/python3" "$HERE/write.py" "$SITES/$site" "$OUT/$site"
    "$NODE" "$HERE/write.mjs" "$SITES/$site" "$OUT/$site"
  done
  for site in plain full; do
    pack_file 7z.zip "$site" bash -c '7zz a -tzip "$FILE" . >/dev/null'
    pack_file 7z-store.zip "$site" bash -c '7zz a -tzip -mx0 -mcu=on "$FILE" . >/dev/null'
    pack_file 7z.tar.gz "$site" bash -c '7zz a -ttar "$FILE.tar" . >/dev/null && 7zz a -tgzip "$FILE" "$FILE.tar" >/dev/null && rm "$FILE.tar"'
    pack_file 7z-pax.tar.gz "$site" bash -c '7zz a -ttar -mm=pax "$FILE.tar" . >/dev/null && 7zz a -tgzip "$FILE" "$FILE.tar" >/dev/null && rm "$FILE.tar"'
  done
  pack ruby.tar.gz plain ruby "$HERE/write.rb"
  pack cpio-ustar.tar.gz plain bash -c 'find . | cpio --quiet -o -H ustar | gzip'
  pack cpio-tar.tar.gz plain bash -c 'find . | cpio --quiet -o -H tar | gzip'
  pack pax.tar.gz plain bash -c 'pax -w -x ustar . | gzip'
  pack pax-pax.tar.gz plain bash -c 'pax -w -x tar . | gzip'
}

gnu_tar
bsd_tar
others
