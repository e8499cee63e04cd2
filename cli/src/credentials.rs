//! The API's address and the token to use there.
//!
//! Saved logins are in one file under the XDG configuration folder, readable only by its owner, one login per API
//! address. A `make up` that runs on this machine needs no login: its `up.json` ([`crate::up`]) names the address, the
//! CA and a token. These three belong together and are never combined with a token or a login from elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use domain::{
    BRAND,
    token::{TokenHash, TokenSecret},
};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::{
    failure::Failure,
    up::{self, UpFile},
};

const KNOWN_UP_FILES: usize = 100;

/// The part of a connection that the command line and the environment determine.
#[derive(Debug, Default)]
pub(crate) struct ConnectionOptions {
    pub(crate) api: Option<Url>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) token: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) api: Url,
    pub(crate) token: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
    /// The `up.json` that provided this address, if any.
    pub(crate) up_file: Option<PathBuf>,
    /// The AI gateway's address, if the login or `up.json` provides it.
    pub(crate) ai: Option<Url>,
    pub(crate) voice: RequestOutput,
}

/// Which messages about requests in progress are printed on stderr.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RequestOutput {
    /// Whether to print every request and its response.
    pub(crate) is_verbose: bool,
    /// Whether a person watches who may wonder about a long pause.
    pub(crate) is_watched: bool,
}

/// The file of saved logins.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoginStore {
    default_api: Option<Url>,
    #[serde(default, rename = "logins")]
    by_api: BTreeMap<String, SavedLogin>,
    /// The AI keys that svc created for itself, by API address and owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ai_keys: BTreeMap<String, String>,
    /// The `up.json` files near a working folder that the person has been shown.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    known_up_files: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedLogin {
    pub(crate) token: String,
    pub(crate) vcs_login: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// Where an `up.json` may come from.
#[derive(Debug, Clone, Copy)]
enum UpFileSource<'p> {
    /// The state folder that `SVC_STATE_DIR` names.
    Named(&'p Path),
    /// The folder that the command runs in, or one above it. Its author is unknown, so it is used only when a person is
    /// there to read which file was used.
    Near(&'p Path),
    /// Nowhere, because no person is there to read the message.
    Nowhere,
}

impl Connection {
    /// Chooses the address: `--api` or `SVC_API_URL`, the state folder that `SVC_STATE_DIR` names, the saved login, and
    /// on a terminal a `make up` in this folder or above. And the token: `SVC_TOKEN`, the login at that address, `make
    /// up`'s own.
    pub(crate) fn find(wanted: ConnectionOptions) -> anyhow::Result<Self> {
        let state_dir = env::var_os("SVC_STATE_DIR").map(PathBuf::from);
        let here = env::current_dir()?;
        let place = match &state_dir {
            Some(dir) => UpFileSource::Named(dir),
            None if io::stderr().is_terminal() => UpFileSource::Near(&here),
            None => UpFileSource::Nowhere,
        };
        Self::choose(wanted, &LoginStore::load(&file()?)?, place)
    }

    fn choose(wanted: ConnectionOptions, logins: &LoginStore, place: UpFileSource<'_>) -> anyhow::Result<Self> {
        // With a token from elsewhere, nothing of the file is used, least of all its address.
        let named = match place {
            UpFileSource::Named(dir) if wanted.token.is_none() => up::named(dir)?,
            _ => None,
        };
        let address =
            wanted.api.or_else(|| named.as_ref().map(|up| up.base_url.clone())).or_else(|| logins.default_api.clone());
        let up = match (place, &address) {
            (UpFileSource::Near(here), address) if wanted.token.is_none() => match up::nearest(here) {
                // An untrusted file matters only if there is no other address.
                Err(_) if address.is_some() => None,
                found => found?,
            },
            _ => named,
        };
        let api = address
            .or_else(|| up.as_ref().map(|up| up.base_url.clone()))
            .ok_or_else(|| no_address(wanted.token.is_some(), place))?;
        check_is_encrypted(&api)?;
        let login = logins.at(&api);
        let has_credentials = wanted.token.is_some() || login.is_some();
        let Some(up) = up.filter(|up| !has_credentials && same_place(&up.base_url, &api)) else {
            return Ok(Self {
                token: wanted.token.or_else(|| login.map(|login| login.token.clone())),
                ca_file: wanted.ca_file.or_else(|| login.and_then(|login| login.ca_file.clone())),
                up_file: None,
                ai: None,
                voice: RequestOutput::default(),
                api,
            });
        };
        let UpFile { file, ai_url, token, ca_file, .. } = up;
        let ca_file = wanted.ca_file.or(ca_file);
        Ok(Self { api, token, ca_file, up_file: Some(file), ai: ai_url, voice: RequestOutput::default() })
    }

    /// Returns the AI gateway's address: the configured one, or the API's with `ai.` in place of `api.`.
    pub(crate) fn gateway(&self) -> Result<Url, Failure> {
        if let Some(ai) = &self.ai {
            check_is_encrypted(ai)?;
            return Ok(ai.clone());
        }
        let beside = || {
            let mut ai = self.api.clone();
            let domain = self.api.host_str()?.strip_prefix("api.")?;
            ai.set_host(Some(&format!("ai.{domain}"))).ok()?;
            Some(ai)
        };
        beside().ok_or_else(|| {
            Failure::usage("The AI gateway's address is not known.").with_hint("Name it with --ai-url or SVC_AI_URL.")
        })
    }

    /// Returns the name under which the AI key for this connection is saved. It depends on the token, because another
    /// token may belong to another person.
    fn ai_key_name(&self) -> String {
        let token = self.token.as_deref().and_then(TokenSecret::parse).map(|secret| secret.hash());
        let bytes = token.iter().flat_map(TokenHash::as_bytes).take(8);
        let whose: String = bytes.fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        format!("{} {whose}", key(&self.api))
    }
}

impl LoginStore {
    pub(crate) fn load(file: &Path) -> anyhow::Result<Self> {
        match fs::read(file) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("{} is damaged; delete it and run `svc login`", file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("Cannot read {}", file.display())),
        }
    }

    /// Replaces the file atomically, readable only by its owner from the first byte on.
    pub(crate) fn save(&self, file: &Path) -> anyhow::Result<()> {
        let save = || -> anyhow::Result<()> {
            let folder = file.parent().context("it has no folder")?;
            fs::create_dir_all(folder)?;
            // tempfile creates files with mode 0600.
            let mut new = tempfile::NamedTempFile::new_in(folder)?;
            new.write_all(&serde_json::to_vec_pretty(self)?)?;
            new.persist(file)?;
            Ok(())
        };
        save().with_context(|| format!("Cannot save {}", file.display()))
    }

    /// Saves the login and makes its address the default.
    pub(crate) fn insert(&mut self, api: &Url, saved: SavedLogin) {
        self.by_api.insert(key(api), saved);
        self.default_api = Some(api.clone());
    }

    pub(crate) fn remove(&mut self, api: &Url) -> Option<SavedLogin> {
        if self.default_api.as_ref().is_some_and(|default| same_place(default, api)) {
            self.default_api = None;
        }
        let of_api = format!("{} ", key(api));
        self.ai_keys.retain(|name, _| !name.starts_with(&of_api));
        self.by_api.remove(&key(api))
    }

    /// Records that the person has been shown this `up.json`; returns false if it was recorded before.
    pub(crate) fn remember_up_file(&mut self, up_file: &Path) -> bool {
        if self.known_up_files.len() >= KNOWN_UP_FILES {
            self.known_up_files.pop_first();
        }
        self.known_up_files.insert(up_file.to_owned())
    }

    pub(crate) fn ai_key(&self, connection: &Connection) -> Option<&str> {
        self.ai_keys.get(&connection.ai_key_name()).map(String::as_str)
    }

    pub(crate) fn keep_ai_key(&mut self, connection: &Connection, secret: String) {
        self.ai_keys.insert(connection.ai_key_name(), secret);
    }

    fn at(&self, api: &Url) -> Option<&SavedLogin> {
        self.by_api.get(&key(api))
    }
}

pub(crate) fn file() -> anyhow::Result<PathBuf> {
    let folder = env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .or_else(|| env::home_dir().map(|home| home.join(".config")))
        .ok_or_else(|| {
            Failure::usage("There is no home folder to keep logins in; set XDG_CONFIG_HOME or SVC_TOKEN.")
        })?;
    Ok(folder.join(BRAND).join("credentials.json"))
}

fn key(api: &Url) -> String {
    api.as_str().trim_end_matches('/').to_owned()
}

fn same_place(one: &Url, other: &Url) -> bool {
    key(one) == key(other)
}

/// Refuses an address over plain HTTP, which would send the token unencrypted.
fn check_is_encrypted(api: &Url) -> Result<(), Failure> {
    match api.scheme() {
        "https" => Ok(()),
        "http" if is_this_machine(api) => Ok(()),
        "http" => Err(Failure::usage(format!("{api} would send your token unencrypted; use its https:// address."))),
        _ => Err(Failure::usage(format!("{api} is not an https:// address."))),
    }
}

/// Returns whether an address leads to this machine, judging by its host: loopback, or a name below `localhost`.
pub(crate) fn is_this_machine(address: &Url) -> bool {
    match address.host() {
        Some(Host::Domain(name)) => is_localhost(name),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// Returns whether `name` is `localhost` or a name below it, which RFC 6761 reserves for this machine.
pub(crate) fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
}

fn no_address(has_token: bool, place: UpFileSource<'_>) -> Failure {
    let failure = Failure::not_signed_in("No API address is known.");
    match place {
        UpFileSource::Named(_) if has_token => failure.with_hint(
            "SVC_TOKEN is never sent to the address of a `make up`; say where it belongs with SVC_API_URL, or unset it.",
        ),
        UpFileSource::Near(_) | UpFileSource::Named(_) => failure
            .with_hint("Run `svc login --api https://api.example.com`, set SVC_API_URL, or start one here with `make up`."),
        UpFileSource::Nowhere => failure.with_hint(
            "Set SVC_API_URL (and SVC_TOKEN), or run `svc login --api https://api.example.com`. Without a terminal, a \
             `make up` is found only by SVC_STATE_DIR.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const API: &str = "https://api.svc.localhost:8443";

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn state(api: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(".svc");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o711)).unwrap();
        let up = serde_json::json!({
            "base_url": api, "ai_url": "https://models.svc.localhost:8443", "token": "of-make-up", "ca_file": "/ca.pem",
            "pids": {"edge": 1},
        });
        fs::write(folder.join("up.json"), up.to_string()).unwrap();
        fs::set_permissions(folder.join("up.json"), fs::Permissions::from_mode(0o600)).unwrap();
        dir
    }

    fn found(wanted: ConnectionOptions, logins: &LoginStore, place: UpFileSource<'_>) -> Connection {
        Connection::choose(wanted, logins, place).unwrap()
    }

    fn with_token() -> ConnectionOptions {
        ConnectionOptions { token: Some("said".into()), ..ConnectionOptions::default() }
    }

    fn logins(api: &str) -> LoginStore {
        let mut logins = LoginStore::default();
        logins.insert(&url(api), SavedLogin { token: "saved".into(), vcs_login: Some("ann".into()), ca_file: None });
        logins
    }

    #[test]
    fn a_running_make_up_needs_no_login() {
        let dir = state(API);
        let below = dir.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        for place in [UpFileSource::Near(&below), UpFileSource::Named(&dir.path().join(".svc"))] {
            let found = found(ConnectionOptions::default(), &LoginStore::default(), place);
            assert_eq!(found.api, url(API));
            assert_eq!(found.token.as_deref(), Some("of-make-up"));
            assert_eq!(found.ca_file.as_deref(), Some(Path::new("/ca.pem")));
            assert_eq!(found.ai, Some(url("https://models.svc.localhost:8443")));
            assert!(found.up_file.is_some_and(|file| file.ends_with(".svc/up.json")), "it is named to the person");
        }
    }

    #[test]
    fn without_a_person_only_a_named_make_up_counts() {
        let error = Connection::choose(ConnectionOptions::default(), &LoginStore::default(), UpFileSource::Nowhere)
            .unwrap_err();
        assert!(crate::failure::from_error(&error).hint.unwrap().contains("SVC_STATE_DIR"));
    }

    #[test]
    fn a_file_from_elsewhere_gets_neither_a_token_nor_a_login_nor_is_its_ca_trusted() {
        // Addresses that a cloned repository could contain: on this machine, or anywhere.
        for foreign in [API, "http://127.0.0.1:9911", "https://api.example.com", "https://evil.example"] {
            let dir = state(foreign);
            let logins = logins("https://api.example.com");
            let known = ConnectionOptions { api: Some(url("https://api.example.com")), ..ConnectionOptions::default() };
            for wanted in [ConnectionOptions::default(), known] {
                let found = found(wanted, &logins, UpFileSource::Near(dir.path()));
                assert_eq!((&found.api, found.token.as_deref()), (&url("https://api.example.com"), Some("saved")));
                assert_eq!((found.ai, found.ca_file, found.up_file), (None, None, None), "{foreign}");
            }
            for place in
                [UpFileSource::Near(dir.path()), UpFileSource::Named(&dir.path().join(".svc")), UpFileSource::Nowhere]
            {
                let error = Connection::choose(with_token(), &LoginStore::default(), place).unwrap_err();
                assert_eq!(
                    crate::failure::from_error(&error).kind,
                    crate::failure::FailureClass::NotSignedIn,
                    "{foreign}"
                );
                let found = found(with_token(), &logins, place);
                assert_eq!((found.api, found.ca_file, found.ai), (url("https://api.example.com"), None, None));
                let there = ConnectionOptions { api: Some(url(API)), ..with_token() };
                let found = Connection::choose(there, &logins, place).unwrap();
                assert_eq!((found.token.as_deref(), found.ca_file, found.ai), (Some("said"), None, None));
            }
        }
    }

    #[test]
    fn the_gateway_is_beside_the_api_unless_it_is_named() {
        let wanted = ConnectionOptions { api: Some(url(API)), ..ConnectionOptions::default() };
        let mut found = found(wanted, &LoginStore::default(), UpFileSource::Nowhere);
        assert_eq!(found.gateway().unwrap(), url("https://ai.svc.localhost:8443"));
        found.api = url("https://127.0.0.1:8443");
        assert!(found.gateway().is_err());
        found.ai = Some(url("http://models.example"));
        assert!(found.gateway().is_err(), "a key would travel in the clear");
        found.ai = Some(url("https://models.example"));
        assert_eq!(found.gateway().unwrap(), url("https://models.example"));
    }

    #[test]
    fn an_ai_key_is_kept_for_whom_it_was_made() {
        let token = |letter: &str| Some(format!("svc_{}", letter.repeat(43)));
        let connection = |token| Connection {
            api: url(API),
            token,
            ca_file: None,
            up_file: None,
            ai: None,
            voice: RequestOutput::default(),
        };
        let mut saved = logins(API);
        saved.keep_ai_key(&connection(token("a")), "key".into());
        assert_eq!(saved.ai_key(&connection(token("a"))), Some("key"));
        assert_eq!(saved.ai_key(&connection(token("b"))), None);
        saved.remove(&url(API));
        assert_eq!(saved, LoginStore::default());
    }

    #[test]
    fn what_is_said_aloud_wins() {
        let dir = state(API);
        let wanted =
            ConnectionOptions { api: Some(url("https://api.example.com")), token: Some("said".into()), ca_file: None };
        let found = found(wanted, &logins(API), UpFileSource::Near(dir.path()));
        assert_eq!((found.api, found.token.as_deref()), (url("https://api.example.com"), Some("said")));
        assert_eq!(found.ca_file, None, "the CA of another place is not trusted here");
    }

    #[test]
    fn a_saved_login_beats_a_make_up_that_happens_to_be_near_but_not_one_that_is_named() {
        let dir = state(API);
        let logins = logins("https://api.example.com");
        let near = found(ConnectionOptions::default(), &logins, UpFileSource::Near(dir.path()));
        assert_eq!((near.api, near.token.as_deref()), (url("https://api.example.com"), Some("saved")));
        let named = found(ConnectionOptions::default(), &logins, UpFileSource::Named(&dir.path().join(".svc")));
        assert_eq!((named.api, named.token.as_deref()), (url(API), Some("of-make-up")));
    }

    #[test]
    fn a_login_at_make_up_is_used_in_place_of_all_that_its_file_says() {
        let dir = state(API);
        let mut logins = LoginStore::default();
        let saved = SavedLogin { token: "saved".into(), vcs_login: None, ca_file: Some("/of-login.pem".into()) };
        logins.insert(&url(API), saved);
        for place in [UpFileSource::Near(dir.path()), UpFileSource::Named(&dir.path().join(".svc"))] {
            let found = found(ConnectionOptions::default(), &logins, place);
            assert_eq!((found.api, found.token.as_deref()), (url(API), Some("saved")));
            assert_eq!(found.ca_file.as_deref(), Some(Path::new("/of-login.pem")));
            assert_eq!((found.up_file, found.ai), (None, None));
        }
    }

    #[test]
    fn without_any_address_the_next_step_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error =
            Connection::choose(ConnectionOptions::default(), &LoginStore::default(), UpFileSource::Named(dir.path()))
                .unwrap_err();
        assert!(crate::failure::from_error(&error).hint.unwrap().contains("svc login"));
    }

    #[test]
    fn tokens_do_not_travel_in_the_clear() {
        assert!(check_is_encrypted(&url("http://api.example.com")).is_err());
        assert!(check_is_encrypted(&url("ftp://api.example.com")).is_err());
        for local in ["http://127.0.0.1:1", "http://[::1]:1", "http://api.svc.localhost:8080", "https://x.example"] {
            assert!(check_is_encrypted(&url(local)).is_ok(), "{local}");
        }
    }

    #[test]
    fn logins_survive_a_round_trip_and_only_their_owner_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("svc/credentials.json");
        assert_eq!(LoginStore::load(&file).unwrap(), LoginStore::default());
        let mut saved = logins(API);
        saved.save(&file).unwrap();
        assert_eq!(LoginStore::load(&file).unwrap(), saved);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(saved.remove(&url("https://api.svc.localhost:8443/")).is_some());
        assert_eq!(saved, LoginStore::default());
    }
}
