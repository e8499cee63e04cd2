use std::{
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use super::*;

const PATIENCE: Duration = Duration::from_mins(1);

fn turns(total: usize, share: usize) -> TurnQueue<&'static str> {
    TurnQueue::new(TurnBounds { total, share, waiting: 100, waiting_share: 10 })
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_key_has_its_share_and_all_have_the_whole() {
    let turns = turns(3, 2);
    let first = turns.try_take(&"greedy").unwrap();
    let _second = turns.try_take(&"greedy").unwrap();
    assert_eq!(turns.try_take(&"greedy").unwrap_err(), ShareError::Share);
    let _other = turns.try_take(&"other").unwrap();
    assert_eq!(turns.try_take(&"third").unwrap_err(), ShareError::Full);
    assert_eq!(turns.top_keys(1), [("greedy", 2)]);
    drop(first);
    assert_eq!(turns.in_use(), 2);
    drop(turns.try_take(&"third").unwrap());
}

#[tokio::test(start_paused = true)]
async fn waiting_goes_round_the_keys() {
    let turns = turns(1, 1);
    let mut held = Some(turns.try_take(&"greedy").unwrap());
    let (sender, mut served) = tokio::sync::mpsc::channel(5);
    for key in ["greedy", "greedy", "greedy", "modest", "late"] {
        let (turns, sender) = (turns.clone(), sender.clone());
        tokio::spawn(async move { sender.send(turns.take(&key, PATIENCE).await.unwrap()).await });
        tokio::task::yield_now().await;
    }
    let mut order = Vec::new();
    for _ in 0..5 {
        drop(held.take());
        held = served.recv().await;
        order.push(*held.as_ref().unwrap().key());
    }
    assert_eq!(order, ["modest", "late", "greedy", "greedy", "greedy"]);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_the_queue() {
    let turns = turns(1, 1);
    let held = turns.try_take(&"a").unwrap();
    assert_eq!(turns.take(&"b", PATIENCE).await.unwrap_err(), ShareError::Full);
    assert_eq!(turns.take(&"a", PATIENCE).await.unwrap_err(), ShareError::Share);
    drop(held);
    let state = turns.shared.state();
    assert_eq!((state.taken, state.waiting, state.keys.len(), state.order.len()), (0, 0, 0, 0));
}

#[tokio::test]
async fn a_turn_given_to_one_who_has_just_gone_goes_to_the_next() {
    let turns = turns(1, 1);
    let held = turns.try_take(&"a").unwrap();
    let mut gone = Box::pin(turns.take(&"b", PATIENCE));
    let mut next = pin!(turns.take(&"c", PATIENCE));
    assert!(poll(gone.as_mut()).is_pending());
    assert!(poll(next.as_mut()).is_pending());
    drop(held);
    // The turn now belongs to b, which has not been polled again.
    drop(gone);
    let Poll::Ready(Ok(turn)) = poll(next.as_mut()) else { panic!("c has no turn") };
    assert_eq!(turn.key(), &"c");
}

#[tokio::test]
async fn the_queue_is_bounded_in_all_and_for_each_key() {
    let turns = TurnQueue::new(TurnBounds { total: 1, share: 1, waiting: 3, waiting_share: 2 });
    let _held = turns.try_take(&"held").unwrap();
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(turns.take(&"greedy", PATIENCE))).collect();
    for waiter in &mut waiting {
        assert!(poll(waiter.as_mut()).is_pending());
    }
    assert_eq!(turns.take(&"greedy", PATIENCE).await.unwrap_err(), ShareError::Share);
    let mut modest = pin!(turns.take(&"modest", PATIENCE));
    assert!(poll(modest.as_mut()).is_pending());
    let mut late = Box::pin(turns.take(&"late", PATIENCE));
    assert!(poll(late.as_mut()).is_pending(), "one who waits twice makes room for it");
    assert_eq!(waiting.pop().unwrap().await.unwrap_err(), ShareError::Full);
    assert_eq!(turns.take(&"later", PATIENCE).await.unwrap_err(), ShareError::Full, "now each waits once");
    assert!(poll(waiting[0].as_mut()).is_pending() && poll(late.as_mut()).is_pending());
    drop(late);
    // A key that repeatedly waits and gives up leaves nothing behind.
    drop(waiting);
    for _ in 0..10 {
        assert!(poll(Box::pin(turns.take(&"fickle", PATIENCE)).as_mut()).is_pending());
    }
    let state = turns.shared.state();
    assert_eq!((state.waiting, state.order.len(), state.keys.len()), (1, 1, 2));
}

#[tokio::test]
async fn the_keys_of_a_group_make_room_together() {
    let turns = TurnQueue::new(TurnBounds { total: 1, share: 1, waiting: 4, waiting_share: 4 });
    let _held = turns.try_take(&"held").unwrap();
    let mut group: Vec<_> =
        [&"group/a", &"group/b", &"group/c"].into_iter().map(|key| Box::pin(turns.take(key, PATIENCE))).collect();
    let mut others = Box::pin(turns.take(&"other", PATIENCE));
    assert!(group.iter_mut().all(|waiter| poll(waiter.as_mut()).is_pending()) && poll(others.as_mut()).is_pending());
    let mut late = Box::pin(turns.take(&"late", PATIENCE));
    assert!(poll(late.as_mut()).is_pending(), "the group waits more often than anybody else");
    assert_eq!(group.iter_mut().map(|waiter| usize::from(poll(waiter.as_mut()).is_ready())).sum::<usize>(), 1);
    assert_eq!(
        turns.take(&"group/d", PATIENCE).await.unwrap_err(),
        ShareError::Full,
        "nobody makes room for its own group"
    );
}

#[tokio::test(start_paused = true)]
async fn many_tasks_never_hold_more_than_the_bounds() {
    let turns = TurnQueue::new(TurnBounds { total: 5, share: 2, waiting: 1_000, waiting_share: 1_000 });
    let tasks: Vec<_> = (0..300_u64)
        .map(|n| {
            let turns = turns.clone();
            tokio::spawn(async move {
                // Some give up while they wait.
                let patience = Duration::from_millis(1 + n * 7 % 50);
                if let Ok(turn) = turns.take(&(n % 7), patience).await {
                    assert!(turns.in_use() <= 5);
                    assert!(turns.top_keys(1)[0].1 <= 2);
                    tokio::time::sleep(Duration::from_millis(n % 5)).await;
                    drop(turn);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let state = turns.shared.state();
    assert_eq!((state.taken, state.waiting, state.keys.len(), state.order.len()), (0, 0, 0, 0));
}

#[tokio::test]
async fn shares_shrink_as_the_whole_fills() {
    const TOTAL: usize = 1_024;
    let turns = TurnQueue::<&str>::new(TurnBounds { total: TOTAL, share: 64, waiting: 0, waiting_share: 0 });
    let names: Vec<&'static str> = (0..100).map(|name: usize| &*name.to_string().leak()).collect();
    for (greedy, left) in [(1, TOTAL - 64), (8, TOTAL / 2), (17, 300), (100, 60)] {
        let mut held = Vec::new();
        // In turns, as they arrive.
        while let added @ 1.. =
            names[..greedy].iter().filter_map(|name| turns.try_take(name).ok()).map(|turn| held.push(turn)).count()
        {
            assert!(added <= greedy);
        }
        assert!(TOTAL - turns.in_use() >= left, "{greedy} keys leave {}", TOTAL - turns.in_use());
        let mut late = Vec::new();
        while let Ok(turn) = turns.try_take(&"late") {
            late.push(turn);
        }
        assert!(late.len() * 4 >= held.len() / greedy, "who comes later has {}", late.len());
    }
    assert_eq!(turns.in_use(), 0);
}

#[tokio::test]
async fn a_group_has_a_quarter_however_many_keys_it_is() {
    const TOTAL: usize = 100;
    let turns = TurnQueue::<&str>::new(TurnBounds { total: TOTAL, share: 10, waiting: 100, waiting_share: 10 });
    let names: Vec<&'static str> = (0..50).map(|name: usize| &*format!("block/{name}").leak()).collect();
    let held: Vec<_> = names.iter().filter_map(|name| turns.try_take(name).ok()).collect();
    assert_eq!((held.len(), turns.try_take(&"block/50").unwrap_err()), (25, ShareError::Share));
    let mut waiting = Box::pin(turns.take(&"block/51", PATIENCE));
    assert!(poll(waiting.as_mut()).is_pending());
    let other: Vec<_> = (0..10).map(|_| turns.try_take(&"other/1").unwrap()).collect();
    drop(other);
    assert!(poll(waiting.as_mut()).is_pending(), "it waits for one of its own group");
    drop(held);
    assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Ok(_))));
    drop(waiting);
    let state = turns.shared.state();
    assert_eq!((state.taken, state.groups.len(), state.keys.len(), state.order.len()), (0, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn waiting_goes_round_the_groups_and_within_each_round_its_keys() {
    let turns = turns(1, 1);
    let mut held = Some(turns.try_take(&"many/1").unwrap());
    let (sender, mut served) = tokio::sync::mpsc::channel(9);
    for key in ["many/1", "many/2", "many/2", "many/3", "single", "few/1", "few/2"] {
        let (turns, sender) = (turns.clone(), sender.clone());
        tokio::spawn(async move { sender.send(turns.take(&key, PATIENCE).await.unwrap()).await });
        tokio::task::yield_now().await;
    }
    let mut order = Vec::new();
    for _ in 0..7 {
        drop(held.take());
        held = served.recv().await;
        order.push(*held.as_ref().unwrap().key());
    }
    assert_eq!(order, ["single", "few/1", "many/2", "few/2", "many/3", "many/1", "many/2"]);
    drop(held);
    let state = turns.shared.state();
    assert_eq!((state.taken, state.waiting, state.groups.len(), state.keys.len(), state.order.len()), (0, 0, 0, 0, 0));
}

#[tokio::test]
async fn a_group_has_a_quarter_of_the_queue_however_many_keys_it_is() {
    let turns = TurnQueue::<&str>::new(TurnBounds { total: 1, share: 1, waiting: 40, waiting_share: 2 });
    let _held = turns.try_take(&"held").unwrap();
    let names: Vec<&'static str> = (0..50).map(|name: usize| &*format!("block/{name}").leak()).collect();
    let mut waiting: Vec<_> = names.iter().map(|name| Box::pin(turns.take(name, PATIENCE))).collect();
    let pending = waiting.iter_mut().filter_map(|waiter| poll(waiter.as_mut()).is_pending().then_some(())).count();
    assert_eq!(pending, 10);
    assert!(poll(Box::pin(turns.take(&"other", PATIENCE)).as_mut()).is_pending());
}
