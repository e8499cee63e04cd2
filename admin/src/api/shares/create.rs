//! `POST /shares`: receive → pack → one transaction makes the project, its deployment and its address. Before that
//! there is no row, and a failure leaves nothing.

use std::{fs::File, time::Duration};

use api::deployments::Uploaded;
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use db::{
    deployments::{Content, Origin},
    shares::{self, CreateError, NewShare},
};
use domain::{
    DeploymentId, ShareName, Timestamp,
    access::SitePassword,
    changes::RouteChange,
    limits::{SHARE_TTL_DAYS, SHARE_TTL_DEFAULT_DAYS},
};
use http::HeaderName;
use packs::Published;
use serde::Deserialize;

use crate::{
    api::deployments::receive::{self, OriginHeaders, Turn},
    app::App,
    auth::CliUser,
    error::ApiError,
    extract::{Json, Query},
    middleware::idempotency::Idempotency,
};

const SHARE_PASSWORD: HeaderName = HeaderName::from_static("x-svc-share-password");
/// Three words are one of many millions: so many collisions in a row mean something else is wrong.
const NAME_ATTEMPTS: usize = 10;

/// The query that says how long a share lives.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Lifetime {
    /// The number of days after which the share expires: 1 to 30, 7 when absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 30)]
    ttl: Option<String>,
}

/// Publishes a folder at an address of three words, for some days.
///
/// The body is an archive under the rules of `POST /projects/{name}/deployments`. The address is unlisted, but no
/// secret: protect what is not for everybody with a password.
#[utoipa::path(
    post, path = "/shares", tag = "Shares",
    params(
        Lifetime,
        (
            "x-svc-share-password" = Option<SitePassword>, Header,
            description = "Visitors are asked for this password: 4 to 128 characters"
        ),
        OriginHeaders,
    ),
    request_body(content = Vec<u8>, content_type = "application/gzip", description = "A gzipped tarball"),
    responses(
        (status = 201, description = "The share is served now", body = Uploaded, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "invalid_request": "the `ttl`, the password or the `Idempotency-Key` breaks a rule, or the upload broke off",
        "busy": "as many uploads are being received, or passwords hashed, as the server does at a time",
    }))),
)]
pub async fn create(
    State(app): State<App>,
    caller: CliUser,
    idempotency: Idempotency,
    Query(lifetime): Query<Lifetime>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let days = days(lifetime.ttl.as_deref())?;
    let password = password(&headers)?;
    let spooled = Turn::wait(&app, &headers).await?.receive(&app, body).await?;
    let origin = receive::origin(&headers, caller.user.vcs_login.clone());
    let wanted = Wanted { caller, origin, days, password };
    let publisher = app.clone();
    spooled.publish(&app, idempotency, async move |file| publish(&publisher, wanted, file).await).await
}

/// A share as it was asked for.
struct Wanted {
    caller: CliUser,
    origin: Origin,
    days: u32,
    password: Option<SitePassword>,
}

async fn publish(app: &App, mut wanted: Wanted, spooled: File) -> Result<Response, ApiError> {
    let password_hash = match wanted.password.take() {
        Some(password) => Some(app.bounds.hash(password).await?),
        None => None,
    };
    let deployment = DeploymentId::new(app.clock.now());
    let published = app.store.publish(&deployment, spooled, app.clock.now()).await?;
    let lifetime = Duration::from_hours(24) * wanted.days;
    let expires_at = app.clock.now() + lifetime;
    // When this fails the pack stays, because the commit may have succeeded: if it has not, it is found as an orphan.
    let (name, change) = make(app, &wanted, &deployment, &published, password_hash.as_deref(), expires_at).await?;
    let propagation = app.edges.apply(change).await;
    let answer = Uploaded {
        deployment_id: deployment,
        url: app.addresses.share_url(&name),
        expires_at: Some(expires_at),
        warnings: published.warnings,
    };
    Ok((StatusCode::CREATED, propagation, Json(answer)).into_response())
}

/// Makes the rows, under a name that is free.
async fn make(
    app: &App,
    wanted: &Wanted,
    deployment: &DeploymentId,
    published: &Published,
    password_hash: Option<&str>,
    expires_at: Timestamp,
) -> Result<(ShareName, RouteChange), ApiError> {
    let content = Content { files: published.files, bytes: published.bytes };
    for _ in 0..NAME_ATTEMPTS {
        let name = ShareName::random();
        let (user, actor, origin) = (&wanted.caller.user.id, wanted.caller.actor(), &wanted.origin);
        let new = NewShare { user, actor, name: &name, deployment, origin, content, password_hash, expires_at };
        let mut tx = app.db.begin().await?;
        match shares::create(&mut tx, new, app.clock.now()).await {
            Ok(change) => {
                tx.commit().await?;
                return Ok((name, change));
            }
            Err(CreateError::NameTaken) => {}
            Err(CreateError::Db(error)) => return Err(error.into()),
        }
    }
    Err(ApiError::internal(anyhow::anyhow!("no free name for a share in {NAME_ATTEMPTS} attempts")))
}

fn days(ttl: Option<&str>) -> Result<u32, ApiError> {
    let Some(ttl) = ttl else { return Ok(SHARE_TTL_DEFAULT_DAYS) };
    let digits_only = ttl.bytes().all(|b| b.is_ascii_digit());
    let days = ttl.parse().ok().filter(|days| digits_only && SHARE_TTL_DAYS.contains(days));
    days.ok_or_else(|| ApiError::invalid("`ttl` must be a whole number of days from 1 to 30."))
}

fn password(headers: &HeaderMap) -> Result<Option<SitePassword>, ApiError> {
    let Some(value) = headers.get(SHARE_PASSWORD) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned);
    let password = text.and_then(|text| SitePassword::try_from(text).ok());
    password.map(Some).ok_or_else(|| ApiError::invalid("X-Svc-Share-Password must be 4 to 128 characters of UTF-8."))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_lifetime_is_one_to_thirty_whole_days() {
        assert_eq!(days(None).unwrap(), 7);
        assert_eq!(days(Some("1")).unwrap(), 1);
        assert_eq!(days(Some("30")).unwrap(), 30);
        for bad in ["0", "31", "", "7.5", "-1", "+7", " 7", "seven", "99999999999"] {
            assert!(days(Some(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_password_in_a_header_keeps_the_rules() {
        let given =
            |bytes| password(&HeaderMap::from_iter([(SHARE_PASSWORD, HeaderValue::from_bytes(bytes).unwrap())]));
        assert!(password(&HeaderMap::new()).unwrap().is_none());
        assert_eq!(given("pässword".as_bytes()).unwrap().unwrap().expose(), "pässword");
        assert!(given(b"abc").is_err());
        assert!(given(b"\xff\xff\xff\xff").is_err());
    }
}
