//! `GET /me`.

use api::account::Account;
use domain::token::TokenKind;

use crate::{auth::Caller, extract::Json};

/// Shows the account that the token belongs to.
///
/// An organization's `deploy` token may do this too.
#[utoipa::path(
    get, path = "/me", tag = "Health and identity",
    responses((status = 200, description = "The account", body = Account)),
)]
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
