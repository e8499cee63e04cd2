//! What Redis knows of keys with a limit, with scripts called directly for cases that no client can bring about.

use std::time::Duration;

use domain::{
    Timestamp, TokenId,
    month::Month,
    usage::{Microcents, StoredUsage, UsageRow},
};
use futures_util::future::join_all;
use live::budgets::{AccountLimits, AdmissionVerdict};

use super::budgets::{BUDGET, Budgets, EDGE, base, spent};

impl Budgets {
    /// Asks with a key that may cost `limit` in the month, and has cost `base`, as of a version, if that is read.
    async fn admit_key(
        &self,
        key: &TokenId,
        tokens: u64,
        limit: u64,
        read: Option<(i64, u64)>,
    ) -> (UsageRow, AdmissionVerdict) {
        let row = UsageRow { token: key.clone(), ..self.row(self.now, 0, tokens) };
        let budget = AccountLimits { key_limit: Some(limit), ..BUDGET };
        let read = read.map(|(version, cost)| StoredUsage { key_cost: Some(Microcents(cost)), ..base(version, cost) });
        let verdict = self.redis.admit(EDGE, &row, &[], budget, read).await.unwrap().verdict;
        (row, verdict)
    }
}

#[tokio::test]
async fn a_keys_sums_are_read_once_and_kept_by_every_script() {
    let budgets = Budgets::start().await;
    let key = TokenId::new(budgets.now);
    // The account is known, and has a completion of the key open, before the key has a limit.
    let before = UsageRow { token: key.clone(), ..budgets.row(budgets.now, 0, 100) };
    assert!(matches!(budgets.admit(&before, Some(base(5, 50))).await, AdmissionVerdict::Admitted(_)));
    assert_eq!(budgets.admit_key(&key, 10, 300, None).await.1, AdmissionVerdict::Unknown);
    // 40 as Postgres has it, and 100 reserved.
    assert!(matches!(budgets.admit_key(&key, 161, 300, Some((5, 40))).await.1, AdmissionVerdict::KeyLimit(_)));
    let verdicts = join_all((0..20).map(|_| budgets.admit_key(&key, 40, 300, None))).await;
    let admitted: Vec<_> =
        verdicts.iter().filter(|(_, verdict)| matches!(verdict, AdmissionVerdict::Admitted(_))).collect();
    assert_eq!(admitted.len(), 4);
    let has_left = async |tokens: u64, limit: u64| {
        let (row, verdict) = budgets.admit_key(&key, tokens, limit, None).await;
        let is_admitted = matches!(verdict, AdmissionVerdict::Admitted(_));
        assert!(is_admitted || matches!(verdict, AdmissionVerdict::KeyLimit(_)), "{verdict:?}");
        budgets.release(&row).await;
        is_admitted
    };
    assert!(has_left(0, 300).await && !has_left(1, 300).await && has_left(1, 301).await);

    // One of them used 10 of its 40.
    let used = UsageRow { completion: 10, cost: Microcents(10), ..admitted[0].0.clone() };
    for _ in 0..2 {
        budgets.redis.revalue(EDGE, &budgets.account, &[&used]).await.unwrap();
        assert!(has_left(30, 300).await && !has_left(31, 300).await);
    }
    // Postgres has it: 50 in all. A total that is older than that changes nothing.
    for (version, cost) in [(7, 50), (7, 50), (6, 40)] {
        budgets.confirm_key(&used, spent(version, 60), cost).await;
        assert!(has_left(30, 300).await && !has_left(31, 300).await);
    }
    // Another key's sums were read before that row was written, and arrive after.
    let other = TokenId::new(budgets.now);
    assert_eq!(budgets.admit_key(&other, 1, 300, Some((6, 0))).await.1, AdmissionVerdict::Unknown);
    assert!(matches!(budgets.admit_key(&other, 1, 300, Some((7, 0))).await.1, AdmissionVerdict::Admitted(_)));
    // A key without a limit is nobody's business.
    assert!(matches!(budgets.admit_new(1).await.1, AdmissionVerdict::Admitted(_)));
}

#[tokio::test]
async fn a_busy_account_forgets_keys_that_were_not_used_for_a_month() {
    let budgets = Budgets::start().await;
    let [key, recent, old] = std::array::from_fn(|_| TokenId::new(budgets.now));
    for key in [&key, &recent, &old] {
        let verdict = budgets.admit_key(key, 1, 300, Some((1, 40))).await.1;
        assert!(matches!(verdict, AdmissionVerdict::Admitted(_)), "{verdict:?}");
    }
    let spent = format!("svc:ai:{{{}}}:spent", budgets.account);
    let last = Month::from_timestamp(budgets.now).start() - Duration::from_secs(1);
    let before = Month::from_timestamp(last).start() - Duration::from_secs(1);
    let number = |at: Timestamp| {
        let date = at.as_datetime().date();
        date.year() * 100 + i32::from(u8::from(date.month()))
    };
    let set = async |field: &str, value: String| budgets.world.redis_number("HSET", &[&spent, field, &value]).await;
    set("m", number(last).to_string()).await;
    for (key, at) in [(&key, last), (&recent, last), (&old, before)] {
        set(key.as_str(), format!("{} 40 1 1", number(at))).await;
    }
    // The month begins. Nobody has to ask Postgres what the key has cost in it.
    for key in [&key, &recent] {
        let verdict = budgets.admit_key(key, 300, 300, None).await.1;
        assert!(matches!(verdict, AdmissionVerdict::Admitted(_)), "{verdict:?}");
    }
    let is_known = async |key: &TokenId| budgets.world.redis_number("HEXISTS", &[&spent, key.as_str()]).await;
    assert_eq!((is_known(&recent).await, is_known(&old).await), (Some(1), Some(0)));
    assert_eq!(budgets.admit_key(&old, 1, 300, None).await.1, AdmissionVerdict::Unknown);
}

#[tokio::test]
async fn the_accounts_own_limit_and_the_plans_credit_are_told_apart() {
    let budgets = Budgets::start().await;
    let admit = async |row: &UsageRow, budget: AccountLimits| {
        budgets.redis.admit(EDGE, row, &[], budget, Some(base(1, 100))).await
    };
    let row = budgets.row(budgets.now, 0, 50);
    let (least, less) = (Some(149), Some(150));
    let refused = admit(&row, AccountLimits { account_limit: least, ..BUDGET }).await.unwrap().verdict;
    assert!(matches!(refused, AdmissionVerdict::AccountLimit(_)), "{refused:?}");
    let refused = admit(&row, AccountLimits { account_limit: least, per_month: 149, ..BUDGET }).await.unwrap().verdict;
    assert!(matches!(refused, AdmissionVerdict::Month(_)), "{refused:?}");
    let admitted = admit(&row, AccountLimits { account_limit: less, ..BUDGET }).await.unwrap().verdict;
    assert!(matches!(admitted, AdmissionVerdict::Admitted(_)), "{admitted:?}");
}

#[tokio::test]
async fn what_an_edge_of_a_version_that_knew_no_keys_did_is_counted() {
    let budgets = Budgets::start().await;
    let (key, now) = (TokenId::new(budgets.now), budgets.now.as_datetime());
    let place = |name: &str| format!("svc:ai:{{{}}}:{name}", budgets.account);
    // As its scripts changed the two: they open a completion, and close it with Postgres's new total of the account.
    let act = async |row: &UsageRow, script: &str| {
        let day = (now.year() * 100 + i32::from(u8::from(now.month()))) * 100 + i32::from(now.day());
        let text = format!("{} {} {day} {EDGE} {}", row.tokens(), row.cost.0, serde_json::to_string(row).unwrap());
        let arguments = [script, "2", &place("open"), &place("spent"), row.id.as_str(), &text];
        assert_eq!(budgets.world.redis_number("EVAL", &arguments).await, Some(1));
    };
    let open = "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) redis.call('HINCRBY', KEYS[2], 'mh', 100) return 1";
    let close = "redis.call('HDEL', KEYS[1], ARGV[1]) redis.call('HINCRBY', KEYS[2], 'mh', -100)
                 redis.call('HSET', KEYS[2], 'mc', 100, 'mv', 9) return 1";
    let (first, verdict) = budgets.admit_key(&key, 100, 300, Some((1, 0))).await;
    assert!(matches!(verdict, AdmissionVerdict::Admitted(_)), "{verdict:?}");

    let old = UsageRow { token: key.clone(), ..budgets.row(budgets.now, 0, 100) };
    act(&old, open).await;
    assert_eq!(budgets.admit_key(&key, 101, 300, None).await.1, AdmissionVerdict::Unknown);
    assert!(matches!(budgets.admit_key(&key, 101, 300, Some((1, 0))).await.1, AdmissionVerdict::KeyLimit(_)));
    act(&old, close).await;
    assert_eq!(budgets.admit_key(&key, 101, 300, Some((1, 0))).await.1, AdmissionVerdict::Unknown, "that is outdated");
    assert!(matches!(budgets.admit_key(&key, 101, 300, Some((9, 100))).await.1, AdmissionVerdict::KeyLimit(_)));
    assert!(matches!(budgets.admit_key(&key, 0, 300, None).await.1, AdmissionVerdict::Admitted(_)));

    // Whichever script comes next sees it.
    let used = UsageRow { completion: 90, cost: Microcents(90), ..first.clone() };
    for n in 0..3 {
        act(&old, open).await;
        match n {
            0 => budgets.redis.revalue(EDGE, &budgets.account, &[&used]).await.unwrap(),
            1 => budgets.confirm_key(&used, spent(10, 190), 190).await,
            _ => drop(budgets.release(&first).await),
        }
        assert_eq!(budgets.admit_key(&key, 0, 300, None).await.1, AdmissionVerdict::Unknown);
        let verdict = budgets.admit_key(&key, 0, 300, Some((10, 100))).await.1;
        assert!(matches!(verdict, AdmissionVerdict::Admitted(_)), "{verdict:?}");
    }
}
