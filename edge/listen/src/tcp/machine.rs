//! Limits of the machine: open files, and memory.

use std::fs;

/// Returns the maximum of open files of the process, if it is known.
pub(crate) fn open_files() -> Option<usize> {
    let limits_file = fs::read_to_string("/proc/self/limits").ok()?;
    let values = limits_file.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    values.split_whitespace().next()?.parse().ok()
}

/// Returns the number of open files of the process, if it is known: Linux reports it since 6.2.
pub(crate) fn files_open() -> Option<usize> {
    let count = fs::metadata("/proc/self/fd").ok()?.len();
    usize::try_from(count).ok().filter(|&count| count > 0)
}

pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    kilobytes(&status, "VmRSS:")
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes.saturating_mul(1024))
}

/// Returns the process size, in bytes, above which connections are shed, given `edge.memory` and the machine's memory.
pub(crate) fn shed_above(memory: u64, machine: Option<u64>) -> u64 {
    let own = memory / 100 * limits::SHED_MEMORY_PERCENT;
    machine.map_or(own, |machine| own.min(machine / 100 * limits::SHED_ABOVE_PERCENT))
}

/// Returns the connections that fit into `files` besides `platform_requests`, and, while idle, into `memory`.
pub(crate) fn connections_allowed(files: usize, platform_requests: usize, memory: Option<u64>) -> usize {
    let by_files = files.saturating_sub(limits::SPARE_FILES + platform_requests).max(1);
    let by_memory =
        memory.map_or(usize::MAX, |bytes| usize::try_from(bytes / limits::CONNECTION_BYTES).unwrap_or(usize::MAX));
    by_files.min(by_memory.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_it_allows() {
        assert!(open_files().is_some_and(|files| files > 0));
        let memory = config::machine::memory().unwrap();
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20 && bytes < memory));
        assert!(files_open().is_none_or(|files| files >= 3));
    }

    #[test]
    fn connections_are_shed_by_edge_memory_and_before_the_machine_is_full() {
        assert_eq!(shed_above(1_000, None), 1_250);
        assert_eq!(shed_above(1_000, Some(100_000)), 1_250);
        assert_eq!(shed_above(1_000, Some(1_000)), 800);
    }

    #[test]
    fn connections_leave_files_and_memory() {
        assert_eq!(connections_allowed(20_000, 1_024, None), 20_000 - 1_024 - limits::SPARE_FILES);
        assert_eq!(connections_allowed(10, 1, None), 1);
        let memory = 1_000 * limits::CONNECTION_BYTES;
        assert_eq!(connections_allowed(20_000, 1_024, Some(memory)), 1_000);
    }
}
