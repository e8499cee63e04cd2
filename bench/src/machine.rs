//! Describes a machine by what affects a server: its processor, its caches, and the speed of copying memory.

use std::{
    fmt::{self, Write as _},
    fs,
    hint::black_box,
    process::Command,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use crate::figures::{format_number, median};

/// The copied sizes: one that fits the nearest caches, one that fits the next, and one that fits none.
const COPIED: [(&str, usize); 3] = [("64 KB", 64 << 10), ("1 MB", 1 << 20), ("64 MB", 64 << 20)];
/// The repetitions of a measurement, and the minimum duration of each.
const COPIES: usize = 5;
const COPYING: Duration = Duration::from_millis(50);
/// The GB/s at the largest of [`COPIED`] below which memory counts as slow: HTTP/2 then loses most of its lead.
const SLOW_MEMORY: f64 = 5.0;
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

#[derive(Clone)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    /// The second and third cache of a core, if the kernel reports them, such as `1024K`.
    caches: Vec<(u32, String)>,
    kernel: String,
    /// GB/s at each of [`COPIED`].
    copies: [f64; COPIED.len()],
    pub(crate) today: String,
}

impl Machine {
    /// Measures this machine. Takes about a second, mostly for copying.
    pub(crate) fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("an unknown processor");
        let today = Command::new("date").arg("+%F").output().map(|output| output.stdout).unwrap_or_default();
        Self {
            processor: model.trim_start_matches([' ', '\t', ':']).to_owned(),
            cores: available_parallelism().map_or(1, usize::from),
            caches: caches(),
            kernel: read("/proc/sys/kernel/osrelease"),
            copies: COPIED.map(|(_, size)| copies_per_second(size)),
            today: String::from_utf8_lossy(&today).trim().to_owned(),
        }
    }

    /// Returns a name that distinguishes the machine from others. It includes whether copying beyond the caches is
    /// slow, which the processor's name hides, but not the exact speed: next to busy neighbors, one machine has half of
    /// its usual speed.
    pub(crate) fn name(&self) -> String {
        let is_slow = self.copies[COPIED.len() - 1] < SLOW_MEMORY;
        format!("{}{}", self.hardware(), if is_slow { ", slow memory" } else { "" })
    }

    fn hardware(&self) -> String {
        let mut text = format!("{}, {} cores", self.processor, self.cores);
        for (level, size) in &self.caches {
            let _ = write!(text, ", L{level} {size}");
        }
        text
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run of {}, on {}, Linux {}; memory copied at", self.today, self.hardware(), self.kernel)?;
        for (number, ((size, _), speed)) in COPIED.iter().zip(self.copies).enumerate() {
            let before = if number == 0 { "" } else { "," };
            write!(f, "{before} {} GB/s by {size}", format_number(speed))?;
        }
        f.write_str(".")
    }
}

fn caches() -> Vec<(u32, String)> {
    let mut caches: Vec<(u32, String)> = (0..8)
        .filter_map(|index| {
            let read = |what: &str| fs::read_to_string(format!("{CACHES}/index{index}/{what}")).ok();
            let level: u32 = read("level")?.trim().parse().ok()?;
            (level > 1).then_some((level, read("size")?.trim().to_owned()))
        })
        .collect();
    caches.sort();
    caches
}

/// Returns the GB copied per second, `size` bytes at a time: the median of several measurements.
fn copies_per_second(size: usize) -> f64 {
    let (from, mut to) = (vec![1_u8; size], vec![0_u8; size]);
    let speeds: Vec<f64> = (0..COPIES)
        .map(|_| {
            let (start, mut copied) = (Instant::now(), 0.0);
            while start.elapsed() < COPYING {
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
                #[expect(clippy::cast_precision_loss, reason = "some MB")]
                let bytes = size as f64;
                copied += bytes;
            }
            copied / start.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    median(&speeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_told_by_its_caches_and_its_memory() {
        let machine = Machine {
            processor: "Some CPU".to_owned(),
            cores: 2,
            caches: vec![(2, "1024K".to_owned()), (3, "32768K".to_owned())],
            kernel: "6.1".to_owned(),
            copies: [31.25, 12.04, 4.6],
            today: "2026-11-22".to_owned(),
        };
        assert_eq!(
            machine.to_string(),
            "Run of 2026-11-22, on Some CPU, 2 cores, L2 1024K, L3 32768K, Linux 6.1; memory copied at 31.2 GB/s by 64 KB, \
             12.0 GB/s by 1 MB, 4.60 GB/s by 64 MB."
        );
        assert_eq!(machine.name(), "Some CPU, 2 cores, L2 1024K, L3 32768K, slow memory");
        let at_other_times = |speed| Machine { copies: [31.25, 12.04, speed], ..machine.clone() }.name();
        assert_eq!(at_other_times(8.2), "Some CPU, 2 cores, L2 1024K, L3 32768K");
        assert_eq!(at_other_times(14.0), at_other_times(8.2));
        assert!(Machine::here().copies.iter().all(|speed| *speed > 0.01));
    }
}
