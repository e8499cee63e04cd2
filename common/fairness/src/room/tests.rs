use std::{
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn room() -> SizedRoom<&'static str> {
    SizedRoom::new(RoomBounds { total: 10, share: 6, waiting: 4, waiting_share: 2 })
}

fn waits(taking: &mut Pin<Box<impl Future>>) -> bool {
    matches!(taking.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
}

#[tokio::test(start_paused = true)]
async fn a_place_is_waited_for_and_given_back() {
    let room = room();
    let first = room.take(&"a", 6, PATIENCE).await.unwrap();
    let other = room.take(&"b", 4, PATIENCE).await.unwrap();
    let mut third = Box::pin(room.take(&"c", 5, PATIENCE));
    assert!(waits(&mut third));
    // It does not fit, and a smaller one behind it must wait: otherwise it would never fit.
    drop(other);
    let mut small = Box::pin(room.take(&"d", 2, PATIENCE));
    assert!(waits(&mut small));
    drop(first);
    let (third, small) = (third.await.unwrap(), small.await.unwrap());
    assert_eq!((room.held(), third.size(), small.size()), (7, 5, 2));
    drop((third, small));
    assert_eq!(room.held(), 0);
    assert!(room.shared.state().keys.is_empty() && room.shared.state().order.len() == 0);
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_place_are_given_back_each() {
    let room = room();
    let first = room.take(&"a", 6, PATIENCE).await.unwrap();
    let part = first.split_off(2);
    assert_eq!((room.held(), first.size(), part.size()), (6, 4, 2));
    first.shrink_to(9);
    first.shrink_to(3);
    assert_eq!((room.held(), first.size()), (5, 3));
    assert_eq!(first.grow_to(5), Err(ShareError::Share), "its key has the other part as well");
    drop(part);
    assert_eq!((room.held(), first.grow_to(5), first.size()), (3, Ok(()), 5));
    // What is given back goes to those who wait.
    let mut waiting = Box::pin(room.take(&"b", 6, PATIENCE));
    assert!(waits(&mut waiting));
    first.shrink_to(4);
    let waiting = waiting.await.unwrap();
    let all = first.split_off(100);
    assert_eq!((first.size(), all.size(), room.held()), (0, 4, 10));
    drop((first, waiting));
    assert_eq!(room.held(), 4);
    drop(all);
    assert_eq!(room.held(), 0);
    assert!(room.shared.state().keys.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_has_its_share_or_one_thing_and_holds_up_nobody() {
    let room = room();
    let first = room.take(&"a", 5, PATIENCE).await.unwrap();
    let mut second = Box::pin(room.take(&"a", 2, PATIENCE));
    assert!(waits(&mut second));
    let other = room.take(&"b", 3, PATIENCE).await.unwrap();
    drop((first, other));
    drop(second.await.unwrap());
    // Alone, it may exceed a share and even the total.
    for size in [9, 10, 1_000] {
        let alone = room.take(&"a", size, PATIENCE).await.unwrap();
        assert_eq!(alone.size(), size.min(10));
    }
    assert_eq!(room.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_bounded_in_time_and_number() {
    let room = room();
    let all = room.take(&"a", 10, PATIENCE).await.unwrap();
    assert_eq!(room.take(&"b", 1, PATIENCE).await.unwrap_err(), ShareError::Full, "in time");
    let mut waiting: Vec<_> =
        [&"b", &"b", &"c", &"d"].into_iter().map(|key| Box::pin(room.take(key, 1, PATIENCE))).collect();
    assert!(waiting.iter_mut().all(waits));
    assert_eq!(room.take(&"b", 1, PATIENCE).await.unwrap_err(), ShareError::Share);
    let mut late = Box::pin(room.take(&"e", 1, PATIENCE));
    assert!(waits(&mut late), "one who waits twice makes room for it");
    assert_eq!(waiting.remove(1).await.unwrap_err(), ShareError::Full);
    assert_eq!(room.take(&"f", 1, PATIENCE).await.unwrap_err(), ShareError::Full, "now each waits once");
    assert!(waiting.iter_mut().all(waits) && waits(&mut late));
    drop(late);
    drop((waiting, all));
    assert_eq!(room.held(), 0);
    assert!(room.shared.state().keys.is_empty());
}

#[tokio::test]
async fn keys_take_turns() {
    let room = SizedRoom::new(RoomBounds { total: 1, share: 1, waiting: 9, waiting_share: 9 });
    let held = room.take(&"a", 1, PATIENCE).await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let waiting: Vec<_> = ["a", "a", "b", "c"]
        .into_iter()
        .map(|key| {
            let (room, served) = (room.clone(), served.clone());
            tokio::spawn(async move {
                let place = room.take(&key, 1, PATIENCE).await.unwrap();
                served.lock().unwrap().push(key);
                drop(place);
            })
        })
        .collect();
    while room.shared.state().waiting < 4 {
        tokio::task::yield_now().await;
    }
    drop(held);
    for task in waiting {
        task.await.unwrap();
    }
    // The second of one key comes after the first of all others.
    assert_eq!(*served.lock().unwrap(), ["a", "b", "c", "a"]);
}

#[tokio::test]
async fn a_place_grows_without_waiting() {
    let room = room();
    let place = room.take(&"a", 2, PATIENCE).await.unwrap();
    place.grow_to(8).unwrap();
    place.grow_to(1).unwrap();
    assert_eq!((place.size(), room.held()), (8, 8));
    let other = room.take(&"b", 1, PATIENCE).await.unwrap();
    assert_eq!((other.grow_to(4), room.held()), (Err(ShareError::Full), 9));
    let second = room.take(&"b", 1, PATIENCE).await.unwrap();
    drop(place);
    assert_eq!((second.grow_to(6), second.grow_to(5)), (Err(ShareError::Share), Ok(())));
    drop((other, second));
    assert_eq!(room.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_group_has_one_share_and_its_keys_hold_up_nobody() {
    let room = SizedRoom::new(RoomBounds { total: 12, share: 4, waiting: 8, waiting_share: 2 });
    let first = room.take(&"group/a", 3, PATIENCE).await.unwrap();
    let mut second = Box::pin(room.take(&"group/b", 3, PATIENCE));
    let mut third = Box::pin(room.take(&"group/c", 1, PATIENCE));
    assert!(waits(&mut second) && !waits(&mut third), "a small one fits beside the first");
    let other = room.take(&"other", 4, PATIENCE).await.unwrap();
    assert_eq!(other.grow_to(5), Ok(()), "a single thing");
    drop((first, third));
    let second = second.await.unwrap();
    assert_eq!(room.held(), 8);
    drop((second, other));
    let state = room.shared.state();
    assert!(state.held == 0 && state.keys.is_empty() && state.groups.is_empty() && state.order.len() == 0);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_grows_waits_for_what_others_hold_within_bounds() {
    let room = SizedRoom::new(RoomBounds { total: 10, share: 8, waiting: 9, waiting_share: 9 });
    let take = |key, size| room.take(key, size, Duration::ZERO);
    let (mine, other) = (take(&"a", 4).await.unwrap(), take(&"b", 4).await.unwrap());
    let waiting = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        other.shrink_to(1);
    };
    let (grown, ()) = tokio::join!(mine.grow_within(8, Duration::from_secs(2)), waiting);
    assert_eq!((grown, room.held()), (Ok(()), 9));
    // Two that wait for each other do so within their patience.
    let (both, start) = ([&mine, &other], Instant::now());
    let [first, second] = both.map(|place| place.grow_within(place.size() + 2, Duration::from_secs(2)));
    assert_eq!(tokio::join!(first, second), (Err(ShareError::Full), Err(ShareError::Full)));
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    // A share is not waited for.
    let more = take(&"a", 0).await.unwrap();
    assert_eq!(more.grow_within(1, Duration::from_secs(2)).await, Err(ShareError::Share));
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}
