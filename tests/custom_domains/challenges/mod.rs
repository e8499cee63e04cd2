//! Answers to the challenges of certificate authorities, which stand in the database: whichever edge an authority
//! reaches has them.

mod over_http;
mod over_tls;

use crate::world::World;

/// A key authorization: the token, and the thumbprint of an account's key.
const ANSWER: &str = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI";
const TOKEN: &str = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA";

/// Puts a challenge into the database, as admin does before it tells the authority. It expires in so many seconds.
async fn put(world: &World, kind: &str, name: &str, token: &str, answer: &str, seconds: i32) {
    world
        .sql(&format!(
            "INSERT INTO acme_challenges (kind, name, token, answer, expires_at) \
             VALUES ('{kind}', '{name}', '{token}', '{answer}', now() + interval '{seconds} seconds')"
        ))
        .await;
}

async fn forget(world: &World) {
    world.sql("DELETE FROM acme_challenges").await;
}
