//! `POST /auth/device/poll`.

use std::time::Duration;

use admin_http::{
    error::{ApiError, Code},
    extract::Json,
};
use api::device::{DevicePoll, DeviceToken};
use app::App;
use axum::{
    extract::State,
    http::{HeaderName, header},
};
use code_host::{self as codehost, FlowState, SignedIn};
use db::{
    audit::{self, Actor, NewAuditEntry},
    sign_in::{
        device_grants::{self, DeviceGrant, GrantState},
        tokens::{self, NewLimits},
        users,
    },
};
use domain::{
    Account, Timestamp, UserId,
    audit::Action,
    token::{TokenKind, TokenSecret},
};
use mail::notices::{Notice, notify};
use secrets::KeyPurpose;

use super::{DeviceCode, parse_device_code, whole_seconds};

/// Added to the interval by `slow_down` (RFC 8628, section 3.5).
const SLOW_DOWN: Duration = Duration::from_secs(5);
/// The tolerance for polls that come early, because of the client's clock and the network.
const INTERVAL_SLACK: Duration = Duration::from_millis(500);
const LABEL: &str = "svc login";

/// Polls whether the person has answered a device flow.
///
/// Wait `interval` seconds between two polls. A device code yields one token; afterwards it has expired.
#[utoipa::path(
    post, path = "/auth/device/poll", operation_id = "poll_device_flow", tag = "Device-flow login", security(()), request_body = DevicePoll,
    responses(
        (status = 200, description = "The person approved: a new `cli` token", body = DeviceToken, headers(("Cache-Control"))),
    ),
    extensions(("x-errors" = json!({
        "authorization_pending": "the person has not answered yet; keep polling",
        "expired_token": "the device code has expired or was used; start a new flow",
        "access_denied": "the person denied the sign-in",
        "slow_down": "the client polls too fast; `Retry-After` gives the new interval",
        "plan_limit_reached": "the person has as many working tokens as they may; keep polling, or revoke some in the console",
        "code_host_error": "the code host does not answer as it should; keep polling",
    }))),
)]
pub async fn poll(
    State(app): State<App>,
    Json(body): Json<DevicePoll>,
) -> Result<([(HeaderName, &'static str); 1], Json<DeviceToken>), ApiError> {
    let device_code = DeviceCode::parse(body.device_code)
        .ok_or_else(|| ApiError::invalid("`device_code` must be the one that POST /auth/device gave."))?;
    let hash = device_code.hash();
    let now = app.clock.now();
    let grant = device_grants::poll(&app.db, &hash, now).await?.ok_or_else(expired)?;
    let token = match decide(&grant, now) {
        PollDecision::Expired => return Err(expired()),
        PollDecision::Denied => return Err(denied()),
        PollDecision::TooFast => return Err(slow_down(&app, &hash, &grant, None).await?),
        PollDecision::Approved(user) => redeem(&app, &hash, GrantRedeemer::Known(user)).await?,
        PollDecision::Ask => match poll_code_host(&app, &hash, &grant).await? {
            FlowState::Pending => return Err(pending()),
            FlowState::SlowDown(interval) => return Err(slow_down(&app, &hash, &grant, interval).await?),
            FlowState::Expired => return Err(expired()),
            FlowState::Denied => {
                device_grants::deny(&app.db, &hash).await?;
                return Err(denied());
            }
            FlowState::Authorized(person) => redeem(&app, &hash, GrantRedeemer::FromCodeHost(person)).await?,
        },
    };
    let token = DeviceToken { token: token.expose().to_owned() };
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(token)))
}

/// The outcome of a poll according to the flow's row.
#[derive(Debug, PartialEq, Eq)]
enum PollDecision {
    Expired,
    Denied,
    TooFast,
    Approved(UserId),
    Ask,
}

fn decide(grant: &DeviceGrant, now: Timestamp) -> PollDecision {
    if grant.expires_at <= now {
        return PollDecision::Expired;
    }
    match (grant.state, &grant.user_id) {
        (GrantState::Used, _) | (GrantState::Approved, None) => PollDecision::Expired,
        (GrantState::Denied, _) => PollDecision::Denied,
        // Deliver an answer even to a client that polls too fast.
        (GrantState::Approved, Some(user)) => PollDecision::Approved(user.clone()),
        (GrantState::Pending, _) => {
            let interval = Duration::from_secs(u64::try_from(grant.interval_seconds).unwrap_or(0));
            let earliest = grant.last_polled_at.map(|last| last + interval.saturating_sub(INTERVAL_SLACK));
            if earliest.is_some_and(|earliest| now < earliest) { PollDecision::TooFast } else { PollDecision::Ask }
        }
    }
}

async fn poll_code_host(app: &App, hash: &[u8; 32], grant: &DeviceGrant) -> Result<FlowState, ApiError> {
    let Some(sealed) = &grant.sealed_device_code else { return Ok(FlowState::Pending) };
    let plain = app.master_key.open(KeyPurpose::CodeHost, hash, sealed).map_err(ApiError::internal)?;
    Ok(app.code_host.ask(&parse_device_code(plain)?).await?)
}

enum GrantRedeemer {
    Known(UserId),
    FromCodeHost(SignedIn),
}

/// Exchanges the code for a token, in one transaction so that neither happens without the other.
async fn redeem(app: &App, hash: &[u8; 32], redeemer: GrantRedeemer) -> Result<TokenSecret, ApiError> {
    let now = app.clock.now();
    let mut tx = app.db.begin().await?;
    if !device_grants::redeem(&mut tx, hash).await? {
        return Err(expired());
    }
    let user = match redeemer {
        GrantRedeemer::Known(user) => user,
        GrantRedeemer::FromCodeHost(person) => codehost::admit_user(&mut tx, &app.master_key, person, now).await?.id,
    };
    let secret = TokenSecret::generate();
    let limits = NewLimits::default();
    let token =
        tokens::create_for_user(&mut tx, &user, TokenKind::Cli, Some(LABEL), limits, &secret.hash(), now).await?;
    let login = users::find_login(&mut tx, &user).await?.unwrap_or_default();
    let actor = Actor::User { id: &user, login: &login, token: None };
    let entry = NewAuditEntry::for_person(Action::TokenCreate, &user).with("token", token.id.as_str());
    let entry = entry.with("kind", token.kind.as_str()).with("label", LABEL);
    audit::record(&mut tx, actor, &entry, now).await?;
    let notice = Notice::TokenCreated { label: token.label, token_kind: token.kind };
    notify(&mut tx, &Account::User(user.clone()), &format!("token_created/{}", token.id), &notice, None, now).await?;
    tx.commit().await?;
    app.events.publish_entry(&entry, actor, now);
    Ok(secret)
}

async fn slow_down(
    app: &App,
    hash: &[u8; 32],
    grant: &DeviceGrant,
    wanted: Option<Duration>,
) -> Result<ApiError, ApiError> {
    let interval = Duration::from_secs(u64::try_from(grant.interval_seconds).unwrap_or(0));
    let interval = wanted.unwrap_or(interval + SLOW_DOWN).max(interval);
    device_grants::set_interval(&app.db, hash, whole_seconds(interval)).await?;
    let message = format!("Polling too fast; leave {} seconds between polls from now on.", interval.as_secs());
    Ok(ApiError::new(Code::SlowDown, message).retry_after(interval))
}

fn pending() -> ApiError {
    ApiError::new(Code::AuthorizationPending, "The person has not answered yet; keep polling.")
}

fn expired() -> ApiError {
    ApiError::new(Code::ExpiredToken, "The device code has expired or was used; start again with POST /auth/device.")
}

fn denied() -> ApiError {
    ApiError::new(Code::AccessDenied, "The person denied the sign-in.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_millis(seconds * 1_000)
    }

    fn grant(state: GrantState, last_polled: Option<i64>) -> DeviceGrant {
        DeviceGrant {
            state,
            sealed_device_code: None,
            interval_seconds: 5,
            user_id: None,
            expires_at: at(900),
            last_polled_at: last_polled.map(at),
        }
    }

    #[test]
    fn polls_are_judged_by_state_and_pace() {
        assert_eq!(decide(&grant(GrantState::Pending, None), at(0)), PollDecision::Ask);
        assert_eq!(decide(&grant(GrantState::Pending, Some(10)), at(12)), PollDecision::TooFast);
        assert_eq!(decide(&grant(GrantState::Pending, Some(10)), at(15)), PollDecision::Ask);
        assert_eq!(decide(&grant(GrantState::Pending, None), at(900)), PollDecision::Expired);
        assert_eq!(decide(&grant(GrantState::Denied, Some(10)), at(11)), PollDecision::Denied);
        assert_eq!(decide(&grant(GrantState::Used, None), at(11)), PollDecision::Expired);
    }

    #[test]
    fn approval_is_told_at_once() {
        let user = UserId::new(at(1));
        let approved = DeviceGrant { user_id: Some(user.clone()), ..grant(GrantState::Approved, Some(10)) };
        assert_eq!(decide(&approved, at(11)), PollDecision::Approved(user));
        assert_eq!(decide(&approved, at(900)), PollDecision::Expired);
    }
}
