//! `cargo run -p corpus --example seeds -- FOLDER`: writes the smaller cases as files, for the fuzzer to begin with.

use std::{env, fs, io::Read as _, path::PathBuf, process::exit};

/// Larger inputs only slow the fuzzer down.
const LARGEST: usize = 64 * 1024;

#[expect(clippy::print_stderr, reason = "this is a program for a person")]
fn main() -> std::io::Result<()> {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: seeds FOLDER");
        exit(2);
    };
    fs::create_dir_all(&folder)?;
    for case in corpus::cases() {
        // The form is tried by the fuzzer, whatever it is here.
        // The tar inside as well: the fuzzer cannot change what is compressed.
        let mut tar = Vec::new();
        let most = u64::try_from(LARGEST).unwrap_or_default() + 1;
        let _ = flate2::read::GzDecoder::new(&case.bytes[..]).take(most).read_to_end(&mut tar);
        for (name, bytes) in [(case.name.clone(), case.bytes), (format!("{}.tar", case.name), tar)] {
            if bytes.len() <= LARGEST {
                fs::write(folder.join(name), bytes)?;
            }
        }
    }
    Ok(())
}
