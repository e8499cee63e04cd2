//! The console's front page: for strangers what svc is, for people who are signed in what is theirs.

use std::fmt::Write as _;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use db::{
    orgs,
    projects::{self, Party, Project},
    sessions::{self, Session},
};
use domain::{Timestamp, addresses::HostKey, role::Role};

use super::{Problem, paths};
use crate::{
    app::App,
    auth::WebUser,
    pages::{escape, page},
};

/// Rows of each list on the page.
const SHOWN: usize = 50;

/// The page.
pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    match WebUser::find(&app, &headers).await? {
        Some(person) => of(&app, &person).await,
        None => Ok(welcome(&app)),
    }
}

fn welcome(app: &App) -> Response {
    let body = format!(
        "<div class=\"narrow card\"><h1>svc</h1>\n<p>A folder becomes a site: publish with the <code>svc</code> command, \
         share one page for a day, roll back in a moment.</p>\n<pre>svc login\nsvc deploy ./public --project my-site\nsvc \
         share page.html --ttl 1</pre>\n<p><a class=\"button\" href=\"{sign_in}\">Sign in</a></p>{links}</div>",
        sign_in = paths::SIGN_IN,
        links = links(app),
    );
    page(StatusCode::OK, "svc", &body)
}

async fn of(app: &App, person: &WebUser) -> Result<Response, Problem> {
    let user = &person.user;
    let rows = i64::try_from(SHOWN + 1).unwrap_or(i64::MAX);
    let projects = projects::page(&app.db, &Party::User(user.id.clone()), None, rows).await?;
    let orgs = orgs::page(&app.db, &user.id, None, rows).await?;
    let now = app.clock.now();
    let sessions = sessions::list_of_user(&app.db, &user.id, now).await?;

    let mut body = format!(
        "<div class=\"bar\"><h1>Hello, {login}</h1><form method=\"post\" action=\"{sign_out}\"><button \
         class=\"quiet\">Sign out</button></form></div>",
        login = escape(&user.vcs_login),
        sign_out = paths::SIGN_OUT,
    );
    if let Some(email) = &user.email {
        // Writing to a string cannot fail, here and below.
        let _ = write!(body, "<p>{}</p>", escape(email));
    }
    body.push_str("<h2>Your projects</h2>");
    body.push_str(&project_list(app, &projects));
    if projects.is_empty() {
        body.push_str("<p>None yet. Publish a folder:</p><pre>svc deploy ./public --project my-site</pre>");
    }
    body.push_str("<h2>Your organizations</h2>");
    if orgs.is_empty() {
        body.push_str(
            "<p>None yet. An organization shares projects between people:</p><pre>svc orgs create my-team</pre>",
        );
    }
    for (org, role) in orgs.iter().take(SHOWN) {
        let name = escape(org.name.as_str());
        let (shown, named) = match &org.display_name {
            Some(shown) => (escape(shown.as_str()), format!("{name} · ")),
            None => (name, String::new()),
        };
        let role = match role {
            Role::Owner => "an owner",
            Role::Admin => "an admin",
            Role::Member => "a member",
        };
        let _ = write!(body, "<h3>{shown} <span class=\"hint\">{named}you are {role}</span></h3>");
        let projects = projects::page(&app.db, &Party::Org(org.id.clone()), None, rows).await?;
        let list = project_list(app, &projects);
        body.push_str(if projects.is_empty() { "<p>No projects yet.</p>" } else { &list });
    }
    body.push_str("<h2>Where you are signed in</h2>");
    body.push_str(&session_list(&sessions, person, now));
    body.push_str(&links(app));
    Ok(page(StatusCode::OK, "svc", &body))
}

fn project_list(app: &App, projects: &[Project]) -> String {
    let mut list = String::from("<ul class=\"list\">");
    for project in projects.iter().take(SHOWN) {
        let url = match project.host() {
            HostKey::Project(name) => app.addresses.project_url(&name),
            other => other.label(),
        };
        let state = if project.active_deployment_id.is_some() { "" } else { "nothing published yet" };
        let _ = write!(
            list,
            "<li><a href=\"{url}\">{name}</a> <span class=\"hint\">{state}</span></li>",
            url = escape(&url),
            name = escape(project.name.as_str()),
        );
    }
    list.push_str("</ul>");
    if projects.len() > SHOWN {
        list.push_str("<p class=\"hint\">And more: <code>svc projects</code> lists all.</p>");
    }
    if projects.is_empty() { String::new() } else { list }
}

fn session_list(sessions: &[Session], person: &WebUser, now: Timestamp) -> String {
    let mut list = String::from("<ul class=\"list\">");
    for session in sessions {
        let browser = escape(&session.browser);
        let since = day(session.created_at);
        if session.id == person.session.id {
            let _ = write!(list, "<li>{browser} <span class=\"hint\">this one, since {since}</span></li>");
            continue;
        }
        let _ = write!(
            list,
            "<li>{browser} <span class=\"hint\">since {since}, last used {used}</span><form method=\"post\" \
             action=\"{end}\"><input type=\"hidden\" name=\"session\" value=\"{id}\"><button class=\"link\">Sign \
             out</button></form></li>",
            used = ago(now, session.last_used_at),
            end = paths::END_SESSION,
            id = session.id,
        );
    }
    let _ = write!(
        list,
        "</ul><form method=\"post\" action=\"{}\"><button class=\"quiet\">Sign out everywhere</button></form><p \
         class=\"hint\">Also ends your visits to your organizations' sites. Tokens of the <code>svc</code> command stay: \
         <code>svc tokens</code> lists them.</p>",
        paths::SIGN_OUT_EVERYWHERE
    );
    list
}

fn links(app: &App) -> String {
    let base = escape(app.config.site.base_url.as_str().trim_end_matches('/'));
    format!(
        "<p class=\"foot\"><a href=\"{base}/docs\">API documentation</a> · <a href=\"{base}/health\">Health</a></p>"
    )
}

fn day(time: Timestamp) -> String {
    time.as_datetime().date().to_string()
}

fn ago(now: Timestamp, then: Timestamp) -> String {
    let hours = now.since(then).as_secs() / 3_600;
    match hours {
        0 => "within the last hour".to_owned(),
        1 => "an hour ago".to_owned(),
        2..=47 => format!("{hours} hours ago"),
        _ => format!("{} days ago", hours / 24),
    }
}
