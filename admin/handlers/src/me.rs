//! `GET /me`.

use admin_http::extract::Json;
use api::account::Account;
use app::auth::Caller;
use domain::token::TokenKind;

/// Shows the account that the token belongs to.
///
/// An organization's `deploy` token may do this too.
#[utoipa::path(
    get, path = "/me", operation_id = "show_me", tag = "Health and identity",
    responses((status = 200, description = "The account", body = Account)),
)]
#[expect(clippy::unused_async, reason = "axum's handlers are async")]
pub async fn me(caller: Caller) -> Json<Account> {
    Json(match caller {
        Caller::User(caller) => {
            let token_id = caller.token().cloned();
            Account {
                id: caller.user.id.to_string(),
                vcs_id: Some(caller.user.vcs_id),
                vcs_login: Some(caller.user.vcs_login),
                email: caller.user.email,
                token_kind: TokenKind::Cli,
                token_id,
                org: None,
                created_at: caller.user.created_at,
            }
        }
        Caller::Deploy(caller) => Account {
            id: caller.org.to_string(),
            vcs_id: None,
            vcs_login: None,
            email: None,
            token_kind: TokenKind::Deploy,
            token_id: Some(caller.token.id),
            org: Some(caller.org_name),
            created_at: caller.org_created_at,
        },
    })
}
