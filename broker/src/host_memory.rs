//! How much host memory there is to have: what the kernel calls available, or less where a cgroup of ours
//! or one above it has a limit. Page cache counts as available, as the kernel gives it up for others.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Bytes that could be had now; none where the kernel does not say.
pub(crate) fn available() -> Option<u64> {
    available_in(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn available_in(proc: &Path, cgroups: &Path) -> Option<u64> {
    let whole = of_machine(&fs::read_to_string(proc.join("meminfo")).ok()?)?;
    let ours = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let limits = ours.lines().flat_map(|line| left_along(cgroups, line));
    Some(limits.fold(whole, u64::min))
}

fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    kib.checked_mul(1024)
}

/// What a line of `/proc/self/cgroup` leaves, at each level up to the root.
fn left_along(cgroups: &Path, line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return Vec::new() };
    let first = controllers.is_empty();
    if !first && !controllers.split(',').any(|name| name == "memory") {
        return Vec::new();
    }
    let root = if first { cgroups.to_owned() } else { cgroups.join("memory") };
    let names: [&str; 5] = if first {
        ["memory.max", "memory.current", "memory.stat", "file", "shmem"]
    } else {
        let (limit, usage) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
        [limit, usage, "memory.stat", "total_cache", "total_shmem"]
    };
    let path = root.join(path.trim_start_matches('/'));
    let levels = path.ancestors().take_while(|level| level.starts_with(&root));
    levels.filter_map(|level| left_in(level, names)).collect()
}

/// A limit less what is in use of it, page cache aside. Memory files count as cache there and can't be
/// given up.
fn left_in(level: &Path, [limit, usage, stat, cache, shared]: [&str; 5]) -> Option<u64> {
    let read = |name: &str| -> Option<u64> {
        let path: PathBuf = level.join(name);
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let limit = read(limit)?;
    let usage = read(usage)?;
    let stat = fs::read_to_string(level.join(stat)).unwrap_or_default();
    let field = |name: &str| -> u64 {
        let fields = stat.lines().filter_map(|line| line.split_once(' '));
        let mut found = fields.filter(|(key, _)| *key == name);
        found.find_map(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    let cache = field(cache).saturating_sub(field(shared));
    Some(limit.saturating_sub(usage.saturating_sub(cache)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("written");
    }

    fn machine(cgroup: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let meminfo = format!("MemTotal: 99 kB\nMemAvailable:   {} kB\n", 76 << 20);
        write(root.path(), "proc/meminfo", &meminfo);
        write(root.path(), "proc/self/cgroup", cgroup);
        root
    }

    fn available(root: &tempfile::TempDir) -> Option<u64> {
        available_in(&root.path().join("proc"), &root.path().join("cgroup"))
    }

    #[test]
    fn swap_09_a_cgroup_s_limit_counts_and_its_page_cache_is_available() {
        let root = machine("0::/user/run\n");
        assert_eq!(available(&root), Some(76 * GIB), "no limit");
        write(root.path(), "cgroup/user/memory.max", &format!("{}\n", 8 * GIB));
        write(root.path(), "cgroup/user/memory.current", &format!("{}\n", 2 * GIB));
        let stat = format!("anon {GIB}\nfile {}\nshmem {GIB}\n", 2 * GIB);
        write(root.path(), "cgroup/user/memory.stat", &stat);
        assert_eq!(available(&root), Some(7 * GIB));
        write(root.path(), "cgroup/user/run/memory.max", "max\n");
        assert_eq!(available(&root), Some(7 * GIB), "the level above counts");
    }

    #[test]
    fn swap_09_the_older_kind_of_cgroup_counts_alike() {
        let root = machine("5:cpu,cpuacct:/elsewhere\n3:memory:/job\n");
        write(root.path(), "cgroup/memory/job/memory.limit_in_bytes", &(8 * GIB).to_string());
        write(root.path(), "cgroup/memory/job/memory.usage_in_bytes", &(2 * GIB).to_string());
        let stat = format!("cache 5\ntotal_cache {GIB}\ntotal_shmem 0\n");
        write(root.path(), "cgroup/memory/job/memory.stat", &stat);
        assert_eq!(available(&root), Some(7 * GIB));
    }

    #[test]
    fn this_machine_says_what_it_has() {
        assert!(super::available().is_some_and(|bytes| bytes > 0));
    }
}
