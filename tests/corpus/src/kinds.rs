//! Kinds of entries: links, devices, folders.

use super::{Case, Tarball, good, invalid, tarball::Header};

pub(super) fn add(cases: &mut Vec<Case>) {
    let ok = || Tarball::new().file("index.html", b"ok");
    let files = &[("index.html", 2)];
    let linked = &[("index.html", 2), ("a/link.txt", 2)];
    good(cases, "hard_link", ok().link(b'1', "a/link.txt", "index.html").end(), linked);
    good(cases, "hard_link_in_another_spelling", ok().link(b'1', "./a//link.txt", "./index.html").end(), linked);
    let pax = ok().pax("linkpath", "index.html").link(b'1', "a/link.txt", "cut/off");
    good(cases, "hard_link_by_pax", pax.end(), linked);
    let gnu = ok().entry(b'K', "././@LongLink", b"index.html\0").link(b'1', "a/link.txt", "cut/off");
    good(cases, "hard_link_by_long_link", gnu.end(), linked);
    let chain = ok().link(b'1', "a/link.txt", "index.html").link(b'1', "z", "a/link.txt");
    good(cases, "hard_link_to_a_hard_link", chain.end(), &[("index.html", 2), ("a/link.txt", 2), ("z", 2)]);
    for target in ["", "/etc/passwd", "../index.html", "index.html/", "nothing", "link", "a\\b"] {
        let name = format!("hard_link_to_{}", target.escape_default().to_string().replace(['/', '.', '\\'], "_"));
        invalid(cases, name, ok().link(b'1', "link", target).end());
    }
    let later = Tarball::new().link(b'1', "link", "index.html").file("index.html", b"ok");
    invalid(cases, "hard_link_to_what_comes_later", later.end());
    invalid(cases, "hard_link_to_a_symlink", ok().link(b'2', "s", "index.html").link(b'1', "link", "s").end());
    invalid(cases, "hard_link_to_a_folder", ok().entry(b'5', "a/", b"").link(b'1', "link", "a").end());
    let twice = ok().link(b'1', "a/link.txt", "index.html").link(b'1', "a/link.txt", "index.html");
    good(cases, "hard_link_twice", twice.end(), linked);
    good(cases, "hard_link_over_its_target", ok().link(b'1', "index.html", "index.html").end(), files);
    // A size says nothing of what has no body: some programs write that of the file, or of the folder on their disk.
    let mut sized = Header::new(b'1', "a/link.txt", 4);
    sized.put(157, b"index.html");
    good(cases, "hard_link_with_a_size", ok().raw(&sized.block()).end(), linked);
    let last = &[("index.html", 2), ("last", 1)];
    for (kind, name) in [(b'2', "symlink"), (b'3', "device"), (b'5', "folder"), (b'6', "fifo")] {
        let sized = ok().raw(&Header::new(kind, "a/", 4_096).block()).file("last", b"x");
        good(cases, format!("{name}_with_a_size"), sized.end(), last);
    }
    let sized = ok().raw(&Header::new(0, "old/", 4_096).block()).file("last", b"x");
    good(cases, "old_folder_with_a_size", sized.end(), last);
    invalid(cases, "hard_link_as_a_folder", ok().link(b'1', "a/", "index.html").end());
    invalid(cases, "hard_link_that_becomes_rules", ok().link(b'1', "_headers", "index.html").end());
    let rules = Tarball::new().file("_headers", b"/*\n X-A: b\n").link(b'1', "copy", "_headers");
    invalid(cases, "hard_link_to_rules", rules.end());
    let doubled = ok().pax("linkpath", "index.html").entry(b'K', "././@LongLink", b"index.html\0");
    good(cases, "hard_link_with_two_long_names", doubled.link(b'1', "a/link.txt", "cut/off").end(), linked);
    invalid(cases, "hard_link_with_body", ok().entry(b'1', "link", b"body").end());
    for (kind, name) in [(b'3', "character_device"), (b'4', "block_device"), (b'6', "fifo")] {
        good(cases, format!("{name}_is_skipped"), ok().entry(kind, "dev", b"").end(), files);
        invalid(cases, format!("{name}_with_body"), ok().entry(kind, "dev", b"body").end());
        invalid(cases, format!("{name}_outside"), ok().entry(kind, "../dev", b"").end());
    }
    good(cases, "contiguous_file", Tarball::new().entry(b'7', "a", b"x").end(), &[("a", 1)]);
    for (kind, name) in [(b'V', "gnu_volume_label"), (b'D', "gnu_dump_folder")] {
        good(cases, format!("{name}_is_skipped"), ok().entry(kind, "label", b"").end(), files);
        let body = ok().entry(kind, "./", &[b'Y'; 700]).file("last", b"x");
        good(cases, format!("{name}_with_body"), body.end(), last);
        invalid(cases, format!("{name}_outside"), ok().entry(kind, "../a", b"").end());
    }
    for (kind, name) in [
        (b'S', "gnu_sparse_file"),
        (b'M', "gnu_continued_file"),
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
    let folder = Tarball::new().link(b'2', "latest", "2.0/").link(b'2', "a/up", "..").file("2.0/index.html", b"ok");
    good(cases, "symlink_to_a_folder", folder.end(), &[("2.0/index.html", 2)]);
    good(cases, "old_folder_is_skipped", ok().entry(0, "old/", b"").end(), files);
    invalid(cases, "old_folder_with_body", ok().entry(0, "old/", b"body").end());
    invalid(cases, "folder_with_body", ok().entry(b'5', "a/", &[b'x'; 600]).end());
    invalid(cases, "symlink_with_body", ok().entry(b'2', "a", b"body").end());
    let hidden = Header::new(b'0', "hidden.html", 0).block();
    let beside = &[("index.html", 2), ("hidden.html", 0)];
    good(cases, "folder_with_an_entry_as_body", ok().entry(b'5', "a/", &hidden).end(), beside);
    good(cases, "old_file_kind", Tarball::new().entry(0, "a", b"x").end(), &[("a", 1)]);
}
