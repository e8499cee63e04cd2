//! Tar archives in frames of Zstandard.

use std::io::Write as _;

use super::{Case, Expect, Form, Tarball};

const FILES: &[(&str, u64)] = &[("index.html", 17)];

pub(super) fn add(cases: &mut Vec<Case>) {
    let tar = Tarball::new().file("index.html", b"<h1>It works</h1>").end();
    let mut plain = Vec::new();
    let _ = std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&tar[..]), &mut plain);
    let whole = zstd(&plain, 3, 0);
    good(cases, "plain", whole.clone());
    good(cases, "frames", plain.chunks(100).flat_map(|chunk| zstd(chunk, 1, 0)).collect());
    let skippable = b"\x5a\x2a\x4d\x18\x04\0\0\0skip";
    good(cases, "skippable_frames", [&skippable[..], &whole, skippable].concat());
    good(cases, "and_zeros", [whole.clone(), vec![0; 9_000]].concat());
    good(cases, "second_archive", [whole.clone(), whole.clone()].concat());
    good(cases, "level_19", zstd(&plain, 19, 0));
    for log in [24, 27] {
        invalid(cases, format!("window_of_2_to_the_{log}"), zstd(&plain, 3, log));
    }
    for cut in [1, 4, 5, whole.len() / 2, whole.len() - 1] {
        invalid(cases, format!("cut_to_{cut}_bytes"), whole[..cut].to_vec());
    }
    let mut spoiled = whole.clone();
    let last = spoiled.len() - 1;
    spoiled[last] ^= 1;
    invalid(cases, "wrong_checksum", spoiled);
    invalid(cases, "and_text", [&whole[..], b"garbage"].concat());
    invalid(cases, "of_skippable_frames", skippable.to_vec());
    invalid(cases, "of_an_old_version", [&b"\x27\xb5\x2f\xfd"[..], &whole[4..]].concat());
    invalid(cases, "that_is_gzip", tar);
    invalid(cases, "of_nothing", zstd(b"", 3, 0));
    let bomb = zstd(&[&plain[..], &vec![0; 70 * 1024 * 1024]].concat(), 3, 0);
    cases.push(Case {
        name: "zstd_bomb_after_the_end".into(),
        form: Form::TarZstd,
        bytes: bomb,
        expect: Expect::TooLarge,
    });
}

/// Compresses as into a pipe: the frame does not say how long it is. A window of `log` 0 is the level's own.
#[expect(clippy::expect_used, reason = "writing to memory does not fail")]
fn zstd(bytes: &[u8], level: i32, log: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level).expect("memory");
    encoder.include_checksum(true).expect("a checksum");
    if log > 0 {
        encoder.window_log(log).expect("a window");
    }
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn good(cases: &mut Vec<Case>, name: &str, bytes: Vec<u8>) {
    let files = FILES.iter().map(|&(path, len)| (path.to_owned(), len)).collect();
    cases.push(Case { name: format!("zstd_{name}"), form: Form::TarZstd, bytes, expect: Expect::Files(files) });
}

fn invalid(cases: &mut Vec<Case>, name: impl AsRef<str>, bytes: Vec<u8>) {
    let name = format!("zstd_{}", name.as_ref());
    cases.push(Case { name, form: Form::TarZstd, bytes, expect: Expect::Invalid });
}
