//! What every sign-in ends with, whichever flow it came by.

use common::{
    db::users::{self, User},
    domain::Timestamp,
    secrets::MasterKey,
};
use sqlx::PgConnection;

use super::SignedIn;

/// The user behind a person whom the code host vouches for, made at the first sign-in; what we were granted in their
/// name is kept sealed.
pub async fn admit(
    conn: &mut PgConnection,
    _master_key: &MasterKey,
    person: SignedIn,
    now: Timestamp,
) -> Result<User, sqlx::Error> {
    users::upsert(conn, &person.identity, now).await
}
