//! Organizations with people in them.

use serde_json::json;

use super::{Actor, World};

impl World {
    /// An organization called `name`, which `owner` makes.
    pub async fn org(&self, owner: &Actor, name: &str) {
        owner.post("/orgs").json(&json!({ "name": name })).await.created();
    }

    /// Makes `login` a member with this role, as an accepted invite would.
    pub async fn join(&self, org: &str, login: &str, role: &str) {
        self.sql(&format!(
            "INSERT INTO org_members (org_id, user_id, role, joined_at)
             SELECT o.id, u.id, '{role}', now() FROM orgs o, users u WHERE o.name = '{org}' AND u.vcs_login = '{login}'
             ON CONFLICT (org_id, user_id) DO UPDATE SET role = excluded.role"
        ))
        .await;
    }

    /// An owner, an admin and a member (`org-owner`, `org-admin`, `org-member`) of a new organization.
    pub async fn staffed_org(&self, name: &str) -> Staff {
        let staff = Staff {
            owner: self.user("org-owner").await,
            admin: self.user("org-admin").await,
            member: self.user("org-member").await,
        };
        self.org(&staff.owner, name).await;
        self.join(name, "org-admin", "admin").await;
        self.join(name, "org-member", "member").await;
        staff
    }

    /// A token of an organization, as its admins make one.
    pub async fn org_token(&self, org: &str, kind: &str) -> Actor {
        let secret = format!("svc_{}", suffix(43));
        self.sql(&format!(
            "INSERT INTO tokens (id, kind, org_id, label, secret_hash, created_at)
             SELECT 'tok_{}', '{kind}', id, 'ci', sha256('{secret}'), now() FROM orgs WHERE name = '{org}'",
            suffix(20)
        ))
        .await;
        self.nobody().with_token(&secret)
    }
}

/// The people of an organization.
pub struct Staff {
    pub owner: Actor,
    pub admin: Actor,
    pub member: Actor,
}

/// So many characters that no other call gives.
fn suffix(len: usize) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{:0len$}", NEXT.fetch_add(1, Ordering::Relaxed))
}
