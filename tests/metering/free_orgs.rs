//! Organizations without a subscription: those of one creator use one AI credit together, at every edge and however many they are.

use db::gateway::free_credit::{self, DrawnCredit};
use domain::{Clock, OrgId, month::Month, usage::Microcents};
use sqlx::PgPool;

use super::{limits::assert_code, *};
use crate::{
    billing::plans::{end_subscription, org, small_and_large, subscribe},
    world::dump::BareDatabase,
};

/// The credit of the free plan, and what the orders of the test may leave of it: a part that each organization has drawn and cannot use,
/// because one more completion could cost more.
const CREDIT: u64 = 10_000_000;
const LEFT: u64 = 2_000_000;

/// A completion that costs 0.12 cents, and reserves more than 0.36.
fn modest() -> Completion {
    Completion::of(100, 100).at_most(400).by("svc/mistral-large")
}

async fn key_of_new_org(ada: &Actor, name: &str) -> String {
    ada.create_org(name).await.create_token("ai").await["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn organizations_of_one_creator_use_one_credit() {
    let provider = PromptedProvider::start().await;
    let builder = small_and_large(&json!({ "ai_credit_cents": 10 }), &json!({ "ai_credit_cents": 1_000 }));
    let builder = builder.set("LIMITS__GATEWAY_PER_MIN", 1_000_000).edges(2);
    let world = builder.set("GATEWAY__PROVIDER_URL", &provider.url).start().await;
    let ada = world.user("ada").await;
    let key = new_key(&ada).await;
    let keys = [key_of_new_org(&ada, "acme").await, key_of_new_org(&ada, "band").await];
    let metered = Metered { world, provider, ada, key };
    // Each at both edges until it is refused.
    let spend = async |key: &str, edge: usize| {
        for _ in 0..200 {
            let answer = metered.ask_at(edge, key, &modest()).await;
            if answer.status != 200 {
                return answer;
            }
        }
        panic!("the credit has no end");
    };
    let answers = tokio::join!(spend(&keys[0], 0), spend(&keys[1], 0), spend(&keys[0], 1), spend(&keys[1], 1));
    for answer in [answers.0, answers.1, answers.2, answers.3] {
        assert_code(&answer, "insufficient_quota");
        assert!(answer.text().contains("all organizations without a subscription share"), "{}", answer.text());
    }
    let spent = async || {
        let spent = "SELECT COALESCE(sum(cost_microcents), 0)::bigint FROM ai_usage";
        u64::try_from(metered.world.sql_number(spent).await).unwrap()
    };
    eventually(BACKGROUND, "nearly all of the credit is used", async || spent().await >= CREDIT - LEFT).await;
    assert!(spent().await <= CREDIT, "{} of {CREDIT}", spent().await);
    let drawn = "SELECT sum(microcents)::bigint FROM free_credit_parts";
    assert!(metered.world.sql_number(drawn).await <= CREDIT.cast_signed());

    // Neither a new organization has more, nor one in the place of another that is deleted.
    let club = key_of_new_org(&metered.ada, "club").await;
    assert_code(&metered.ask_at(0, &club, &modest()).await, "insufficient_quota");
    metered.ada.delete("/orgs/band").await.ok();
    let dojo = key_of_new_org(&metered.ada, "dojo").await;
    assert_code(&metered.ask_at(1, &dojo, &modest()).await, "insufficient_quota");
    let shown = metered.ada.get("/orgs/dojo/billing").await.ok();
    assert_eq!(shown["usage"]["ai_credit_cents"], 0);
    assert_eq!(shown["shared_usage"]["usage"]["ai_credit_cents"], spent().await / 1_000_000);
    // The person's own credit is none of theirs, and one that is subscribed has its plan's.
    metered.ask(&modest()).await.assert_status(200);
    let account = org(&metered.world, "dojo").await;
    subscribe(&metered.world, &account, "large").await;
    let is_served = async || metered.ask_at(1, &dojo, &modest()).await.status == 200;
    eventually(BACKGROUND, "the edge knows the plan", is_served).await;
    // What it has used by then is paid, so that its own end leaves it what a plan of its own would.
    end_subscription(&metered.world, &account).await;
    let others = metered.ask_at(0, &club, &modest()).await;
    assert_code(&others, "insufficient_quota");
}

#[tokio::test]
async fn what_one_has_drawn_and_left_goes_to_the_others() {
    let database = BareDatabase::new().await;
    let pool = PgPool::connect(database.url.as_str()).await.unwrap();
    let now = Clock::system().now();
    let month = Month::from_timestamp(now);
    let user = domain::UserId::new(now);
    let orgs: [OrgId; 3] = std::array::from_fn(|_| OrgId::new(now));
    let [first, second, third] = &orgs;
    let rows = format!(
        "INSERT INTO users (id, vcs_id, vcs_login, created_at) VALUES ('{user}', '1', 'ada', now());
         INSERT INTO orgs (id, name, created_at, created_by) VALUES ('{first}', 'first', now(), '{user}'),
             ('{second}', 'second', now(), '{user}'), ('{third}', 'third', now(), '{user}');
         INSERT INTO org_members (org_id, user_id, role, joined_at) SELECT id, created_by, 'owner', now() FROM orgs;"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(rows)).execute(&pool).await.unwrap();
    let [acme, band, club] = &orgs;
    let draw = async |org: &OrgId, step: u64| {
        let DrawnCredit { part, is_shared } =
            free_credit::draw(&pool, org, month, Microcents(CREDIT), Microcents(step)).await.unwrap();
        (part.0, is_shared)
    };
    assert_eq!(draw(acme, 0).await, (0, true));
    assert_eq!(draw(acme, 6_000_000).await, (6_000_000, true));
    assert_eq!(draw(band, 3_000_000).await, (3_000_000, true));
    assert_eq!(draw(band, 3_000_000).await, (4_000_000, true), "no more than is left");
    assert_eq!(draw(club, 1).await, (0, true));
    // It has used a part, and no edge has asked for an hour.
    let idle = format!(
        "INSERT INTO ai_usage_days (account_id, day, model, requests, prompt_tokens, completion_tokens, cost_microcents)
         VALUES ('{acme}', current_date, 'svc/a', 1, 1, 1, 1000000);
         UPDATE free_credit_parts SET asked_at = asked_at - interval '1 hour' WHERE org_id = '{acme}'"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(idle)).execute(&pool).await.unwrap();
    assert_eq!(draw(club, 2_000_000).await, (2_000_000, true));
    assert_eq!(draw(acme, 0).await, (1_000_000, true), "what is used is kept");
    assert_eq!(draw(acme, 9_000_000).await, (4_000_000, true));
    // The next month begins anew.
    let next = free_credit::draw(&pool, club, month.next(), Microcents(CREDIT), Microcents(1)).await.unwrap();
    assert_eq!(next.part, Microcents(1));
    assert_eq!(free_credit::delete_before(&pool, month.next(), 10).await.unwrap(), 3);
    // Who pays shares with nobody, to the end of the month in which the subscription ends.
    let subscribed = format!(
        "INSERT INTO subscriptions (id, account, plan, status, anchored_at, period_start, period_end, created_at)
         VALUES ('sub_00000000000000000000', '{acme}', 'pro', 'active', now(), now(), now() + interval '1 month', now())"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(subscribed)).execute(&pool).await.unwrap();
    assert_eq!(draw(acme, 1).await, (CREDIT, false));
    let ended = "UPDATE subscriptions SET status = 'ended', ended_at = now(), end_reason = 'canceled'";
    sqlx::raw_sql(ended).execute(&pool).await.unwrap();
    assert_eq!(draw(acme, 1).await, (CREDIT, false));
    pool.close().await;
    database.remove().await;
}
