//! The last step of every sign-in flow.

use db::sign_in::users::{self, User};
use domain::Timestamp;
use secrets::MasterKey;
use sqlx::PgConnection;

use super::{SignedIn, grants};

/// Finds the user who signed in, or creates one at the first sign-in, and stores the tokens that the sign-in granted.
pub async fn admit_user(
    conn: &mut PgConnection,
    master_key: &MasterKey,
    person: SignedIn,
    now: Timestamp,
) -> Result<User, sqlx::Error> {
    let user = users::upsert(&mut *conn, &person.identity, now).await?;
    if let Some(grant) = &person.grant {
        grants::store_grant(conn, master_key, &user.id, grant, now).await?;
    }
    Ok(user)
}
