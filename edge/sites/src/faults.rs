//! Remembers recent store faults, so that a broken site costs neither a store nor a database lookup at each request,
//! and the log records each fault at a limited rate.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use domain::DeploymentId;
use limits::{FAULT_LIFE, FAULT_LOG_EVERY, FAULTS};
use tokio::time::Instant;

use super::packs::PackError;

/// Recent faults and their times, by pack and offset in its data; `None` stands for the manifest.
type RecentFaults = HashMap<(u128, Option<u64>), (PackError, Instant)>;

#[derive(Default)]
pub(crate) struct FaultLog {
    recent: Mutex<RecentFaults>,
    logged: Mutex<HashMap<DeploymentId, Instant>>,
}

impl FaultLog {
    pub(crate) fn find_recent(&self, pack: u128, at: Option<u64>) -> Option<PackError> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let (error, since) = recent.get(&(pack, at))?;
        (since.elapsed() < FAULT_LIFE).then(|| error.clone())
    }

    /// Remembers a fault for [`FAULT_LIFE`].
    pub(crate) fn remember(&self, pack: u128, at: Option<u64>, error: &PackError) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if make_room(&mut recent, FAULT_LIFE, |(_, since)| *since) {
            recent.insert((pack, at), (error.clone(), Instant::now()));
        }
    }

    /// Returns whether to log a fault of this pack now: at most once in [`FAULT_LOG_EVERY`].
    pub(crate) fn should_log(&self, id: &DeploymentId) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.get(id).is_some_and(|since| since.elapsed() < FAULT_LOG_EVERY)
            || !make_room(&mut logged, FAULT_LOG_EVERY, |since| *since)
        {
            return false;
        }
        logged.insert(id.clone(), Instant::now());
        true
    }
}

/// Makes room for one more entry among [`FAULTS`] by forgetting those older than `life`.
fn make_room<K: Eq + Hash, V>(map: &mut HashMap<K, V>, life: Duration, since: impl Fn(&V) -> Instant) -> bool {
    if map.len() >= FAULTS {
        map.retain(|_, entry| since(entry).elapsed() < life);
    }
    map.len() < FAULTS
}
