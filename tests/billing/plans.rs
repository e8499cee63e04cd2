//! Two plans, and subscriptions to the larger one without anybody's payment.

use db::edges::route_changes;
use domain::{Account, ChangeSubject, Clock};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use crate::world::{Builder, World};

/// A world with a free plan of these limits, generous otherwise, and a plan "Large" of the others.
pub fn small_and_large(small: &Value, large: &Value) -> Builder {
    let limits = |differing: &Value| {
        let mut all = json!({
            "orgs": 1_000, "members": 1_000, "projects": 1_000, "domains": 1_000, "ready_apps": 0,
            "bandwidth_bytes": 1_000_000_000_000_u64, "ai_credit_cents": 1_000, "storage_bytes": 1_000_000_000_000_u64,
            "deployments": 1_000, "shares": 1_000,
        });
        all.as_object_mut().unwrap().extend(differing.as_object().unwrap().clone());
        all
    };
    World::builder().set(
        "BILLING__PLANS",
        json!({
            "free": { "name": "Free", "price_cents": 0, "limits": limits(small) },
            "large": { "name": "Large", "price_cents": 2_000, "limits": limits(large) },
        }),
    )
}

/// The account of a person.
pub async fn person(world: &World, login: &str) -> Account {
    world.sql_text(&format!("SELECT id FROM users WHERE vcs_login = '{login}'")).await.parse().unwrap()
}

/// The account of an organization.
pub async fn org(world: &World, name: &str) -> Account {
    world.sql_text(&format!("SELECT id FROM orgs WHERE name = '{name}'")).await.parse().unwrap()
}

/// Subscribes the account to the plan, as a first payment does.
pub async fn subscribe(world: &World, account: &Account, plan: &str) {
    world
        .sql(&format!(
            "INSERT INTO subscriptions (id, account, plan, status, anchored_at, period_start, period_end, created_at)
             VALUES ('sub_' || left(md5(random()::text), 20), '{account}', '{plan}', 'active', now(), now(),
                     now() + interval '1 month', now())"
        ))
        .await;
    touch(world, account).await;
}

/// Charges the present month of the account's subscription for the plan, as if that had been its plan from the month's beginning.
pub async fn charge(world: &World, account: &Account, plan: &str) {
    world
        .sql(&format!(
            "INSERT INTO payments (id, account, subscription_id, sequence, period, plan, attempt, net_cents, vat_cents,
                                   total_cents, terms, state, covers, provider, created_at, settled_at)
             SELECT 'pay_' || left(md5(random()::text), 20), s.account, s.id, 'first', s.period, '{plan}',
                    (SELECT count(*) FROM payments p WHERE p.subscription_id = s.id), 0, 0, 0, '{{}}', 'paid', false,
                    'play', now(), now()
             FROM subscriptions s WHERE s.account = '{account}' AND s.status = 'active'"
        ))
        .await;
    touch(world, account).await;
}

/// Ends the account's subscription.
pub async fn end_subscription(world: &World, account: &Account) {
    world
        .sql(&format!(
            "UPDATE subscriptions SET status = 'ended', ended_at = now(), end_reason = 'canceled'
             WHERE account = '{account}' AND status = 'active'"
        ))
        .await;
    touch(world, account).await;
}

/// Records that the account's plan has changed; the edges find it when they look.
async fn touch(world: &World, account: &Account) {
    let mut conn = PgConnection::connect(world.database.as_str()).await.unwrap();
    route_changes::record(&mut conn, ChangeSubject::from(account).into(), Clock::system().now()).await.unwrap();
}
