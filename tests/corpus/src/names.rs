//! Names of entries.

use super::{Case, Tarball, good, invalid, tarball::Header};

/// Names that must be refused, whichever way the archive spells them.
pub(super) const HOSTILE: [(&str, &[u8]); 25] = [
    ("parent", b"../evil.html"),
    ("parent_alone", b".."),
    ("parent_inside", b"a/../../evil.html"),
    ("parent_that_stays_inside", b"a/../index.html"),
    ("parent_at_the_end", b"a/.."),
    ("parent_after_dot", b"./../evil.html"),
    ("parent_after_empty_segment", b"a//../../evil.html"),
    ("parent_deep", b"../../../../../../../../etc/cron.d/evil"),
    ("absolute", b"/etc/passwd"),
    ("absolute_twice", b"//etc/passwd"),
    ("root", b"/"),
    ("drive", b"C:/Windows/evil.html"),
    ("backslash", b"a\\b.html"),
    ("backslash_parent", b"..\\evil.html"),
    ("backslash_mixed", b"a/..\\../evil.html"),
    ("unc", b"\\\\host\\share\\evil.html"),
    ("newline", b"a\nb.html"),
    ("escape_sequence", b"a\x1b[2Jb.html"),
    ("delete_character", b"a\x7f.html"),
    ("c1_control", b"a\xc2\x9b.html"),
    ("latin_1", b"caf\xe9.html"),
    ("overlong_utf8_parent", b"\xc0\xae\xc0\xae/evil.html"),
    ("surrogate", b"a\xed\xa0\x80.html"),
    ("folder_as_file", b"a/"),
    ("dot_as_file", b"./"),
];

/// Names that are merely unusual: as they are written, and as they are kept.
const UNUSUAL: [(&str, &str, &str); 9] = [
    ("dot_slash", "./index.html", "index.html"),
    ("double_slash", "a//b.html", "a/b.html"),
    ("dots_everywhere", "././a/./b.html", "a/b.html"),
    ("dots_in_names", "..a/b../c..d/...", "..a/b../c..d/..."),
    ("percent_encoded_parent", "%2e%2e/x.html", "%2e%2e/x.html"),
    ("fullwidth_parent", "\u{ff0e}\u{ff0e}/x.html", "\u{ff0e}\u{ff0e}/x.html"),
    ("unicode", "caf\u{e9} \u{1f600}.html", "caf\u{e9} \u{1f600}.html"),
    ("hidden", ".well-known/security.txt", ".well-known/security.txt"),
    ("colon", "a:b/c.html", "a:b/c.html"),
];

pub(super) fn add(cases: &mut Vec<Case>) {
    for (name, path) in HOSTILE {
        let ok = || Tarball::new().file("index.html", b"ok");
        invalid(cases, format!("name_{name}"), ok().file(path, b"evil").end());
        invalid(cases, format!("pax_name_{name}"), ok().pax("path", path).file("x", b"evil").end());
        invalid(cases, format!("gnu_name_{name}"), ok().long_name([path, b"\0"].concat()).file("x", b"evil").end());
    }
    for (name, path) in [("parent", "../evil/"), ("absolute", "/evil/"), ("backslash", "a\\b/")] {
        invalid(cases, format!("folder_{name}"), Tarball::new().file("a", b"").entry(b'5', path, b"").end());
        invalid(cases, format!("symlink_{name}"), Tarball::new().file("a", b"").link(b'2', path, "a").end());
    }
    for (name, path, kept) in UNUSUAL {
        good(cases, format!("name_{name}"), Tarball::new().file(path, b"ok").end(), &[(kept, 2)]);
        good(cases, format!("pax_name_{name}"), Tarball::new().pax("path", path).file("x", b"ok").end(), &[(kept, 2)]);
    }
    nul(cases);
    prefixes(cases);
    long(cases);
    announced(cases);
    colliding(cases);
    system_files(cases);
    reserved(cases);
}

/// Files that systems make for themselves.
fn system_files(cases: &mut Vec<Case>) {
    let ok = || Tarball::new().file("index.html", b"ok").file("a/b.css", b"");
    let files = &[("index.html", 2), ("a/b.css", 0)];
    for (name, path) in [
        ("apple_double", "._index.html"),
        ("apple_double_in_a_folder", "./a/._b.css"),
        ("ds_store", ".DS_Store"),
        ("ds_store_in_a_folder", "a/.DS_Store"),
        ("folder_icon", "a/Icon\r"),
    ] {
        good(cases, format!("{name}_is_left_out"), ok().file(path, b"junk").end(), files);
        good(cases, format!("{name}_by_pax_is_left_out"), ok().pax("path", path).file("x", b"junk").end(), files);
    }
    for (name, path) in [("apple_double", "../._x"), ("ds_store", "/.DS_Store"), ("folder_icon", "a\\Icon\r")] {
        invalid(cases, format!("{name}_outside"), ok().file(path, b"junk").end());
    }
    invalid(cases, "nothing_but_system_files", Tarball::new().file("._index.html", b"junk").end());
    let folder = Tarball::new().file("._a/index.html", b"ok");
    good(cases, "folder_that_begins_like_a_system_file", folder.end(), &[("._a/index.html", 2)]);
}

/// Addresses of the service on every site.
fn reserved(cases: &mut Vec<Case>) {
    let with = |path: &str| Tarball::new().file("index.html", b"ok").file(path, b"x").end();
    for (name, path) in [
        ("form", ".svc/gate"),
        ("ticket", "./.svc//enter"),
        ("page", ".svc/gate.html"),
        ("folder", ".svc/enter/index.html"),
    ] {
        invalid(cases, format!("reserved_{name}"), with(path));
    }
    good(cases, "not_reserved", with(".svc/up.json"), &[("index.html", 2), (".svc/up.json", 1)]);
}

fn nul(cases: &mut Vec<Case>) {
    invalid(cases, "nul_in_name", Tarball::new().file(b"a\0b.html", b"x").end());
    invalid(cases, "nul_in_pax_name", Tarball::new().pax("path", b"a\0b.html").file("x", b"x").end());
    invalid(cases, "nul_in_gnu_name", Tarball::new().long_name(b"a\0b.html\0").file("x", b"x").end());
    invalid(cases, "nul_first", Tarball::new().file(b"\0evil.html", b"x").end());
    invalid(cases, "empty_name", Tarball::new().file("", b"x").end());
    invalid(cases, "empty_pax_name", Tarball::new().pax("path", "").file("x", b"x").end());
    invalid(cases, "empty_gnu_name", Tarball::new().long_name("\0\0\0").file("x", b"x").end());
}

fn prefixes(cases: &mut Vec<Case>) {
    let with_prefix = |prefix: &[u8], name: &str| {
        let mut header = Header::new(b'0', name, 1);
        header.put(345, prefix);
        Tarball::new().raw(&header.block()).padded(b"x").end()
    };
    good(cases, "prefix", with_prefix(b"a/b", "c.html"), &[("a/b/c.html", 1)]);
    invalid(cases, "prefix_parent", with_prefix(b"../..", "etc/passwd"));
    invalid(cases, "prefix_absolute", with_prefix(b"/etc", "passwd"));
    invalid(cases, "prefix_with_nul", with_prefix(b"a\0b", "c.html"));
    // node-tar and star keep times behind a prefix that leaves them room.
    for (name, prefix, kept) in
        [("star_times", &b""[..], "a.html"), ("star_times_behind_a_prefix", b"b/c", "b/c/a.html")]
    {
        let mut header = Header::new(b'0', "a.html", 1);
        header.put(345, prefix).put(476, b"15125311452 15125311460 ");
        good(cases, name, Tarball::new().raw(&header.block()).padded(b"x").end(), &[(kept, 1)]);
    }
    let whole = ["d".repeat(100), "e".repeat(54)].join("/");
    good(
        cases,
        "prefix_without_room_for_times",
        with_prefix(whole.as_bytes(), "c.html"),
        &[(&format!("{whole}/c.html"), 1)],
    );
    for (name, prefix) in [("parent", "../.."), ("absolute", "/etc")] {
        let mut header = Header::new(b'0', "passwd", 1);
        header.put(257, b"ustar  \0").put(345, prefix.as_bytes());
        invalid(cases, format!("gnu_prefix_{name}"), Tarball::new().raw(&header.block()).padded(b"x").end());
    }
    // GNU keeps times where POSIX keeps the prefix.
    let mut header = Header::new(b'0', "old.html", 1);
    header.put(257, b"ustar  \0").put(345, b"14524770000\x0014524770000\0");
    good(cases, "gnu_times_are_no_prefix", Tarball::new().raw(&header.block()).padded(b"x").end(), &[("old.html", 1)]);
    let mut header = Header::new(0, "v7.html", 1);
    header.put(257, &[0; 8]);
    good(cases, "header_without_magic", Tarball::new().raw(&header.block()).padded(b"x").end(), &[("v7.html", 1)]);
}

fn long(cases: &mut Vec<Case>) {
    let long = format!("{}/{}.html", "folder".repeat(20), "name".repeat(30));
    let len = &[(long.as_str(), 2)];
    good(cases, "long_gnu_name", Tarball::new().long_name(format!("{long}\0")).file(&long, b"ok").end(), len);
    good(cases, "long_pax_name", Tarball::new().pax("path", &long).file(&long, b"ok").end(), len);
    let most = "d/".repeat(511) + "ab";
    good(cases, "longest_name", Tarball::new().pax("path", &most).file("x", b"ok").end(), &[(&most, 2)]);
    invalid(cases, "too_long_name", Tarball::new().pax("path", format!("{most}c")).file("x", b"x").end());
    invalid(cases, "too_long_gnu_name", Tarball::new().long_name("n".repeat(100_000)).file("x", b"x").end());
    let symlink = Tarball::new().entry(b'K', "././@LongLink", &[b't'; 300]).link(b'2', "link", "t").file("a", b"ok");
    good(cases, "long_symlink_target", symlink.end(), &[("a", 2)]);
}

/// Names and sizes that are announced in one entry, for another.
fn announced(cases: &mut Vec<Case>) {
    let named_twice = Tarball::new().pax("path", "a").long_name("b\0").file("c", b"x");
    invalid(cases, "named_by_pax_and_gnu", named_twice.end());
    let pax_twice = Tarball::new().pax("path", "../evil").pax("path", "fine").file("c", b"x");
    invalid(cases, "two_pax_headers", pax_twice.end());
    let folder = Tarball::new().long_name("a/\0").long_name("b/\0").entry(b'5', "c/", b"").file("a", b"x");
    good(cases, "folder_with_two_names", folder.end(), &[("a", 1)]);
    let folder = Tarball::new().long_name("../a/\0").long_name("b/\0").entry(b'5', "c/", b"").file("a", b"x");
    invalid(cases, "folder_with_two_names_of_which_one_is_outside", folder.end());
    let twice_alike =
        Tarball::new().pax("path", "a").pax("mtime", "1.5").long_name("a\0").long_name("a\0").file("c", b"x");
    good(cases, "named_twice_alike", twice_alike.end(), &[("a", 1)]);
    invalid(cases, "two_gnu_names", Tarball::new().long_name("a\0").long_name("b\0").file("c", b"x").end());
    invalid(cases, "announced_and_missing", Tarball::new().file("a", b"x").pax("path", "b").end());
    let global = Tarball::new().entry(b'g', "global", &super::tarball::pax_record("path", b"../evil"));
    invalid(cases, "global_pax_path", global.file("a", b"x").end());
    let comment =
        Tarball::new().entry(b'g', "pax_global_header", b"52 comment=0123456789012345678901234567890123456789\n");
    good(cases, "global_pax_comment", comment.file("a", b"x").end(), &[("a", 1)]);
    // The announcement is for the next entry alone, also when that is skipped.
    let skipped = Tarball::new().pax("path", "folder/").entry(b'5', "x/", b"").file("a", b"x");
    good(cases, "announced_for_a_folder", skipped.end(), &[("a", 1)]);
    let last_counts =
        [super::tarball::pax_record("path", b"../evil"), super::tarball::pax_record("path", b"good")].concat();
    let last_counts = Tarball::new().entry(b'x', "pax", &last_counts).file("x", b"x");
    good(cases, "last_pax_record_counts", last_counts.end(), &[("good", 1)]);
    for (name, records) in [
        ("without_length", &b"path=a\n"[..]),
        ("length_too_short", b"5 path=a\n"),
        ("length_too_long", b"99 path=a\n"),
        ("length_huge", b"99999999999999999999999999 path=a\n"),
        ("length_negative", b"-9 path=a\n"),
        ("without_newline", b"9 path=ab"),
        ("without_equals", b"7 path\n"),
        ("of_zeros", &[0; 64]),
    ] {
        invalid(cases, format!("pax_record_{name}"), Tarball::new().entry(b'x', "pax", records).file("x", b"x").end());
    }
}

fn colliding(cases: &mut Vec<Case>) {
    let two = |a: &str, b: &str| Tarball::new().file(a, b"1").file(b, b"22").end();
    good(cases, "duplicate", two("a.html", "a.html"), &[("a.html", 2)]);
    good(cases, "duplicate_by_dot", two("a.html", "./a.html"), &[("a.html", 2)]);
    good(cases, "duplicate_by_slash", two("a/b.html", "a//b.html"), &[("a/b.html", 2)]);
    good(cases, "duplicate_by_dot_inside", two("a/b.html", "a/./b.html"), &[("a/b.html", 2)]);
    let equal = Tarball::new().file("a.html", b"1").file("a.html", b"1");
    good(cases, "equal_duplicate", equal.end(), &[("a.html", 1)]);
    let linked = Tarball::new().file("a", b"1").link(b'1', "b", "a").file("a", b"22");
    good(cases, "duplicate_of_what_a_hard_link_leads_to", linked.end(), &[("a", 2), ("b", 1)]);
    invalid(cases, "file_then_folder", two("a", "a/b"));
    invalid(cases, "folder_then_file", two("a/b/c", "a"));
    let many = Tarball::new().file("a", b"").file("a-b", b"").file("a.b", b"").file("a0", b"").file("a/b", b"");
    invalid(cases, "file_as_folder_with_neighbours", many.end());
    good(cases, "names_that_differ_in_case", two("a.html", "A.html"), &[("a.html", 1), ("A.html", 2)]);
    good(cases, "names_that_share_a_beginning", two("a", "a.b/c"), &[("a", 1), ("a.b/c", 2)]);
    let link = Tarball::new().link(b'2', "a", "/etc").file("a/passwd", b"ok");
    good(cases, "file_below_a_symlink", link.end(), &[("a/passwd", 2)]);
    let link = Tarball::new().file("a", b"ok").link(b'2', "a", "/etc/passwd");
    good(cases, "symlink_over_a_file", link.end(), &[("a", 2)]);
    let repeated = Tarball::new().entry(b'5', "./", b"").entry(b'5', "a/", b"").entry(b'5', "a/", b"").file("a/b", b"");
    good(cases, "repeated_folders", repeated.end(), &[("a/b", 0)]);
}
