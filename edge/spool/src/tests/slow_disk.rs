//! A disk that does not respond.

use std::{
    io::Read as _,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};

use super::*;

/// The longest time that work independent of the disk may take.
const PROMPTLY: Duration = Duration::from_secs(10);

/// A spool whose disk hangs: its segment is a socket that nobody reads from yet.
struct HangingSpool {
    spool: Arc<Spool<Word>>,
    disk: UnixStream,
    runtime: Runtime,
    _folder: tempfile::TempDir,
}

impl HangingSpool {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SpoolOptions { segment_bytes: 1_000_000, max_bytes: 1_000_000, ..options(folder.path(), "a") };
        let spool = Arc::new(Spool::<Word>::new(options));
        spool.set_scope("here".to_owned());
        spool.append(&"word").unwrap();
        let (disk, mut segment) = UnixStream::pair().unwrap();
        segment.set_nonblocking(true).unwrap();
        while segment.write(&[b' '; 1_000]).is_ok() {}
        segment.set_nonblocking(false).unwrap();
        spool.state().current.as_mut().unwrap().file = File::from(OwnedFd::from(segment));
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(limits::blocking_threads())
            .enable_all()
            .build()
            .unwrap();
        Self { spool, disk, runtime, _folder: folder }
    }

    fn append(&self) -> JoinHandle<Option<SegmentId>> {
        let spool = self.spool.clone();
        self.runtime.spawn(async move { spool.append(&"held up") })
    }

    /// Waits for the work of serving a site: a task, and a read of the store.
    fn serve_site(&self) {
        let (served, is_served) = mpsc::channel();
        self.runtime.spawn(async move {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            served.send(()).unwrap();
        });
        is_served.recv_timeout(PROMPTLY).expect("sites wait for the disk");
    }

    fn release(&self) {
        let mut disk = self.disk.try_clone().unwrap();
        thread::spawn(move || disk.read_to_end(&mut Vec::new()));
    }
}

#[test]
fn sites_are_served_while_the_disk_hangs() {
    let hanging = HangingSpool::new();
    let first = hanging.append();
    while hanging.spool.pace.began.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    let others: Vec<_> = (0..limits::SLOW_WRITERS).map(|_| hanging.append()).collect();
    hanging.serve_site();
    // The checks of admission and the work of background tasks do not wait either.
    let spool = hanging.spool.clone();
    let asked = thread::spawn(move || {
        spool.begin();
        spool.release([SegmentId(0)]);
        spool.set_history("one");
        spool.has_room()
    });
    let since = Instant::now();
    while !asked.is_finished() {
        assert!(since.elapsed() < PROMPTLY, "admission waits for the disk");
        thread::yield_now();
    }
    assert!(asked.join().unwrap());
    while !hanging.spool.pace.is_slow() {
        assert!(since.elapsed() < PROMPTLY, "nobody notices that the disk hangs");
        thread::yield_now();
    }
    hanging.release();
    let written = hanging.runtime.block_on(async {
        let mut written = vec![first.await.unwrap()];
        for other in others {
            written.push(other.await.unwrap());
        }
        written
    });
    assert_eq!(written, vec![Some(SegmentId(0)); 1 + limits::SLOW_WRITERS]);
    assert!(hanging.spool.pace.is_slow(), "it may hang again");
    hanging.serve_site();
}

#[test]
fn those_who_wait_for_the_disk_leave_threads_to_others() {
    let hanging = HangingSpool::new();
    let appends: Vec<_> = (0..2 * limits::blocking_threads()).map(|_| hanging.append()).collect();
    let given_up = appends.len() - limits::SLOW_WRITERS - 1;
    let since = Instant::now();
    while appends.iter().filter(|append| append.is_finished()).count() < given_up {
        assert!(since.elapsed() < PROMPTLY, "too many wait for the disk");
        thread::yield_now();
    }
    hanging.serve_site();
    hanging.release();
    let written = hanging.runtime.block_on(async {
        let mut written = 0;
        for append in appends {
            written += usize::from(append.await.unwrap().is_some());
        }
        written
    });
    assert_eq!(written, limits::SLOW_WRITERS + 1);
    assert!(hanging.spool.append(&"word").is_some());
}
