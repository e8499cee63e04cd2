//! `/orgs/:name/icon`: an organization's public icon. Its bytes decide the format that it is served as.

mod judge;

use admin_http::{
    error::{ApiError, Code},
    extract::{Json, Path, Query, read_body_up_to},
};
use api::{Done, orgs::IconStored};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use db::{
    audit::NewAuditEntry,
    code_host::installations,
    orgs::{
        self,
        icons::{self, OrgIcon},
    },
    permits::{self, Admin},
};
use domain::{ChangeSubject, OrgName, audit::Action, limits::ICON_BYTES};
use live::bus::SURROGATE_KEY;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use url::Url;

use self::judge::IconError;
use super::icon_url;

const VERSION_BYTES: usize = 8;
/// `Cache-Control` for an address with the icon's version, whose content never changes.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// `Cache-Control` for an address without a version, whose content may change at any time.
const FOR_A_MOMENT: HeaderValue = HeaderValue::from_static("public, max-age=60");
/// `Content-Security-Policy` of the image, for when it is opened as a document: nothing is allowed.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
/// Lets the console, which is on another host, embed the image.
const CROSS_ORIGIN: (&str, HeaderValue) = ("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));

/// The query that selects a version of the icon.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Wanted {
    /// The version, as in `icon_url`. While it is current, the response may be cached for a year.
    v: Option<String>,
}

/// Serves an organization's icon. Needs no token.
///
/// An organization without an icon of its own shows the code host's picture of the account whose repositories it
/// deploys from, or otherwise of an account whose installation is shared with it.
#[utoipa::path(
    get, path = "/orgs/{name}/icon", operation_id = "show_org_icon", tag = "Organizations", security(()),
    params(("name" = String, Path, description = "The organization's name"), Wanted),
    responses(
        (status = 200, description = "The image: PNG, JPEG, WebP or GIF", headers(
            ("ETag"), ("Cache-Control"), ("Content-Security-Policy"), ("Cross-Origin-Resource-Policy"), ("X-Content-Type-Options"),
        ), content(
            (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/webp"), (Vec<u8> = "image/gif"),
        )),
        (status = 302, description = "The picture stands at the code host", headers(("Location"), ("Cache-Control"), ("Referrer-Policy"))),
        (status = 304, description = "The version that `If-None-Match` names is current", headers(("ETag"), ("Cache-Control"))),
    ),
    extensions(("x-errors" = json!({
        "not_found": "the organization does not exist, or has no picture",
    }))),
)]
pub async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let no_icon = || ApiError::not_found("icon");
    let name: OrgName = name.parse().map_err(|_| no_icon())?;
    if let Some(known) = headers.get(header::IF_NONE_MATCH)
        && let Some(version) = icons::find_version(&app.db, &name).await?
        && matches_version(known, &version)
    {
        let kept = [(header::ETAG, etag(&version)?), (header::CACHE_CONTROL, cacheable(&wanted, &version))];
        return Ok((StatusCode::NOT_MODIFIED, kept).into_response());
    }
    let Some(icon) = icons::find(&app.db, &name).await? else {
        return redirect_to_picture(&app, &name).await?.ok_or_else(no_icon);
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(icon.format.content_type())),
        (header::ETAG, etag(&icon.version)?),
        (header::CACHE_CONTROL, cacheable(&wanted, &icon.version)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    // Edges that cache the icon drop it at the next change to the organization.
    let ends_with = HeaderValue::try_from(icon.org.as_str()).map_err(ApiError::internal)?;
    Ok((headers, [CROSS_ORIGIN, (SURROGATE_KEY, ends_with)], icon.image).into_response())
}

/// Redirects to the code host's picture for an organization without an icon.
async fn redirect_to_picture(app: &App, name: &OrgName) -> Result<Option<Response>, ApiError> {
    let Some(org) = orgs::find_id(&app.db, name).await? else { return Ok(None) };
    let Some(picture) = installations::find_org_avatar(&app.db, &org).await? else { return Ok(None) };
    // The code host supplies the address, so accept web addresses only.
    let is_page = Url::parse(&picture).is_ok_and(|url| matches!(url.scheme(), "https" | "http"));
    let location = HeaderValue::try_from(picture).ok().filter(|_| is_page);
    Ok(location.map(|location| {
        let headers = [
            (header::LOCATION, location),
            (header::CACHE_CONTROL, FOR_A_MOMENT),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        ];
        (StatusCode::FOUND, headers).into_response()
    }))
}

/// Stores an organization's icon.
///
/// The body is the image itself, of at most 512 KB. Its bytes determine its format, regardless of `Content-Type`.
#[utoipa::path(
    put, path = "/orgs/{name}/icon", operation_id = "set_org_icon", tag = "Organizations",
    params(("name" = String, Path, description = "The organization's name")),
    request_body(description = "A PNG, JPEG, WebP or GIF image of at most 512 KB", content(
        (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/webp"), (Vec<u8> = "image/gif"),
    )),
    responses((status = 200, description = "The icon was stored", body = IconStored, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
        "invalid_request": "the body did not arrive whole",
        "payload_too_large": "the image is larger than 512 KB, or has more than 4096 pixels in width or height",
        "unsupported_media_type": "the body is not a whole PNG, JPEG, WebP or GIF image",
    }))),
)]
pub async fn put(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Admin>,
    body: Body,
) -> Result<impl IntoResponse, ApiError> {
    let image = read_body_up_to(body, ICON_BYTES).await?;
    let format = judge::detect_format(&image)?;
    let version = hex::encode(&Sha256::digest(&image)[..VERSION_BYTES]);
    let icon = OrgIcon { org: org.id.clone(), format, image: image.into(), version };
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = permits::lock(&mut change, org).await?;
    icons::put(&mut change, &org, &icon, now).await?;
    let entry = NewAuditEntry::for_org(Action::IconSet, &org.id, &org.name).with("version", &*icon.version);
    change.audit(entry);
    change.touch(ChangeSubject::Org(org.id.clone()));
    let propagation = change.commit().await?;
    Ok((propagation, Json(IconStored { ok: true, icon_url: icon_url(&org.name, &icon.version) })))
}

/// Removes an organization's icon, so that the picture at the code host is shown again.
///
/// Needs the role of an admin.
#[utoipa::path(
    delete, path = "/orgs/{name}/icon", operation_id = "remove_org_icon", tag = "Organizations",
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The icon was removed", body = Done, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn delete(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Admin>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let org = permits::lock(&mut change, org).await?;
    if !icons::remove(&mut change, &org).await? {
        return Err(ApiError::not_found("icon"));
    }
    let entry = NewAuditEntry::for_org(Action::IconRemove, &org.id, &org.name);
    change.audit(entry);
    change.touch(ChangeSubject::Org(org.id.clone()));
    Ok((change.commit().await?, Json(Done::OK)))
}

impl From<IconError> for ApiError {
    fn from(error: IconError) -> Self {
        match error {
            IconError::Kind => Self::new(
                Code::UnsupportedMediaType,
                "The body is not an image; send the bytes of a PNG, JPEG, WebP or GIF file.",
            ),
            IconError::Incomplete => Self::new(
                Code::UnsupportedMediaType,
                "The image is cut off or damaged; send the whole file, or save it anew.",
            ),
            IconError::Dimensions => Self::new(
                Code::PayloadTooLarge,
                "The image has more than 4096 pixels in width or height; 256 by 256 are plenty.",
            ),
        }
    }
}

fn etag(version: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::try_from(format!("\"{version}\"")).map_err(ApiError::internal)
}

/// Returns whether `If-None-Match` matches this version, by the weak comparison that RFC 9110 requires.
fn matches_version(if_none_match: &HeaderValue, version: &str) -> bool {
    let tags = if_none_match.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).any(|tag| tag == "*" || tag.trim_matches('"') == version)
}

fn cacheable(wanted: &Wanted, version: &str) -> HeaderValue {
    if wanted.v.as_deref() == Some(version) { FOREVER } else { FOR_A_MOMENT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_version_is_recognized_in_every_form() {
        let names = |value: &'static str| matches_version(&HeaderValue::from_static(value), "0123456789abcdef");
        for known in ["\"0123456789abcdef\"", "W/\"0123456789abcdef\"", "\"x\", \"0123456789abcdef\"", "*"] {
            assert!(names(known), "{known}");
        }
        assert!(!names("\"0123456789abcdee\""));
    }
}
