//! Kinds of entries: links, devices, folders.

use super::{Case, Tarball, good, invalid, tarball::Header};

pub(super) fn add(cases: &mut Vec<Case>) {
    let ok = || Tarball::new().file("index.html", b"ok");
    let files = &[("index.html", 2)];
    invalid(cases, "hard_link", ok().link(b'1', "link", "index.html").end());
    invalid(cases, "hard_link_outside", ok().link(b'1', "link", "/etc/passwd").end());
    invalid(cases, "hard_link_with_body", ok().entry(b'1', "link", b"body").end());
    for (kind, name) in [
        (b'3', "character_device"),
        (b'4', "block_device"),
        (b'6', "fifo"),
        (b'7', "contiguous_file"),
        (b'S', "gnu_sparse_file"),
        (b'M', "gnu_continued_file"),
        (b'V', "gnu_volume_label"),
        (b'D', "gnu_dump_folder"),
        (b'X', "solaris_pax"),
        (b'8', "unknown_kind"),
        (b'\xff', "unknown_kind_byte"),
    ] {
        invalid(cases, name, ok().entry(kind, "evil", b"").end());
        invalid(cases, format!("{name}_with_body"), ok().entry(kind, "evil", b"body").end());
    }
    let sparse = ok().pax("GNU.sparse.major", "1").file("GNUSparseFile.0/a", b"1\n0\n512\n");
    invalid(cases, "pax_sparse_file", sparse.end());
    let map = ok().pax("GNU.sparse.map", "0,1,26214400,1").file("a", b"ab");
    invalid(cases, "pax_sparse_map", map.end());

    good(cases, "folders_are_skipped", ok().entry(b'5', "./", b"").entry(b'5', "a/b/", b"").end(), files);
    good(cases, "symlinks_are_skipped", ok().link(b'2', "a", "index.html").link(b'2', "b", "../../etc").end(), files);
    good(cases, "old_folder_is_skipped", ok().entry(0, "old/", b"").end(), files);
    invalid(cases, "old_folder_with_body", ok().entry(0, "old/", b"body").end());
    invalid(cases, "folder_with_body", ok().entry(b'5', "a/", &[b'x'; 600]).end());
    invalid(cases, "symlink_with_body", ok().entry(b'2', "a", b"body").end());
    let hidden = Header::new(b'0', "hidden.html", 0).block();
    invalid(cases, "folder_with_an_entry_as_body", ok().entry(b'5', "a/", &hidden).end());
    good(cases, "old_file_kind", Tarball::new().entry(0, "a", b"x").end(), &[("a", 1)]);
}
