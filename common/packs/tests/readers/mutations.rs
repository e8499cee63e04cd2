//! Randomly mutated tar archives.

use std::{
    collections::BTreeMap,
    io::Write as _,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use flate2::{Compression, write::GzEncoder};
use packs::archive::UploadFormat;

use crate::{
    FileHashes, ours,
    random::Random,
    theirs::{ArchiveReading, ExternalReaders, FIVE},
};

/// Maximum bytes of an archive to mutate.
pub(crate) const LARGEST: usize = 48 * 1024;
const BLOCK: usize = 512;
const THREADS: usize = 2;

/// Phrases of our own rules: an archive that breaks one is rejected, whoever else reads it.
const RULES: [&str; 19] = [
    "holds a NUL byte",
    "holds a backslash",
    "holds a control character",
    "is not UTF-8",
    "is longer than 1,024 bytes",
    "is absolute",
    "has a `..` segment",
    "ends like a folder's",
    "has no path",
    "of a path has a `..` segment or is absolute",
    "a sparse file",
    "is a file and also the folder of",
    "holds no file",
    "larger than",
    "more than",
    "a global PAX header names or sizes",
    "which is no file that stands before it",
    "of the unknown kind",
    "is a hard link to",
];

/// Mutates `count` archives and compares all readers.
pub(crate) fn judge(seeds: &[Vec<u8>], count: usize) {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let outcomes = Mutex::new(BTreeMap::<String, usize>::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut readers = ExternalReaders::start();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let tar = mutation(seeds, number);
                    let outcome = match compare(&mut readers, &tar) {
                        Ok(outcome) => outcome,
                        Err(why) => {
                            if let Some(folder) = std::env::var_os("SVC_TEST_KEEP") {
                                let path = std::path::Path::new(&folder).join(format!("{number}.tar"));
                                std::fs::write(path, &tar).expect("written");
                            }
                            wrong.lock().expect("no panic").push(format!("mutation {number}: {why}"));
                            "wrong".to_owned()
                        }
                    };
                    *outcomes.lock().expect("no panic").entry(outcome).or_default() += 1;
                }
            });
        }
    });
    println!("{count} mutations of {} archives: {:#?}", seeds.len(), outcomes.into_inner().expect("no panic"));
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

fn compare(readers: &mut ExternalReaders, tar: &[u8]) -> Result<String, String> {
    let ours = ours::read(&stored(tar), UploadFormat::TarGzip);
    // Every program is run, whatever the others return: each may be the one that leaves its folder.
    let readings: Vec<_> = FIVE.iter().map(|&reader| (reader, readers.read(reader, tar))).collect();
    if let Ok(ours) = &ours {
        let outside: Vec<String> = readings
            .iter()
            .filter_map(|(reader, reading)| {
                let name = reading.as_ref().ok()?.names.iter().find(|name| is_outside(name))?;
                Some(format!("{reader} would write {name:?}"))
            })
            .collect();
        if !outside.is_empty() {
            return Err(format!("{}, and we publish {:?}", outside.join(", "), ours.keys()));
        }
    }
    // A program that cannot read the archive has no say about its content.
    let read: Option<Vec<&ArchiveReading>> = readings.iter().map(|(_, reading)| reading.as_ref().ok()).collect();
    let agreed = read.as_ref().and_then(|read| {
        let (first, rest) = read.split_first()?;
        rest.iter().all(|other| other.files == first.files).then_some(*first)
    });
    match (ours, agreed) {
        (Ok(ours), Some(agreed)) if ours == agreed.files => Ok("published as all read it".to_owned()),
        (Ok(ours), Some(agreed)) if is_symlink_difference(&ours, agreed) => Ok("published without symlinks".to_owned()),
        (Ok(ours), Some(agreed)) => Err(format!("all read {:?}, and we {:?}", agreed.files.keys(), ours.keys())),
        (Ok(_), None) => Ok("published, read in different ways".to_owned()),
        // An archive without a file is rejected, whatever else is wrong with it.
        (Err(_), Some(agreed)) if agreed.files.is_empty() => Ok("refused by a rule of ours".to_owned()),
        (Err(why), Some(_)) if RULES.iter().any(|rule| why.contains(rule)) => {
            Ok("refused by a rule of ours".to_owned())
        }
        (Err(why), Some(agreed)) => Err(format!("we refuse it: {why}: all read {:?}", agreed.files.keys())),
        (Err(_), None) if read.is_none() => Ok("refused by others too".to_owned()),
        (Err(_), None) => Ok("read in different ways".to_owned()),
    }
}

/// Returns whether a reading differs only by symlinks, which we skip, even in place of files and folders.
fn is_symlink_difference(ours: &FileHashes, agreed: &ArchiveReading) -> bool {
    let is_linked = |path: &str| agreed.links.iter().any(|link| path == link || path.starts_with(&format!("{link}/")));
    let rest = |files: &FileHashes| {
        files.iter().filter(|(path, _)| !is_linked(path)).map(|(p, h)| (p.clone(), h.clone())).collect::<FileHashes>()
    };
    !agreed.links.is_empty() && rest(ours) == rest(&agreed.files)
}

fn is_outside(name: &str) -> bool {
    name.starts_with('/') || name.split('/').any(|segment| segment == "..")
}

fn stored(tar: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(tar).expect("memory");
    gzip.finish().expect("memory")
}

/// Returns the mutation with this number.
fn mutation(seeds: &[Vec<u8>], number: usize) -> Vec<u8> {
    let mut random = Random(number as u64 ^ 0x7461_7221);
    let mut tar = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(3) {
        change(&mut random, &mut tar, seeds);
        if tar.len() < BLOCK {
            break;
        }
    }
    tar
}

fn change(random: &mut Random, tar: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let headers = headers(tar);
    let header = headers[random.below(headers.len())];
    match random.below(20) {
        0..=6 => set_field(random, tar, header),
        7 => {
            let at = header + random.below(BLOCK);
            tar[at] = u8::try_from(random.below(256)).expect("a byte");
            if random.below(8) > 0 {
                mend(&mut tar[header..header + BLOCK]);
            }
        }
        8 => {
            let at = random.below(tar.len());
            tar[at] ^= 1 << random.below(8);
        }
        9 => insert(tar, header, &entry(random)),
        10 => insert(tar, header, &announcement(random)),
        11 => {
            let (from, to) = (header, entry_end(tar, header));
            let copy = tar[from..to].to_vec();
            let at = headers[random.below(headers.len())];
            insert(tar, at, &copy);
        }
        12 => {
            let to = entry_end(tar, header);
            tar.drain(header..to);
        }
        13 => {
            let blocks = 1 + random.below(3);
            insert(tar, header, &vec![0; blocks * BLOCK]);
        }
        14 => {
            let at = random.below(tar.len() / BLOCK + 1) * BLOCK;
            tar.truncate(at);
        }
        15 => {
            let at = random.below(tar.len());
            tar.truncate(at);
        }
        16 => tar.extend_from_slice(&seeds[random.below(seeds.len())]),
        17 => {
            let other = &seeds[random.below(seeds.len())];
            let kept = entry_end(tar, *headers.last().expect("a header"));
            tar.truncate(kept);
            tar.extend_from_slice(other);
        }
        18 => {
            let garbage: Vec<u8> =
                (0..random.below(1_500)).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect();
            tar.extend_from_slice(&garbage);
        }
        _ => {
            let zeros = random.below(3_000);
            tar.resize(tar.len() + zeros, 0);
        }
    }
}

fn insert(tar: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    tar.splice(at..at, bytes.iter().copied());
}

/// Returns the offsets of headers, following their sizes.
fn headers(tar: &[u8]) -> Vec<usize> {
    let mut headers = Vec::new();
    let mut at = 0;
    while at + BLOCK <= tar.len() && tar[at..at + BLOCK].iter().any(|&b| b != 0) {
        headers.push(at);
        at = entry_end(tar, at);
    }
    if headers.is_empty() {
        headers.push(0);
    }
    headers
}

fn entry_end(tar: &[u8], header: usize) -> usize {
    let size = tar.get(header + 124..header + 136).and_then(|field| std::str::from_utf8(field).ok());
    let size = size.and_then(|size| usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).ok()).unwrap_or(0);
    let end = header.saturating_add(BLOCK).saturating_add(size.min(1 << 40).next_multiple_of(BLOCK));
    if end <= tar.len() { end } else { (header + BLOCK).min(tar.len()) }
}

fn set_field(random: &mut Random, tar: &mut [u8], header: usize) {
    let Some(block) = tar.get_mut(header..header + BLOCK) else { return };
    let (at, len, value): (usize, usize, Vec<u8>) = match random.below(10) {
        0..=2 => (124, 12, random.pick(NUMBERS).to_vec()),
        3..=4 => (156, 1, random.pick(KINDS).to_vec()),
        5..=6 => (0, 100, random.pick(NAMES).to_vec()),
        7 => (157, 100, random.pick(NAMES).to_vec()),
        8 => (345, 155, random.pick(PREFIXES).to_vec()),
        _ => (257, 8, random.pick(MAGICS).to_vec()),
    };
    block[at..at + len].fill(0);
    block[at..at + value.len().min(len)].copy_from_slice(&value[..value.len().min(len)]);
    match random.below(12) {
        0 => {}
        1 => {
            mend(block);
            let other: &[u8] = random.pick(&[b"       \0", b"0000000\0", b"\0\0\0\0\0\0\0\0", b"17777777"]);
            block[148..156].copy_from_slice(other);
        }
        2 => {
            mend(block);
            // Without the NUL, or with the space first.
            let sum: Vec<u8> = block[148..154].to_vec();
            block[148..156].copy_from_slice(&[b" ", &sum[..], b" "].concat());
        }
        _ => mend(block),
    }
}

const NUMBERS: &[&[u8]] = &[
    b"00000000000\0",
    b"00000000001\0",
    b"00000000004\0",
    b"00000001000\0",
    b"00000001001\0",
    b"00000010000\0",
    b"77777777777\0",
    b"777777777777",
    b"          5 ",
    b"5",
    b"5 ",
    b"",
    b"            ",
    b"\x80\0\0\0\0\0\0\0\0\0\0\x05",
    b"\x80\0\0\0\0\0\0\0\0\0\x02\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\x01\0\0\0\0\0\0\0\0\0\x05",
    b"\xc0\0\0\0\0\0\0\0\0\0\0\x05",
    b"-0000000001\0",
    b"+0000000001\0",
    b"00000000009\0",
    b"0x10\0",
    b"\x005",
    b"5\x005",
    b"0000000005a\0",
];
const KINDS: &[&[u8]] = &[
    b"\0", b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"g", b"x", b"L", b"K", b"S", b"M", b"N", b"V", b"D",
    b"X", b"A", b"Z", b" ", b"\xff",
];
const NAMES: &[&[u8]] = &[
    b"index.html",
    b"./index.html",
    b"new/page.html",
    b"new//./page.html",
    b"assets",
    b"assets/",
    b"assets/app.js",
    b"assets/app.js/below",
    b"a\0b",
    b"../outside",
    b"a/../../outside",
    b"a/../inside",
    b"/absolute",
    b"a\\b",
    b"..\\outside",
    b"",
    b".",
    b"./",
    b"a\nb",
    b"caf\xe9",
    b"caf\xc3\xa9",
    b"._index.html",
    b"C:/windows",
    b"trailing ",
    b" leading",
    b"...",
    &[b'n'; 100],
];
const PREFIXES: &[&[u8]] =
    &[b"", b"prefix", b"prefix/", b"/prefix", b"..", b"./.", b"a\0b", &[b'p'; 155], &[b'p'; 130]];
const MAGICS: &[&[u8]] =
    &[b"ustar\x0000", b"ustar  \0", b"ustar\0\0\0", b"ustar\x0001", b"\0\0\0\0\0\0\0\0", b"USTAR\x0000", b"ustar   "];

fn entry(random: &mut Random) -> Vec<u8> {
    let body: Vec<u8> = vec![b'x'; random.below(1_100)];
    with_header(random.pick(KINDS)[0], random.pick(NAMES), random.pick(NAMES), &body)
}

/// Returns an extended header for the next entry.
fn announcement(random: &mut Random) -> Vec<u8> {
    let name = random.pick(NAMES).to_vec();
    match random.below(6) {
        0 => with_header(b'L', b"././@LongLink", b"", &[&name[..], b"\0"].concat()),
        1 => with_header(b'K', b"././@LongLink", b"", &[&name[..], b"\0"].concat()),
        kind => {
            let mut records = Vec::new();
            for _ in 0..=random.below(2) {
                let key: &str = random.pick(&[
                    "path",
                    "path",
                    "linkpath",
                    "size",
                    "size",
                    "comment",
                    "mtime",
                    "hdrcharset",
                    "GNU.sparse.major",
                    "GNU.sparse.name",
                    "SCHILY.xattr.a",
                    "uid",
                ]);
                let value = match key {
                    "size" => random
                        .pick(&[&b"0"[..], b"1", b"5", b"512", b"1800", b"-1", b"", b"99999999999999999999", b"5 "])
                        .to_vec(),
                    "hdrcharset" => random.pick(&[&b"BINARY"[..], b"ISO-IR 10646 2000 UTF-8"]).to_vec(),
                    "mtime" => random.pick(&[&b"1"[..], b"-1.5", b"nan", b""]).to_vec(),
                    "uid" => b"1000".to_vec(),
                    _ => random.pick(NAMES).to_vec(),
                };
                records.extend(record(key, &value));
            }
            if random.below(10) == 0 {
                let at = random.below(records.len());
                records[at] ^= 1 << random.below(8);
            }
            with_header(if kind == 2 { b'g' } else { b'x' }, b"PaxHeaders/next", b"", &records)
        }
    }
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    corpus::tarball::pax_record(key, value)
}

fn with_header(kind: u8, name: &[u8], link: &[u8], body: &[u8]) -> Vec<u8> {
    let mut header = corpus::tarball::Header::new(kind, name, body.len() as u64);
    header.put(157, &link[..link.len().min(100)]);
    let mut entry = header.block().to_vec();
    entry.extend_from_slice(body);
    entry.resize(entry.len().next_multiple_of(BLOCK), 0);
    entry
}

fn mend(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}
