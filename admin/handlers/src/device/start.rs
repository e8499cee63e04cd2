//! `POST /auth/device`.

use admin_http::{error::ApiError, extract::Json};
use api::device::DeviceStart;
use app::App;
use axum::{
    extract::State,
    http::{HeaderName, header},
};
use db::sign_in::device_grants::{self, NewDeviceGrant};
use domain::limits::DEVICE_CODE_LIFETIME;
use secrecy::ExposeSecret as _;
use secrets::KeyPurpose;

use super::{DeviceCode, whole_seconds};

/// The maximum number of user codes to try. Collisions are rare: there are 20^8 codes.
const USER_CODE_TRIES: usize = 3;

/// Starts a device flow, which yields a `cli` token.
///
/// Show the person `user_code` and `verification_uri`, then poll. Takes no body.
#[utoipa::path(
    post, path = "/auth/device", operation_id = "start_device_flow", tag = "Device-flow login", security(()),
    responses(
        (status = 200, description = "The flow waits for the person", body = DeviceStart, headers(("Cache-Control"))),
    ),
    extensions(("x-errors" = json!({
        "code_host_error": "the code host does not answer as it should, or signing in is not set up",
    }))),
)]
pub async fn start(State(app): State<App>) -> Result<([(HeaderName, &'static str); 1], Json<DeviceStart>), ApiError> {
    for _ in 0..USER_CODE_TRIES {
        let begun = app.code_host.begin().await?;
        let device_code = DeviceCode::generate();
        let hash = device_code.hash();
        let seal = |code: &str| app.master_key.seal(KeyPurpose::CodeHost, &hash, code.as_bytes());
        let sealed = begun.device_code.as_ref().map(|code| seal(code.expose_secret()));
        let now = app.clock.now();
        let expires_in = begun.expires_in.min(DEVICE_CODE_LIFETIME);
        let grant = NewDeviceGrant {
            device_code_hash: &hash,
            user_code: &begun.user_code,
            sealed_device_code: sealed.as_deref(),
            interval_seconds: whole_seconds(begun.interval),
            expires_at: now + expires_in,
        };
        if device_grants::insert(&app.db, &grant, now).await? {
            let started = DeviceStart {
                device_code: device_code.0,
                user_code: begun.user_code,
                verification_uri: begun.verification_uri,
                verification_uri_complete: begun.verification_uri_complete,
                expires_in: expires_in.as_secs(),
                interval: begun.interval.as_secs(),
            };
            return Ok(([(header::CACHE_CONTROL, "no-store")], Json(started)));
        }
    }
    Err(ApiError::internal(anyhow::anyhow!("{USER_CODE_TRIES} user codes in a row are taken")))
}
