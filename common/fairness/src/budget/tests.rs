use std::net::IpAddr;

use super::*;

/// Large enough that a client always gets its full share; shrinking shares are tested below.
const LIMITS: BudgetLimits = BudgetLimits { total: 100, client: 60, connection: 40 };
/// The limits of an edge.
const SHARES: BudgetLimits = BudgetLimits { total: 102_400, client: 25_600, connection: 20_000 };
const PATIENCE: WaitLimits = WaitLimits { own: Duration::from_secs(100), others: Duration::from_secs(10) };

fn of(budget: &ByteBudget, address: &str) -> BudgetAccount {
    budget.account(Some(address.parse::<IpAddr>().unwrap().into()))
}

#[test]
fn every_level_bounds_what_is_drawn_and_gets_it_back() {
    let budget = ByteBudget::new(LIMITS);
    let (first, second) = (of(&budget, "2001:db8::1"), of(&budget, "2001:db8::2"));
    let proxy = budget.account(None);
    let held = first.try_take(30).unwrap();
    assert!(first.try_take(11).is_err(), "the connection has its all");
    let more = second.try_take(12).unwrap();
    assert!(second.try_take(1).is_err(), "the client has its all, over both connections: 60 of each 100 that are free");
    let others = [proxy.try_take(40).unwrap(), budget.common_account().try_take(18).unwrap()];
    assert!(of(&budget, "192.0.2.1").try_take(1).is_err(), "there is no more");
    assert_eq!(budget.used(), 100);
    drop(held);
    assert_eq!((first.used(), budget.used()), (0, 70), "what was refused has left nothing behind");
    drop((more, others));
    assert_eq!(budget.used(), 0);
    assert!(first.try_take(40).is_ok() && second.try_take(40).is_ok());
}

#[test]
fn what_can_be_done_without_leaves_half_of_every_level() {
    let budget = ByteBudget::new(LIMITS);
    let (first, second) = (of(&budget, "2001:db8::1"), of(&budget, "2001:db8::2"));
    assert!(first.try_take_spare(21).is_err(), "more than half of the connection's");
    let held = first.try_take_spare(20).unwrap();
    assert!(first.try_take_spare(1).is_err(), "the connection has half of its all");
    assert!(second.try_take_spare(5).is_err(), "more than half of what the client may have of 80");
    let more = second.try_take_spare(4).unwrap();
    let others = budget.common_account().try_take_spare(26).unwrap();
    assert!(of(&budget, "192.0.2.2").try_take_spare(1).is_err(), "half of everything is drawn");
    assert!(first.try_take(6).is_ok(), "what is needed is there");
    drop((held, more, others));
    assert_eq!(budget.used(), 0);
}

#[test]
fn what_there_are_many_of_leaves_half_of_the_whole() {
    let budget = ByteBudget::new(LIMITS);
    let client = of(&budget, "192.0.2.1").client_account();
    let mut held = client.try_take_common(25).unwrap();
    let others = budget.common_account().try_take(25).unwrap();
    assert!(client.try_take_common(1).is_err(), "half of everything is drawn");
    held.merge(client.try_take(1).unwrap());
    assert_eq!((held.bytes(), client.used(), budget.used()), (26, 26, 51), "what is needed is there");
    drop((held, others));
    assert_eq!((client.used(), budget.used()), (0, 0));
}

#[test]
fn the_last_holder_gives_the_bytes_back() {
    let budget = ByteBudget::new(LIMITS);
    let grant = Arc::new(of(&budget, "192.0.2.1").try_take(30).unwrap());
    let other = grant.clone();
    drop(grant);
    assert_eq!((budget.used(), other.bytes()), (30, 30), "the account is gone, and the bytes are held");
    drop(other);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_client_is_forgotten_with_its_last_account_and_grant() {
    let budget = ByteBudget::new(LIMITS);
    let account = of(&budget, "192.0.2.1");
    let grant = account.try_take(10).unwrap();
    assert!(!account.is_pressed());
    let clone = account.clone();
    drop(account);
    drop(clone);
    assert_eq!(budget.0.clients().len(), 1);
    let again = of(&budget, "192.0.2.1");
    let most = again.try_take(30).unwrap();
    assert!(of(&budget, "192.0.2.1").try_take(1).is_err(), "what the first connection left behind counts");
    drop((grant, most, again));
    assert_eq!(budget.0.clients().len(), 0);
}

#[test]
fn what_is_larger_than_the_account_can_hold_counts_as_that() {
    let budget = ByteBudget::new(LIMITS);
    let account = budget.account(None);
    assert_eq!(account.try_take(1_000).unwrap().bytes(), 40);
    assert_eq!(budget.common_account().try_take(1_000).unwrap().bytes(), 100);
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_who_waits_is_woken_at_whichever_level_it_waits() {
    let budget = ByteBudget::new(LIMITS);
    for (holder, waiter) in [
        (of(&budget, "192.0.2.1"), None),
        (of(&budget, "192.0.2.1"), Some(of(&budget, "192.0.2.1"))),
        (budget.common_account(), Some(of(&budget, "192.0.2.2"))),
    ] {
        let waiter = waiter.unwrap_or_else(|| holder.clone());
        let held = holder.try_take(100).unwrap();
        assert!(waiter.try_take(31).is_err(), "{holder:?}");
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
    let budget = ByteBudget::new(LIMITS);
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
    let budget = ByteBudget::new(LIMITS);
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
    let budget = ByteBudget::new(LIMITS);
    let account = budget.account(None);
    let held = account.try_take(40).unwrap();
    let waiter = |account: BudgetAccount| {
        tokio::spawn(async move { account.take(40, PATIENCE).await.map(|grant| grant.bytes()) })
    };
    let (gone, stays) = (waiter(account.clone()), waiter(account.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    // It is woken, but dropped before it runs.
    drop(held);
    gone.abort();
    assert_eq!(stays.await.unwrap(), Ok(40));
    let _ = gone.await;
    assert_eq!((account.used(), account.0.waiting.load(Ordering::SeqCst)), (0, 0));
}

/// Returns what each of `greedy` clients gets if all take as much as they can, a hundred at a time.
fn drawn(budget: &ByteBudget, greedy: u32) -> Vec<Vec<ByteGrant>> {
    let accounts: Vec<_> = (0..greedy)
        .map(|number| budget.account(Some(IpAddr::from((0xc000_0200 + number).to_be_bytes()).into())))
        .collect();
    let mut drawn: Vec<Vec<ByteGrant>> = accounts.iter().map(|_| Vec::new()).collect();
    loop {
        let mut is_over = true;
        for (account, drawn) in accounts.iter().zip(&mut drawn) {
            if let Ok(grant) = account.client_account().try_take(100) {
                drawn.push(grant);
                is_over = false;
            }
        }
        if is_over {
            return drawn;
        }
    }
}

#[test]
fn a_clients_share_shrinks_as_the_budget_fills() {
    for (greedy, least_left) in [(1, 75), (5, 40), (16, 18), (50, 6)] {
        let budget = ByteBudget::new(SHARES);
        let held = drawn(&budget, greedy);
        let left = SHARES.total - budget.used();
        assert!(left * 100 >= SHARES.total * least_left, "{greedy} leave {left}");
        let late = of(&budget, "198.51.100.1");
        assert!(late.try_take(SHARES.client / 32).is_ok(), "who comes later has something");
        let most = held.iter().map(|grants| grants.len() as u64 * 100).max().unwrap();
        assert!(budget.used() * 4 < SHARES.total * 3 || most <= SHARES.total / 16, "{greedy}: one has {most}");
    }
}

#[test]
fn a_block_has_a_quarter_however_many_clients_it_is() {
    let budget = ByteBudget::new(SHARES);
    let accounts: Vec<_> = (0..64).map(|number| of(&budget, &format!("2001:db8:1:{number:x}::1"))).collect();
    let held: Vec<_> = accounts.iter().filter_map(|account| account.try_take(1_000).ok()).collect();
    assert_eq!(held.len(), 25);
    assert!(of(&budget, "2001:db8:2::1").try_take(10_000).is_ok(), "another block is another payer");
    drop((accounts, held));
    assert_eq!((budget.used(), budget.0.clients().len()), (0, 0));
}

#[test]
fn those_who_hold_the_most_are_pressed_when_hardly_anything_is_left() {
    let budget = ByteBudget::new(SHARES);
    let (greedy, modest) = (of(&budget, "192.0.2.1"), of(&budget, "192.0.2.2"));
    let _held = [greedy.try_take(8_000).unwrap(), modest.try_take(1_000).unwrap()];
    assert!(!greedy.is_pressed(), "there is enough");
    let _rest = budget.common_account().try_take(SHARES.total * 9 / 10).unwrap();
    assert!(greedy.is_pressed() && !modest.is_pressed() && !budget.account(None).is_pressed());
}

#[tokio::test(start_paused = true)]
async fn one_whose_share_has_shrunk_goes_on_when_others_give_back() {
    let budget = ByteBudget::new(SHARES);
    let account = of(&budget, "192.0.2.1");
    let held = account.try_take(2_000).unwrap();
    let others = budget.common_account().try_take(SHARES.total * 9 / 10).unwrap();
    let waiting = tokio::spawn(async move { account.take(10_000, PATIENCE).await.map(|grant| grant.bytes()) });
    tokio::time::sleep(Duration::from_secs(5)).await;
    drop(others);
    assert_eq!(waiting.await.unwrap(), Ok(10_000));
    drop(held);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_grant_grows_and_shrinks() {
    let budget = ByteBudget::new(LIMITS);
    let account = of(&budget, "192.0.2.1");
    let mut grant = account.try_take(10).unwrap();
    assert_eq!((grant.try_grow(31), grant.try_grow(20), grant.bytes()), (Err(ExhaustedError), Ok(()), 30));
    grant.shrink_to(40);
    grant.shrink_to(5);
    assert_eq!((grant.bytes(), account.used(), budget.used()), (5, 5, 5));
    drop(grant);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn what_is_beyond_a_share_is_pushed_out_by_what_is_newer_unless_it_is_taken() {
    let budget = ByteBudget::new(LIMITS);
    let [first, second] = [of(&budget, "192.0.2.1"), of(&budget, "192.0.2.1")];
    let taken = first.take_extra(1, 3).unwrap();
    taken.keep();
    let stalled = second.take_extra(1, 3).unwrap();
    let newer = first.take_extra(1, 3).unwrap();
    assert_eq!((first.used(), first.client_account().used(), budget.used()), (0, 0, 3));
    let newest = second.take_extra(1, 3).unwrap();
    stalled.evicted().await;
    // Another client has its own ring.
    let others = of(&budget, "192.0.2.2").take_extra(1, 1).unwrap();
    drop(stalled);
    newer.keep();
    newest.keep();
    assert!(first.take_extra(1, 3).is_err(), "all are taken");
    assert_eq!(budget.used(), 4);
    drop((taken, newer, newest, others));
    assert_eq!(budget.used(), 0);
    assert!(budget.account(None).take_extra(1, 3).is_err(), "nobody in particular");
}

#[tokio::test]
async fn a_connection_that_floods_its_client_pushes_out_its_own() {
    let budget = ByteBudget::new(LIMITS);
    let [flood, neighbour] = [of(&budget, "192.0.2.1"), of(&budget, "192.0.2.1")];
    let modest = neighbour.take_extra(1, 3).unwrap();
    let mut flooding = vec![flood.take_extra(1, 3).unwrap(), flood.take_extra(1, 3).unwrap()];
    for _ in 0..5 {
        flooding.push(flood.take_extra(1, 3).unwrap());
        flooding.remove(0).evicted().await;
    }
    // Among equals, the oldest is pushed out.
    let again = neighbour.take_extra(1, 3).unwrap();
    modest.evicted().await;
    drop((flooding, again));
}

#[test]
fn a_client_has_one_grant_where_others_hold_everything() {
    let budget = ByteBudget::new(SHARES);
    let all = budget.common_account().try_take(SHARES.total).unwrap();
    let newcomer = of(&budget, "192.0.2.1");
    assert!(newcomer.try_take(2_000).is_err() && newcomer.take_extra(2_000, 16).is_err());
    let first = newcomer.take_first(2_000).unwrap();
    assert!(of(&budget, "192.0.2.1").take_first(1).is_err(), "one for each client, over all its connections");
    assert_eq!(budget.used(), SHARES.total + 2_000);
    assert_eq!(budget.common_account().used(), SHARES.total, "what others give back is there for those who wait");
    let others: Vec<_> = (2..=255).map(|n| of(&budget, &format!("192.0.2.{n}")).take_first(2_000).ok()).collect();
    assert_eq!(others.iter().flatten().count(), 11, "a quarter of the whole, without the newcomer's");
    drop(first);
    assert!(of(&budget, "192.0.2.255").take_first(2_000).is_ok());
    drop((all, others));
    assert!(budget.account(None).take_first(1).is_err(), "nobody in particular");
}

#[tokio::test(start_paused = true)]
async fn a_client_is_in_its_own_way_while_it_waits_for_itself() {
    let budget = ByteBudget::new(LIMITS);
    let [holder, waiter] = [of(&budget, "192.0.2.1"), of(&budget, "192.0.2.1")];
    let held = holder.try_take(36).unwrap();
    let mut waiting = Box::pin(waiter.take(20, PATIENCE));
    assert!(!holder.is_blocking_itself());
    assert!(matches!(futures_poll(&mut waiting), std::task::Poll::Pending));
    assert!(holder.is_blocking_itself() && !of(&budget, "192.0.2.2").is_blocking_itself());
    drop(held);
    drop(waiting.await.unwrap());
    assert!(!holder.is_blocking_itself());
}

fn futures_poll<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> std::task::Poll<F::Output> {
    future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[test]
fn a_grant_is_divided_without_a_change_of_the_whole() {
    let budget = ByteBudget::new(BudgetLimits { total: 100, client: 100, connection: 100 });
    let mut grant = budget.account(None).try_take(60).unwrap();
    let part = grant.split_off(20);
    assert_eq!((part.bytes(), grant.bytes(), budget.used()), (20, 40, 60));
    drop(grant.split_off(1_000));
    assert_eq!((grant.bytes(), budget.used()), (0, 20));
    drop((grant, part));
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_grant_of_the_client_takes_nothing_of_its_connection() {
    let budget = ByteBudget::new(BudgetLimits { total: 1_000, client: 500, connection: 100 });
    let client = Client::from(std::net::IpAddr::from([192, 0, 2, 1]));
    let account = budget.account(Some(client));
    let held = account.try_take(100).unwrap().into_client();
    assert_eq!((held.bytes(), account.used(), account.client_account().used(), budget.used()), (100, 0, 100, 100));
    let more = account.try_take(100).unwrap();
    let held = held.into_client();
    assert_eq!((account.used(), account.client_account().used()), (100, 200), "it is the client's already");
    drop((held, more));
    assert_eq!((account.used(), account.client_account().used(), budget.used()), (0, 0, 0));
}
