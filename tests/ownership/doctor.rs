//! `admin doctor`, in health and while everything is down.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::World;

async fn examined(world: &World) -> (bool, Vec<Value>) {
    let output = world.operate(&["doctor", "--json"]).await;
    let checks = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
        panic!("{e}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    });
    (output.status.success(), checks)
}

fn level<'a>(checks: &'a [Value], name: &str) -> &'a str {
    let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name} in {checks:?}"));
    check["level"].as_str().unwrap()
}

#[tokio::test]
async fn an_operator_is_told_what_is_wrong() {
    let mut world = World::start().await;
    let (is_good, checks) = examined(&world).await;
    assert!(is_good, "{checks:?}");
    for name in [
        "postgres",
        "migrations",
        "edge roles",
        "redis",
        "eviction",
        "store",
        "master key",
        "clock of postgres",
        "clock of redis",
        "edges",
        "disk of store",
    ] {
        assert_eq!(level(&checks, name), "ok", "{name}: {checks:?}");
    }
    assert!(!world.stored_files().iter().any(|file| file.ends_with("doctor.json")));
    let text = String::from_utf8(world.operate(&["doctor"]).await.stdout).unwrap();
    assert_eq!(text.lines().count(), checks.len());
    assert!(text.lines().all(|line| line.starts_with("OK  ") || line.starts_with("WARN")), "{text}");

    // A backup that fails is told of, and one that was made.
    assert_eq!(level(&checks, "backup"), "warn", "{checks:?}");
    assert!(!world.operate(&["backup", "file:///proc/nowhere"]).await.status.success());
    let (_, checks) = examined(&world).await;
    let jobs = checks.iter().find(|check| check["name"] == "jobs").unwrap().to_string();
    assert!(jobs.contains("warn") && jobs.contains("`back up`"), "{jobs}");
    let backups = url::Url::from_directory_path(world.folder().join("backups")).unwrap();
    world.admin_prints(&["backup", backups.as_str()]).await;
    let (_, checks) = examined(&world).await;
    assert_eq!((level(&checks, "backup"), level(&checks, "jobs")), ("ok", "ok"), "{checks:?}");

    world.sql("UPDATE edge_roles SET role_name = 'svc_of_another_server'").await;
    super::give_away(&world.store_name_file());
    world.sql("UPDATE job_leases SET last_error = 'the moon is full' WHERE job = 'sweep the store'").await;
    let (is_good, checks) = examined(&world).await;
    assert!(!is_good && level(&checks, "store") == "fail" && level(&checks, "jobs") == "warn", "{checks:?}");
    assert_eq!(level(&checks, "edge roles"), "warn", "{checks:?}");

    world.redis.kill();
    world.stop_postgres().await;
    let since = Instant::now();
    let (is_good, checks) = examined(&world).await;
    assert!(!is_good && since.elapsed() < Duration::from_secs(20), "{checks:?}");
    // One line a part, and one for all that depends on it.
    for name in ["postgres", "redis"] {
        assert_eq!(level(&checks, name), "fail", "{name}: {checks:?}");
        assert_eq!(level(&checks, &format!("{name} (rest)")), "warn", "{checks:?}");
    }
    assert!(!checks.iter().any(|check| check["name"] == "jobs" || check["name"] == "edges"), "{checks:?}");
    assert_eq!(level(&checks, "disk of store"), "ok");
    world.start_postgres().await;
}
