//! The code host's installations, repositories, commits and tokens, and the calls by which tests change them.

use std::collections::HashMap;

use axum::http::{HeaderMap, header};
use serde_json::{Value, json};

use super::{
    CodeHost,
    app::{self, Scope},
};

/// What the repositories' part of the code host does from now on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fault {
    /// Everything works.
    #[default]
    None,
    /// Every answer has this status and a page as its body.
    Status(u16),
    /// Every answer is 403 with this `Retry-After`, in seconds.
    RateLimited(u32),
    /// Every answer is 200 with a body that is not JSON.
    Garbage,
    /// Requests whose path contains this text get no answer until another fault is set.
    Holds(&'static str),
    /// Archives are said to be at this address.
    ArchivesAt(String),
    /// Archives break off in the middle.
    ArchivesBreakOff,
}

/// An installation of the app.
#[derive(Debug, Clone)]
pub struct Installation {
    pub id: i64,
    pub account: String,
    pub account_type: &'static str,
    /// Logins of who may use it.
    pub people: Vec<String>,
    /// Ids of the repositories that it reaches.
    pub repos: Vec<i64>,
}

/// A repository.
#[derive(Debug, Clone)]
pub struct Repo {
    pub id: i64,
    pub full_name: String,
    pub default_branch: String,
    pub branches: HashMap<String, String>,
}

/// Everything of it.
#[derive(Debug, Default)]
pub(super) struct Hub {
    pub(super) fault: Fault,
    /// Of the whole list, how many there are on a page; as many as are asked for when 0.
    pub(super) page_size: usize,
    /// Logins by their tokens.
    tokens: HashMap<String, String>,
    refresh_tokens: HashMap<String, String>,
    /// Tokens of the app, and what each reads.
    pub(super) app_tokens: HashMap<String, Scope>,
    /// Tokens end, and come with another to renew them.
    expiring: bool,
    issued: u32,
    refreshed: u32,
    pub(super) installations: Vec<Installation>,
    pub(super) repos: Vec<Repo>,
    /// Ids of those that everybody may read.
    pub(super) public: Vec<i64>,
    /// Gzipped tarballs, by commit.
    pub(super) commits: HashMap<String, Vec<u8>>,
    /// Paths of the calls so far.
    pub(super) calls: Vec<String>,
    /// Answers that were 304.
    pub(super) unchanged: usize,
}

impl Hub {
    /// New tokens for `login`, as `POST /login/oauth/access_token` gives them.
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

    /// Renews: both old tokens work no more.
    pub(super) fn refresh(&mut self, refresh_token: &str) -> Value {
        let Some(login) = self.refresh_tokens.remove(refresh_token) else {
            return json!({ "error": "bad_refresh_token", "error_description": "As documented.", "error_uri": "https://docs" });
        };
        self.refreshed += 1;
        self.tokens.retain(|_, owner| *owner != login);
        self.issue(&login)
    }

    /// Whose the token of a request is.
    pub(super) fn login(&self, headers: &HeaderMap) -> Option<String> {
        let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let token = text.strip_prefix("Bearer ").or_else(|| text.strip_prefix("token "))?;
        self.tokens.get(token).cloned()
    }

    /// A new token of the app.
    pub(super) fn issue_to_app(&mut self, scope: Scope) -> String {
        let token = format!("{}{}", app::TOKEN_PREFIX, self.app_tokens.len());
        self.app_tokens.insert(token.clone(), scope);
        token
    }

    /// The caller that a request's token belongs to.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        if let Some(login) = self.login(headers) {
            return Some(Caller::Person(login));
        }
        let token = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
        self.app_tokens.get(token).cloned().map(Caller::App)
    }

    /// The repository of that name, if the caller reaches it.
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

/// Who asks: a person, or the app for one of its installations.
pub(super) enum Caller {
    Person(String),
    App(Scope),
}

impl CodeHost {
    /// Makes the repositories' part of the code host misbehave from now on.
    pub fn fail(&self, fault: Fault) {
        self.hub(|hub| hub.fault = fault);
        self.shared.changes.send_replace(());
    }

    /// Sets the number of entries on a page of a list.
    pub fn page_size(&self, size: usize) {
        self.hub(|hub| hub.page_size = size);
    }

    /// Tokens given from now on end after eight hours.
    pub fn expire_tokens(&self) {
        self.hub(|hub| hub.expiring = true);
    }

    /// How often tokens were renewed.
    pub fn refreshed(&self) -> u32 {
        self.hub(|hub| hub.refreshed)
    }

    /// Every token and refresh token of everybody stops working.
    pub fn revoke_everything(&self) {
        self.hub(|hub| {
            hub.tokens.clear();
            hub.refresh_tokens.clear();
        });
    }

    /// Every token that was ever given begins so.
    pub const TOKEN_PREFIXES: [&'static str; 2] = ["ghu_secretOf", "ghr_secretOf"];

    pub fn install(&self, id: i64, account: &str, account_type: &'static str, people: &[&str]) {
        let people = people.iter().map(|&person| person.to_owned()).collect();
        let installation = Installation { id, account: account.to_owned(), account_type, people, repos: Vec::new() };
        self.hub(|hub| hub.installations.push(installation));
    }

    /// The installation is gone, and with it every token of the app for it.
    pub fn uninstall(&self, id: i64) {
        self.hub(|hub| {
            hub.installations.retain(|installation| installation.id != id);
            hub.app_tokens.retain(|_, scope| scope.installation != id);
        });
    }

    /// Takes a person's access to what an installation reaches away, or gives it.
    pub fn set_people(&self, installation: i64, people: &[&str]) {
        let people = people.iter().map(|&person| person.to_owned()).collect();
        self.hub(|hub| hub.installations.iter_mut().find(|known| known.id == installation).unwrap().people = people);
    }

    /// Everybody may read the repository.
    pub fn make_public(&self, repo: i64) {
        self.hub(|hub| hub.public.push(repo));
    }

    /// The repository is another account's now.
    pub fn move_repo(&self, repo: i64, from: i64, to: i64) {
        self.deselect(from, repo);
        self.hub(|hub| hub.installations.iter_mut().find(|known| known.id == to).unwrap().repos.push(repo));
    }

    /// The installation reaches the repository no more.
    pub fn deselect(&self, installation: i64, repo: i64) {
        self.hub(|hub| {
            let installation = hub.installations.iter_mut().find(|known| known.id == installation).unwrap();
            installation.repos.retain(|known| *known != repo);
        });
    }

    /// Every token of the app stops working.
    pub fn revoke_app_tokens(&self) {
        self.hub(|hub| hub.app_tokens.clear());
    }

    /// How many tokens the app was given.
    pub fn app_tokens(&self) -> usize {
        self.calls("/access_tokens")
    }

    /// A repository that the installation reaches, without a commit.
    pub fn create_repo(&self, installation: i64, id: i64, full_name: &str) {
        let repo =
            Repo { id, full_name: full_name.to_owned(), default_branch: "main".to_owned(), branches: HashMap::new() };
        self.hub(|hub| {
            hub.repos.push(repo);
            let mut installations = hub.installations.iter_mut();
            installations.find(|i| i.id == installation).unwrap().repos.push(id);
        });
    }

    /// The repository is called so from now on.
    pub fn rename_repo(&self, id: i64, full_name: &str) {
        self.hub(|hub| {
            let repo = hub.repos.iter_mut().find(|repo| repo.id == id).unwrap();
            full_name.clone_into(&mut repo.full_name);
        });
    }

    /// A commit whose archive is this; the branch points at it. Gives its id.
    pub fn commit(&self, repo: i64, branch: &str, archive: Vec<u8>) -> String {
        self.hub(|hub| {
            let sha = format!("{:040x}", 0xabc0_0000_0000_u64 + hub.commits.len() as u64);
            hub.commits.insert(sha.clone(), archive);
            let repo = hub.repos.iter_mut().find(|known| known.id == repo).unwrap();
            repo.branches.insert(branch.to_owned(), sha.clone());
            sha
        })
    }

    /// The branch points at that commit, whatever it was.
    pub fn force(&self, repo: i64, branch: &str, sha: &str) {
        self.hub(|hub| {
            let repo = hub.repos.iter_mut().find(|known| known.id == repo).unwrap();
            repo.branches.insert(branch.to_owned(), sha.to_owned());
        });
    }

    /// The branch is gone.
    pub fn delete_branch(&self, repo: i64, branch: &str) {
        self.hub(|hub| {
            hub.repos.iter_mut().find(|known| known.id == repo).unwrap().branches.remove(branch);
        });
    }

    /// How often paths that contain `part` were called.
    pub fn calls(&self, part: &str) -> usize {
        self.hub(|hub| hub.calls.iter().filter(|call| call.contains(part)).count())
    }

    /// How often the caller had an answer already.
    pub fn unchanged(&self) -> usize {
        self.hub(|hub| hub.unchanged)
    }

    fn hub<T>(&self, act: impl FnOnce(&mut Hub) -> T) -> T {
        act(&mut self.shared.hub.lock().unwrap())
    }
}
