//! Bandwidth: what the sites of a person or an organization sent to people within a month, whatever became of them.

use std::sync::atomic::{AtomicI64, Ordering};

use db::stats::{bandwidth, traffic, upkeep};
use domain::{
    Account, Clock, ProjectId, Timestamp,
    month::Month,
    traffic::{HOUR, HourTraffic, TrafficSums, hour_start},
};
use serde_json::json;
use sqlx::PgPool;

use super::*;
use crate::world::org::Staff;

/// An organization, its owner, and what the two have used.
struct Accounts {
    world: World,
    staff: Staff,
    db: PgPool,
    person: Account,
    org: Account,
}

impl Accounts {
    async fn start() -> Self {
        let world = World::start().await;
        let staff = world.staffed_org("acme").await;
        let id = async |sql: &str| world.sql_text(sql).await;
        let person = Account::User(id("SELECT id FROM users WHERE vcs_login = 'org-owner'").await.parse().unwrap());
        let org = Account::Org(id("SELECT id FROM orgs").await.parse().unwrap());
        let db = PgPool::connect(world.database.as_str()).await.unwrap();
        Self { world, staff, db, person, org }
    }

    async fn publish(&self, name: &str) -> ProjectId {
        self.staff.owner.publish(name, &Site::page("home")).await;
        self.staff.owner.project(name).await["id"].as_str().unwrap().parse().unwrap()
    }

    async fn transfer(&self, name: &str, to: Option<&str>) {
        self.staff.owner.post(&format!("/projects/{name}/transfer")).json(&json!({ "org": to })).await.ok();
    }

    /// Appends a batch of an edge: bytes to people that the project sent within the hour so many hours ago.
    async fn append(&self, project: &ProjectId, hours_ago: u32, people_bytes: u64) {
        static BATCHES: AtomicI64 = AtomicI64::new(1);
        let hour = hour_start(Clock::system().now() - HOUR * hours_ago);
        let sums = TrafficSums { requests: 1, bytes: 10 * people_bytes, people_bytes, ..TrafficSums::default() };
        let part = HourTraffic { hour, project: project.clone(), sums, entries: Vec::new(), visitors: Vec::new() };
        let batch = BATCHES.fetch_add(1, Ordering::Relaxed);
        assert!(traffic::record(&self.db, "test", batch, &[part]).await.unwrap());
    }

    /// Returns the bytes that the person and the organization have used, in this month and, should it have just begun, the one before.
    async fn used(&self) -> [u64; 2] {
        let now = Clock::system().now();
        let months = [
            Month::from_timestamp(now),
            Month::from_date(Month::from_timestamp(now).first_day().previous_day().unwrap()),
        ];
        let mut used = [0; 2];
        for (used, account) in used.iter_mut().zip([&self.person, &self.org]) {
            for month in months {
                *used += bandwidth::sum_month(&self.db, account, month).await.unwrap();
            }
        }
        used
    }

    async fn count(&self, table: &str) -> i64 {
        self.world.sql_number(&format!("SELECT count(*) FROM {table}")).await
    }
}

#[tokio::test]
async fn a_deletion_leaves_what_was_used() {
    let accounts = Accounts::start().await;
    let gone = accounts.publish("gone").await;
    accounts.append(&gone, 0, 10).await;
    assert_eq!(accounts.used().await, [10, 0]);
    fold(&accounts.world).await;
    assert_eq!(accounts.used().await, [10, 0]);
    accounts.append(&gone, 0, 5).await;
    accounts.staff.owner.delete("/projects/gone").await.ok();
    assert_eq!(accounts.used().await, [15, 0]);

    // Once it cannot be restored any more its statistics go, folded or not.
    accounts.world.sql("DELETE FROM deleted_projects").await;
    let now = Clock::system().now();
    let hours: Vec<Timestamp> = (0..200).map(|ago| hour_start(now - HOUR * ago)).collect();
    let today = [now.as_datetime().date()];
    while upkeep::delete_removed(&accounts.db, &hours, &today, now + HOUR, 5_000, 2).await.unwrap() > 0 {}
    for table in ["traffic_recent", "traffic_hours", "traffic_removals"] {
        assert_eq!(accounts.count(table).await, 0, "{table}");
    }
    assert_eq!(accounts.used().await, [15, 0]);

    // What an edge still had counts, of hours before and of this one, though it is in no statistics.
    accounts.append(&gone, 0, 3).await;
    accounts.append(&gone, 2, 4).await;
    assert_eq!((accounts.used().await, accounts.count("traffic_recent").await), ([22, 0], 0));
    // A project that is nobody's.
    accounts.append(&ProjectId::new(now), 0, 1_000).await;
    assert_eq!((accounts.used().await, accounts.count("traffic_recent").await), ([22, 0], 0));

    let share = accounts.staff.owner.share(&Site::page("share"), 1).await;
    let of_share = accounts.world.sql_text("SELECT id FROM projects WHERE share_name IS NOT NULL").await;
    accounts.append(&of_share.parse().unwrap(), 0, 7).await;
    accounts.staff.owner.delete(&format!("/shares/{}", share.share_name())).await.ok();
    fold(&accounts.world).await;
    assert_eq!(accounts.used().await, [29, 0]);
}

#[tokio::test]
async fn a_move_leaves_what_was_used_with_who_used_it() {
    let accounts = Accounts::start().await;
    let moved = accounts.publish("moved").await;
    accounts.append(&moved, 0, 11).await;
    accounts.transfer("moved", Some("acme")).await;
    assert_eq!(accounts.used().await, [11, 0]);
    accounts.append(&moved, 0, 6).await;
    // Late: the hour was over when the project was moved.
    accounts.append(&moved, 2, 9).await;
    assert_eq!(accounts.used().await, [20, 6]);
    fold(&accounts.world).await;
    assert_eq!(accounts.used().await, [20, 6]);

    accounts.transfer("moved", None).await;
    accounts.append(&moved, 0, 4).await;
    accounts.append(&moved, 3, 1).await;
    assert_eq!(accounts.used().await, [25, 6]);
    // The project's statistics go with it.
    fold(&accounts.world).await;
    assert_eq!(accounts.world.sql_number("SELECT sum(people_bytes)::bigint FROM traffic_hours").await, 31);

    accounts.transfer("moved", Some("acme")).await;
    accounts.staff.owner.delete("/projects/moved").await.ok();
    accounts.append(&moved, 0, 2).await;
    assert_eq!(accounts.used().await, [25, 8]);
    accounts.staff.owner.delete("/orgs/acme").await.ok();
    assert_eq!(accounts.used().await, [25, 8]);
}

#[tokio::test]
async fn use_is_counted_by_month_and_kept_as_long_as_it_is_needed() {
    let mut accounts = Accounts::start().await;
    let project = accounts.publish("engine").await;
    // Of the version before, which names no account; and late.
    let part = |account: &str, hour: &str, bytes: u32| {
        format!(
            "INSERT INTO traffic_recent (project_id, hour, sums, kinds, keys, requests, bytes, visitors, account)
             VALUES ('{project}', '{hour}', '{{1,300,0,0,0,0,0,0,0,0,{bytes}}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', {account});"
        )
    };
    let owner = format!("'{}'", accounts.person);
    let parts = [
        part("NULL", "2026-07-31T23:00Z", 10),
        part(&owner, "2026-08-01T00:00Z", 20),
        part(&owner, "2026-08-31T23:00Z", 30),
        part("NULL", "2026-08-31T23:00Z", 40),
    ];
    accounts.world.sql(&parts.concat()).await;
    let of = async |accounts: &Accounts, month: &str| {
        bandwidth::sum_month(&accounts.db, &accounts.person, month.parse().unwrap()).await.unwrap()
    };
    assert_eq!((of(&accounts, "2026-07").await, of(&accounts, "2026-08").await), (0, 50));
    fold(&accounts.world).await;
    assert_eq!((of(&accounts, "2026-07").await, of(&accounts, "2026-08").await), (10, 90));

    accounts.append(&project, 0, 5).await;
    fold(&accounts.world).await;
    accounts.staff.owner.delete("/projects/engine").await.ok();
    accounts.world.sql("UPDATE former_owners SET until = until - interval '8 days'").await;
    accounts.world.restart_admin_later().await;
    eventually(crate::BACKGROUND, "what is old is gone", async || {
        accounts.count("bandwidth_months").await == 1 && accounts.count("former_owners").await == 0
    })
    .await;
    assert_eq!(accounts.used().await, [5, 0]);
}
