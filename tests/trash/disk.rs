//! The files of a store on disk, read and written directly instead of through svc's programs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use domain::DeploymentId;

use crate::world::Bucket;

/// A store on disk: a folder, or the folder of a bucket.
pub struct Disk {
    /// Where its folders are.
    pub root: PathBuf,
    /// Whether a bucket's server keeps its objects there.
    pub is_bucket: bool,
}

impl Disk {
    /// The folder of a pack, in `deployments` or `trash`.
    pub fn place(&self, of: &str, id: &DeploymentId) -> PathBuf {
        self.root.join(of).join(id.as_str())
    }

    /// Writes a pack that was last changed `age` ago.
    pub fn put(&self, of: &str, id: &DeploymentId, age: Duration) {
        let folder = self.place(of, id);
        fs::create_dir_all(&folder).unwrap();
        for name in ["data", "manifest"] {
            fs::write(folder.join(name), format!("{name} of {id}")).unwrap();
        }
        if of == "trash" && !self.is_bucket {
            fs::write(folder.join("trashed"), "").unwrap();
        }
        let paths = ["data", "manifest", "trashed"].map(|name| folder.join(name)).into_iter().chain([folder.clone()]);
        for path in paths.filter(|path| path.exists()) {
            let file = fs::File::open(&path).unwrap();
            let now = file.metadata().unwrap().modified().unwrap();
            file.set_modified(now - age).unwrap();
        }
    }

    /// Removes every pack.
    pub fn clear(&self) {
        for of in ["deployments", "trash"] {
            let _ = fs::remove_dir_all(self.root.join(of));
        }
        fs::create_dir_all(self.root.join("deployments")).unwrap();
    }

    /// Whether the pack is there as [`Self::put`] wrote it.
    pub fn is_whole(&self, of: &str, id: &DeploymentId) -> bool {
        let folder = self.place(of, id);
        ["data", "manifest"].iter().all(|name| is_file(&folder.join(name), &format!("{name} of {id}")))
    }
}

fn is_file(path: &Path, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|found| found == text)
}

/// The configuration of a store in `bucket`.
pub fn store_in(bucket: &Bucket) -> config::Store {
    let settings: BTreeMap<_, _> = bucket.settings().into_iter().collect();
    config::Store {
        url: settings["STORE__URL"].parse().unwrap(),
        endpoint: Some(settings["STORE__ENDPOINT"].clone()),
        region: Some(settings["STORE__REGION"].clone()),
        access_key: Some(settings["STORE__ACCESS_KEY"].clone()),
        secret_key: Some(settings["STORE__SECRET_KEY"].clone()),
        ..config::Store::default()
    }
}
