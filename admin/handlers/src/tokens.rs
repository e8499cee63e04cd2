//! `/tokens`: a person's own tokens.

use admin_http::{
    error::ApiError,
    extract::{Json, PageQuery, Path},
};
use api::{
    Done, Page,
    tokens::{ChangeToken, CreateToken, CreatedToken, Token, TokenList, UserTokenKind},
};
use app::{App, auth::CliUser, change::Change};
use axum::{extract::State, http::StatusCode, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    sign_in::tokens::{self, LimitChange, LimitError, NewLimits, RevokedToken, TokenAndCost},
};
use domain::{
    Account, TokenId,
    audit::Action,
    changes::ChangeSubject,
    gateway::KeyLimits,
    limits::TOKEN_LABEL_CHARS,
    line::{self, LineError},
    month::Month,
    token::{TokenKind, TokenSecret},
    usage::Microcents,
};
use mail::notices::{Notice, notify};

/// Lists your tokens, newest first, including revoked ones.
///
/// Secrets are shown once, when a token is made. Tokens of organizations are in the list of their organization.
#[utoipa::path(
    get, path = "/tokens", operation_id = "list_tokens", tag = "Tokens",
    params(Page),
    responses((status = 200, description = "The tokens", body = TokenList)),
)]
pub async fn list(
    State(app): State<App>,
    caller: CliUser,
    page: PageQuery<TokenId>,
) -> Result<Json<TokenList>, ApiError> {
    let month = Month::from_timestamp(app.clock.now());
    let mut tokens = tokens::list_for_user(&app.db, &caller.user.id, month, page.before.as_ref(), page.rows()).await?;
    let next_cursor = page.truncate(&mut tokens, |listed| listed.token.id.to_string());
    Ok(Json(TokenList { tokens: tokens.into_iter().map(view).collect(), next_cursor }))
}

/// Creates a token of your own.
///
/// The secret is in this response only and is not shown again.
#[utoipa::path(
    post, path = "/tokens", operation_id = "create_token", tag = "Tokens", request_body = CreateToken,
    responses(
        (status = 201, description = "The token, with its secret", body = CreatedToken, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "plan_limit_reached": "you have as many working tokens as you may",
    }))),
)]
pub async fn create(
    State(app): State<App>,
    caller: CliUser,
    Json(body): Json<CreateToken>,
) -> Result<impl IntoResponse, ApiError> {
    let label = body.label.as_deref().map(parse_label).transpose()?.flatten();
    let kind = match body.kind {
        UserTokenKind::Cli => TokenKind::Cli,
        UserTokenKind::Ai => TokenKind::Ai,
    };
    let asks = KeyLimits { body_bytes: body.gateway_body_bytes, max_tokens: body.gateway_max_tokens };
    let limits = validate_limits(kind, NewLimits { month: body.monthly_limit_cents, asks })?;
    let secret = TokenSecret::generate();
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let token = tokens::create_for_user(&mut change, &caller.user.id, kind, label, limits, &secret.hash(), now).await?;
    let entry = NewAuditEntry::for_person(Action::TokenCreate, &caller.user.id).with("token", token.id.as_str());
    change.audit(entry.with("kind", kind.as_str()).with("label", label));
    touch(&mut change, kind, &token.id);
    let notice = Notice::TokenCreated { label: token.label.clone(), token_kind: kind };
    let account = Account::User(caller.user.id.clone());
    notify(&mut change, &account, &format!("token_created/{}", token.id), &notice, None, now).await?;
    let propagation = change.commit().await?;
    let record = view(TokenAndCost { token, month_cost: Microcents::default() });
    let created = CreatedToken { record, token: secret.expose().to_owned() };
    Ok((StatusCode::CREATED, propagation, Json(created)))
}

/// Sets or removes limits of one of your AI keys.
///
/// Once its monthly limit is reached, the key is refused with `limit_reached` until the next UTC month; requests in
/// progress count at their maximum cost. The change is in force on every edge when the response arrives.
#[utoipa::path(
    patch, path = "/tokens/{id}", operation_id = "update_token", tag = "Tokens", request_body = ChangeToken,
    params(("id" = String, Path, description = "The token's id")),
    responses((status = 200, description = "The token", body = Token, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "not_found": "you have no such token, or it was revoked",
    }))),
)]
pub async fn change(
    State(app): State<App>,
    caller: CliUser,
    Path(id): Path<TokenId>,
    Json(body): Json<ChangeToken>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let month = Month::from_timestamp(change.now());
    let wanted = limit_change(&body)?;
    let token = tokens::limit_for_user(&mut change, &caller.user.id, &id, &wanted, month).await?;
    let entry = NewAuditEntry::for_person(Action::TokenLimit, &caller.user.id);
    change.audit(with_limits(entry.with("token", id.as_str()), &wanted));
    touch(&mut change, token.token.kind, &id);
    Ok((change.commit().await?, Json(view(token))))
}

/// Revokes one of your tokens. The next request with it is refused.
///
/// A revoked token stays in the list of your tokens.
#[utoipa::path(
    delete, path = "/tokens/{id}", operation_id = "revoke_token", tag = "Tokens",
    params(("id" = String, Path, description = "The token's id")),
    responses((status = 200, description = "The token was revoked", body = Done, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "not_found": "you have no such token, or it was revoked before",
    }))),
)]
pub async fn revoke(
    State(app): State<App>,
    caller: CliUser,
    Path(id): Path<TokenId>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let revoked = tokens::revoke_for_user(&mut change, &caller.user.id, &id, now).await?;
    let RevokedToken { kind, label } = revoked.ok_or_else(|| ApiError::not_found("token"))?;
    let entry = NewAuditEntry::for_person(Action::TokenRevoke, &caller.user.id).with("token", id.as_str());
    change.audit(entry.with("kind", kind.as_str()).with("label", label.clone()));
    touch(&mut change, kind, &id);
    change.recheck_credentials(&caller.user.id);
    let (account, notice) = (Account::User(caller.user.id.clone()), Notice::TokenRevoked { label, token_kind: kind });
    notify(&mut change, &account, &format!("token_revoked/{id}"), &notice, None, now).await?;
    Ok((change.commit().await?, Json(Done::OK)))
}

/// Makes the edges drop a gateway token from their caches. They cache no other tokens.
pub fn touch(change: &mut Change<'_>, kind: TokenKind, id: &TokenId) {
    match kind {
        TokenKind::Ai => change.touch(ChangeSubject::Token(id.clone())),
        TokenKind::Cli | TokenKind::Deploy => {}
    }
}

/// Checks and trims a label. Returns `None` if nothing is left.
pub fn parse_label(label: &str) -> Result<Option<&str>, ApiError> {
    match line::validate(label, TOKEN_LABEL_CHARS) {
        Ok(label) => Ok(Some(label).filter(|label| !label.is_empty())),
        Err(LineError::Length) => {
            Err(ApiError::invalid(format!("`label` must be at most {TOKEN_LABEL_CHARS} characters.")))
        }
        Err(LineError::Hidden) => {
            Err(ApiError::invalid("`label` must be one line of text without control characters and invisible ones."))
        }
    }
}

/// Checks that only gateway keys have limits.
pub fn validate_limits(kind: TokenKind, limits: NewLimits) -> Result<NewLimits, ApiError> {
    match kind {
        TokenKind::Cli | TokenKind::Deploy if limits != NewLimits::default() => Err(LimitError::NotAKey(kind).into()),
        TokenKind::Ai | TokenKind::Cli | TokenKind::Deploy => Ok(limits),
    }
}

/// Returns the requested change of limits.
pub fn limit_change(body: &ChangeToken) -> Result<LimitChange, ApiError> {
    let change = LimitChange {
        month: body.monthly_limit_cents,
        body_bytes: body.gateway_body_bytes,
        max_tokens: body.gateway_max_tokens,
    };
    if change == LimitChange::default() {
        return Err(ApiError::invalid(
            "One of `monthly_limit_cents`, `gateway_body_bytes` and `gateway_max_tokens` is needed; null removes a limit.",
        ));
    }
    Ok(change)
}

/// Adds the limits of a key that were changed to the entry about it.
pub fn with_limits(entry: NewAuditEntry, wanted: &LimitChange) -> NewAuditEntry {
    let changed = [
        (!wanted.month.is_keep(), "monthly_limit_cents", wanted.month.value().map(i64::from)),
        (!wanted.body_bytes.is_keep(), "gateway_body_bytes", wanted.body_bytes.value().map(i64::from)),
        (!wanted.max_tokens.is_keep(), "gateway_max_tokens", wanted.max_tokens.value().map(i64::from)),
    ];
    let changed = changed.into_iter().filter(|(is_changed, ..)| *is_changed);
    changed.fold(entry, |entry, (_, name, limit)| entry.with(name, limit))
}

fn view(TokenAndCost { token, month_cost }: TokenAndCost) -> Token {
    Token {
        id: token.id,
        kind: token.kind,
        label: token.label,
        created_at: token.created_at,
        revoked_at: token.revoked_at,
        monthly_limit_cents: token.limit,
        month_cents: month_cost.cents(),
        month_microcents: Some(month_cost.0),
        gateway_body_bytes: token.asks.body_bytes,
        gateway_max_tokens: token.asks.max_tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_counted_in_characters_and_hold_no_controls() {
        assert_eq!(parse_label("  my laptop ").unwrap(), Some("my laptop"));
        assert_eq!(parse_label("   ").unwrap(), None);
        assert!(parse_label(&"é".repeat(200)).is_ok());
        assert!(parse_label(&"é".repeat(201)).is_err());
        assert!(parse_label("a\nb").is_err());
        assert!(parse_label("a\0b").is_err());
        assert!(parse_label("a\u{202e}b").is_err());
        assert!(parse_label("a\u{200b}b").is_err());
    }
}
