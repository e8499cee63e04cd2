//! Owners of an organization who are demoted while they decide about its money.

use admin_http::error::{ApiError, Code};
use db::{
    audit::Actor,
    permits::{self, Owner},
    sign_in::users::{self, CodeHostIdentity},
};
use domain::{Account, OrgName, UserId, billing::payment::PaymentState};

use super::Bench;
use crate::{BillingPermit, cancel, cancel_for_former_owner, change_plan, checkout, resume};

const ORG: &str = "acme";

async fn user(bench: &Bench, login: &str) -> UserId {
    let identity =
        CodeHostIdentity { vcs_id: login.into(), login: login.into(), email: Some(format!("{login}@example.com")) };
    let mut conn = bench.app.db.acquire().await.unwrap();
    users::upsert(&mut conn, &identity, bench.now()).await.unwrap().id
}

/// Ends the membership of the owner who pays, as the API does.
async fn remove(bench: &Bench, account: &Account, user: &UserId) {
    let mut change = bench.app.change(Actor::Platform).await.unwrap();
    sqlx::query("DELETE FROM org_members WHERE org_id = $1 AND user_id = $2")
        .bind(account.as_str())
        .bind(user.as_str())
        .execute(&mut *change)
        .await
        .unwrap();
    cancel_for_former_owner(&bench.app, &mut change, account.as_org().unwrap(), user).await.unwrap();
    change.commit_without_waiting().await.unwrap();
}

/// Has an owner buy the plan, and pay for it. Returns their id.
async fn buy(bench: &Bench, login: &str, plan: &str) -> UserId {
    let user = user(bench, login).await;
    checkout(&bench.app, Actor::Platform, &payer(bench, &user).await, plan).await.unwrap();
    bench.turn(&bench.provider.last().id, PaymentState::Paid).await;
    user
}

async fn org(bench: &Bench) -> (Account, UserId) {
    let (first, second) = (user(bench, "ada").await, user(bench, "eve").await);
    let id = domain::OrgId::new(bench.now());
    let insert = "INSERT INTO orgs (id, name, display_name, created_by, created_at) VALUES ($1, $2, 'Acme', $3, $4)";
    let insert = sqlx::query(insert).bind(id.as_str()).bind(ORG).bind(first.as_str()).bind(bench.now());
    insert.execute(&bench.app.db).await.unwrap();
    for user in [&first, &second] {
        let member = "INSERT INTO org_members (org_id, user_id, role, joined_at) VALUES ($1, $2, 'owner', $3)";
        let member = sqlx::query(member).bind(id.as_str()).bind(user.as_str()).bind(bench.now());
        member.execute(&bench.app.db).await.unwrap();
    }
    let account = Account::Org(id);
    bench.move_to(&account, "NL", None).await;
    (account, second)
}

async fn payer(bench: &Bench, user: &UserId) -> BillingPermit {
    let name: OrgName = ORG.parse().unwrap();
    permits::org::<Owner>(&bench.app.db, user, &name).await.unwrap().into()
}

/// Starts `act` while the actor's demotion is not committed, and commits it once `act` waits for it.
async fn demoted_meanwhile<T: std::fmt::Debug>(
    bench: &Bench,
    (account, user): &(Account, UserId),
    act: impl Future<Output = Result<T, ApiError>>,
) {
    let mut demotion = bench.app.db.begin().await.unwrap();
    sqlx::query("SELECT FROM orgs WHERE id = $1 FOR NO KEY UPDATE")
        .bind(account.as_str())
        .execute(&mut *demotion)
        .await
        .unwrap();
    sqlx::query("UPDATE org_members SET role = 'member' WHERE org_id = $1 AND user_id = $2")
        .bind(account.as_str())
        .bind(user.as_str())
        .execute(&mut *demotion)
        .await
        .unwrap();
    let commit = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while bench.count(waiting).await == 0 {
            tokio::task::yield_now().await;
        }
        demotion.commit().await.unwrap();
    };
    let (done, ()) = tokio::join!(act, commit);
    assert_eq!(done.unwrap_err().code(), Code::Forbidden);
    sqlx::query("UPDATE org_members SET role = 'owner'").execute(&bench.app.db).await.unwrap();
}

#[tokio::test]
async fn whoever_is_demoted_meanwhile_neither_buys_nor_ends_anything() {
    let bench = Bench::start().await;
    let case = org(&bench).await;
    let (account, user) = &case;
    let (app, actor) = (&bench.app, Actor::Platform);
    let eve = payer(&bench, user).await;
    demoted_meanwhile(&bench, &case, Box::pin(checkout(app, actor, &eve, "pro"))).await;
    assert_eq!(bench.count("SELECT count(*) FROM subscriptions").await, 0);
    assert!(bench.provider.known().payments.is_empty());
    checkout(app, actor, &eve, "pro").await.unwrap();
    let id = bench.provider.last().id;
    bench.turn(&id, PaymentState::Paid).await;
    demoted_meanwhile(&bench, &case, change_plan(app, actor, &eve, "business")).await;
    demoted_meanwhile(&bench, &case, cancel(app, actor, &eve)).await;
    assert!(!bench.current(account).await.unwrap().cancel_at_period_end);
    cancel(app, actor, &eve).await.unwrap();
    demoted_meanwhile(&bench, &case, resume(app, actor, &eve)).await;
    let current = bench.current(account).await.unwrap();
    assert!(current.cancel_at_period_end && current.plan == "pro");
    bench.stop().await;
}

#[tokio::test]
async fn nobody_pays_for_an_organization_in_which_they_decide_nothing() {
    let bench = Bench::start().await;
    let (account, eve) = org(&bench).await;
    let ada = buy(&bench, "ada", "pro").await;
    remove(&bench, &account, &ada).await;
    let current = bench.current(&account).await.unwrap();
    assert!(current.cancel_at_period_end && current.plan == "pro" && current.payer.as_ref() == Some(&ada));
    assert_eq!(bench.letters("payer_left").await, 2, "to ada and eve");
    let (app, actor, permit) = (&bench.app, Actor::Platform, payer(&bench, &eve).await);
    for refused in [
        change_plan(app, actor, &permit, "business").await.map(drop),
        change_plan(app, actor, &permit, "pro").await.map(drop),
        resume(app, actor, &permit).await,
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::Forbidden);
    }
    bench.days(40).await;
    assert!(bench.current(&account).await.is_none());
    assert_eq!(bench.provider.known().payments.len(), 1, "nothing more was charged");
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn another_owner_pays_for_the_next_subscription_with_a_mandate_of_their_own() {
    let bench = Bench::start().await;
    let (account, eve) = org(&bench).await;
    let ada = buy(&bench, "ada", "pro").await;
    let permit = payer(&bench, &eve).await;
    let refused = checkout(&bench.app, Actor::Platform, &permit, "pro").await.unwrap_err();
    assert_eq!(refused.code(), Code::SubscriptionActive);
    // An upgrade before the removal is not charged either.
    change_plan(&bench.app, Actor::Platform, &permit, "business").await.unwrap();
    remove(&bench, &account, &ada).await;
    bench.days(10).await;
    buy(&bench, "eve", "pro").await;
    let current = bench.current(&account).await.unwrap();
    assert!(!current.cancel_at_period_end && current.plan == "pro" && current.payer.as_ref() == Some(&eve));
    assert_eq!(bench.count("SELECT count(*) FROM subscriptions WHERE end_reason = 'replaced'").await, 1);
    bench.days(40).await;
    let customers = bench.provider.known().customers.clone();
    assert_eq!(customers, [&ada, &eve, &eve].map(|payer| format!("cst_{account}_{payer}")));
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_page_of_a_former_owner_pays_for_one_month_at_most() {
    let bench = Bench::start().await;
    let (account, _) = org(&bench).await;
    let ada = user(&bench, "ada").await;
    checkout(&bench.app, Actor::Platform, &payer(&bench, &ada).await, "pro").await.unwrap();
    let page = bench.provider.last().id;
    remove(&bench, &account, &ada).await;
    bench.turn(&page, PaymentState::Paid).await;
    assert!(bench.current(&account).await.unwrap().cancel_at_period_end);
    bench.days(40).await;
    assert!(bench.current(&account).await.is_none());
    assert_eq!(bench.provider.known().payments.len(), 1);
    bench.assert_reconciled().await;
    bench.stop().await;
}
