//! The code host's installations, repositories, commits and tokens, and the calls with which tests change them.

use std::collections::HashMap;

use axum::http::{HeaderMap, header};
use serde_json::{Value, json};

use super::{
    CodeHost,
    app::{self, Scope},
};

/// The behavior of the repositories' part from now on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fault {
    #[default]
    None,
    /// Every response has this status and an HTML page as its body.
    Status(u16),
    /// Every response is a 403 with this `Retry-After`, in seconds.
    RateLimited(u32),
    /// Every response is a 200 with a body that is not JSON.
    Garbage,
    /// Requests whose path contains this text get no response until another fault is set.
    Holds(&'static str),
    /// Archives redirect to this address.
    ArchivesAt(String),
    /// Archives are truncated.
    ArchivesBreakOff,
}

#[derive(Debug, Clone)]
pub struct Installation {
    pub id: i64,
    pub account: String,
    pub account_type: &'static str,
    /// The logins of people who may use it.
    pub people: Vec<String>,
    /// The ids of the repositories that it reaches.
    pub repos: Vec<i64>,
}

#[derive(Debug, Clone)]
pub struct Repo {
    pub id: i64,
    pub full_name: String,
    pub default_branch: String,
    pub branches: HashMap<String, String>,
}

#[derive(Debug, Default)]
pub(super) struct Hub {
    pub(super) fault: Fault,
    /// The number of entries per page; as requested if 0.
    pub(super) page_size: usize,
    tokens: HashMap<String, String>,
    refresh_tokens: HashMap<String, String>,
    /// The app's tokens, and what each may read.
    pub(super) app_tokens: HashMap<String, Scope>,
    /// Whether tokens expire and come with a refresh token.
    expiring: bool,
    issued: u32,
    refreshed: u32,
    pub(super) installations: Vec<Installation>,
    pub(super) repos: Vec<Repo>,
    /// The ids of public repositories.
    pub(super) public: Vec<i64>,
    /// Gzipped tarballs, by commit.
    pub(super) commits: HashMap<String, Vec<u8>>,
    pub(super) calls: Vec<String>,
    pub(super) unchanged: usize,
}

impl Hub {
    /// Issues new tokens for `login`, in the format of `POST /login/oauth/access_token`.
    pub(super) fn issue(&mut self, login: &str) -> Value {
        self.issued += 1;
        let (token, refresh) =
            (format!("ghu_secretOf{login}{}", self.issued), format!("ghr_secretOf{login}{}", self.issued));
        self.tokens.insert(token.clone(), login.to_owned());
        if !self.expiring {
            return json!({ "access_token": token, "token_type": "bearer", "scope": "" });
        }
        self.refresh_tokens.insert(refresh.clone(), login.to_owned());
        json!({
            "access_token": token, "expires_in": 28_800, "refresh_token": refresh,
            "refresh_token_expires_in": 15_897_600, "token_type": "bearer", "scope": "",
        })
    }

    /// Refreshes tokens; both old ones stop working.
    pub(super) fn refresh(&mut self, refresh_token: &str) -> Value {
        let Some(login) = self.refresh_tokens.remove(refresh_token) else {
            return json!({ "error": "bad_refresh_token", "error_description": "As documented.", "error_uri": "https://docs" });
        };
        self.refreshed += 1;
        self.tokens.retain(|_, owner| *owner != login);
        self.issue(&login)
    }

    /// Returns the owner of a request's token.
    pub(super) fn login(&self, headers: &HeaderMap) -> Option<String> {
        let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let token = text.strip_prefix("Bearer ").or_else(|| text.strip_prefix("token "))?;
        self.tokens.get(token).cloned()
    }

    /// Issues a new token to the app.
    pub(super) fn issue_to_app(&mut self, scope: Scope) -> String {
        let token = format!("{}{}", app::TOKEN_PREFIX, self.app_tokens.len());
        self.app_tokens.insert(token.clone(), scope);
        token
    }

    /// Returns the caller that a request's token belongs to.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        if let Some(login) = self.login(headers) {
            return Some(Caller::Person(login));
        }
        let token = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
        self.app_tokens.get(token).cloned().map(Caller::App)
    }

    /// Returns the repository of that name if the caller can reach it.
    pub(super) fn find_for(&self, caller: &Caller, owner: &str, name: &str) -> Option<&Repo> {
        match caller {
            Caller::Person(login) => self.find(login, owner, name),
            Caller::App(scope) => {
                let full_name = format!("{owner}/{name}");
                let installation = self.installations.iter().find(|known| known.id == scope.installation)?;
                let reached = |repo: &&Repo| {
                    self.public.contains(&repo.id)
                        || (scope.repos.contains(&repo.id) && installation.repos.contains(&repo.id))
                };
                self.repos.iter().filter(reached).find(|repo| repo.full_name.eq_ignore_ascii_case(&full_name))
            }
        }
    }

    pub(super) fn reached(&self, login: &str) -> impl Iterator<Item = &Repo> {
        let mine = self.installations.iter().filter(move |i| i.people.iter().any(|person| person == login));
        let ids: Vec<i64> = mine.flat_map(|installation| installation.repos.clone()).collect();
        self.repos.iter().filter(move |repo| ids.contains(&repo.id))
    }

    pub(super) fn find(&self, login: &str, owner: &str, name: &str) -> Option<&Repo> {
        let full_name = format!("{owner}/{name}");
        self.reached(login).find(|repo| repo.full_name.eq_ignore_ascii_case(&full_name))
    }
}

/// The caller: a person, or the app for one of its installations.
pub(super) enum Caller {
    Person(String),
    App(Scope),
}

impl CodeHost {
    /// Sets the fault of the repositories' part from now on.
    pub fn fail(&self, fault: Fault) {
        self.hub(|hub| hub.fault = fault);
        self.shared.changes.send_replace(());
    }

    pub fn page_size(&self, size: usize) {
        self.hub(|hub| hub.page_size = size);
    }

    /// Makes new tokens expire after eight hours.
    pub fn expire_tokens(&self) {
        self.hub(|hub| hub.expiring = true);
    }

    pub fn refreshed(&self) -> u32 {
        self.hub(|hub| hub.refreshed)
    }

    /// Revokes all tokens and refresh tokens.
    pub fn revoke_everything(&self) {
        self.hub(|hub| {
            hub.tokens.clear();
            hub.refresh_tokens.clear();
        });
    }

    /// The prefixes of all user tokens.
    pub const TOKEN_PREFIXES: [&'static str; 2] = ["ghu_secretOf", "ghr_secretOf"];

    pub fn install(&self, id: i64, account: &str, account_type: &'static str, people: &[&str]) {
        let people = people.iter().map(|&person| person.to_owned()).collect();
        let installation = Installation { id, account: account.to_owned(), account_type, people, repos: Vec::new() };
        self.hub(|hub| hub.installations.push(installation));
    }

    /// Removes an installation and all app tokens for it.
    pub fn uninstall(&self, id: i64) {
        self.hub(|hub| {
            hub.installations.retain(|installation| installation.id != id);
            hub.app_tokens.retain(|_, scope| scope.installation != id);
        });
    }

    /// Replaces the people who may use an installation.
    pub fn set_people(&self, installation: i64, people: &[&str]) {
        let people = people.iter().map(|&person| person.to_owned()).collect();
        self.hub(|hub| hub.installations.iter_mut().find(|known| known.id == installation).unwrap().people = people);
    }

    pub fn make_public(&self, repo: i64) {
        self.hub(|hub| hub.public.push(repo));
    }

    pub fn move_repo(&self, repo: i64, from: i64, to: i64) {
        self.deselect(from, repo);
        self.hub(|hub| hub.installations.iter_mut().find(|known| known.id == to).unwrap().repos.push(repo));
    }

    pub fn deselect(&self, installation: i64, repo: i64) {
        self.hub(|hub| {
            let installation = hub.installations.iter_mut().find(|known| known.id == installation).unwrap();
            installation.repos.retain(|known| *known != repo);
        });
    }

    pub fn revoke_app_tokens(&self) {
        self.hub(|hub| hub.app_tokens.clear());
    }

    pub fn app_tokens(&self) -> usize {
        self.calls("/access_tokens")
    }

    /// Creates a repository without a commit that the installation reaches.
    pub fn create_repo(&self, installation: i64, id: i64, full_name: &str) {
        let repo =
            Repo { id, full_name: full_name.to_owned(), default_branch: "main".to_owned(), branches: HashMap::new() };
        self.hub(|hub| {
            hub.repos.push(repo);
            let mut installations = hub.installations.iter_mut();
            installations.find(|i| i.id == installation).unwrap().repos.push(id);
        });
    }

    pub fn rename_repo(&self, id: i64, full_name: &str) {
        self.hub(|hub| {
            let repo = hub.repos.iter_mut().find(|repo| repo.id == id).unwrap();
            full_name.clone_into(&mut repo.full_name);
        });
    }

    /// Creates a commit with this archive, points the branch at it, and returns its id.
    pub fn commit(&self, repo: i64, branch: &str, archive: Vec<u8>) -> String {
        self.hub(|hub| {
            let sha = format!("{:040x}", 0xabc0_0000_0000_u64 + hub.commits.len() as u64);
            hub.commits.insert(sha.clone(), archive);
            let repo = hub.repos.iter_mut().find(|known| known.id == repo).unwrap();
            repo.branches.insert(branch.to_owned(), sha.clone());
            sha
        })
    }

    /// Points the branch at a commit, whatever it pointed at before.
    pub fn force(&self, repo: i64, branch: &str, sha: &str) {
        self.hub(|hub| {
            let repo = hub.repos.iter_mut().find(|known| known.id == repo).unwrap();
            repo.branches.insert(branch.to_owned(), sha.to_owned());
        });
    }

    pub fn delete_branch(&self, repo: i64, branch: &str) {
        self.hub(|hub| {
            hub.repos.iter_mut().find(|known| known.id == repo).unwrap().branches.remove(branch);
        });
    }

    pub fn calls(&self, part: &str) -> usize {
        self.hub(|hub| hub.calls.iter().filter(|call| call.contains(part)).count())
    }

    /// Returns how many responses were a 304.
    pub fn unchanged(&self) -> usize {
        self.hub(|hub| hub.unchanged)
    }

    fn hub<T>(&self, act: impl FnOnce(&mut Hub) -> T) -> T {
        act(&mut self.shared.hub.lock().unwrap())
    }
}
