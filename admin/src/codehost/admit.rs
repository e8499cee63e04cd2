//! The last step of a sign-in, whichever flow it came by.

use db::sign_in::users::{self, User};
use domain::Timestamp;
use secrets::MasterKey;
use sqlx::PgConnection;

use super::{SignedIn, grants};

/// Finds the user of a person who signed in, or makes one at the first sign-in, and stores the tokens that the sign-in
/// granted.
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
