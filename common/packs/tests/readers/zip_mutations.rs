//! Randomly mutated zip archives. Programs locate the parts of a zip archive in many ways: every program that can read
//! an archive must read exactly what we publish.

use packs::archive::UploadFormat;
use sha2::{Digest as _, Sha256};

use crate::{ours, random::Random, theirs::ExternalReaders};

/// Signatures of archive parts.
const SIGNATURES: [&[u8; 4]; 6] =
    [b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"PK\x07\x08"];
/// Bytes of a part that are mutated.
const PART_BYTES: usize = 46;
const BYTES: [&[u8]; 9] = [b"\0", b"\x01", b"\x08", b"\x10", b"\xff", b"a", b"/", b"PK", b"\xff\xff\xff\xff"];

/// Mutates `count` archives and compares all readers.
pub(crate) fn judge(seeds: &[Vec<u8>], count: usize) {
    let mut readers = ExternalReaders::start();
    let (mut published, mut readings) = (0, 0);
    let empty = hex::encode(Sha256::digest(b""));
    let mut wrong = Vec::new();
    for number in 0..count {
        let zip = mutation(seeds, number);
        let Ok(ours) = ours::read(&zip, UploadFormat::Zip) else { continue };
        published += 1;
        let read = readers.read_all(&zip, UploadFormat::Zip);
        // Other names are guessed, and symlinks are only marked in the directory.
        let has_links = read.iter().any(|(_, read)| read.as_ref().is_ok_and(|read| !read.links.is_empty()));
        if has_links || !ours.keys().all(|path| path.is_ascii()) {
            continue;
        }
        for (reader, read) in read {
            // A program that cannot read the archive sees no other files in it.
            let Ok(read) = read else { continue };
            readings += 1;
            // A pipe or a device is skipped; most programs extract an empty file.
            let is_same = ours.iter().all(|(path, hash)| read.files.get(path) == Some(hash))
                && read.files.iter().all(|(path, hash)| ours.contains_key(path) || *hash == empty);
            if !is_same {
                if let Some(folder) = std::env::var_os("SVC_TEST_KEEP") {
                    let path = std::path::Path::new(&folder).join(format!("{number}.zip"));
                    std::fs::write(path, &zip).expect("written");
                }
                let (theirs, ours) = (read.files.keys(), ours.keys());
                wrong.push(format!("mutation {number}: {reader} reads {theirs:?}, and we {ours:?}"));
            }
        }
    }
    println!("{count} mutations of {} zip archives: {published} published, {readings} readings", seeds.len());
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(published > count / 20, "{published} of {count} were published");
}

fn mutation(seeds: &[Vec<u8>], number: usize) -> Vec<u8> {
    let mut random = Random(number as u64 ^ 0x7a69_7021);
    let mut zip = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(2) {
        change(&mut random, &mut zip, seeds);
    }
    zip
}

fn change(random: &mut Random, zip: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let parts = parts(zip);
    let part = parts[random.below(parts.len())];
    let other = parts[random.below(parts.len())];
    match random.below(12) {
        0..=3 => set(zip, part + 4 + random.below(PART_BYTES), random.pick(&BYTES)),
        4..=5 => {
            // The same field in the local header and in the directory, where it is two bytes further on.
            let (at, bytes) = (4 + random.below(26), random.pick(&BYTES));
            let entry = random.below(64);
            for (signature, further) in [(SIGNATURES[0], 0), (SIGNATURES[1], 2)] {
                let same: Vec<usize> = parts.iter().copied().filter(|&at| zip[at..].starts_with(signature)).collect();
                if let Some(part) = same.get(entry % same.len().max(1)) {
                    set(zip, part + at + further, bytes);
                }
            }
        }
        6 => {
            let bytes = zip[part.min(other)..part.max(other)].to_vec();
            let at = parts[random.below(parts.len())];
            insert(random, zip, at, &bytes);
        }
        7 => {
            let bytes = seeds[random.below(seeds.len())].clone();
            let at = [part, 0, zip.len()][random.below(3)];
            insert(random, zip, at, &bytes);
        }
        8 => {
            let bytes = vec![u8::try_from(random.below(3)).expect("small"); 1 + random.below(40)];
            insert(random, zip, part, &bytes);
        }
        9 => drop(zip.drain(part.min(other)..part.max(other))),
        10 => {
            let zeros = random.below(3_000);
            zip.resize(zip.len() + zeros, 0);
        }
        _ => {
            let comment = random.pick::<[u8]>(&[b"PK\x05\x06", b"plain", &[0; 30]]);
            if let Some(end) = zip.windows(4).rposition(|bytes| bytes == SIGNATURES[2]) {
                set(zip, end + 20, &[u8::try_from(comment.len()).expect("short"), 0]);
                zip.extend_from_slice(comment);
            }
        }
    }
}

fn set(zip: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(there) = zip.get_mut(at..at + bytes.len()) {
        there.copy_from_slice(bytes);
    }
}

/// Inserts bytes, and mostly adjusts the offsets of what follows.
fn insert(random: &mut Random, zip: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    zip.splice(at..at, bytes.iter().copied());
    if random.below(4) == 0 {
        return;
    }
    for part in parts(zip) {
        let field = match &zip[part..part + 4] {
            signature if signature == SIGNATURES[1] => part + 42,
            signature if signature == SIGNATURES[2] => part + 16,
            _ => continue,
        };
        let Some(offset) = zip.get(field..field + 4).and_then(|field| field.try_into().ok()).map(u32::from_le_bytes)
        else {
            continue;
        };
        if offset as usize >= at && offset != u32::MAX {
            let moved = offset.wrapping_add(u32::try_from(bytes.len()).expect("small"));
            set(zip, field, &moved.to_le_bytes());
        }
    }
}

/// Returns the offsets of the archive's parts.
fn parts(zip: &[u8]) -> Vec<usize> {
    let is_part = |bytes: &[u8]| SIGNATURES.iter().any(|signature| bytes == *signature);
    let found: Vec<usize> = zip.windows(4).enumerate().filter(|(_, bytes)| is_part(bytes)).map(|(at, _)| at).collect();
    if found.is_empty() { vec![0] } else { found }
}
