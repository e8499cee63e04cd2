use std::sync::Arc;

use super::*;

fn account(name: char) -> PayingAccount {
    format!("usr_0000000000000000000{name}").parse::<domain::UserId>().unwrap().into()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// Has the provider refuse a request of each of two accounts.
fn refuse_two(pace: &ProviderPace, retry_after: Duration) {
    for name in ['x', 'y'] {
        pace.record_refused(&account(name), Instant::now(), Some(retry_after));
    }
}

#[tokio::test(start_paused = true)]
async fn accounts_take_turns_once_the_provider_has_refused_two() {
    let pace = Arc::new(ProviderPace::default());
    assert!(!pace.is_limited(&account('a')));
    refuse_two(&pace, Duration::from_secs(2));
    assert!(pace.is_limited(&account('a')) && !pace.try_pass(&account('a')));
    let (start, order) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let mut tasks = Vec::new();
    for name in "aaaabc".chars() {
        let (pace, order) = (pace.clone(), order.clone());
        tasks.push(tokio::spawn(async move {
            pace.wait(&account(name), soon()).await.unwrap();
            order.lock().unwrap().push((name, start.elapsed()));
            pace.record_accepted(&account(name));
        }));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    let order = order.lock().unwrap().clone();
    assert_eq!(order.iter().map(|(name, _)| *name).collect::<String>(), "abcaaa");
    assert!(order[0].1 >= Duration::from_secs(2), "not before the provider's time");
    assert!(order.is_sorted_by(|one, next| next.1.saturating_sub(one.1) >= limits::PACE_SHORTEST_GAP), "{order:?}");
    // The limit is lifted when the provider has refused nothing for a while.
    tokio::time::advance(limits::PACE_CALM).await;
    pace.record_accepted(&account('a'));
    assert!(!pace.is_limited(&account('a')) && !pace.is_limited(&account('x')));
    assert!(!pace.is_limited.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn refusals_of_one_account_slow_down_nobody_else() {
    let pace = Arc::new(ProviderPace::default());
    let (greedy, modest) = (account('a'), account('b'));
    for _ in 0..5 {
        pace.record_refused(&greedy, Instant::now(), Some(Duration::from_secs(20)));
    }
    let start = Instant::now();
    let waiting = {
        let (pace, greedy) = (pace.clone(), greedy.clone());
        tokio::spawn(async move { pace.wait(&greedy, soon()).await.map(|()| start.elapsed()) })
    };
    tokio::task::yield_now().await;
    assert!(!pace.try_pass(&greedy) && pace.try_pass(&modest) && !pace.is_limited(&modest));
    // Nor while all are paced: the others do not wait for its time, nor behind it.
    pace.record_refused(&modest, Instant::now(), Some(Duration::from_secs(1)));
    assert!(!pace.try_pass(&modest) && !pace.try_pass(&account('c')));
    pace.wait(&account('c'), soon()).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    // The time that the provider named holds for the account that it was named to.
    assert!(waiting.await.unwrap().unwrap() >= Duration::from_secs(20));
    // A second refusal of it alone, later, is its own again.
    tokio::time::advance(limits::PACE_CALM).await;
    pace.record_accepted(&modest);
    pace.record_refused(&greedy, Instant::now(), None);
    assert!(pace.try_pass(&modest) && pace.try_pass(&modest) && !pace.try_pass(&greedy));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_pass_in_time_does_not_wait() {
    let pace = ProviderPace::default();
    pace.record_refused(&account('a'), Instant::now(), Some(Duration::from_mins(1)));
    let late = pace.wait(&account('a'), soon()).await.unwrap_err();
    assert!(late.retry_after > Duration::from_secs(50));
    // A request that waited in vain behind another's turn fails at its deadline.
    let pace = ProviderPace::default();
    refuse_two(&pace, Duration::from_secs(25));
    let (first, second) = (account('a'), account('b'));
    let deadline = Instant::now() + Duration::from_secs(20);
    assert!(pace.wait(&first, deadline).await.is_err());
    let waits = async {
        let held = pace.turn.take(&first, Duration::from_secs(1)).await.unwrap();
        assert!(pace.wait(&second, soon()).await.is_err());
        drop(held);
    };
    waits.await;
    assert!(pace.table().payers.values().all(|payer| payer.waiting == 0));
    assert_eq!(pace.table().payers.len(), 2, "those that were refused");
}

#[tokio::test(start_paused = true)]
async fn the_rate_rises_with_what_is_taken_and_falls_with_refusals() {
    let pace = ProviderPace::default();
    let account = account('a');
    let refuse = |sent, retry_after| pace.record_refused(&account, sent, retry_after);
    let gap = |pace: &ProviderPace| pace.table().own(&account).unwrap().gap;
    refuse(Instant::now(), None);
    assert_eq!(gap(&pace), limits::PACE_FIRST_GAP);
    // A single refusal counts among several requests in flight.
    let sent = Instant::now();
    tokio::time::advance(Duration::from_millis(10)).await;
    refuse(sent + Duration::from_millis(5), None);
    let slower = gap(&pace);
    assert_eq!(slower, limits::PACE_FIRST_GAP * 2);
    for _ in 0..10 {
        refuse(sent, None);
    }
    assert_eq!(gap(&pace), slower);
    pace.record_accepted(&account);
    let faster = gap(&pace);
    assert!(faster < slower && faster > slower / 2, "{faster:?}");
    for _ in 0..100_000 {
        pace.record_accepted(&account);
    }
    assert_eq!(gap(&pace), limits::PACE_SHORTEST_GAP);
    for _ in 0..100 {
        tokio::time::advance(Duration::from_millis(2)).await;
        refuse(Instant::now(), None);
        tokio::time::advance(Duration::from_millis(2)).await;
    }
    assert_eq!(gap(&pace), limits::PACE_LONGEST_GAP);
}
