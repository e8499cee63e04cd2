//! Installations, repositories, branches and tarballs, as documented for GitHub's REST API.
//!
//! A token reaches what its owner reaches through an installation, as with a GitHub App. Archives are where GitHub's
//! are: behind a 302 to another path, with a token of its own in the query.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Query, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    Shared, app,
    hub::{Fault, Repo},
};

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
    let mut changes = shared.changes.subscribe();
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
        Fault::Holds(part) if request.uri().path().contains(part) => changes.changed().await.unwrap(),
        Fault::None | Fault::Holds(_) | Fault::ArchivesAt(_) | Fault::ArchivesBreakOff => {}
    }
    let is_json = !["/tarball/", "/codeload/", "/access_tokens"].iter().any(|part| request.uri().path().contains(part));
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    if is_json && response.status() == StatusCode::OK { unless_known(&shared, known, response).await } else { response }
}

/// Returns the response with its entity tag, or a 304 if the caller has it.
async fn unless_known(shared: &Shared, known: Option<HeaderValue>, response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let etag: HeaderValue = format!("W/\"{}\"", hex::encode(Sha256::digest(&body))).parse().unwrap();
    if known.as_ref() == Some(&etag) {
        shared.hub.lock().unwrap().unchanged += 1;
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
    }
    head.headers.insert(header::ETAG, etag);
    Response::from_parts(head, Body::from(body))
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

/// Returns a page of a list, with GitHub's `Link`.
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

/// Returns a person's permission; `none` if there is none.
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

/// Starts a server that must never receive a request, and counts those that it does.
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
