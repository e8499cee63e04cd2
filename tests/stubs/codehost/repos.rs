//! Installations, repositories, branches and tarballs: what GitHub's REST API says of them, as documented.
//!
//! A token reaches what its owner reaches through an installation, as with a GitHub App. Archives lie where GitHub's do:
//! behind a 302 to another path, with a token of its own in the query.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Query, Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use super::{
    CodeHost, Shared,
    app::{self, Scope},
};

/// What the repositories' part of the code host does from now on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fault {
    /// Works.
    #[default]
    None,
    /// Answers with this status, and no more.
    Status(u16),
    /// Answers 403 and says for how many seconds it wants to be left alone.
    RateLimited(u32),
    /// Answers 200 with what is not JSON.
    Garbage,
    /// Does not answer for so long.
    Stalls(Duration),
    /// Archives lie there.
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
    fault: Fault,
    /// Of the whole list, how many there are on a page; as many as are asked for when 0.
    page_size: usize,
    /// Whose token is which.
    tokens: HashMap<String, String>,
    refresh_tokens: HashMap<String, String>,
    /// Tokens of the app, and what each reads.
    app_tokens: HashMap<String, Scope>,
    /// Tokens end, and come with another to renew them.
    expiring: bool,
    issued: u32,
    refreshed: u32,
    pub(super) installations: Vec<Installation>,
    pub(super) repos: Vec<Repo>,
    /// Ids of those that everybody may read.
    public: Vec<i64>,
    /// Gzipped tarballs, by commit.
    commits: HashMap<String, Vec<u8>>,
    /// Paths of the calls so far.
    calls: Vec<String>,
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

    /// Who asks.
    fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        if let Some(login) = self.login(headers) {
            return Some(Caller::Person(login));
        }
        let token = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
        self.app_tokens.get(token).cloned().map(Caller::App)
    }

    /// The repository of that name, if the caller reaches it.
    fn find_for(&self, caller: &Caller, owner: &str, name: &str) -> Option<&Repo> {
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

    fn reached(&self, login: &str) -> impl Iterator<Item = &Repo> {
        let mine = self.installations.iter().filter(move |i| i.people.iter().any(|person| person == login));
        let ids: Vec<i64> = mine.flat_map(|installation| installation.repos.clone()).collect();
        self.repos.iter().filter(move |repo| ids.contains(&repo.id))
    }

    fn find(&self, login: &str, owner: &str, name: &str) -> Option<&Repo> {
        let full_name = format!("{owner}/{name}");
        self.reached(login).find(|repo| repo.full_name.eq_ignore_ascii_case(&full_name))
    }
}

/// Who asks: a person, or the app for one of its installations.
enum Caller {
    Person(String),
    App(Scope),
}

impl CodeHost {
    /// The repositories' part misbehaves so from now on.
    pub fn fail(&self, fault: Fault) {
        self.hub(|hub| hub.fault = fault);
    }

    /// Lists come in pages of so many.
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

    fn hub<T>(&self, act: impl FnOnce(&mut Hub) -> T) -> T {
        act(&mut self.shared.hub.lock().unwrap())
    }
}

/// The routes of this part.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    Router::new()
        .route("/app/installations/{id}/access_tokens", post(app::create_token))
        .route("/repos/{owner}/{repo}/collaborators/{login}/permission", get(permission))
        .route("/user/installations", get(installations))
        .route("/user/installations/{id}/repositories", get(repositories))
        .route("/repos/{owner}/{repo}", get(repository))
        .route("/repos/{owner}/{repo}/git/ref/{*reference}", get(reference))
        .route("/repos/{owner}/{repo}/tarball/{sha}", get(tarball))
        .route("/codeload/{owner}/{repo}/legacy.tar.gz/{sha}", get(archive))
        .layer(from_fn_with_state(shared.clone(), misbehave))
}

async fn misbehave(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let fault = {
        let mut hub = shared.hub.lock().unwrap();
        hub.calls.push(request.uri().path().to_owned());
        hub.fault.clone()
    };
    match fault {
        Fault::Status(status) => {
            return (StatusCode::from_u16(status).unwrap(), "<html>Unicorn!</html>").into_response();
        }
        Fault::RateLimited(seconds) => {
            let body = Json(json!({ "message": "You have exceeded a secondary rate limit.", "status": "403" }));
            return (StatusCode::FORBIDDEN, [("retry-after", seconds.to_string())], body).into_response();
        }
        Fault::Garbage => return (StatusCode::OK, "<html>captive portal</html>").into_response(),
        Fault::Stalls(time) => tokio::time::sleep(time).await,
        Fault::None | Fault::ArchivesAt(_) | Fault::ArchivesBreakOff => {}
    }
    next.run(request).await
}

fn bad_credentials() -> Response {
    (StatusCode::UNAUTHORIZED, Json(json!({ "message": "Bad credentials", "status": "401" }))).into_response()
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, Json(json!({ "message": "Not Found", "status": "404" }))).into_response()
}

fn account(login: &str, id: i64, kind: &str) -> Value {
    json!({
        "login": login, "id": id, "node_id": "MDQ6", "type": kind, "site_admin": false,
        "avatar_url": format!("https://avatars.githubusercontent.com/u/{id}?v=4"),
    })
}

pub(super) fn view_repo(repo: &Repo) -> Value {
    let (owner, name) = repo.full_name.split_once('/').unwrap();
    json!({
        "id": repo.id, "name": name, "full_name": repo.full_name, "private": true, "default_branch": repo.default_branch,
        "owner": account(owner, 9_000 + repo.id, "Organization"), "fork": false,
        "permissions": { "admin": false, "push": true, "pull": true },
    })
}

/// A page of a list, with GitHub's `Link`.
fn page(shared: &Shared, path: &str, query: &HashMap<String, String>, key: &str, all: &[Value]) -> Response {
    let number = |name: &str, usual: usize| query.get(name).map_or(usual, |text| text.parse().unwrap());
    let size = shared.hub.lock().unwrap().page_size;
    let (page, asked) = (number("page", 1), number("per_page", 30).min(100));
    let size = if size == 0 { asked } else { size };
    let here: Vec<&Value> = all.iter().skip((page - 1) * size).take(size).collect();
    let mut response = Json(json!({ "total_count": all.len(), key: here })).into_response();
    if page * size < all.len() {
        let base = &shared.url;
        let link = format!(
            "<{base}{path}?per_page={asked}&page={}>; rel=\"next\", <{base}{path}?per_page={asked}&page={}>; rel=\"last\"",
            page + 1,
            all.len().div_ceil(size)
        );
        response.headers_mut().insert(header::LINK, link.parse().unwrap());
    }
    response
}

async fn installations(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let all: Vec<Value> = {
        let hub = shared.hub.lock().unwrap();
        let Some(login) = hub.login(&headers) else { return bad_credentials() };
        let mine = hub.installations.iter().filter(|installation| installation.people.contains(&login));
        mine.map(|installation| {
            let account = account(&installation.account, 70_000 + installation.id, installation.account_type);
            json!({
                "id": installation.id, "account": account, "app_id": 1, "app_slug": "svc", "target_id": 1,
                "target_type": installation.account_type, "repository_selection": "selected",
                "permissions": { "contents": "read", "metadata": "read" }, "events": ["push"],
                "created_at": format!("2025-01-01T00:00:{:02}.000Z", installation.id % 60),
                "updated_at": "2025-06-01T00:00:00.000Z", "suspended_at": null, "suspended_by": null,
            })
        })
        .collect()
    };
    page(&shared, "/user/installations", &query, "installations", &all)
}

async fn repositories(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let all: Vec<Value> = {
        let hub = shared.hub.lock().unwrap();
        let Some(login) = hub.login(&headers) else { return bad_credentials() };
        let found = hub.installations.iter().find(|i| i.id == id && i.people.contains(&login));
        let Some(installation) = found else { return not_found() };
        hub.repos.iter().filter(|repo| installation.repos.contains(&repo.id)).map(view_repo).collect()
    };
    page(&shared, &format!("/user/installations/{id}/repositories"), &query, "repositories", &all)
}

async fn repository(
    State(shared): State<Arc<Shared>>,
    Path((owner, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let hub = shared.hub.lock().unwrap();
    let Some(caller) = hub.caller(&headers) else { return bad_credentials() };
    hub.find_for(&caller, &owner, &name).map_or_else(not_found, |repo| Json(view_repo(repo)).into_response())
}

/// What a person may do there. Whoever may do nothing is told of with `none`.
async fn permission(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, login)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Response {
    if shared.is_blind() {
        let body = json!({ "message": "Resource not accessible by integration", "status": "403" });
        return (StatusCode::FORBIDDEN, Json(body)).into_response();
    }
    if shared.lags() {
        return bad_credentials();
    }
    let hub = shared.hub.lock().unwrap();
    let Some(caller) = hub.caller(&headers) else { return bad_credentials() };
    if hub.find_for(&caller, &owner, &name).is_none() {
        return not_found();
    }
    let Some(id) = shared.people.lock().unwrap().get(&login).copied() else { return not_found() };
    let is_public =
        hub.repos.iter().any(|repo| hub.public.contains(&repo.id) && repo.full_name == format!("{owner}/{name}"));
    let permission = if is_public || hub.find(&login, &owner, &name).is_some() { "read" } else { "none" };
    Json(json!({ "permission": permission, "role_name": permission, "user": { "login": login, "id": id } }))
        .into_response()
}

async fn reference(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, reference)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Response {
    let hub = shared.hub.lock().unwrap();
    let Some(caller) = hub.caller(&headers) else { return bad_credentials() };
    let Some(repo) = hub.find_for(&caller, &owner, &name) else { return not_found() };
    if repo.branches.is_empty() {
        return (StatusCode::CONFLICT, Json(json!({ "message": "Git Repository is empty." }))).into_response();
    }
    let branch = reference.strip_prefix("heads/").and_then(|branch| repo.branches.get(branch));
    branch.map_or_else(not_found, |sha| {
        Json(json!({ "ref": format!("refs/{reference}"), "node_id": "MDM6", "object": { "type": "commit", "sha": sha } }))
            .into_response()
    })
}

async fn tarball(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, sha)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Response {
    let hub = shared.hub.lock().unwrap();
    let Some(caller) = hub.caller(&headers) else { return bad_credentials() };
    if hub.find_for(&caller, &owner, &name).is_none() || !hub.commits.contains_key(&sha) {
        return not_found();
    }
    let base = match &hub.fault {
        Fault::ArchivesAt(elsewhere) => elsewhere,
        _ => &shared.url,
    };
    let location = format!("{base}/codeload/{owner}/{name}/legacy.tar.gz/{sha}?token=AAAA");
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}

async fn archive(
    State(shared): State<Arc<Shared>>,
    Path((_, _, sha)): Path<(String, String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    if query.get("token").map(String::as_str) != Some("AAAA") {
        return not_found();
    }
    let (bytes, breaks_off) = {
        let hub = shared.hub.lock().unwrap();
        (hub.commits[&sha].clone(), hub.fault == Fault::ArchivesBreakOff)
    };
    if breaks_off {
        let half = bytes::Bytes::copy_from_slice(&bytes[..bytes.len() / 2]);
        let chunks = [Ok(half), Err(std::io::Error::other("gone"))];
        return Body::from_stream(futures_util::stream::iter(chunks)).into_response();
    }
    ([(header::CONTENT_TYPE, "application/x-gzip")], bytes).into_response()
}

/// Where a request is sent that must never be made.
pub async fn elsewhere() -> (String, Arc<std::sync::atomic::AtomicU32>) {
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = count.clone();
    let router = Router::new().fallback(async move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Redirect::to("/").into_response()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, count)
}
