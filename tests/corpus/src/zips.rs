//! Zip archives.

use super::{
    Case, Expect, Form,
    names::HOSTILE,
    zip::{Entry, Zip},
};

const MB: usize = 1024 * 1024;
const FILE: usize = 25 * MB;

pub(super) fn add(cases: &mut Vec<Case>) {
    let files: &[(&str, u64)] = &[("index.html", 17), ("a/b.css", 7)];
    for (name, spoil) in [
        ("stored", (|entry: Entry| entry) as fn(Entry) -> Entry),
        ("deflated", Entry::deflated),
        ("piped", |entry| entry.deflated().piped()),
        ("with_zip64_sizes", |entry| entry.deflated().zip64()),
        ("of_unix", |entry| entry.unix(0o100_644)),
        ("with_extras", |entry| entry.extra(0x5455, &[1, 0, 0, 0, 0])),
    ] {
        good(cases, name, one(spoil).end(), files);
    }
    good(cases, "with_a_comment", one(Entry::deflated).comment(b"made by hand").end(), files);
    good(cases, "and_zeros", [one(Entry::deflated).end(), vec![0; 700]].concat(), files);
    good(cases, "behind_a_program", one(Entry::deflated).prefix(b"#!/bin/sh\n").end(), files);
    good(
        cases,
        "with_folders",
        Zip::new().file(Entry::new("a/", b"")).file(Entry::new("a/b", b"x")).end(),
        &[("a/b", 1)],
    );
    let link = Entry::new("link", b"/etc/passwd").unix(0o120_777);
    good(cases, "symlink_is_skipped", one(Entry::deflated).file(link).end(), files);
    let pipe = Entry::new("pipe", b"").unix(0o010_644);
    good(cases, "pipe_is_left_out", one(Entry::deflated).file(pipe).end(), files);
    for (name, mode, body) in [
        ("device_with_content", 0o060_644, "x"),
        ("kind_that_is_none", 0o170_644, ""),
        ("other_kind_that_is_none", 0o030_644, "x"),
    ] {
        let entry = Entry::new("odd", body.as_bytes()).unix(mode);
        invalid(cases, name, one(Entry::deflated).file(entry).end());
    }
    let mut swallowing = Zip::new().file(Entry::new("a/", b"")).file(Entry::new("a/b", b"x")).end();
    // Its sizes are said to be behind it, where the next file is.
    swallowing[6] |= 1 << 3;
    invalid(cases, "folder_without_its_sizes", swallowing);
    let mut disks = one(Entry::deflated).end64(2).end();
    // The last field of what stands before the end.
    let count = disks.len() - 26;
    disks[count] = 2;
    invalid(cases, "end_of_two_disks", disks);
    let windows = |system, path: &str| {
        let entry = |name: &str, body: &[u8]| Entry::new(name, body).deflated().of_system(system, 0);
        Zip::new().file(entry("index.html", b"ok")).file(entry("empty\\", b"")).file(entry(path, b"x")).end()
    };
    for system in [0, 10] {
        let name = format!("backslashes_of_windows_{system}");
        good(cases, &name, windows(system, "a\\b\\c.css"), &[("index.html", 2), ("a/b/c.css", 1)]);
        invalid(cases, format!("{name}_parent"), windows(system, "a\\..\\..\\c.css"));
        invalid(cases, format!("{name}_absolute"), windows(system, "\\c.css"));
        invalid(cases, format!("{name}_drive"), windows(system, "C:\\c.css"));
        invalid(cases, format!("{name}_mixed"), windows(system, "a\\b/c.css"));
    }
    invalid(cases, "backslashes_of_unix", windows(3, "a\\b.css"));
    let made_by_systems =
        one(Entry::deflated).file(Entry::new("__MACOSX/._index.html", b"x")).file(Entry::new(".DS_Store", b"x"));
    good(cases, "system_files_are_left_out", made_by_systems.end(), files);
    let twice = one(Entry::deflated).file(Entry::new("index.html", b"new"));
    good(cases, "duplicate", twice.end(), &[("index.html", 3), ("a/b.css", 7)]);
    names(cases);
    lies(cases);
    bombs(cases);
}

fn one(spoil: fn(Entry) -> Entry) -> Zip {
    Zip::new()
        .file(spoil(Entry::new("index.html", b"<h1>It works</h1>")))
        .file(spoil(Entry::new("a/b.css", b"body {}")))
}

fn names(cases: &mut Vec<Case>) {
    for (name, path) in HOSTILE {
        // A name that is no UTF-8 and not said to be is of the code page of DOS; a slash at the end makes a folder.
        if path.ends_with(b"/") && !path.starts_with(b"/") {
            continue;
        }
        let hostile = one(Entry::deflated).file(Entry::new(path, b"evil").utf8());
        invalid(cases, format!("name_{name}"), hostile.end());
    }
    for (name, path) in [("parent", "../evil/"), ("absolute", "/evil/")] {
        invalid(cases, format!("folder_{name}"), one(Entry::deflated).file(Entry::new(path, b"")).end());
        let link = Entry::new(path.trim_end_matches('/'), b"x").unix(0o120_777);
        invalid(cases, format!("symlink_{name}"), one(Entry::deflated).file(link).end());
    }
    let named = |entry: Entry| Zip::new().file(entry).end();
    let (cafe, len) = ("caf\u{e9}.html", 2);
    good(cases, "name_said_to_be_utf8", named(Entry::new(cafe, b"ok").utf8()), &[(cafe, len)]);
    good(cases, "name_in_utf8", named(Entry::new(cafe, b"ok")), &[(cafe, len)]);
    good(cases, "name_in_code_page", named(Entry::new(b"caf\x82.html", b"ok")), &[(cafe, len)]);
    let beside = Entry::new(b"caf_\x82.html", b"ok").unicode_name("\u{30ab}.html");
    good(cases, "name_beside", named(beside), &[("\u{30ab}.html", len)]);
    // Some programs take one of the names, some the other.
    let two = || Entry::new("page.html", b"ok").unicode_name("other.html");
    invalid(cases, "name_beside_one_in_ascii", named(two()));
    invalid(cases, "name_beside_one_said_to_be_utf8", named(two().utf8()));
    invalid(
        cases,
        "name_beside_before_the_file_alone",
        named(Entry::new("a.html", b"ok").local_unicode_name("b.html")),
    );
    let three = Entry::new(b"caf\x82", b"ok").unicode_name("a").local_unicode_name("b");
    invalid(cases, "two_names_beside", named(three));
    good(cases, "name_beside_is_the_same", named(Entry::new(cafe, b"ok").unicode_name(cafe)), &[(cafe, len)]);
    let older = Entry::new("new.html", b"ok").extra(0x7075, &[&[1, 9, 9, 9, 9][..], b"old.html"].concat());
    good(cases, "name_beside_is_of_an_older_name", named(older), &[("new.html", len)]);
    let empty = Entry::new(cafe, b"ok").unicode_name("");
    invalid(cases, "name_beside_is_empty", named(empty));
    let unix = Entry::new(b"caf\xe9.html", b"ok").unix(0o100_644).unicode_name(cafe);
    good(cases, "name_beside_of_unix", named(unix), &[(cafe, len)]);
    invalid(cases, "name_beside_is_a_folder", named(Entry::new(b"caf\x82", b"ok").unicode_name("cafe/")));
    invalid(cases, "name_beside_is_hostile", named(Entry::new(b"caf\x82", b"ok").unicode_name("../evil")));
    invalid(cases, "name_beside_a_hostile_one", named(Entry::new(b"../caf\x82", b"ok").unicode_name("good")));
    invalid(cases, "name_of_unix_in_no_utf8", named(Entry::new(b"caf\xe9.html", b"ok").unix(0o100_644)));
    invalid(cases, "name_with_nul", named(Entry::new(b"a\0b", b"ok")));
    invalid(cases, "name_empty", named(Entry::new("", b"ok")));
    invalid(cases, "file_and_folder", Zip::new().file(Entry::new("a", b"x")).file(Entry::new("a/b", b"x")).end());
}

fn lies(cases: &mut Vec<Case>) {
    let whole = one(Entry::deflated).end();
    for cut in [1, 4, 30, whole.len() / 2, whole.len() - 22, whole.len() - 1] {
        invalid(cases, format!("cut_to_{cut}_bytes"), whole[..cut].to_vec());
    }
    invalid(cases, "and_text", [&whole[..], b"garbage"].concat());
    invalid(cases, "of_nothing", Zip::new().end());
    invalid(cases, "of_folders", Zip::new().file(Entry::new("a/", b"")).end());
    invalid(cases, "that_is_text", b"<html>This is a page</html>".to_vec());
    invalid(cases, "that_is_a_tarball", super::Tarball::new().file("a", b"x").end());
    let spoiled = |entry: Entry| one(Entry::deflated).file(entry).end();
    let file = || Entry::new("evil", b"evil evil evil evil").deflated();
    invalid(cases, "encrypted", spoiled(file().flags(1)));
    invalid(cases, "masked", spoiled(file().flags(1 << 13)));
    for method in [1, 9, 12, 14, 93, 95, 98, 99, 1_000] {
        invalid(cases, format!("method_{method}"), spoiled(file().method(method)));
    }
    invalid(cases, "wrong_checksum", spoiled(file().crc(1)));
    invalid(cases, "size_too_small", spoiled(file().size(18)));
    invalid(cases, "size_too_large", spoiled(file().size(20)));
    invalid(cases, "size_too_small_when_stored", spoiled(Entry::new("evil", b"evil").size(3)));
    invalid(cases, "size_huge", spoiled(file().size(u32::MAX - 1)));
    invalid(cases, "compressed_size_too_small", spoiled(file().compressed_size(3)));
    invalid(cases, "compressed_size_huge", spoiled(file().compressed_size(u32::MAX - 1)));
    invalid(cases, "two_names", spoiled(file().local_name("../evil")));
    invalid(cases, "two_methods", spoiled(file().local_method(0)));
    invalid(cases, "two_sizes", spoiled(file().local_size(5)));
    invalid(cases, "spoiled_data", spoiled(file().data(b"\xff\xff\xff\xff")));
    invalid(cases, "fewer_entries_than_said", one(Entry::deflated).entries(3).end());
    invalid(cases, "more_entries_than_said", one(Entry::deflated).entries(1).end());
    let ends = Zip::new().end();
    invalid(cases, "two_ends", one(Entry::deflated).comment(&ends).end());
    invalid(cases, "two_ends_and_text", one(Entry::deflated).comment(&[&ends[..], b"text"].concat()).end());
    invalid(cases, "signature_in_the_comment", one(Entry::deflated).comment(b"see PK\x05\x06!").end());
    good(cases, "with_an_end_in_64_bits", one(Entry::deflated).end64(2).end(), &[("index.html", 17), ("a/b.css", 7)]);
    invalid(cases, "two_ends_say_two_things", one(Entry::deflated).end64(1).end());
    invalid(cases, "bytes_behind_the_directory", one(Entry::deflated).before_end(b"PK\x05\x05\0\0").end());
    gaps(cases);
    entries_that_are_no_files(cases);
    invalid(cases, "shared_bytes", one(Entry::deflated).again("other.html", 0).end());
    invalid(cases, "entry_in_the_directory", one(Entry::deflated).again("other.html", 200).end());
}

fn gaps(cases: &mut Vec<Case>) {
    let hidden = Zip::new().file(Entry::new("evil.html", b"evil")).end();
    let entry = &hidden[..43];
    let file = || Entry::new("last.html", b"x").deflated();
    invalid(cases, "entry_that_is_not_listed", one(Entry::deflated).raw(entry).file(file()).end());
    invalid(cases, "entry_that_is_not_listed_at_the_end", one(Entry::deflated).raw(entry).end());
    invalid(cases, "entry_that_is_not_listed_when_piped", one(|entry| entry.deflated().piped()).raw(entry).end());
    invalid(cases, "bytes_between_files", one(Entry::deflated).raw(b"filled").file(file()).end());
    invalid(cases, "sizes_that_were_not_announced", one(Entry::deflated).raw(&[0; 16]).file(file()).end());
    invalid(cases, "archive_before_the_archive", one(Entry::deflated).prefix(&hidden).end());
    invalid(cases, "entry_before_the_archive", one(Entry::deflated).prefix(entry).end());
    // A program that reads from the front goes on where the compressed data ends.
    invalid(cases, "entry_within_compressed_data", Zip::new().file(file().trailing(entry)).end());
    let folder = Entry::new("c/", b"").deflated().trailing(entry);
    invalid(cases, "entry_within_a_folder", one(Entry::deflated).file(folder).end());
    let twice = || one(Entry::deflated).file(Entry::new("index.html", b"new"));
    invalid(cases, "duplicate_in_two_orders", twice().reversed().end());
    good(
        cases,
        "listed_in_another_order",
        one(Entry::deflated).reversed().end(),
        &[("index.html", 17), ("a/b.css", 7)],
    );
}

fn entries_that_are_no_files(cases: &mut Vec<Case>) {
    let with = |entry: Entry| one(Entry::deflated).file(entry).end();
    let files: &[(&str, u64)] = &[("index.html", 17), ("a/b.css", 7)];
    good(cases, "folder_of_java", with(Entry::new("c/", b"").deflated()), files);
    invalid(cases, "folder_with_two_names", with(Entry::new("c/", b"").local_name("c.html")));
    invalid(cases, "folder_with_two_methods", with(Entry::new("c/", b"").local_method(8)));
    let link = || Entry::new("link", b"/etc/passwd").unix(0o120_777);
    invalid(cases, "symlink_with_two_names", with(link().local_name("c.html")));
    invalid(cases, "symlink_with_two_sizes", with(link().local_size(5)));
    invalid(cases, "file_that_is_marked_as_a_folder", with(Entry::new("c", b"x").of_system(0, 0x10)));
    invalid(cases, "file_that_is_marked_as_a_label", with(Entry::new("c", b"x").of_system(0, 0x08)));
    invalid(cases, "file_of_an_unknown_kind", with(Entry::new("c", b"x").unix(0o170_777)));
    invalid(cases, "file_that_is_a_folder_of_unix", with(Entry::new("c", b"x").unix(0o040_755)));
    invalid(cases, "symlink_of_another_system", with(Entry::new("c", b"x").of_system(19, 0o120_777 << 16)));
    for (name, path) in [("form", ".svc/gate"), ("ticket", ".svc/enter")] {
        invalid(cases, format!("reserved_{name}"), with(Entry::new(path, b"x")));
    }
}

fn bombs(cases: &mut Vec<Case>) {
    let zeros = |len: usize| vec![0; len];
    let large = Zip::new().file(Entry::new("a", &zeros(FILE)).deflated());
    good(cases, "largest_file", large.end(), &[("a", FILE as u64)]);
    too_large(cases, "bomb_file", Zip::new().file(Entry::new("a", &zeros(FILE + 1)).deflated()).end());
    let eleven = (0..11).fold(Zip::new(), |zip, n| zip.file(Entry::new(n.to_string(), &zeros(FILE)).deflated()));
    too_large(cases, "bomb_deployment", eleven.end());
    let many = (0..10_001).fold(Zip::new(), |zip, n| zip.file(Entry::new(format!("{n}"), b"")));
    invalid(cases, "too_many_files", many.end());
}

fn push(cases: &mut Vec<Case>, name: &str, bytes: Vec<u8>, expect: Expect) {
    cases.push(Case { name: format!("zip_{name}"), form: Form::Zip, bytes, expect });
}

fn good(cases: &mut Vec<Case>, name: &str, bytes: Vec<u8>, files: &[(&str, u64)]) {
    let files = files.iter().map(|&(path, len)| (path.to_owned(), len)).collect();
    push(cases, name, bytes, Expect::Files(files));
}

fn invalid(cases: &mut Vec<Case>, name: impl AsRef<str>, bytes: Vec<u8>) {
    push(cases, name.as_ref(), bytes, Expect::Invalid);
}

fn too_large(cases: &mut Vec<Case>, name: &str, bytes: Vec<u8>) {
    push(cases, name, bytes, Expect::TooLarge);
}
