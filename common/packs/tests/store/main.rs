//! The store on a folder: the outcome of every upload, and reading it back.

#![expect(clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod corpus;
mod damage;
mod packs;

use std::io::Write as _;

use ::packs::{PackStore, UploadFormat, WriteError, WrittenPack};
use domain::{Clock, DeploymentId, Timestamp};

struct World {
    folder: tempfile::TempDir,
    store: PackStore,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = url::Url::from_directory_path(folder.path()).expect("an absolute path");
        let store = PackStore::open(&config::Store { url, ..config::Store::default() }).expect("a store");
        Self { folder, store, now: Clock::system().now() }
    }

    async fn publish(&self, bytes: &[u8]) -> (DeploymentId, Result<WrittenPack, WriteError>) {
        self.publish_form(bytes, UploadFormat::TarGzip).await
    }

    async fn publish_form(
        &self,
        bytes: &[u8],
        format: UploadFormat,
    ) -> (DeploymentId, Result<WrittenPack, WriteError>) {
        let mut spooled = tempfile::tempfile().expect("a file");
        spooled.write_all(bytes).expect("written");
        let id = DeploymentId::new(self.now);
        let result = self.store.write(&id, spooled, format, self.now).await;
        (id, result)
    }

    /// Returns every file in the store.
    fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().expect("a folder") {
                let entry = entry.expect("an entry");
                if entry.file_type().expect("a kind").is_dir() && entry.path() != self.deployments() {
                    files.push(entry.path().display().to_string());
                }
                if entry.file_type().expect("a kind").is_dir() {
                    folders.push(entry.path());
                } else {
                    files.push(entry.path().display().to_string());
                }
            }
        }
        files
    }

    fn deployments(&self) -> std::path::PathBuf {
        self.folder.path().join("deployments")
    }
}
