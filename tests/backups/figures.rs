//! How long a backup and a restore of many sites take. Run by hand, with the programs of a release:
//!
//! ```text
//! SVC_TEST_BACKUP_FIGURES=10000 SVC_TEST_BACKUP_BYTES=1000000 SVC_TEST_PROGRAMS=target/release \
//!   cargo nextest run -p tests backups::figures --no-capture
//! ```

use std::{fs, time::Instant};

use super::{copied, place};
use crate::world::{Site, World, site::noise};

/// Makes so many sites out of one, each of so many bytes: as many rows and packs as if they had been uploaded.
async fn multiply(world: &World, sites: usize, bytes: usize) {
    let ada = world.user("ada").await;
    let first = ada.publish("site", &Site::page("site").file("noise.bin", noise(bytes))).await;
    let packs = world.folder().join("store/deployments");
    let ids: Vec<String> = (0..sites).map(|number| format!("{:020}", 10_000_000 + number)).collect();
    // Without its seal, which names the deployment: as the version before wrote it.
    let manifest = fs::read(packs.join(&first.id).join("manifest")).unwrap();
    let mut manifest: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&manifest).unwrap();
    for seal in ["sealed", "sha256"] {
        assert!(manifest.remove(seal).is_some(), "{seal}");
    }
    let manifest = serde_json::to_vec(&manifest).unwrap();
    for id in &ids {
        let pack = packs.join(format!("dep_{id}"));
        fs::create_dir(&pack).unwrap();
        fs::copy(packs.join(&first.id).join("data"), pack.join("data")).unwrap();
        fs::write(pack.join("manifest"), &manifest).unwrap();
    }
    let rows = format!(
        "INSERT INTO projects SELECT (jsonb_populate_record(p, jsonb_build_object(
             'id', 'prj_' || lpad((10000000 + n)::text, 20, '0'), 'name', 'site-' || n,
             'active_deployment_id', NULL))).* FROM projects p, generate_series(0, {0} - 1) n WHERE p.name = 'site';
         INSERT INTO deployments SELECT (jsonb_populate_record(d, jsonb_build_object(
             'id', 'dep_' || lpad((10000000 + n)::text, 20, '0'),
             'project_id', 'prj_' || lpad((10000000 + n)::text, 20, '0')))).*
             FROM deployments d, generate_series(0, {0} - 1) n WHERE d.id = '{1}';
         UPDATE projects SET active_deployment_id = 'dep_' || substr(id, 5) WHERE name LIKE 'site-%'",
        sites, first.id
    );
    world.sql(&rows).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stderr, reason = "the figures are what this is for")]
async fn many_sites() {
    let number = |name: &str, usual: usize| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (sites, bytes) = (number("SVC_TEST_BACKUP_FIGURES", 40), number("SVC_TEST_BACKUP_BYTES", 20_000));
    let mut world = World::builder().set("BACKUP__BYTES_PER_SECOND", "0").start().await;
    let place = place(&world, "backups");
    multiply(&world, sites, bytes).await;
    let timed = async |world: &World, arguments: &[&str]| {
        let began = Instant::now();
        let said = world.admin_prints(arguments).await;
        eprintln!("{sites} sites of {bytes} bytes: admin {}: {:.1?}", arguments.join(" "), began.elapsed());
        said
    };
    assert_eq!(copied(&timed(&world, &["backup", &place]).await), sites + 1);
    assert_eq!(copied(&timed(&world, &["backup", &place]).await), 0);
    timed(&world, &["backup", "verify", &place]).await;
    world.lose_everything().await;
    timed(&world, &["restore", &place, "--verify"]).await;
    world.start_programs().await;
    for site in [0, sites / 2, sites - 1] {
        world.edge().get(&world.site_url(&format!("site-{site}"))).await.assert_body(200, "site");
    }
}
