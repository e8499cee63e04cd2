//! Webhooks as GitHub sends them: headers, signature and payloads.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

/// The secret that signs webhooks.
pub const WEBHOOK_SECRET: &str = "the-webhook's-secret";
/// The commit id that means none.
pub const NOTHING: &str = "0000000000000000000000000000000000000000";

/// A webhook that was not sent yet.
#[derive(Debug, Clone)]
pub struct Webhook {
    pub event: &'static str,
    pub delivery: String,
    pub body: Vec<u8>,
    pub signature: String,
}

impl Webhook {
    /// Creates a webhook with GitHub's signature.
    pub fn new(event: &'static str, payload: &Value) -> Self {
        Self::of(event, serde_json::to_vec_pretty(payload).unwrap())
    }

    /// Creates a webhook with this exact body.
    pub fn of(event: &'static str, body: Vec<u8>) -> Self {
        let delivery = format!("72d3162e-cc78-11e3-81ab-{:012x}", rand::random::<u32>());
        let signature = sign(&body);
        Self { event, delivery, body, signature }
    }

    /// Creates a push: the branch moved from `before` to `after`.
    pub fn push(repo: (i64, &str), reference: &str, before: &str, after: &str, installation: i64) -> Self {
        let (id, full_name) = repo;
        let (owner, name) = full_name.split_once('/').unwrap();
        let commit = json!({
            "id": after, "tree_id": after, "distinct": true, "message": "A commit", "timestamp": "2026-01-01T00:00:00Z",
            "url": "https://github.example", "author": { "name": "Mona", "email": "mona@example.com", "username": "mona" },
            "added": [], "removed": [], "modified": ["index.html"],
        });
        Self::new(
            "push",
            &json!({
                "ref": reference, "before": before, "after": after,
                "created": before == NOTHING, "deleted": after == NOTHING, "forced": false, "base_ref": null,
                "compare": "https://github.example/compare", "commits": [commit], "head_commit": commit,
                "repository": {
                    "id": id, "node_id": "MDEw", "name": name, "full_name": full_name, "private": true,
                    "owner": { "name": owner, "login": owner, "id": 1, "type": "Organization" },
                    "pushed_at": rand::random::<u32>(), "default_branch": "main", "master_branch": "main",
                },
                "pusher": { "name": "mona", "email": "mona@example.com" },
                "sender": { "login": "mona", "id": 2, "type": "User" },
                "installation": { "id": installation, "node_id": "MDIz" },
            }),
        )
    }

    /// Creates an event of an installation.
    pub fn installation(action: &str, id: i64) -> Self {
        Self::new(
            "installation",
            &json!({
                "action": action, "installation": { "id": id, "account": { "login": "acme", "id": 1 } },
                "repositories": [], "sender": { "login": "mona", "id": 2 }, "nonce": rand::random::<u32>(),
            }),
        )
    }
}

/// Returns the `X-Hub-Signature-256` of a body.
pub fn sign(body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).unwrap();
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}
