//! `POST /shares`: receive → write the pack → create the share in one change ([`acts::publishing::share`]).

use acts::publishing::{
    receive::{self, OriginHeaders, ReceivedBody, UploadSlot},
    room,
    share::{self, PublishedShare, ShareOrder},
};
use admin_http::{
    error::ApiError,
    extract::{Json, Query},
};
use api::deployments::Uploaded;
use app::{
    App,
    auth::{
        Caller, CliUser,
        second_look::{self, AccessSubject},
    },
    middleware::idempotency::Idempotency,
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use domain::{
    access::SitePassword,
    limits::{SHARE_TTL_DAYS, SHARE_TTL_DEFAULT_DAYS},
};
use http::HeaderName;
use serde::Deserialize;

const SHARE_PASSWORD: HeaderName = HeaderName::from_static("x-svc-share-password");

/// The query that sets the share's lifetime.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Lifetime {
    /// The number of days after which the share expires: 1 to 30; 7 when absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 30)]
    ttl: Option<String>,
}

/// Publishes a folder at an address of three words for some days.
///
/// The body is an archive under the rules of `POST /projects/{name}/deployments`. The address is unlisted but not
/// secret: protect anything that is not for everybody with a password.
#[utoipa::path(
    post, path = "/shares", operation_id = "create_share", tag = "Shares",
    params(
        Lifetime,
        (
            "x-svc-share-password" = Option<SitePassword>, Header,
            description = "Visitors are asked for this password: 4 to 128 characters"
        ),
        OriginHeaders,
    ),
    request_body(
        content((Vec<u8> = "application/gzip"), (Vec<u8> = "application/zip"), (Vec<u8> = "application/zstd")),
        description = "A gzipped tarball, a zip archive, or a tarball compressed by Zstandard",
    ),
    responses(
        (status = 201, description = "The share is served now", body = Uploaded, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "invalid_request": "the `ttl`, the password or the `Idempotency-Key` breaks a rule, or the upload broke off",
        "plan_limit_reached": "you have as many live shares as your plan allows, or it has no room for more files",
        "busy": "you have as many uploads under way as you may, the server does as much as it can, its disk is nearly full, or its store does not answer",
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
    let idempotency = idempotency.with_secret_header(password.as_ref().map(SitePassword::expose));
    let format = receive::check_headers(&headers)?;
    let idempotency = idempotency.with_secret_header(receive::format_shape(format));
    let payer = caller.paying_account();
    room::check_share(&app, payer.account(), idempotency.attempt(&app).await?).await?;
    let slot = UploadSlot::wait(&app.bounds, &payer, &headers).await?;
    let uploader = Caller::User(caller.clone());
    let spool = app.spool_folder();
    let received = tokio::select! {
        received = slot.receive(body, &spool) => received?,
        refusal = second_look::until_revoked(&app, &uploader, AccessSubject::Own) => return Err(refusal),
    };
    let origin = receive::origin(&headers, caller.user.vcs_login.clone());
    let sha256 = received.sha256;
    let publishing = publish(app.clone(), ShareOrder { caller, origin, days, format, password }, received);
    idempotency.run(&app, sha256, app.in_background(publishing)).await
}

async fn publish(app: App, order: ShareOrder, received: ReceivedBody) -> Result<Response, ApiError> {
    let ReceivedBody { file, slot: _slot, .. } = received;
    let PublishedShare { name, deployment, expires_at, warnings, propagation } =
        share::publish(&app, order, file).await?;
    let answer = Uploaded {
        deployment_id: deployment,
        url: app.addresses.share_url(&name),
        expires_at: Some(expires_at),
        warnings,
    };
    Ok((StatusCode::CREATED, propagation, Json(answer)).into_response())
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
