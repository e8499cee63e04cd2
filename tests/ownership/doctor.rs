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

#[tokio::test]
async fn the_doctor_says_what_admin_would_say_of_a_store_and_makes_nothing() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let live = ada.publish("engine", &crate::world::Site::page("here")).await;
    let store = |checks: &[Value]| checks.iter().find(|check| check["name"] == "store").unwrap().to_string();

    // What is known to be lost.
    let manifest = world.folder().join("store/deployments").join(&live.id).join("manifest");
    let kept = std::fs::read(&manifest).unwrap();
    std::fs::remove_file(&manifest).unwrap();
    assert!(!world.operate(&["store", "check"]).await.status.success());
    let (_, checks) = examined(&world).await;
    let packs = checks.iter().find(|check| check["name"] == "packs").unwrap().to_string();
    assert!(packs.contains("fail") && packs.contains("1 are lost") && packs.contains("packs-missing.md"), "{packs}");
    std::fs::write(&manifest, kept).unwrap();
    assert!(world.operate(&["store", "check"]).await.status.success());
    let (_, checks) = examined(&world).await;
    assert_eq!(level(&checks, "packs"), "ok", "{checks:?}");

    // A folder that is not there, one that is empty, and one of somebody else.
    let elsewhere = world.folder().join("elsewhere");
    world.set("STORE__URL", url::Url::from_directory_path(&elsewhere).unwrap());
    let (_, checks) = examined(&world).await;
    assert!(level(&checks, "store") == "fail" && store(&checks).contains("is empty"), "{checks:?}");
    assert!(!elsewhere.exists(), "a doctor makes nothing");
    std::fs::create_dir_all(elsewhere.join("deployments/dep_00000000000000000001")).unwrap();
    let (_, checks) = examined(&world).await;
    assert!(level(&checks, "store") == "fail" && store(&checks).contains("knows none of its packs"), "{checks:?}");
    let (_, mut admin) = world.start_admin_at_a_port();
    super::assert_refuses(&mut admin, &["elsewhere", "knows none of its packs"]).await;

    // A key file that everybody may read, and one that others may write.
    let key = world.folder().join("open.key");
    std::fs::copy(World::master_key().await, &key).unwrap();
    let set_mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&key, set_mode(0o644)).unwrap();
    world.set("SECRETS__MASTER_KEY_FILE", key.display());
    let (_, checks) = examined(&world).await;
    assert!(level(&checks, "master key") == "warn" && format!("{checks:?}").contains("0644"), "{checks:?}");
    std::fs::set_permissions(&key, set_mode(0o666)).unwrap();
    let refused = world.operate(&["store", "trash"]).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("0666"), "{said}");
}

#[tokio::test]
async fn admin_makes_the_folder_of_its_uploads() {
    let mut world = World::start().await;
    let spool = world.folder().join("none/spool");
    world.set("ADMIN__SPOOL", spool.display());
    world.restart_admin_alone().await;
    assert!(spool.is_dir());
    let ada = world.user("ada").await;
    ada.publish("engine", &crate::world::Site::page("here")).await;
    std::fs::remove_dir(&spool).unwrap();
    ada.upload("engine", &crate::world::Site::page("there")).await.assert_error(503, "busy");
    let log = world.admin.log();
    assert!(log.contains("admin.spool") && log.contains(spool.to_str().unwrap()), "{log}");
}
