//! Moves between a bucket's packs and its trash that end after any of their steps.

use std::time::Duration;

use domain::{Clock, DeploymentId};

use super::{
    app,
    disk::{Disk, store_in},
};
use crate::world::{Bucket, dump::BareDatabase};

/// Whether the bucket refuses a request, which ends the move before that step.
type Step = fn(&str, &str) -> bool;

const TO_TRASH: [(&str, Step); 3] = [
    ("its data is copied", |method, path| method == "PUT" && path.contains("/trash/") && path.ends_with("/data")),
    ("its manifest is copied", |method, path| method == "PUT" && path.ends_with("/manifest")),
    ("anything is deleted", |method, _| is_deletion(method)),
];
const BACK: [(&str, Step); 3] = [
    ("its data is copied", |method, path| method == "PUT" && path.contains("/deployments/") && path.ends_with("/data")),
    ("its manifest is copied", |method, path| method == "PUT" && path.ends_with("/manifest")),
    ("anything is deleted", |method, _| is_deletion(method)),
];

fn is_deletion(method: &str) -> bool {
    matches!(method, "DELETE" | "POST")
}

#[tokio::test]
async fn a_move_that_ends_halfway_loses_nothing_and_is_repeated() {
    let database = BareDatabase::new().await;
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::start(&folder.path().join("bucket"));
    let app = app(&database.url, store_in(&bucket)).await;
    let disk = Disk { root: folder.path().join("bucket/packs/a/prefix"), is_bucket: true };
    for (step, ends) in TO_TRASH {
        let id = DeploymentId::new(Clock::system().now());
        disk.put("deployments", &id, Duration::ZERO);
        bucket.refuse(ends);
        app.store.trash(&id).await.expect_err(step);
        assert!(disk.is_whole("deployments", &id), "before {step}: the pack is not whole in its place");
        bucket.refuse_nothing();
        assert!(app.store.trash(&id).await.unwrap(), "before {step}");
        assert!(disk.is_whole("trash", &id) && !disk.is_whole("deployments", &id), "before {step}: it did not move");
        assert_eq!(app.store.page(None, 10).await.unwrap(), [], "before {step}: something is left in its place");
        app.store.purge(&id).await.unwrap();
    }
    for (step, ends) in BACK {
        let id = DeploymentId::new(Clock::system().now());
        disk.put("trash", &id, Duration::ZERO);
        bucket.refuse(ends);
        app.store.restore(&id).await.expect_err(step);
        assert!(disk.is_whole("trash", &id), "before {step}: the pack is not whole in the trash");
        bucket.refuse_nothing();
        app.store.restore(&id).await.unwrap();
        assert!(disk.is_whole("deployments", &id), "before {step}: it did not come back");
        assert_eq!(app.store.trash_page(None, 10).await.unwrap(), [], "before {step}: something is left in the trash");
        app.store.trash(&id).await.unwrap();
        app.store.purge(&id).await.unwrap();
    }
    // The last step is two: what a move leaves when it ends between them is data without a manifest, which is no pack, and goes.
    let id = DeploymentId::new(Clock::system().now());
    disk.put("deployments", &id, Duration::ZERO);
    disk.put("trash", &id, Duration::ZERO);
    std::fs::remove_file(disk.place("deployments", &id).join("manifest")).unwrap();
    assert!(app.store.trash(&id).await.unwrap(), "it is in the trash");
    assert!(disk.is_whole("trash", &id));
    assert_eq!(app.store.page(None, 10).await.unwrap(), []);

    std::fs::remove_file(disk.place("trash", &id).join("manifest")).unwrap();
    assert!(!app.store.trash(&id).await.unwrap(), "it is nowhere");
    let left = app.store.trash_page(None, 10).await.unwrap();
    assert_eq!((left.len(), left[0].is_whole), (1, false));
    database.remove().await;
}
