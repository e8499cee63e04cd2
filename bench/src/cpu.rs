//! The CPU time and memory of a server's processes, from `/proc`.

use std::{collections::HashMap, fs, time::Duration};

/// The unit of CPU time in `/proc`: hundredths of a second on every Linux (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

pub(crate) fn spent(root: u32) -> Duration {
    let ticks: u32 = ticks_of_family(root).iter().map(|(_, ticks)| ticks).sum();
    TICK * ticks
}

/// Returns the user and system time of a process's descendants that run the program `name`.
pub(crate) fn spent_by(root: u32, name: &str) -> Duration {
    let runs_it = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name);
    let ticks: u32 = ticks_of_family(root).iter().filter(|(pid, _)| runs_it(*pid)).map(|(_, ticks)| ticks).sum();
    TICK * ticks
}

pub(crate) fn resident_all(root: u32) -> f64 {
    family(root).iter().map(|pid| resident(*pid)).sum()
}

pub(crate) fn family(root: u32) -> Vec<u32> {
    ticks_of_family(root).into_iter().map(|(pid, _)| pid).collect()
}

/// Returns the ids of a process and all its descendants, each with its clock ticks.
fn ticks_of_family(root: u32) -> Vec<(u32, u32)> {
    let mut parents = HashMap::new();
    let mut ticks = HashMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(process.path().join("stat")) else { continue };
        // The name, in parentheses, may contain anything; only numbers follow the last one.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u32>().ok()).unwrap_or_default();
        parents.insert(pid, number(1));
        ticks.insert(pid, number(11) + number(12));
    }
    let descends = |pid: u32| {
        let mut ancestor = pid;
        while ancestor != root && ancestor > 1 {
            ancestor = parents.get(&ancestor).copied().unwrap_or_default();
        }
        ancestor == root
    };
    ticks.into_iter().filter(|(pid, _)| descends(*pid)).collect()
}

pub(crate) fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or_default() * 1024.0
}
