//! The disk of an edge's journal is full, has room again, and is full once more when the edge is killed.

use std::{fs::File, io::Write as _, process::Command};

use tempfile::TempDir;

use super::{
    served::{completions, numbered, without_limits},
    *,
};
use crate::{metrics::Page, world::ports};

/// The size of the disk, in bytes: more than what is written before it is to be full.
const SIZE: usize = 8 << 20;
/// The block that fills a disk, written again and again until there is no room for it.
const PIECE: [u8; 4_096] = [0; 4_096];

/// A small disk, in memory.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        command.args(["--types", "tmpfs", "--options", &format!("size={SIZE},mode=0700"), "svc-test"]);
        let output = command.arg(folder.path()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "this test needs the right to mount a disk (root, CAP_SYS_ADMIN): {message}");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        while file.write_all(&PIECE).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The edge may still have its journal open.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

#[tokio::test]
async fn a_disk_that_is_full_from_the_beginning_is_not_littered() {
    let disk = SmallDisk::mount();
    disk.fill();
    let spool = disk.path().display();
    let (metered, mut received) =
        Metered::after_one(|builder| without_limits(builder).set("EDGE__SPOOL", &spool)).await;
    received.extend(metered.serve_all(0, (0..50).map(numbered)).await);
    assert_eq!(received.len(), 51);
    assert_eq!(files_in(disk.path()), [disk.ballast()]);
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated, 0);
}

#[tokio::test]
async fn a_full_disk_costs_no_usage() {
    let disk = SmallDisk::mount();
    let spool = disk.path().display();
    let port = ports::free();
    let (mut metered, mut received) = Metered::after_one(|builder| {
        let builder = without_limits(builder).set("EDGE__SPOOL", &spool);
        builder.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))
    })
    .await;
    let spares_used = async || Page::of(port).await.labelled("svc_gateway_spares_total", "end=\"used\"");
    let count = completions(5);
    let batch = |number: u64| (number * count..(number + 1) * count).map(|number| numbered(number).at_most(300));
    let says = async |metered: &Metered, what: &str| {
        eventually(BACKGROUND, what, async || metered.world.edge().process.log().contains(what)).await;
    };

    // It fills up under those that are under way, and Postgres is away.
    let under_way = metered.hold(0, batch(0).map(Completion::held)).await;
    metered.world.stop_postgres().await;
    disk.fill();
    received.extend(metered.serve_all(0, batch(1)).await);
    metered.provider.release_below(numbered(count).prompt);
    received.extend(under_way.end().await);
    assert_eq!(received.len(), 1 + 2 * count);
    says(&metered, "the spool cannot be written").await;
    metered.world.start_postgres().await;
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated, 0);

    disk.make_room();
    received.extend(metered.serve_all(0, batch(2)).await);
    says(&metered, "the spool can be written again").await;
    metered.assert_ledger(&received, 0).await;

    // Of these the dead edge's journal knows nothing.
    disk.fill();
    let cut_off = metered.hold(0, batch(3).map(Completion::held)).await;
    let used = spares_used().await;
    // Each asks when the one before has its answer: then spares are made.
    for wanted in batch(4) {
        received.extend(metered.serve_all(0, [wanted]).await);
    }
    assert_eq!(spares_used().await, used, "a spare of a dead edge counts for nothing, and these have to");
    metered.rows_become(i64::try_from(received.len()).unwrap(), "NOT estimated").await;
    metered.world.edges[0].process.kill();
    assert!(cut_off.end().await.is_empty());
    metered.world.restart_edge(0).await;
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated as u64, count, "{figures}");
}
