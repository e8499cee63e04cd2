//! Daily salts: the keys under which all edges hash visitors, destroyed when the day is over.

use sqlx::PgPool;
use time::Date;

/// The length of a salt, in bytes.
const LENGTH: usize = 32;

/// Returns the salt of a UTC day: the one that an edge has already set, otherwise `new`, which must be random.
pub async fn find_or_insert(pool: &PgPool, day: Date, new: [u8; LENGTH]) -> Result<[u8; LENGTH], sqlx::Error> {
    let salt = sqlx::query_scalar!(r#"SELECT visitor_salt($1, $2) AS "salt!""#, day, &new).fetch_one(pool).await?;
    salt.try_into().map_err(|_| sqlx::Error::Decode("a salt of another length".into()))
}

/// Deletes the salts of days before `day`, and returns their number.
pub async fn delete_before(pool: &PgPool, day: Date) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!("DELETE FROM visitor_salts WHERE day < $1", day).execute(pool).await?;
    Ok(deleted.rows_affected())
}
