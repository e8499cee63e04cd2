//! Sizes of entries, announced and actual.

use super::{
    Case, Expect, Form, Tarball, good, invalid,
    tarball::{BLOCK, Header, gzip, pax_record},
    too_large,
};

const MB: usize = 1024 * 1024;
const FILE: usize = 25 * MB;

pub(super) fn add(cases: &mut Vec<Case>) {
    good(cases, "largest_file", Tarball::new().zero_file("a", FILE).end(), &[("a", FILE as u64)]);
    too_large(cases, "bomb_file", Tarball::new().zero_file("a", FILE + 1).end());
    too_large(cases, "bomb_huge_file", Tarball::new().zero_file("a", 300 * MB).end());
    let ten = |last: usize| {
        (0..10).fold(Tarball::new(), |tarball, n| tarball.zero_file(format!("{n}"), FILE)).zero_file("last", last).end()
    };
    let full = (0..10).map(|n| (n.to_string(), FILE as u64)).chain([("last".to_owned(), 0)]).collect();
    cases.push(Case {
        name: "largest_deployment".into(),
        form: Form::TarGzip,
        bytes: ten(0),
        expect: Expect::Files(full),
    });
    too_large(cases, "bomb_deployment", ten(1));
    // What is skipped is counted too.
    let links =
        (0..10).fold(Tarball::new().zero_file("a", FILE), |tarball, n| tarball.link(b'1', &format!("{n}"), "a"));
    too_large(cases, "bomb_of_hard_links", links.end());
    let folders = Header::new(b'5', "folder/", 0).block().repeat(2 * 70_000);
    too_large(cases, "bomb_of_folders", Tarball::new().file("a", b"").raw(&folders).end());
    too_large(cases, "bomb_after_the_end", Tarball::new().file("a", b"x").zeros(300 * MB).cut());
    let comments = pax_record("comment", &vec![b'x'; 1_000_000]);
    let globals = (0..70).fold(Tarball::new(), |tarball, _| tarball.entry(b'g', "g", &comments));
    too_large(cases, "bomb_of_comments", globals.file("a", b"").end());
    let bomb = Tarball::new().raw(&Header::new(b'5', "folder/", 300 * MB as u64).block()).zeros(300 * MB);
    too_large(cases, "bomb_in_a_folder", bomb.file("a", b"").end());
    // What a later entry replaces is counted too.
    let again = |times: usize| (0..times).fold(Tarball::new(), |tarball, _| tarball.zero_file("a", FILE)).end();
    good(cases, "large_duplicates", again(11), &[("a", FILE as u64)]);
    too_large(cases, "bomb_of_duplicates", again(12));
    let left_out = (0..11).fold(Tarball::new().file("a", b""), |tarball, n| tarball.zero_file(format!("._{n}"), FILE));
    too_large(cases, "bomb_of_system_files", left_out.end());
    invalid(cases, "bomb_in_a_pax_header", Tarball::new().entry(b'x', "pax", &vec![b'1'; 2 * MB]).file("a", b"").end());
    invalid(cases, "bomb_in_a_long_name", Tarball::new().long_name(vec![b'n'; 2 * MB]).file("a", b"").end());
    // An archive in an archive is a file like any other.
    let inner = Tarball::new().zero_file("a", 300 * MB).end();
    let len = inner.len() as u64;
    good(cases, "bomb_inside_a_file", Tarball::new().file("inner.tar.gz", &inner).end(), &[("inner.tar.gz", len)]);

    lies(cases);
    overrides(cases);
    counts(cases);
}

fn lies(cases: &mut Vec<Case>) {
    let sized = |field: &[u8], body: &[u8]| {
        let mut header = Header::new(b'0', "a", 0);
        header.put(124, &[0; 12]).put(124, field);
        Tarball::new().raw(&header.block()).padded(body).end()
    };
    invalid(cases, "size_larger_than_the_archive", sized(b"00000077777\0", b"short"));
    invalid(cases, "size_huge_and_archive_short", sized(b"77777777777\0", b"short"));
    invalid(cases, "size_smaller_than_the_body", sized(b"00000000001\0", &[b'x'; 600]));
    invalid(cases, "size_negative", sized(b"-0000000001\0", b""));
    invalid(cases, "size_negative_base_256", sized(&[0xff; 12], b""));
    invalid(cases, "size_overflowing_base_256", sized(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b""));
    invalid(cases, "size_largest_base_256", sized(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", b""));
    invalid(cases, "size_odd_base_256", sized(b"\xc0\0\0\0\0\0\0\0\0\0\0\x01", b"x"));
    invalid(cases, "size_not_octal", sized(b"00000000009\0", b"123456789"));
    invalid(cases, "size_hexadecimal", sized(b"0x10\0", &[b'x'; 16]));
    good(cases, "size_with_text_after_nul", sized(b"1\x00garbage", b"x"), &[("a", 1)]);
    invalid(cases, "size_behind_a_nul", sized(b"\x0000000001\0", b"x"));
    good(cases, "size_base_256", sized(b"\x80\0\0\0\0\0\0\0\0\0\0\x05", b"12345"), &[("a", 5)]);
    good(cases, "size_with_spaces", sized(b"          5 ", b"12345"), &[("a", 5)]);
    good(cases, "size_without_end", sized(b"000000000005", b"12345"), &[("a", 5)]);
    good(cases, "size_empty", sized(b"", b""), &[("a", 0)]);
}

/// Two sizes for one entry: going by the wrong one reads a body as headers.
fn overrides(cases: &mut Vec<Case>) {
    let hidden = [&Header::new(b'0', "hidden.html", 4).block()[..], &[b'e'; BLOCK][..]].concat();
    let len = hidden.len();
    let header_says_0 = Tarball::new().pax("size", len.to_string()).raw(&Header::new(b'0', "inner.tar", 0).block());
    let files = &[("inner.tar", len as u64), ("a", 1)];
    good(cases, "pax_size_over_zero", header_says_0.raw(&hidden).file("a", b"x").end(), files);
    let header_says_all = Tarball::new().pax("size", "0").raw(&Header::new(b'0', "empty", len as u64).block());
    let files = &[("empty", 0), ("hidden.html", 4), ("a", 1)];
    let [h, rest @ ..] = hidden.as_slice() else { return };
    let bytes = header_says_all.raw(&[*h]).raw(rest).file("a", b"x").end();
    good(cases, "pax_size_zero_over_more", bytes, files);
    let inner = Tarball::new().file("inner.tar", &hidden).file("a", b"x").end();
    good(cases, "tar_inside_a_file", inner, &[("inner.tar", len as u64), ("a", 1)]);
    let folder = Tarball::new().pax("size", len.to_string()).raw(&Header::new(b'5', "folder/", 0).block()).raw(&hidden);
    good(cases, "pax_size_on_a_folder", folder.file("a", b"x").end(), &[("hidden.html", 4), ("a", 1)]);
    let global = Tarball::new().entry(b'g', "g", &pax_record("size", b"1024"));
    invalid(cases, "global_pax_size", global.file("a", b"x").end());
    for (name, size) in [
        ("negative", "-1"),
        ("empty", ""),
        ("signed", "+1"),
        ("overflowing", "99999999999999999999"),
        ("fraction", "1.5"),
    ] {
        invalid(cases, format!("pax_size_{name}"), Tarball::new().pax("size", size).file("a", b"x").end());
    }
    let sizes = Tarball::new().pax("size", "1").pax("size", "0").file("a", b"x");
    invalid(cases, "two_pax_sizes", sizes.end());
    invalid(cases, "pax_size_largest", Tarball::new().pax("size", u64::MAX.to_string()).file("a", b"x").end());
    too_large(cases, "pax_size_bomb", {
        let size = FILE + 1;
        Tarball::new().pax("size", size.to_string()).raw(&Header::new(b'0', "a", 0).block()).zeros(size + BLOCK).end()
    });
}

fn counts(cases: &mut Vec<Case>) {
    let many = |count: usize| {
        (0..count)
            .fold(Tarball::new(), |tarball, n| tarball.file(format!("{}/{n}.txt", n % 100), n.to_string().as_bytes()))
    };
    let files = (0..10_000).map(|n: usize| (format!("{}/{n}.txt", n % 100), n.to_string().len() as u64)).collect();
    cases.push(Case {
        name: "most_files".into(),
        form: Form::TarGzip,
        bytes: many(10_000).end(),
        expect: Expect::Files(files),
    });
    invalid(cases, "too_many_files", many(10_001).end());
    invalid(cases, "no_entry", Tarball::new().end());
    invalid(cases, "no_file", Tarball::new().entry(b'5', "a/", b"").link(b'2', "b", "a").end());
    invalid(cases, "nothing_in_gzip", gzip(b""));
    invalid(cases, "nothing", Vec::new());
}
