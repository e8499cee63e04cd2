//! `GET /projects`: listing projects.

use std::collections::HashMap;

use admin_http::{
    error::ApiError,
    extract::{Json, PageQuery, Query, invalid_cursor},
};
use api::{
    Page,
    projects::{HourRequests, ListedProject, ProjectList, ProjectSummary},
};
use app::{App, auth::Caller};
use axum::extract::State;
use config::StatsSource;
use db::projects::{self, Project, ProjectListDetails, ProjectOrder, ProjectOwners};
use domain::{
    Account, DeploymentId, ProjectId, Timestamp,
    stats::HoursBack,
    traffic::{HOUR, hour_start},
};
use serde::Deserialize;

use super::{Whose, find_member_org, view};

/// The query that selects and orders the listed projects.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Listing {
    /// Whether to list all your organizations' projects besides your personal ones. Cannot be combined with `org`.
    #[serde(default)]
    #[param(default = false)]
    all: bool,
    /// Lists only projects whose names contain this text, ignoring case.
    search: Option<String>,
    /// The order of the list.
    #[serde(default)]
    #[param(inline)]
    order: ListOrder,
    /// Whether to include each project's `summary`: last deployment, requests of 24 hours, state of domains, and size.
    #[serde(default)]
    #[param(default = false)]
    summary: bool,
}

/// The order of a list of projects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListOrder {
    /// Newest first.
    #[default]
    Newest,
    /// By name.
    Name,
    /// By the time of the live deployment, newest first; projects without one come last.
    Deployed,
}

impl ListOrder {
    /// Returns the order, starting after the project that `cursor` denotes.
    fn starting_after(self, cursor: Option<&str>) -> Result<ProjectOrder, ApiError> {
        fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, ApiError> {
            text.parse().map_err(|_| invalid_cursor())
        }
        Ok(match self {
            Self::Newest => ProjectOrder::Newest(cursor.map(parsed).transpose()?),
            Self::Name => ProjectOrder::Name(cursor.map(parsed).transpose()?),
            Self::Deployed => ProjectOrder::Deployed(match cursor {
                None => None,
                Some(cursor) => {
                    let (deployment, project) = cursor.split_once('.').ok_or_else(invalid_cursor)?;
                    let deployment = Some(deployment).filter(|id| !id.is_empty()).map(parsed::<DeploymentId>);
                    Some((deployment.transpose()?, parsed(project)?))
                }
            }),
        })
    }

    fn next_cursor(self, last: &Project) -> String {
        match self {
            Self::Newest => last.id.to_string(),
            Self::Name => last.name.to_string(),
            Self::Deployed => {
                let deployment = last.active_deployment_id.as_ref().map_or("", DeploymentId::as_str);
                format!("{deployment}.{}", last.id)
            }
        }
    }
}

/// Lists your personal projects, those of an organization, or all of them.
///
/// A `deploy` token lists the projects of its organization. Shares are not included.
#[utoipa::path(
    get, path = "/projects", operation_id = "list_projects", tag = "Projects",
    params(Whose, Listing, Page),
    responses((status = 200, description = "The projects", body = ProjectList)),
    extensions(("x-errors" = json!({
        "not_found": "the organization does not exist, or you do not belong to it",
    }))),
)]
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(whose): Query<Whose>,
    Query(Listing { all, search, order, summary }): Query<Listing>,
    page: PageQuery<String>,
) -> Result<Json<ProjectList>, ApiError> {
    if all && whose.org.is_some() {
        return Err(ApiError::invalid("`all` and `org` exclude each other."));
    }
    let after = order.starting_after(page.before.as_deref())?;
    let account;
    let owners = match &caller {
        Caller::User(caller) if all => ProjectOwners::AllOf(&caller.user.id),
        _ => {
            account = find_owner(&app, &caller, whose.org).await?;
            ProjectOwners::Account(&account)
        }
    };
    let Some(search) = NameSearch::new(search) else {
        return Ok(Json(ProjectList { projects: Vec::new(), next_cursor: None }));
    };
    let mut found = projects::page(&app.db, owners, search.text(), &after, page.rows()).await?;
    let next_cursor = page.truncate(&mut found, |last| order.next_cursor(last));
    let mut summaries = if summary { summaries(&app, &caller, &found).await? } else { HashMap::new() };
    let projects = found.into_iter().map(|project| ListedProject {
        summary: summaries.remove(&project.id),
        project: view(&app.addresses, project),
    });
    Ok(Json(ProjectList { projects: projects.collect(), next_cursor }))
}

/// The text to search names for, in lower case; `None` for all names.
struct NameSearch(Option<String>);

impl NameSearch {
    /// Returns `None` if no name can contain the text.
    fn new(wanted: Option<String>) -> Option<Self> {
        let wanted = wanted.map(|wanted| wanted.trim().to_lowercase()).filter(|wanted| !wanted.is_empty());
        let is_possible = |text: &String| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        wanted.as_ref().is_none_or(is_possible).then_some(Self(wanted))
    }

    fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// Returns the owner whose projects are listed.
async fn find_owner(app: &App, caller: &Caller, org: Option<String>) -> Result<Account, ApiError> {
    match (caller, org) {
        (_, None) => Ok(caller.account()),
        (Caller::User(caller), Some(org)) => find_member_org(app, &caller.user.id, &org).await,
        (Caller::Deploy(token), Some(org)) if org == token.org_name.as_str() => Ok(caller.account()),
        (Caller::Deploy(_), Some(_)) => Err(ApiError::not_found("organization")),
    }
}

/// Returns the summaries of listed projects. Does not make the edges send their latest counts, unlike a report.
async fn summaries(
    app: &App,
    caller: &Caller,
    listed: &[Project],
) -> Result<HashMap<ProjectId, ProjectSummary>, ApiError> {
    let now = app.clock.now();
    let first = hour_start(now) - HOUR * u32::from(HoursBack::DEFAULT.count() - 1);
    let hours: Vec<Timestamp> =
        (0..u32::from(HoursBack::DEFAULT.count())).map(|number| first + HOUR * number).collect();
    let is_counted = match app.config.stats.source {
        StatsSource::Edge => matches!(caller, Caller::User(_)),
        StatsSource::None => false,
    };
    let found = projects::list_summaries(&app.db, listed, if is_counted { &hours } else { &[] }, now).await?;
    let shown = found.into_iter().map(|(id, summary)| (id, summary_view(summary, is_counted.then_some(&hours))));
    Ok(shown.collect())
}

fn summary_view(summary: ProjectListDetails, hours: Option<&Vec<Timestamp>>) -> ProjectSummary {
    let counted: HashMap<Timestamp, u64> = summary.requests.into_iter().collect();
    let of_hour = |hour: &Timestamp| HourRequests { hour: *hour, requests: counted.get(hour).copied().unwrap_or(0) };
    ProjectSummary {
        deployed_at: summary.deployed_at,
        last_failed: summary.last_failed,
        suspended: summary.suspended,
        stored_bytes: summary.stored_bytes,
        domains_blocked: summary.domains_blocked,
        domains_coming: summary.domains_coming,
        hours: hours.map(|hours| hours.iter().map(of_hour).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_name_can_contain_is_looked_for() {
        for all in [None, Some(""), Some("  ")] {
            assert_eq!(NameSearch::new(all.map(ToOwned::to_owned)).unwrap().text(), None);
        }
        assert_eq!(NameSearch::new(Some(" My-Blog ".to_owned())).unwrap().text(), Some("my-blog"));
        for never in ["a b", "a_b", "ü", "\0", "%"] {
            assert!(NameSearch::new(Some(never.to_owned())).is_none(), "{never:?}");
        }
    }

    #[test]
    fn a_cursor_of_another_order_is_refused() {
        let (project, deployment) = ("prj_00000000000000000000", "dep_00000000000000000000");
        for (order, cursor) in [
            (ListOrder::Newest, project.to_owned()),
            (ListOrder::Name, "blog".to_owned()),
            (ListOrder::Deployed, format!("{deployment}.{project}")),
            (ListOrder::Deployed, format!(".{project}")),
        ] {
            assert!(order.starting_after(Some(&cursor)).is_ok(), "{cursor}");
            assert!(order.starting_after(None).is_ok());
        }
        for (order, cursor) in [
            (ListOrder::Newest, "blog"),
            (ListOrder::Name, "A name"),
            (ListOrder::Deployed, project),
            (ListOrder::Deployed, "."),
            (ListOrder::Deployed, "blog.blog"),
        ] {
            assert!(order.starting_after(Some(cursor)).is_err(), "{cursor}");
        }
    }
}
