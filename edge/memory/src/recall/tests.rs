use std::sync::atomic::{AtomicUsize, Ordering};

use db::edges::routes::SnapshotExtent;

use super::*;

const BOUNDS: ReadThroughLimits = ReadThroughLimits {
    present: 100,
    usual: 1,
    absent: 20,
    present_life: None,
    absent_life: None,
    can_lapse: true,
    flights: 8,
    askers_per_client: 100,
    reads: 4,
    reads_per_client: 4,
    wait: Duration::from_secs(5),
    tries: 5,
    back_off: Duration::from_millis(500),
    failures: 16,
};

fn at(seq: i64) -> SnapshotExtent {
    SnapshotExtent { position: domain::ChangePosition { epoch: "first".parse().unwrap(), seq }, end: seq }
}

fn marks() -> Arc<ChangeMarks> {
    let marks = Arc::<ChangeMarks>::default();
    marks.begin(at(0).position.epoch);
    marks
}

fn asker(last: u8) -> Client {
    std::net::IpAddr::from([192, 0, 2, last]).into()
}

struct World {
    marks: Arc<ChangeMarks>,
    recall: ReadThroughCache<u32, u32>,
    reads: AtomicUsize,
}

impl World {
    fn new(bounds: ReadThroughLimits) -> Self {
        let marks = marks();
        Self { recall: ReadThroughCache::new(marks.clone(), bounds), marks, reads: AtomicUsize::new(0) }
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    async fn find(&self, key: u32, value: Option<u32>) -> Result<Option<u32>, CacheReadError> {
        let reading = self.marks.reading(&at(1), ["a", "b", "b"]);
        let read = |_| async move {
            self.reads.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok(SourceRead { key, value, reading, bytes: 1 })
        };
        self.recall.find(&key, asker(1), read).await
    }

    async fn fail(&self, key: u32) -> Result<Option<u32>, CacheReadError> {
        let read = |_| async {
            self.reads.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Err(CacheReadError::Unreadable("away".into()))
        };
        self.recall.find(&key, asker(1), read).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_refuses_its_own_key_only_and_only_for_a_moment() {
    let world = World::new(BOUNDS);
    assert!(world.fail(1).await.is_err());
    assert!(world.find(1, Some(10)).await.is_err(), "it failed a moment ago");
    assert_eq!(world.reads(), 1);
    for key in 2..90 {
        assert_eq!(world.find(key, Some(key)).await.unwrap(), Some(key));
    }
    tokio::time::advance(BOUNDS.back_off).await;
    assert_eq!(world.find(1, Some(10)).await.unwrap(), Some(10));
}

#[tokio::test(start_paused = true)]
async fn a_slow_read_keeps_no_other_key_waiting() {
    let world = World::new(BOUNDS);
    let slow = world.recall.find(&1, asker(1), |_| std::future::pending());
    let others = async {
        for key in 2..90 {
            assert_eq!(world.find(key, Some(key)).await.unwrap(), Some(key));
        }
    };
    tokio::select! {
        biased;
        _ = slow => panic!("it never ends by itself"),
        () = others => {}
    }
    assert!(lock(&world.recall.flights).is_empty(), "nobody waits any more");
}

#[tokio::test(start_paused = true)]
async fn reads_and_waiting_keys_are_bounded() {
    let world = World::new(BOUNDS);
    let world = &world;
    let stuck = (0..8).map(|key| async move {
        let read = |_| {
            world.reads.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        };
        world.recall.find(&key, asker(u8::try_from(key).unwrap()), read).await
    });
    let stuck = futures_util::future::join_all(stuck);
    let refused = async {
        tokio::task::yield_now().await;
        assert_eq!(world.reads(), BOUNDS.reads);
        assert!(matches!(world.find(99, Some(1)).await, Err(CacheReadError::Busy)));
    };
    let (stuck, ()) = futures_util::future::join(stuck, refused).await;
    assert!(stuck.iter().all(Result::is_err), "each waited no longer than it may");
    assert!(lock(&world.recall.flights).is_empty());
    assert_eq!(world.find(99, Some(1)).await.unwrap(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn one_client_leaves_reads_for_the_others() {
    let world = World::new(ReadThroughLimits { reads_per_client: 3, askers_per_client: 5, flights: 100, ..BOUNDS });
    let world = &world;
    let greedy = (0..10).map(|key| async move {
        let read = |_| {
            world.reads.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        };
        world.recall.find(&key, asker(1), read).await
    });
    let reading = world.marks.reading(&at(1), ["a", "b", "b"]);
    let other = async {
        tokio::task::yield_now().await;
        assert_eq!(world.reads(), 3);
        let read = |_| async move { Ok(SourceRead { key: 99, value: Some(1), reading, bytes: 1 }) };
        assert_eq!(world.recall.find(&99, asker(2), read).await.unwrap(), Some(1));
    };
    let (greedy, ()) = futures_util::future::join(futures_util::future::join_all(greedy), other).await;
    assert_eq!(greedy.iter().filter(|found| matches!(found, Err(CacheReadError::Busy))).count(), 5);
}

#[tokio::test]
async fn a_key_is_read_once_however_many_ask() {
    let world = World::new(BOUNDS);
    let asked = (0..50).map(|_| world.find(1, Some(10)));
    assert!(futures_util::future::join_all(asked).await.iter().all(|found| matches!(found, Ok(Some(10)))));
    assert_eq!(world.reads(), 1);
    let asked = (0..50).map(|_| world.fail(2));
    assert!(futures_util::future::join_all(asked).await.iter().all(Result::is_err));
    assert_eq!(world.reads(), 2);
}

#[tokio::test]
async fn absences_do_not_push_values_out() {
    let world = World::new(BOUNDS);
    assert_eq!(world.find(0, Some(10)).await.unwrap(), Some(10));
    for key in 1..1_000 {
        assert_eq!(world.find(key, None).await.unwrap(), None);
    }
    assert_eq!(world.recall.cached(&0), Cached::Present(10));
    assert!(world.recall.absent.len() <= BOUNDS.absent);
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_ends_by_age_where_it_has_a_bound() {
    let life = Some(Duration::from_secs(3));
    let world = World::new(ReadThroughLimits { present_life: life, absent_life: life, ..BOUNDS });
    world.find(1, Some(10)).await.unwrap();
    world.find(2, None).await.unwrap();
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(world.recall.cached(&1), Cached::Present(10));
    assert_eq!(world.recall.cached(&2), Cached::Absent);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(world.recall.cached(&1), Cached::Unknown);
    assert_eq!(world.recall.cached(&2), Cached::Unknown);
    assert_eq!(world.recall.last_value(&1), Some(10));
}

#[tokio::test]
async fn keys_are_remembered_for_the_bytes_that_they_take() {
    const BYTES: u64 = 100_000;
    const LARGE: u64 = 1_000;
    let marks = marks();
    let recall =
        ReadThroughCache::<u32, u32>::new(marks.clone(), ReadThroughLimits { present: BYTES, usual: 100, ..BOUNDS });
    let reading = marks.reading(&at(1), ["a", "b", "b"]);
    for key in 0..1_000 {
        let read = |_| async move { Ok(SourceRead { key, value: Some(key), reading, bytes: LARGE }) };
        assert_eq!(recall.find(&key, asker(1), read).await.unwrap(), Some(key));
        assert!(recall.bytes() <= BYTES, "{} bytes after {key} keys", recall.bytes());
    }
    let remembered = (0..1_000).filter(|key| recall.cached(key) != Cached::Unknown).count() as u64;
    assert!(remembered > 0 && remembered <= BYTES / LARGE, "{remembered} keys");
}
