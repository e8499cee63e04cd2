//! `GET /projects/:name/domains/:domain/diagnosis`: a domain's DNS records as they are and as they should be.

use std::net::IpAddr;

use admin_http::{
    error::ApiError,
    extract::{Json, Path},
};
use api::domains::{Delegation, Diagnosis, DnsFinding, DnsRecord, DnsVerdict, Fix, HttpWay, ResolverView};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
};
use axum::extract::State;
use db::{
    certificates::orders,
    permits::Member,
    projects::{
        claims,
        domains::{self, CustomDomain},
    },
};
use domain::{Hostname, ProjectId};
use hostnames::{
    DnsDestination, DnsLookup, HostnameVerdict, HostnameView, LookError, advice,
    probe::way::{PathOutcome, test_path},
};

use super::{DomainPath, count_domain_check, reject_platform_domain, view};

/// Diagnoses a domain: its DNS records as they are and as they should be, and what blocks a certificate.
///
/// Each of the platform's resolvers is queried separately, without a cache. Also works before the domain is attached.
/// Takes some seconds if a resolver does not answer. At most 60 requests a minute per person.
#[utoipa::path(
    get, path = "/projects/{name}/domains/{domain}/diagnosis", operation_id = "diagnose_domain", tag = "Domains",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("domain" = String, Path, description = "The domain"),
    ),
    responses((status = 200, description = "What was found", body = Diagnosis)),
    extensions(("x-errors" = json!({
        "invalid_request": "the domain is the platform's own",
        "rate_limit_exceeded": "you have asked for as many looks at domains as a minute has",
        "busy": "you have as many looks at domains under way as may be at a time",
    }))),
)]
pub async fn diagnose(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(named): Path<DomainPath>,
) -> Result<Json<Diagnosis>, ApiError> {
    let hostname = named.hostname()?;
    reject_platform_domain(&app, &hostname)?;
    count_domain_check(&app, &caller).await?;
    let _turn = app.bounds.domain_look(&caller.paying_account()).await?;
    let (look, of_fallback, delegation) = tokio::join!(
        query_dns(&app, &hostname),
        app.certificates.fallback_caa_identities(),
        find_delegation(&app, &project.id, &hostname)
    );
    let look = look?;
    let (mut verdict, mut message) = match look.verdict() {
        HostnameVerdict::Leads => {
            (DnsVerdict::Leads, format!("{hostname} leads here, and nothing in DNS is in the way."))
        }
        HostnameVerdict::Waiting(message) => (DnsVerdict::Waiting, message),
        HostnameVerdict::Blocked(message) => (DnsVerdict::Blocked, message),
    };
    let way = match verdict {
        // A proxy may forward the authority's requests to us.
        DnsVerdict::Leads | DnsVerdict::Blocked if verdict == DnsVerdict::Leads || look.is_proxied() => {
            Some(test_path(&app.db, &app.hostnames, &app.config, app.clock.now(), &hostname).await?)
        }
        _ => None,
    };
    let http = way.map(|way| match way {
        PathOutcome::Open => {
            HttpWay { open: Some(true), message: "Our own file came back over plain HTTP.".to_owned() }
        }
        PathOutcome::Closed(message) => HttpWay { open: Some(false), message },
        PathOutcome::Untried(message) => HttpWay { open: None, message },
    });
    let mut fixes = look.fixes();
    match &http {
        Some(HttpWay { open: Some(false), message: closed }) if verdict == DnsVerdict::Leads => {
            message.clone_from(closed);
        }
        Some(HttpWay { open: Some(true), .. }) if verdict == DnsVerdict::Blocked && look.caa_obstacle().is_none() => {
            (verdict, fixes) = (DnsVerdict::Leads, Vec::new());
            message = format!("{hostname} leads to a proxy that lets our own file through, and nothing is in the way.");
        }
        _ => {}
    }
    // CAA may allow the authority that is tried first, but not the second.
    if let Some(fix) = of_fallback.and_then(|identities| look.caa_fix_for(&identities))
        && fixes.iter().all(|it| it.record != fix.record)
    {
        let why = "The second certificate authority, which is asked when the first fails, may not issue without it."
            .to_owned();
        fixes.push(Fix { why, ..fix });
    }
    let platform = app.hostnames.platform();
    let status = find_attached(&app, &project, &hostname).await?.map(|domain| view(&app, domain).status);
    let resolvers = look.seen.iter().map(|seen| {
        let finding = seen.judge_destination(platform);
        ResolverView {
            resolver: seen.resolver.clone(),
            message: advice::sentence(&hostname, seen.owner(&hostname), platform, &finding),
            finding: shown(&finding),
            cname: seen.aliases.clone(),
            a: addresses(&seen.ipv4),
            aaaa: addresses(&seen.ipv6),
            caa: caa(seen),
        }
    });
    let taken = claims::find_holder(&app.db, &hostname).await?.is_some_and(|held| held.project != project.id);
    Ok(Json(Diagnosis {
        attached: status.is_some(),
        taken,
        verdict,
        message,
        records: advice::target_records(&hostname, platform),
        delegation,
        resolvers: resolvers.collect(),
        http,
        status,
        fixes,
        domain: hostname,
    }))
}

/// Checks the hostname's DNS from the point of view of the authority that its next order goes to.
async fn query_dns(app: &App, hostname: &Hostname) -> Result<DnsLookup, sqlx::Error> {
    let failures = orders::count_failures(&app.db, hostname).await?;
    let account = app.certificates.account_url(&app.db, failures).await?;
    let look = match app.certificates.caa_identities(failures).await {
        Some(identities) => app.hostnames.lookup_with_identities(hostname, &identities).await,
        None => app.hostnames.lookup(hostname).await,
    };
    Ok(look.with_account(account))
}

/// Returns the record that proves the hostname before it points here, and whether it is set.
async fn find_delegation(app: &App, project: &ProjectId, hostname: &Hostname) -> Option<Delegation> {
    let value = app.certificates.delegation(project, hostname)?;
    let stands = app.hostnames.is_delegated(hostname, &value).await;
    let record = DnsRecord { kind: "CNAME".to_owned(), name: format!("_acme-challenge.{hostname}"), value };
    Some(Delegation { record, stands })
}

/// Returns the domain with its state, if the project has it.
async fn find_attached(
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

fn shown(finding: &DnsDestination) -> DnsFinding {
    match finding {
        DnsDestination::Leads => DnsFinding::Leads,
        DnsDestination::Nothing | DnsDestination::Dangling(_) => DnsFinding::Nothing,
        DnsDestination::Elsewhere(_) => DnsFinding::Elsewhere,
        DnsDestination::Partly(_) => DnsFinding::Partly,
        DnsDestination::StaleIpv6(_) => DnsFinding::StaleIpv6,
        DnsDestination::Proxied(_) => DnsFinding::Proxied,
        DnsDestination::ServFail { .. } => DnsFinding::Servfail,
        DnsDestination::NoTarget => DnsFinding::NoTarget,
        DnsDestination::Unasked(_) => DnsFinding::Unasked,
    }
}

fn addresses(answer: &Result<Vec<IpAddr>, LookError>) -> Vec<IpAddr> {
    answer.clone().unwrap_or_default()
}

fn caa(seen: &HostnameView) -> Vec<DnsRecord> {
    let Ok(Some(set)) = &seen.caa else { return Vec::new() };
    let record = |record: &hostnames::caa::CaaRecord| DnsRecord {
        kind: "CAA".to_owned(),
        name: set.at.clone(),
        value: record.data(),
    };
    set.records.iter().map(record).collect()
}
