//! `/orgs/:name/tokens`: an organization's own tokens, for machines. They outlive their creators' membership.

use admin_http::{
    error::ApiError,
    extract::{Json, PageQuery, Path},
};
use api::{
    Done, Page,
    tokens::{ChangeToken, CreateOrgToken, CreatedOrgToken, OrgToken, OrgTokenKind, OrgTokenList, Token},
};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::{extract::State, http::StatusCode, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    orgs::tokens::{self, NewOrgToken},
    permits::{self, Admin},
    sign_in::tokens::{NewLimits, RevokedToken},
};
use domain::{
    Account, TokenId,
    audit::Action,
    gateway::KeyLimits,
    month::Month,
    token::{TokenKind, TokenSecret},
};
use mail::notices::{Notice, notify};
use serde::Deserialize;

use crate::tokens::{limit_change, parse_label, touch, validate_limits, with_limits};

/// The token in a path.
#[derive(Debug, Deserialize)]
pub struct OrgTokenPath {
    id: TokenId,
}

/// Lists an organization's active tokens, newest first.
///
/// Needs the role of an admin. Secrets are shown once, when a token is made.
#[utoipa::path(
    get, path = "/orgs/{name}/tokens", operation_id = "list_org_tokens", tag = "Organizations",
    params(("name" = String, Path, description = "The organization's name"), Page),
    responses((status = 200, description = "The tokens", body = OrgTokenList)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn list(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Admin>,
    page: PageQuery<TokenId>,
) -> Result<Json<OrgTokenList>, ApiError> {
    let month = Month::from_timestamp(app.clock.now());
    let mut tokens = tokens::page(&app.db, &org, month, page.before.as_ref(), page.rows()).await?;
    let next_cursor = page.truncate(&mut tokens, |token| token.id.to_string());
    Ok(Json(OrgTokenList { tokens: tokens.into_iter().map(view).collect(), next_cursor }))
}

/// Creates a token that an organization owns.
///
/// The token stays valid when its creator leaves. The secret is in this response only and is not shown again.
#[utoipa::path(
    post, path = "/orgs/{name}/tokens", operation_id = "create_org_token", tag = "Organizations", request_body = CreateOrgToken,
    params(("name" = String, Path, description = "The organization's name")),
    responses(
        (status = 201, description = "The token, with its secret", body = CreatedOrgToken, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
        "plan_limit_reached": "the organization has as many tokens as it may",
    }))),
)]
pub async fn create(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Admin>,
    Json(body): Json<CreateOrgToken>,
) -> Result<impl IntoResponse, ApiError> {
    let label = body.label.as_deref().map(parse_label).transpose()?.flatten();
    let kind = match body.kind {
        OrgTokenKind::Ai => TokenKind::Ai,
        OrgTokenKind::Deploy => TokenKind::Deploy,
    };
    let asks = KeyLimits { body_bytes: body.gateway_body_bytes, max_tokens: body.gateway_max_tokens };
    let limits = validate_limits(kind, NewLimits { month: body.monthly_limit_cents, asks })?;
    let secret = TokenSecret::generate();
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = permits::lock(&mut change, org).await?;
    let new = NewOrgToken { kind, label, limits, secret: &secret.hash() };
    let token = tokens::create(&mut change, &org, &caller.user, new, now).await?;
    let entry = NewAuditEntry::for_org(Action::TokenCreate, &org.id, &org.name)
        .with("token", token.id.as_str())
        .with("kind", kind.as_str())
        .with("label", label);
    change.audit(entry);
    touch(&mut change, kind, &token.id);
    let notice = Notice::TokenCreated { label: token.label.clone(), token_kind: kind };
    let account = Account::Org(org.id.clone());
    notify(&mut change, &account, &format!("token_created/{}", token.id), &notice, None, now).await?;
    let propagation = change.commit().await?;
    let created = CreatedOrgToken { record: view(token), token: secret.expose().to_owned() };
    Ok((StatusCode::CREATED, propagation, Json(created)))
}

/// Sets or removes limits of an organization's AI key.
///
/// Once its monthly limit is reached, the key is refused with `limit_reached` until the next UTC month; requests in
/// progress count at their maximum cost. The change is in force on every edge when the response arrives.
#[utoipa::path(
    patch, path = "/orgs/{name}/tokens/{id}", operation_id = "update_org_token", tag = "Organizations", request_body = ChangeToken,
    params(
        ("name" = String, Path, description = "The organization's name"),
        ("id" = String, Path, description = "The token's id"),
    ),
    responses((status = 200, description = "The token", body = OrgToken, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn change(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Admin>,
    Path(OrgTokenPath { id }): Path<OrgTokenPath>,
    Json(body): Json<ChangeToken>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let month = Month::from_timestamp(change.now());
    let org = permits::lock(&mut change, org).await?;
    let wanted = limit_change(&body)?;
    let token = tokens::limit(&mut change, &org, &id, &wanted, month).await?;
    let entry = NewAuditEntry::for_org(Action::TokenLimit, &org.id, &org.name).with("token", id.as_str());
    change.audit(with_limits(entry, &wanted));
    touch(&mut change, token.kind, &id);
    Ok((change.commit().await?, Json(view(token))))
}

/// Revokes an organization's token. The next request with it is refused.
///
/// Needs the role of an admin.
#[utoipa::path(
    delete, path = "/orgs/{name}/tokens/{id}", operation_id = "revoke_org_token", tag = "Organizations",
    params(
        ("name" = String, Path, description = "The organization's name"),
        ("id" = String, Path, description = "The token's id"),
    ),
    responses((status = 200, description = "The token was revoked", body = Done, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn revoke(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Admin>,
    Path(OrgTokenPath { id }): Path<OrgTokenPath>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = permits::lock(&mut change, org).await?;
    let revoked = tokens::revoke(&mut change, &org, &id, now).await?;
    let RevokedToken { kind, label } = revoked.ok_or_else(|| ApiError::not_found("token"))?;
    let entry = NewAuditEntry::for_org(Action::TokenRevoke, &org.id, &org.name)
        .with("token", id.as_str())
        .with("kind", kind.as_str());
    change.audit(entry);
    touch(&mut change, kind, &id);
    let (account, notice) = (Account::Org(org.id.clone()), Notice::TokenRevoked { label, token_kind: kind });
    notify(&mut change, &account, &format!("token_revoked/{id}"), &notice, None, now).await?;
    Ok((change.commit().await?, Json(Done::OK)))
}

fn view(token: db::orgs::tokens::OrgToken) -> OrgToken {
    let record = Token {
        id: token.id,
        kind: token.kind,
        label: token.label,
        created_at: token.created_at,
        revoked_at: None,
        monthly_limit_cents: token.limit,
        month_cents: token.month_cost.cents(),
        month_microcents: Some(token.month_cost.0),
        gateway_body_bytes: token.asks.body_bytes,
        gateway_max_tokens: token.asks.max_tokens,
    };
    OrgToken { record, created_by: token.created_by }
}
