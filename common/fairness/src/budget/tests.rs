use std::net::IpAddr;

use super::*;

const LIMITS: Limits = Limits { total: 100, client: 60, connection: 40 };
const PATIENCE: Patience = Patience { own: Duration::from_secs(100), others: Duration::from_secs(10) };

fn of(budget: &Budget, address: &str) -> Account {
    budget.account(Some(address.parse::<IpAddr>().unwrap().into()))
}

#[test]
fn every_level_bounds_what_is_drawn_and_gets_it_back() {
    let budget = Budget::new(LIMITS);
    let (first, second) = (of(&budget, "2001:db8::1"), of(&budget, "2001:db8::2"));
    let proxy = budget.account(None);
    let held = first.try_take(40).unwrap();
    assert!(first.try_take(1).is_err(), "the connection has its all");
    let more = second.try_take(20).unwrap();
    assert!(second.try_take(1).is_err(), "the client has its all, over both connections");
    let others = proxy.try_take(40).unwrap();
    assert!(of(&budget, "192.0.2.1").try_take(1).is_err(), "there is no more");
    assert_eq!(budget.used(), 100);
    drop(held);
    assert_eq!((first.used(), budget.used()), (0, 60), "what was refused has left nothing behind");
    drop(second.try_take(20).unwrap());
    drop((more, others));
    assert_eq!(budget.used(), 0);
    assert!(first.try_take(40).is_ok() && second.try_take(40).is_ok());
}

#[test]
fn what_can_be_done_without_leaves_half_of_every_level() {
    let budget = Budget::new(LIMITS);
    let (first, second) = (of(&budget, "2001:db8::1"), of(&budget, "2001:db8::2"));
    assert!(first.try_take_spare(21).is_err(), "more than half of the connection's");
    let held = first.try_take_spare(20).unwrap();
    assert!(first.try_take_spare(1).is_err(), "the connection has half of its all");
    assert!(second.try_take_spare(11).is_err(), "more than half of the client's");
    let more = second.try_take_spare(10).unwrap();
    let others = of(&budget, "192.0.2.1").try_take_spare(20).unwrap();
    assert!(of(&budget, "192.0.2.2").try_take_spare(1).is_err(), "half of everything is drawn");
    assert!(first.try_take(20).is_ok(), "what is needed is there");
    drop((held, more, others));
    assert_eq!(budget.used(), 0);
}

#[test]
fn the_last_holder_gives_the_bytes_back() {
    let budget = Budget::new(LIMITS);
    let grant = Arc::new(of(&budget, "192.0.2.1").try_take(30).unwrap());
    let other = grant.clone();
    drop(grant);
    assert_eq!((budget.used(), other.bytes()), (30, 30), "the account is gone, and the bytes are held");
    drop(other);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_client_is_forgotten_with_its_last_account_and_grant() {
    let budget = Budget::new(LIMITS);
    let account = of(&budget, "192.0.2.1");
    let grant = account.try_take(10).unwrap();
    let clone = account.clone();
    drop(account);
    drop(clone);
    assert_eq!(budget.0.clients().len(), 1);
    let again = of(&budget, "192.0.2.1");
    let most = again.try_take(40).unwrap();
    assert!(of(&budget, "192.0.2.1").try_take(11).is_err(), "what the first connection left behind counts");
    drop((grant, most, again));
    assert_eq!(budget.0.clients().len(), 0);
}

#[test]
fn what_is_larger_than_the_account_can_hold_counts_as_that() {
    let budget = Budget::new(LIMITS);
    let account = budget.account(None);
    assert_eq!(account.try_take(1_000).unwrap().bytes(), 40);
    assert_eq!(budget.common_account().try_take(1_000).unwrap().bytes(), 100);
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_who_waits_is_woken_at_whichever_level_it_waits() {
    let budget = Budget::new(LIMITS);
    for (holder, waiter) in [
        (of(&budget, "192.0.2.1"), None),
        (of(&budget, "192.0.2.1"), Some(of(&budget, "192.0.2.1"))),
        (budget.common_account(), Some(of(&budget, "192.0.2.2"))),
    ] {
        let waiter = waiter.unwrap_or_else(|| holder.clone());
        let held = holder.try_take(100).unwrap();
        assert!(waiter.try_take(31).is_err());
        let start = Instant::now();
        let waiting = tokio::spawn(async move { waiter.take(31, PATIENCE).await.unwrap().bytes() });
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(held);
        assert_eq!(waiting.await.unwrap(), 31);
        assert_eq!(start.elapsed().as_secs(), 5);
    }
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_that_waits_gets_its_bytes_one_after_the_other() {
    let budget = Budget::new(LIMITS);
    let account = of(&budget, "192.0.2.1");
    let held = account.try_take(40).unwrap();
    let crowd: Vec<_> = (0..50)
        .map(|number| {
            let account = account.clone();
            tokio::spawn(async move {
                let grant = account.take(1 + number % 40, PATIENCE).await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
                drop(grant);
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(held);
    for one in crowd {
        one.await.unwrap();
    }
    assert_eq!((account.used(), account.0.waiting.load(Ordering::SeqCst)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn patience_ends_sooner_with_others_than_with_oneself() {
    let budget = Budget::new(LIMITS);
    let (own, start) = (budget.account(None), Instant::now());
    let held = own.try_take(40).unwrap();
    assert!(own.take(1, PATIENCE).await.is_err());
    assert_eq!(start.elapsed(), PATIENCE.own);
    drop(held);
    let (_all, start) = (budget.common_account().try_take(100).unwrap(), Instant::now());
    assert!(own.take(1, PATIENCE).await.is_err());
    assert_eq!(start.elapsed(), PATIENCE.others);
    assert_eq!((own.used(), budget.used(), own.0.waiting.load(Ordering::SeqCst)), (0, 100, 0));
}

#[tokio::test(start_paused = true)]
async fn one_who_gives_up_leaves_nothing_and_keeps_nobody_waiting() {
    let budget = Budget::new(LIMITS);
    let account = budget.account(None);
    let held = account.try_take(40).unwrap();
    let waiter =
        |account: Account| tokio::spawn(async move { account.take(40, PATIENCE).await.map(|grant| grant.bytes()) });
    let (gone, stays) = (waiter(account.clone()), waiter(account.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    // It is woken, and gone before it runs.
    drop(held);
    gone.abort();
    assert_eq!(stays.await.unwrap(), Ok(40));
    let _ = gone.await;
    assert_eq!((account.used(), account.0.waiting.load(Ordering::SeqCst)), (0, 0));
}
