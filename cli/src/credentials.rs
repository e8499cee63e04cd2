//! The API's address and the token to use there.
//!
//! Saved logins live in one file under the XDG configuration folder, readable by its owner alone, one login per API
//! address. A `make up` that runs on this machine needs no login: its `up.json` names the address, the CA and a token.

use std::{
    collections::BTreeMap,
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use domain::{
    BRAND,
    token::{TokenHash, TokenSecret},
};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::failure::Failure;

const UP_FILE: &str = "up.json";
/// The state folder of `make up`, unless `SVC_STATE_DIR` names another.
const STATE_FOLDER: &str = ".svc";

/// The part of a connection that the command line and the environment determine.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) api: Option<Url>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) token: Option<String>,
}

/// An API address, the certificate authority to trust there, and the token to present.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) api: Url,
    pub(crate) token: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
    /// The `up.json` that named this address, when one did.
    pub(crate) up_file: Option<PathBuf>,
    /// The AI gateway's address, when the login or `up.json` names it.
    pub(crate) ai: Option<Url>,
}

/// The saved logins, as their file holds them.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Logins {
    /// The address of the latest login.
    default_api: Option<Url>,
    #[serde(default, rename = "logins")]
    by_api: BTreeMap<String, Saved>,
    /// The AI keys that svc made for itself, by API address and by whom they were made for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ai_keys: BTreeMap<String, String>,
}

/// A login at one API address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) token: String,
    pub(crate) vcs_login: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// The fields of `make up`'s `up.json` that the client reads.
#[derive(Debug, Deserialize)]
struct Up {
    base_url: Url,
    ai_url: Option<Url>,
    token: Option<String>,
    ca_file: Option<PathBuf>,
}

impl Connection {
    /// Address: `--api` or `SVC_API_URL`, the state folder that `SVC_STATE_DIR` names, the saved login, a `make up` in
    /// this folder or above. Token: `SVC_TOKEN`, the login at that address, `make up`'s own.
    pub(crate) fn find(wanted: Wanted) -> anyhow::Result<Self> {
        let state_dir = env::var_os("SVC_STATE_DIR").map(PathBuf::from);
        Self::choose(wanted, &Logins::load(&file()?)?, state_dir.as_deref(), &env::current_dir()?)
    }

    fn choose(wanted: Wanted, logins: &Logins, state_dir: Option<&Path>, here: &Path) -> anyhow::Result<Self> {
        let up = match state_dir {
            Some(dir) => read_up(&dir.join(UP_FILE))?,
            None => nearest_up(here)?,
        };
        let api = wanted
            .api
            .or_else(|| state_dir.and(up.as_ref()).map(|(_, up)| up.base_url.clone()))
            .or_else(|| logins.default_api.clone())
            .or_else(|| up.as_ref().map(|(_, up)| up.base_url.clone()))
            .ok_or_else(|| {
                Failure::not_signed_in("No API address is known.").with_hint(
                    "Run `svc login --api https://api.example.com`, set SVC_API_URL, or start one here with `make up`.",
                )
            })?;
        check(&api)?;
        let up = up.filter(|(_, up)| same_place(&up.base_url, &api));
        let login = logins.at(&api);
        let (up_file, up) = up.unzip();
        let ai = up.as_ref().and_then(|up| up.ai_url.clone());
        Ok(Self {
            token: wanted
                .token
                .or_else(|| login.map(|login| login.token.clone()))
                .or_else(|| up.as_ref().and_then(|up| up.token.clone())),
            ca_file: wanted
                .ca_file
                .or_else(|| up.and_then(|up| up.ca_file))
                .or_else(|| login.and_then(|login| login.ca_file.clone())),
            up_file,
            ai,
            api,
        })
    }

    /// The AI gateway's address: the one that was named, or the API's with `ai.` in place of `api.`.
    pub(crate) fn gateway(&self) -> Result<Url, Failure> {
        if let Some(ai) = &self.ai {
            check(ai)?;
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

    /// The name under which an AI key for this connection is saved. It depends on the token: another token may be
    /// another person's.
    fn ai_key_name(&self) -> String {
        let token = self.token.as_deref().and_then(TokenSecret::parse).map(|secret| secret.hash());
        let bytes = token.iter().flat_map(TokenHash::as_bytes).take(8);
        let whose: String = bytes.fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        format!("{} {whose}", key(&self.api))
    }
}

impl Logins {
    pub(crate) fn load(file: &Path) -> anyhow::Result<Self> {
        match fs::read(file) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("{} is damaged; delete it and run `svc login`", file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("Cannot read {}", file.display())),
        }
    }

    /// Replaces the file as a whole, readable by its owner alone from the first byte on.
    pub(crate) fn save(&self, file: &Path) -> anyhow::Result<()> {
        let save = || -> anyhow::Result<()> {
            let folder = file.parent().context("it has no folder")?;
            fs::create_dir_all(folder)?;
            // tempfile makes its files 0600.
            let mut new = tempfile::NamedTempFile::new_in(folder)?;
            new.write_all(&serde_json::to_vec_pretty(self)?)?;
            new.persist(file)?;
            Ok(())
        };
        save().with_context(|| format!("Cannot save {}", file.display()))
    }

    /// Remembers the login; its address becomes the default.
    pub(crate) fn insert(&mut self, api: &Url, saved: Saved) {
        self.by_api.insert(key(api), saved);
        self.default_api = Some(api.clone());
    }

    /// Forgets the login at this address.
    pub(crate) fn remove(&mut self, api: &Url) -> Option<Saved> {
        if self.default_api.as_ref().is_some_and(|default| same_place(default, api)) {
            self.default_api = None;
        }
        let of_api = format!("{} ", key(api));
        self.ai_keys.retain(|name, _| !name.starts_with(&of_api));
        self.by_api.remove(&key(api))
    }

    /// The saved AI key for this connection.
    pub(crate) fn ai_key(&self, connection: &Connection) -> Option<&str> {
        self.ai_keys.get(&connection.ai_key_name()).map(String::as_str)
    }

    /// Saves an AI key for this connection.
    pub(crate) fn keep_ai_key(&mut self, connection: &Connection, secret: String) {
        self.ai_keys.insert(connection.ai_key_name(), secret);
    }

    fn at(&self, api: &Url) -> Option<&Saved> {
        self.by_api.get(&key(api))
    }
}

/// The path of the file that logins are saved in.
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

/// Refuses an address over plain HTTP, where a token would travel unencrypted.
fn check(api: &Url) -> Result<(), Failure> {
    let local = match api.host() {
        Some(Host::Domain(name)) => is_localhost(name),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    match api.scheme() {
        "https" => Ok(()),
        "http" if local => Ok(()),
        "http" => Err(Failure::usage(format!("{api} would send your token unencrypted; use its https:// address."))),
        _ => Err(Failure::usage(format!("{api} is not an https:// address."))),
    }
}

/// Whether `host` is `localhost` or a name below it, which RFC 6761 reserves for this machine.
pub(crate) fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
}

fn nearest_up(here: &Path) -> anyhow::Result<Option<(PathBuf, Up)>> {
    for folder in here.ancestors() {
        if let Some(up) = read_up(&folder.join(STATE_FOLDER).join(UP_FILE))? {
            return Ok(Some(up));
        }
    }
    Ok(None)
}

fn read_up(file: &Path) -> anyhow::Result<Option<(PathBuf, Up)>> {
    let Ok(text) = fs::read(file) else {
        return Ok(None);
    };
    let up = serde_json::from_slice(&text).with_context(|| format!("{} is damaged; run `make up`", file.display()))?;
    Ok(Some((file.to_owned(), up)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "https://api.svc.localhost:8443";

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn state(api: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".svc")).unwrap();
        let up = serde_json::json!({"base_url": api, "token": "of-make-up", "ca_file": "/ca.pem", "pids": {"edge": 1}});
        fs::write(dir.path().join(".svc/up.json"), up.to_string()).unwrap();
        dir
    }

    fn logins(api: &str) -> Logins {
        let mut logins = Logins::default();
        logins.insert(&url(api), Saved { token: "saved".into(), vcs_login: Some("ann".into()), ca_file: None });
        logins
    }

    #[test]
    fn a_running_make_up_needs_no_login() {
        let dir = state(API);
        let below = dir.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        let found = Connection::choose(Wanted::default(), &Logins::default(), None, &below).unwrap();
        assert_eq!(found.api, url(API));
        assert_eq!(found.token.as_deref(), Some("of-make-up"));
        assert_eq!(found.ca_file.as_deref(), Some(Path::new("/ca.pem")));
    }

    #[test]
    fn the_gateway_is_beside_the_api_unless_it_is_named() {
        let wanted = Wanted { api: Some(url(API)), ..Wanted::default() };
        let mut found = Connection::choose(wanted, &Logins::default(), None, Path::new("/")).unwrap();
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
        let connection = |token| Connection { api: url(API), token, ca_file: None, up_file: None, ai: None };
        let mut saved = logins(API);
        saved.keep_ai_key(&connection(token("a")), "key".into());
        assert_eq!(saved.ai_key(&connection(token("a"))), Some("key"));
        assert_eq!(saved.ai_key(&connection(token("b"))), None);
        saved.remove(&url(API));
        assert_eq!(saved, Logins::default());
    }

    #[test]
    fn what_is_said_aloud_wins() {
        let dir = state(API);
        let wanted = Wanted { api: Some(url("https://api.example.com")), token: Some("said".into()), ca_file: None };
        let found = Connection::choose(wanted, &logins(API), None, dir.path()).unwrap();
        assert_eq!((found.api, found.token.as_deref()), (url("https://api.example.com"), Some("said")));
        assert_eq!(found.ca_file, None, "the CA of another place is not trusted here");
    }

    #[test]
    fn a_saved_login_beats_a_make_up_that_happens_to_be_near_but_not_one_that_is_named() {
        let dir = state(API);
        let logins = logins("https://api.example.com");
        let found = Connection::choose(Wanted::default(), &logins, None, dir.path()).unwrap();
        assert_eq!(found.token.as_deref(), Some("saved"));
        let found =
            Connection::choose(Wanted::default(), &logins, Some(&dir.path().join(".svc")), Path::new("/")).unwrap();
        assert_eq!(found.token.as_deref(), Some("of-make-up"));
    }

    #[test]
    fn a_login_at_make_up_is_used_in_place_of_its_own_token() {
        let dir = state(API);
        let found = Connection::choose(Wanted::default(), &logins(API), None, dir.path()).unwrap();
        assert_eq!(found.token.as_deref(), Some("saved"));
        assert!(found.ca_file.is_some() && found.up_file.is_some());
    }

    #[test]
    fn without_any_address_the_next_step_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Connection::choose(Wanted::default(), &Logins::default(), None, dir.path()).unwrap_err();
        assert!(crate::failure::of(&error).hint.unwrap().contains("svc login"));
    }

    #[test]
    fn tokens_do_not_travel_in_the_clear() {
        assert!(check(&url("http://api.example.com")).is_err());
        assert!(check(&url("ftp://api.example.com")).is_err());
        for local in ["http://127.0.0.1:1", "http://[::1]:1", "http://api.svc.localhost:8080", "https://x.example"] {
            assert!(check(&url(local)).is_ok(), "{local}");
        }
    }

    #[test]
    fn logins_survive_a_round_trip_and_only_their_owner_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("svc/credentials.json");
        assert_eq!(Logins::load(&file).unwrap(), Logins::default());
        let mut saved = logins(API);
        saved.save(&file).unwrap();
        assert_eq!(Logins::load(&file).unwrap(), saved);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(saved.remove(&url("https://api.svc.localhost:8443/")).is_some());
        assert_eq!(saved, Logins::default());
    }
}
