//! Properties of the machine, for keys whose default depends on it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The maximum length of a machine's name, in letters.
const NAME_LEN: usize = 64;

/// Returns the name by which operators know this machine: `configured`, or else its host name. It consists of letters
/// that are safe on a terminal and in a label, and is never empty.
pub fn name(configured: Option<&str>) -> String {
    let given = configured.map(str::to_owned).or_else(|| fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let is_safe = |letter: &char| letter.is_ascii_alphanumeric() || "-._".contains(*letter);
    let name: String = given.unwrap_or_default().chars().filter(is_safe).take(NAME_LEN).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// Returns how many bytes of memory this process may use: the machine's memory, or less if its control group (version 2
/// or 1) sets a limit. Returns `None` if neither can be read.
pub fn memory() -> Option<u64> {
    memory_below(Path::new("/"))
}

fn memory_below(root: &Path) -> Option<u64> {
    let of_machine = fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| total(&text));
    of_machine.into_iter().chain(control_group_limits(root)).min()
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the limits of the control groups that this process is in, and of their ancestors, which apply as well.
fn control_group_limits(root: &Path) -> Vec<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // In a container the group may have the name that the host knows it by. Then only the mount itself exists.
        let group = PathBuf::from(group.trim_start_matches('/'));
        limits.extend(group.ancestors().filter_map(|group| limit(&root.join(mount).join(group).join(file))));
    }
    limits
}

/// Reads the limit in a file; `None` for `max`.
fn limit(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let root = std::env::temp_dir().join(format!("svc-machine-{}-{}", std::process::id(), files.len()));
        for (path, text) in files {
            let file = root.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let memory = memory_below(&root);
        let _ = fs::remove_dir_all(&root);
        memory
    }

    #[test]
    fn the_smallest_limit_counts() {
        let meminfo = ("proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n");
        let all = 2048 * 1024;
        assert_eq!(machine(&[]), None);
        assert_eq!(machine(&[meminfo]), Some(all));
        let second = ("proc/self/cgroup", "0::/system.slice/edge.service\n");
        let outer = ("sys/fs/cgroup/system.slice/memory.max", "1000000\n");
        let inner = ("sys/fs/cgroup/system.slice/edge.service/memory.max", "max\n");
        assert_eq!(machine(&[meminfo, second, outer, inner]), Some(1_000_000), "a group above binds");
        let first = ("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/docker/abc\n");
        let mount = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n");
        assert_eq!(machine(&[meminfo, first, mount]), Some(500_000), "version 1, seen from a container");
        let unlimited = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(machine(&[meminfo, first, unlimited, inner, outer]), Some(all));
    }
}
