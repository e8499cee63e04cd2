//! The resource use of the process, under Prometheus's usual names. Read from `/proc` at each request of the page.

use std::fs;

use crate::text::{MetricKind, family};

/// Clock ticks per second in `/proc`: `USER_HZ`, the same on every current Linux machine.
const TICKS: f64 = 100.0;

/// The resource use of this process, from `/proc`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessStats {
    /// CPU time in seconds.
    pub cpu_seconds: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    virtual_bytes: u64,
    threads: u64,
    open_files: u64,
    most_files: u64,
    /// Seconds since 1970.
    start: f64,
}

impl ProcessStats {
    /// Reads the resource use of this process. Values that cannot be read are zero.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (stat, status, limits, machine) =
            (read("/proc/self/stat"), read("/proc/self/status"), read("/proc/self/limits"), read("/proc/stat"));
        // The fields follow the program's name, which is in brackets and may contain any characters.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default() as f64;
        let figure = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default()
        };
        Self {
            cpu_seconds: (ticks(11) + ticks(12)) / TICKS,
            resident_bytes: figure(&status, "VmRSS:") * 1024,
            virtual_bytes: figure(&status, "VmSize:") * 1024,
            threads: figure(&status, "Threads:"),
            open_files: fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64),
            most_files: figure(&limits, "Max open files"),
            start: figure(&machine, "btime") as f64 + ticks(19) / TICKS,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn write(&self, page: &mut String) {
        let whole = |value: u64| value as f64;
        for (name, kind, help, value) in [
            (
                "process_cpu_seconds_total",
                MetricKind::Counter,
                "Time that the process had on a core.",
                self.cpu_seconds,
            ),
            (
                "process_resident_memory_bytes",
                MetricKind::Gauge,
                "Memory that is resident.",
                whole(self.resident_bytes),
            ),
            ("process_virtual_memory_bytes", MetricKind::Gauge, "Address space.", whole(self.virtual_bytes)),
            ("process_threads", MetricKind::Gauge, "Threads.", whole(self.threads)),
            ("process_open_fds", MetricKind::Gauge, "Files and sockets that are open.", whole(self.open_files)),
            ("process_max_fds", MetricKind::Gauge, "Files and sockets that may be open.", whole(self.most_files)),
            (
                "process_start_time_seconds",
                MetricKind::Gauge,
                "Start of the process, in seconds since 1970.",
                self.start,
            ),
        ] {
            family(page, name, kind, help, [(Vec::new(), value)]);
        }
    }
}

/// Returns the machine's load average over the last minute (computing or waiting for a disk); zero if unreadable.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known() {
        let process = ProcessStats::read();
        assert!(process.resident_bytes > 1024 * 1024 && process.virtual_bytes >= process.resident_bytes, "{process:?}");
        assert!(
            process.threads > 0 && process.open_files > 2 && process.most_files >= process.open_files,
            "{process:?}"
        );
        assert!(process.start > 1.6e9, "{process:?}");
        let mut page = String::new();
        process.write(&mut page);
        assert!(page.contains("# TYPE process_cpu_seconds_total counter\n"));
        assert!(load() >= 0.0);
    }
}
