//! What every sign-in ends with, whichever flow it came by.

use db::users::{self, User};
use domain::Timestamp;
use secrets::MasterKey;
use sqlx::PgConnection;

use super::{SignedIn, grants};

/// The user behind a person whom the code host vouches for, made at the first sign-in; what we were granted in their
/// name is kept sealed.
pub async fn admit(
    conn: &mut PgConnection,
    master_key: &MasterKey,
    person: SignedIn,
    now: Timestamp,
) -> Result<User, sqlx::Error> {
    let user = users::upsert(&mut *conn, &person.identity, now).await?;
    if let Some(grant) = &person.grant {
        grants::keep(conn, master_key, &user.id, grant, now).await?;
    }
    Ok(user)
}
