//! `up.json`: the file in which a running `make up` describes itself to programs on its machine.
//!
//! A folder may come from anywhere, as a clone does, and other users may write to the folders above it. So the file is
//! trusted only if it and its folder belong to the person, nobody else can write to them, and its addresses lead to
//! this machine.

use std::{
    fs::{File, Metadata},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use url::Url;

use crate::{credentials::is_this_machine, failure::Failure};

const UP_FILE: &str = "up.json";
/// The state folder of `make up`, unless `SVC_STATE_DIR` names another.
const STATE_FOLDER: &str = ".svc";
/// The maximum size of the file, which has a dozen short lines.
const BYTES: u64 = 64 * 1024;
/// The permission bits that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// The parts of a trusted `up.json` that the client uses.
#[derive(Debug)]
pub(crate) struct UpFile {
    pub(crate) file: PathBuf,
    pub(crate) base_url: Url,
    pub(crate) ai_url: Option<Url>,
    pub(crate) token: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
}

#[derive(Deserialize)]
struct UpFields {
    base_url: Url,
    ai_url: Option<Url>,
    token: Option<String>,
    ca_file: Option<PathBuf>,
}

/// Reads the `up.json` of a state folder. Returns `None` if there is none, and fails if it cannot be trusted.
pub(crate) fn named(state_folder: &Path) -> Result<Option<UpFile>, Failure> {
    let path = state_folder.join(UP_FILE);
    let refuse = |why: &str| Err(Failure::usage(format!("{} is not used: {why}.", path.display())).with_hint(ADVICE));
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return refuse(&error.to_string()),
    };
    // Metadata of the opened file, whatever now has its name.
    let (Ok(of_file), Ok(of_folder)) = (file.metadata(), state_folder.metadata()) else {
        return refuse("whose it is cannot be seen");
    };
    if !of_file.is_file() {
        return refuse("it is not a file");
    }
    let me = rustix::process::geteuid().as_raw();
    if !is_own(&of_file, me) || !is_own(&of_folder, me) {
        return refuse("it and its folder must belong to you, and only you may be allowed to write there");
    }
    let mut text = Vec::new();
    if let Err(error) = file.take(BYTES).read_to_end(&mut text) {
        return refuse(&error.to_string());
    }
    let Ok(UpFields { base_url, ai_url, token, ca_file }) = serde_json::from_slice(&text) else {
        return refuse("it is damaged");
    };
    if !is_this_machine(&base_url) || !ai_url.as_ref().is_none_or(is_this_machine) {
        return refuse("its addresses do not lead to this machine");
    }
    Ok(Some(UpFile { file: path, base_url, ai_url, token, ca_file }))
}

/// Reads the `up.json` of the nearest state folder, in `here` or above.
pub(crate) fn nearest(here: &Path) -> Result<Option<UpFile>, Failure> {
    for folder in here.ancestors() {
        if let Some(up) = named(&folder.join(STATE_FOLDER))? {
            return Ok(Some(up));
        }
    }
    Ok(None)
}

const ADVICE: &str = "If you trust the service, name its address: `svc login --api URL`, or SVC_API_URL and SVC_TOKEN.";

fn is_own(metadata: &Metadata, me: u32) -> bool {
    metadata.uid() == me && metadata.mode() & OTHERS_WRITE == 0
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn state(base_url: &str, ai_url: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(STATE_FOLDER)).unwrap();
        let file = dir.path().join(STATE_FOLDER).join(UP_FILE);
        fs::write(&file, serde_json::json!({ "base_url": base_url, "ai_url": ai_url, "token": "t" }).to_string())
            .unwrap();
        set_mode(&file, 0o600);
        set_mode(&dir.path().join(STATE_FOLDER), 0o711);
        dir
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    const API: &str = "https://api.svc.localhost:8443";

    #[test]
    fn addresses_of_this_machine_are_believed_and_no_others() {
        for (base, ai, is_believed) in [
            (API, "https://ai.svc.localhost:8443", true),
            ("http://127.0.0.1:1", "http://[::1]:2", true),
            ("http://localhost:1", "http://localhost:1", true),
            (API, "https://evil.example", false),
            ("https://evil.example", API, false),
            ("https://localhost.evil.example", API, false),
            ("https://localhost@evil.example", API, false),
            ("https://10.0.0.1", API, false),
        ] {
            let dir = state(base, ai);
            let found = nearest(dir.path());
            assert_eq!(found.is_ok_and(|up| up.is_some()), is_believed, "{base} {ai}");
        }
    }

    #[test]
    fn what_others_may_write_is_not_believed() {
        let file = Path::new(STATE_FOLDER).join(UP_FILE);
        for (path, mode, is_believed) in [
            (file.as_path(), 0o600, true),
            (&file, 0o644, true),
            (&file, 0o620, false),
            (&file, 0o602, false),
            (Path::new(STATE_FOLDER), 0o755, true),
            (Path::new(STATE_FOLDER), 0o775, false),
            (Path::new(STATE_FOLDER), 0o1777, false),
        ] {
            let dir = state(API, API);
            set_mode(&dir.path().join(path), mode);
            let found = nearest(dir.path());
            assert_eq!(found.is_ok_and(|up| up.is_some()), is_believed, "{} {mode:o}", path.display());
        }
    }

    #[test]
    fn a_file_belongs_to_its_owner_alone() {
        let dir = state(API, API);
        let metadata = dir.path().metadata().unwrap();
        assert!(is_own(&metadata, metadata.uid()));
        assert!(!is_own(&metadata, metadata.uid() + 1));
    }

    #[test]
    fn a_refusal_names_the_file_and_what_to_do() {
        let dir = state("https://evil.example", API);
        let failure = nearest(&dir.path().join("a")).unwrap_err();
        assert!(failure.message.contains(".svc/up.json") && failure.message.contains("this machine"), "{failure:?}");
        assert!(failure.hint.unwrap().contains("SVC_API_URL"));
        assert!(nearest(Path::new("/")).is_ok_and(|up| up.is_none()));
    }
}
