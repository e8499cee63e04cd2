//! Checks the properties with the seeds of the fuzz targets, mutations of them, and random input.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use proptest::prelude::*;

use super::*;

/// The number of mutations per seed.
const MUTATIONS: usize = 400;

static WIRE: LazyLock<WireChecks> = LazyLock::new(|| WireChecks::new().unwrap());

#[test]
fn fields_are_those_that_serde_finds() {
    check_seeds("gateway_fields", WireChecks::check_fields);
}

#[test]
fn streams_are_relayed_alike_however_they_are_cut() {
    check_seeds("gateway_frames", |input| WIRE.check_frames(input));
}

#[test]
fn requests_are_sent_as_they_were_judged() {
    check_seeds("gateway_request", |body| WIRE.check_request(body));
}

proptest! {
    #[test]
    fn the_properties_hold_of_arbitrary_bytes(input: Vec<u8>) {
        WireChecks::check_fields(&input).unwrap();
        WIRE.check_frames(&input).unwrap();
        WIRE.check_request(&input).unwrap();
    }

    #[test]
    fn the_fields_of_arbitrary_objects_are_found(object: BTreeMap<String, Vec<Option<f64>>>) {
        WireChecks::check_fields(&serde_json::to_vec(&object).unwrap()).unwrap();
    }
}

/// Checks the seeds of a fuzz target, and mutations of them.
fn check_seeds(target: &str, holds: impl Fn(&[u8]) -> Result<(), PropertyViolation>) {
    let words = words();
    let mut chance = Chance(0x0123_4567_89ab_cdef);
    let mut files: Vec<_> =
        fs::read_dir(fuzz().join("seeds").join(target)).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let seed = fs::read(&file).unwrap();
        let mut input = seed.clone();
        for _ in 0..MUTATIONS {
            if let Err(violation) = holds(&input) {
                panic!("{}, as {}: {violation}", file.display(), input.escape_ascii());
            }
            input = mutate(&seed, &words, &mut chance);
        }
    }
}

fn mutate(seed: &[u8], words: &[String], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=chance.below(5) {
        let at = chance.below(bytes.len() + 1);
        let to = (at + chance.below(16)).min(bytes.len());
        match chance.below(5) {
            0 => drop(bytes.drain(at..to)),
            1 => bytes.insert(at, u8::try_from(chance.below(256)).unwrap()),
            2 => {
                let copied = bytes[at..to].to_vec();
                let other = chance.below(bytes.len() + 1);
                bytes.splice(other..other, copied).for_each(drop);
            }
            3 => {
                let word = &words[chance.below(words.len())];
                bytes.splice(at..at, word.bytes()).for_each(drop);
            }
            _ if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            _ => {}
        }
    }
    bytes
}

/// Returns the words of the fuzzer's dictionary. Its escapes are JSON's, except for `\x0a`.
fn words() -> Vec<String> {
    let text = fs::read_to_string(fuzz().join("gateway.dict")).unwrap();
    let lines = text.lines().filter(|line| line.starts_with('"'));
    lines.map(|line| serde_json::from_str(&line.replace("\\x", "\\u00")).unwrap()).collect()
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Reproducible random numbers (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % end
    }
}
