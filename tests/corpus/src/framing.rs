//! The beginning and the end of gzip members and tar archives.

use super::{
    Case, Tarball, good, invalid,
    tarball::{BLOCK, Header, gzip},
};

pub(super) fn add(cases: &mut Vec<Case>) {
    gzip_framing(cases);
    tar_framing(cases);
}

fn one_file() -> Tarball {
    Tarball::new().file("index.html", b"<h1>It works</h1>")
}

const FILES: &[(&str, u64)] = &[("index.html", 17)];

fn gzip_framing(cases: &mut Vec<Case>) {
    let whole = one_file().end();
    good(cases, "plain", whole.clone(), FILES);
    for cut in [1, 2, 9, 10, 11, whole.len() / 2, whole.len() - 9, whole.len() - 8, whole.len() - 4, whole.len() - 1] {
        invalid(cases, format!("gzip_cut_to_{cut}_bytes"), whole[..cut].to_vec());
    }
    let spoiled = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        bytes
    };
    invalid(cases, "gzip_wrong_magic", spoiled(0));
    invalid(cases, "gzip_wrong_method", spoiled(2));
    invalid(cases, "gzip_wrong_checksum", spoiled(whole.len() - 8));
    invalid(cases, "gzip_wrong_length", spoiled(whole.len() - 1));
    invalid(cases, "gzip_trailing_text", [&whole[..], b"garbage"].concat());
    // bsdtar fills the last record of what it writes to a pipe.
    for zeros in [1, 7, 512, 4_096, 9_900, 100_000] {
        good(cases, format!("gzip_and_{zeros}_zeros"), [whole.clone(), vec![0; zeros]].concat(), FILES);
    }
    invalid(cases, "gzip_zeros_and_text", [&whole[..], &[0; 512], b"garbage"].concat());
    invalid(cases, "gzip_zeros_and_a_member", [&whole[..], &[0; 512], &whole[..]].concat());
    invalid(cases, "gzip_trailing_magic", [&whole[..], b"\x1f\x8b"].concat());
    invalid(cases, "gzip_trailing_byte", [&whole[..], b"\x1f"].concat());
    invalid(cases, "not_gzip", b"<html>This is a page</html>".to_vec());
    invalid(cases, "zip", b"PK\x03\x04\x14\0\0\0\0\0".to_vec());
    invalid(cases, "gzip_of_text", gzip(b"just text"));
    invalid(cases, "gzip_of_long_text", gzip(&b"just text ".repeat(1_000)));
    invalid(cases, "gzip_twice", gzip(&whole));

    // A gzip file is any number of members, and its content is what they hold together.
    let tar = one_file();
    let mut tar_bytes = Vec::new();
    let block = Header::new(b'0', "index.html", 17).block();
    tar_bytes.extend_from_slice(&block);
    tar_bytes.extend_from_slice(b"<h1>It works</h1>");
    tar_bytes.resize(2 * BLOCK + 2 * BLOCK, 0);
    good(cases, "gzip_members", tar_bytes.chunks(100).flat_map(gzip).collect(), FILES);
    good(cases, "gzip_members_of_one_byte", tar_bytes.chunks(1).flat_map(gzip).collect(), FILES);
    let empty = gzip(b"");
    good(cases, "gzip_empty_members", [empty.repeat(50), tar.end(), empty.repeat(50)].concat(), FILES);
    good(cases, "gzip_many_members", [empty.repeat(100_000), whole.clone()].concat(), FILES);
    let second_spoiled = [gzip(&tar_bytes[..600]), {
        let mut rest = gzip(&tar_bytes[600..]);
        let at = rest.len() - 5;
        rest[at] ^= 1;
        rest
    }];
    invalid(cases, "gzip_second_member_wrong_checksum", second_spoiled.concat());
    let second = Tarball::new().file("second.html", b"no").end();
    good(cases, "gzip_second_archive", [whole.clone(), second].concat(), FILES);
    good(cases, "gzip_member_after_the_end", [whole.clone(), gzip(b"garbage")].concat(), FILES);
    let mut spoiled_second = gzip(b"garbage");
    spoiled_second[12] ^= 0x55;
    invalid(cases, "gzip_spoiled_member_after_the_end", [whole.clone(), spoiled_second].concat());
    good(cases, "gzip_zeros_after_the_end", [whole.clone(), gzip(&[0; 4_096])].concat(), FILES);
    let mut named = whole[..3].to_vec();
    named.push(0x08); // a file name follows the header, and it does not end
    named.extend_from_slice(&whole[4..10]);
    named.extend(std::iter::repeat_n(b'n', 1_000_000));
    invalid(cases, "gzip_endless_name", named);
}

fn tar_framing(cases: &mut Vec<Case>) {
    // The checksum of gzip says that it is whole.
    good(cases, "tar_without_end", one_file().cut(), FILES);
    good(cases, "tar_with_one_end_block", one_file().zeros(BLOCK).cut(), FILES);
    good(cases, "tar_with_half_an_end_block", one_file().zeros(BLOCK + 100).cut(), FILES);
    good(cases, "tar_with_a_whole_record_of_end", one_file().zeros(20 * BLOCK).cut(), FILES);
    good(cases, "tar_with_an_odd_end", one_file().zeros(2 * BLOCK + 7).cut(), FILES);
    invalid(cases, "tar_one_end_block_then_a_file", one_file().zeros(BLOCK).file("b", b"x").end());
    // node-tar and BusyBox read on behind a single block of zeros: nothing there may change what the others have read.
    let lone = || one_file().zeros(BLOCK);
    good(cases, "tar_one_end_block_then_the_same", lone().file("index.html", b"<h1>It works</h1>").end(), FILES);
    good(
        cases,
        "tar_one_end_block_then_the_same_twice",
        {
            let again = lone().file("./index.html", b"<h1>It works</h1>").zeros(BLOCK);
            again.file("index.html", b"<h1>It works</h1>").cut()
        },
        FILES,
    );
    good(cases, "tar_one_end_block_then_a_folder", lone().entry(b'5', "new/", b"").end(), FILES);
    good(cases, "tar_one_end_block_then_a_symlink", lone().link(b'2', "new", "index.html").end(), FILES);
    invalid(cases, "tar_one_end_block_then_other_content", lone().file("index.html", b"<h1>It changed</h1>").end());
    invalid(cases, "tar_one_end_block_then_a_hard_link", lone().link(b'1', "b", "index.html").end());
    invalid(cases, "tar_one_end_block_then_text_and_a_file", lone().raw(&[b'x'; BLOCK]).file("b", b"x").end());
    invalid(cases, "tar_one_end_block_then_rules", lone().file("_headers", b"/*\n  X-A: b\n").end());
    invalid(cases, "tar_announced_before_one_end_block", {
        one_file().pax("path", "b").zeros(BLOCK).file("index.html", b"<h1>It works</h1>").end()
    });
    let mut blank = [0; BLOCK];
    blank[155] = 1;
    good(cases, "tar_one_end_block_then_no_checksum", lone().raw(&blank).file("b", b"x").end(), FILES);
    good(cases, "tar_one_end_block_then_text_to_the_end", lone().raw(&[b'x'; 3 * BLOCK + 9]).cut(), FILES);
    good(cases, "tar_one_end_block_then_text", one_file().zeros(BLOCK).raw(&[b'x'; 3 * BLOCK]).cut(), FILES);
    good(cases, "tar_file_after_the_end", one_file().zeros(2 * BLOCK).file("../b", b"x").end(), FILES);
    good(cases, "tar_text_after_the_end", one_file().zeros(2 * BLOCK).raw(b"garbage").cut(), FILES);
    good(cases, "tar_far_text_after_the_end", one_file().zeros(100 * BLOCK).raw(b"garbage").cut(), FILES);
    invalid(cases, "tar_with_half_a_header", one_file().raw(b"garbage").cut());
    let header = Header::new(b'0', "b", 1_000).block();
    invalid(cases, "tar_cut_in_a_header", one_file().raw(&header[..200]).cut());
    invalid(cases, "tar_cut_after_a_header", one_file().raw(&header).cut());
    invalid(cases, "tar_cut_in_a_body", one_file().raw(&header).raw(&[b'x'; 999]).cut());
    invalid(cases, "tar_cut_before_the_padding", one_file().raw(&header).raw(&[b'x'; 1_000]).cut());
    invalid(cases, "tar_cut_in_the_padding", one_file().raw(&header).raw(&[b'x'; 1_010]).cut());
    let pax = Header::new(b'x', "pax", 100).block();
    invalid(cases, "tar_cut_in_a_pax_header", one_file().raw(&pax).raw(b"20 path=").cut());
    let spoiled = |at: usize, value: u8| {
        let mut block = Header::new(b'0', "b", 0).block();
        block[at] = value;
        one_file().raw(&block).end()
    };
    invalid(cases, "header_changed_after_its_checksum", spoiled(0, b'c'));
    invalid(cases, "header_checksum_wrong", spoiled(153, b'7'));
    invalid(cases, "header_checksum_not_octal", spoiled(150, b'x'));
    invalid(cases, "header_checksum_negative", spoiled(148, 0xff));
    invalid(cases, "header_of_noise", one_file().raw(&[0xa5; BLOCK]).end());
    // Sun's programs counted bytes as signed ones.
    let mut signed = Header::new(b'0', "caf\u{e9}.html", 0);
    let signed_sum = i32::try_from(signed.sum()).unwrap_or(0) - 2 * 256;
    let signed = signed.block_with_sum(&format!("{signed_sum:06o}\0 "));
    good(cases, "header_checksum_of_signed_bytes", Tarball::new().raw(&signed).end(), &[("caf\u{e9}.html", 0)]);
    let old = Header::new(b'0', "b", 0);
    let block = old.block();
    let mut signed = block;
    signed[148..156].fill(0);
    invalid(cases, "header_without_checksum", one_file().raw(&signed).end());
}
