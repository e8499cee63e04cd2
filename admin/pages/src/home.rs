//! The console's front page without scripts: it describes svc to strangers, and lists what signed-in people have.

use admin_http::{addresses::paths, html};
use app::{App, auth::WebUser};
use askama::Template;
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use db::{
    orgs,
    projects::{self, ProjectOrder, ProjectOwners},
    sign_in::sessions::{self, Session},
};
use domain::{Account, OrgName, ProjectName, SessionId, Timestamp, addresses::HostKey, orgs::DisplayName};
use time::Date;

use super::{PageError, with_article};

/// The number of rows of each list.
const SHOWN: usize = 50;

#[derive(Template)]
#[template(path = "welcome.html")]
struct WelcomePage<'a> {
    /// The API's address, without a trailing slash.
    api: &'a str,
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage<'a> {
    login: &'a str,
    email: Option<&'a str>,
    projects: ProjectList,
    orgs: Vec<OrgSection<'a>>,
    sessions: Vec<SessionRow<'a>>,
    /// The API's address, without a trailing slash.
    api: &'a str,
}

struct OrgSection<'a> {
    name: &'a OrgName,
    display_name: Option<&'a DisplayName>,
    role: &'static str,
    projects: ProjectList,
}

struct ProjectList {
    rows: Vec<ProjectRow>,
    /// Whether there are more projects than rows.
    has_more: bool,
}

struct ProjectRow {
    name: ProjectName,
    url: String,
    is_published: bool,
}

struct SessionRow<'a> {
    id: &'a SessionId,
    browser: &'a str,
    since: Date,
    last_used: String,
    is_this_one: bool,
}

pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> Result<Response, PageError> {
    let api = app.config.site.base_url.as_str().trim_end_matches('/');
    let Some(person) = WebUser::find(&app, &headers).await? else {
        return Ok(html::page(StatusCode::OK, &WelcomePage { api }));
    };
    let user = &person.user;
    let now = app.clock.now();
    let projects = project_list(&app, Account::User(user.id.clone())).await?;
    let memberships = orgs::page(&app.db, &user.id, None, i64::try_from(SHOWN).unwrap_or(i64::MAX)).await?;
    let mut orgs = Vec::with_capacity(memberships.len());
    for (org, role) in &memberships {
        orgs.push(OrgSection {
            name: &org.name,
            display_name: org.display_name.as_ref(),
            role: with_article(*role),
            projects: project_list(&app, Account::Org(org.id.clone())).await?,
        });
    }
    let sessions = sessions::list_for_user(&app.db, &user.id, now).await?;
    let sessions = sessions.iter().map(|session| session_row(session, &person, now)).collect();
    let page = HomePage { login: &user.vcs_login, email: user.email.as_deref(), projects, orgs, sessions, api };
    Ok(html::page(StatusCode::OK, &page))
}

async fn project_list(app: &App, party: Account) -> Result<ProjectList, PageError> {
    let limit = i64::try_from(SHOWN + 1).unwrap_or(i64::MAX);
    let found =
        projects::page(&app.db, ProjectOwners::Account(&party), None, &ProjectOrder::Newest(None), limit).await?;
    let has_more = found.len() > SHOWN;
    let rows = found.into_iter().take(SHOWN).map(|project| ProjectRow {
        url: match project.host() {
            HostKey::Project(name) => app.addresses.project_url(&name),
            other => other.label(),
        },
        is_published: project.active_deployment_id.is_some(),
        name: project.name,
    });
    Ok(ProjectList { rows: rows.collect(), has_more })
}

fn session_row<'a>(session: &'a Session, person: &WebUser, now: Timestamp) -> SessionRow<'a> {
    SessionRow {
        id: &session.id,
        browser: &session.browser,
        since: session.created_at.as_datetime().date(),
        last_used: format_elapsed(now, session.last_used_at),
        is_this_one: session.id == person.session.id,
    }
}

/// Formats the time since `then` in words, to the hour.
fn format_elapsed(now: Timestamp, then: Timestamp) -> String {
    let hours = now.since(then).as_secs() / 3_600;
    match hours {
        0 => "within the last hour".to_owned(),
        1 => "an hour ago".to_owned(),
        2..=47 => format!("{hours} hours ago"),
        _ => format!("{} days ago", hours / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str], has_more: bool) -> ProjectList {
        let row = |name: &&str| ProjectRow {
            name: name.parse().unwrap(),
            url: format!("https://{name}.svc.localhost:8443/"),
            is_published: *name != "draft",
        };
        ProjectList { rows: names.iter().map(row).collect(), has_more }
    }

    #[test]
    fn the_page_lists_what_a_person_has() {
        let (org, shown): (OrgName, DisplayName) = ("acme".parse().unwrap(), "<b>Acme</b> & Söhne".parse().unwrap());
        let now = Timestamp::from_unix_millis(0);
        let ids = [SessionId::new(now), SessionId::new(now)];
        let session = |id, is_this_one| SessionRow {
            id,
            browser: "Firefox on Linux",
            since: now.as_datetime().date(),
            last_used: format_elapsed(now, now),
            is_this_one,
        };
        let section = |display_name, projects| OrgSection { name: &org, display_name, role: "an owner", projects };
        let page = HomePage {
            login: "ada",
            email: Some("a&b@example.com"),
            projects: list(&["blog", "draft"], true),
            orgs: vec![section(Some(&shown), list(&["site"], false)), section(None, list(&[], false))],
            sessions: vec![session(&ids[0], true), session(&ids[1], false)],
            api: "https://api.svc.localhost:8443",
        };
        let html = page.render().unwrap();
        for part in [
            "<p>a&#38;b@example.com</p>",
            "<li><a href=\"https://blog.svc.localhost:8443/\">blog</a></li>",
            ">draft</a> <span class=\"hint\">nothing published yet</span></li>",
            "And more: <code>svc projects</code> lists all.",
            "<h3>&#60;b&#62;Acme&#60;/b&#62; &#38; Söhne <span class=\"hint\">acme · you are an owner</span></h3>",
            "<h3>acme <span class=\"hint\">you are an owner</span></h3>\n<p>No projects yet.</p>",
            "this one, since 1970-01-01",
            "since 1970-01-01, last used within the last hour",
            "<a href=\"https://api.svc.localhost:8443/docs\">",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        // The first signs this browser out and the last all browsers: only the other session has its own form.
        assert_eq!(html.matches("<form").count(), 3);
        assert!(html.contains(&format!("name=\"session\" value=\"{}\"", ids[1])));
    }
}
