//! `GET /projects/:name/domains/:domain/diagnosis`: what stands in DNS for a domain, and what should.

use std::net::IpAddr;

use api::domains::{Diagnosis, DnsFinding, DnsRecord, DnsVerdict, HttpWay, ResolverView};
use axum::extract::State;
use db::{
    certificates::orders,
    permits::Member,
    projects::domains::{self, CustomDomain},
};
use domain::Hostname;

use super::{Named, refuse_own, view};
use crate::{
    app::App,
    auth::ProjectAccess,
    error::ApiError,
    extract::{Json, Path},
    hostnames::{Finding, LookError, Seen, Verdict, advice},
    probe::way::{Way, try_way},
    rates::Bucket,
};

/// Says what stands in DNS for a domain, what should, and what is in the way of a certificate.
///
/// Each resolver of the platform is asked by itself, without a cache. Works before the domain is attached, too. Takes
/// some seconds when a resolver does not answer. At most 60 a minute for each owner of projects.
#[utoipa::path(
    get, path = "/projects/{name}/domains/{domain}/diagnosis", tag = "Domains",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("domain" = String, Path, description = "The domain"),
    ),
    responses((status = 200, description = "What was found", body = Diagnosis)),
    extensions(("x-errors" = json!({
        "invalid_request": "the domain is the platform's own",
        "rate_limit_exceeded": "the project's owner has asked for as many looks at domains as a minute has",
        "busy": "the project's owner has as many looks at domains under way as may be at a time",
    }))),
)]
pub async fn diagnose(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(named): Path<Named>,
) -> Result<Json<Diagnosis>, ApiError> {
    let hostname = named.hostname()?;
    refuse_own(&app, &hostname)?;
    app.rate_limits.count(Bucket::DomainLook, project.owner.as_str()).await.check()?;
    let _turn = app.bounds.domain_look(&project.owner).await?;
    let look = app.hostnames.look(&hostname).await;
    let (verdict, mut message) = match look.verdict() {
        Verdict::Leads => (DnsVerdict::Leads, format!("{hostname} leads here, and nothing in DNS is in the way.")),
        Verdict::Waiting(message) => (DnsVerdict::Waiting, message),
        Verdict::Blocked(message) => (DnsVerdict::Blocked, message),
    };
    let way = match verdict {
        DnsVerdict::Leads => Some(try_way(&app.db, &app.hostnames, &app.config, app.clock.now(), &hostname).await?),
        _ => None,
    };
    let http = way.map(|way| match way {
        Way::Open => HttpWay { open: Some(true), message: "Our own file came back over plain HTTP.".to_owned() },
        Way::Closed(message) => HttpWay { open: Some(false), message },
        Way::Untried(message) => HttpWay { open: None, message },
    });
    if let Some(HttpWay { open: Some(false), message: closed }) = &http {
        message.clone_from(closed);
    }
    let platform = app.hostnames.platform();
    let status = attached(&app, &project, &hostname).await?.map(|domain| view(&app, domain).status);
    let resolvers = look.seen.iter().map(|seen| {
        let finding = seen.finding(platform);
        ResolverView {
            resolver: seen.resolver.clone(),
            message: advice::sentence(&hostname, platform, &finding),
            finding: shown(&finding),
            cname: seen.aliases.clone(),
            a: addresses(&seen.ipv4),
            aaaa: addresses(&seen.ipv6),
            caa: caa(seen),
        }
    });
    Ok(Json(Diagnosis {
        attached: status.is_some(),
        verdict,
        message,
        records: advice::wanted(&hostname, platform),
        resolvers: resolvers.collect(),
        http,
        status,
        fixes: look.fixes(),
        domain: hostname,
    }))
}

/// The domain with its state, when the project has it.
async fn attached(
    app: &App,
    project: &db::permits::ProjectPermit<Member>,
    hostname: &Hostname,
) -> Result<Option<CustomDomain>, sqlx::Error> {
    if !domains::is_attached(&app.db, project, hostname).await? {
        return Ok(None);
    }
    let tls_ready = domains::tls_ready(&app.db, hostname, app.clock.now()).await?;
    let status = orders::status(&app.db, hostname).await?;
    Ok(Some(CustomDomain { domain: hostname.clone(), tls_ready, status }))
}

fn shown(finding: &Finding) -> DnsFinding {
    match finding {
        Finding::Leads => DnsFinding::Leads,
        Finding::Nothing | Finding::Dangling(_) => DnsFinding::Nothing,
        Finding::Elsewhere(_) => DnsFinding::Elsewhere,
        Finding::Partly(_) => DnsFinding::Partly,
        Finding::StaleIpv6(_) => DnsFinding::StaleIpv6,
        Finding::Proxied(_) => DnsFinding::Proxied,
        Finding::ServFail => DnsFinding::Servfail,
        Finding::NoTarget => DnsFinding::NoTarget,
        Finding::Unasked(_) => DnsFinding::Unasked,
    }
}

fn addresses(answer: &Result<Vec<IpAddr>, LookError>) -> Vec<IpAddr> {
    answer.clone().unwrap_or_default()
}

fn caa(seen: &Seen) -> Vec<DnsRecord> {
    let Ok(Some(set)) = &seen.caa else { return Vec::new() };
    let record = |record: &crate::hostnames::caa::CaaRecord| DnsRecord {
        kind: "CAA".to_owned(),
        name: set.at.clone(),
        value: record.data(),
    };
    set.records.iter().map(record).collect()
}
