//! Rotation of the master key while the programs run.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::json;

use crate::world::{Actor, Site, World, process::program};

/// How many variables are sealed anew: more than one batch.
const VARIABLES: usize = 250;

/// A world whose key file is its own, and that file.
async fn start() -> (World, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("master.key");
    std::fs::copy(World::master_key().await, &file).unwrap();
    let world = World::builder().set("SECRETS__MASTER_KEY_FILE", file.display()).start().await;
    (world, file, folder)
}

async fn certs(world: &World, file: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program("certs"));
    command.args(args).env("SVC__POSTGRES__URL", world.database.as_str());
    command.env("SVC__SECRETS__MASTER_KEY_FILE", file).current_dir(file.parent().unwrap());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Runs `certs …`, successfully; what it said.
async fn done(world: &World, file: &Path, args: &[&str]) -> String {
    let output = certs(world, file, args).await;
    assert!(output.status.success(), "certs {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn assert_readable(ada: &Actor) {
    let env = ada.get("/projects/engine/env").await.ok();
    let env = env["env"].as_array().unwrap();
    assert_eq!(env.len(), VARIABLES / 2);
    for variable in env {
        let number = variable["key"].as_str().unwrap().trim_start_matches("KEY_");
        assert_eq!(variable["value"], format!("value {number}"));
    }
}

async fn fill(ada: &Actor) {
    for project in ["engine", "spare"] {
        ada.publish(project, &Site::page("x")).await;
        for number in 0..VARIABLES / 2 {
            let path = format!("/projects/{project}/env/KEY_{number}");
            ada.put(&path).json(&json!({ "value": format!("value {number}") })).await.ok();
        }
    }
}

fn keys(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap().lines().map(ToOwned::to_owned).collect()
}

/// Rows sealed by each key.
async fn tags(world: &World) -> i64 {
    world
        .sql_number(
            "SELECT count(DISTINCT tag) FROM (
                 SELECT substring(sealed_value FROM 1 FOR 5) FROM env_vars
                 UNION ALL SELECT substring(sealed_key FROM 1 FOR 5) FROM certificates) AS sealed (tag)",
        )
        .await
}

#[tokio::test]
async fn a_key_is_exchanged_under_running_programs() {
    let (mut world, file, _folder) = start().await;
    let ada = world.user("ada").await;
    fill(&ada).await;
    let old = keys(&file);
    assert_eq!((old.len(), tags(&world).await), (1, 1));
    assert_readable(&ada).await;

    // While it goes on, values are read, and written.
    let mut rotation = Box::pin(certs(&world, &file, &["rotate-key"]));
    let mut readings = 0;
    let output = loop {
        tokio::select! {
            output = &mut rotation => break output,
            () = assert_readable(&ada) => readings += 1,
        }
        let path = format!("/projects/engine/env/KEY_{}", readings % (VARIABLES / 2));
        let value = format!("value {}", readings % (VARIABLES / 2));
        ada.put(&path).json(&json!({ "value": value })).await.ok();
    };
    drop(rotation);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(readings > 3, "it was not read while it was exchanged");
    assert!(said.contains("certificates.sealed_key: 1 sealed anew"), "{said}");
    let now = keys(&file);
    assert_eq!((now.len(), &now[1]), (2, &old[0]), "the old key stays in reach");
    assert_eq!(tags(&world).await, 1, "something is still sealed with the old key");
    assert_readable(&ada).await;

    let said = done(&world, &file, &["rotate-key", "--finish"]).await;
    assert!(said.contains("the only one"), "{said}");
    assert_eq!(keys(&file), now[..1]);
    assert_readable(&ada).await;
    // Programs that start now know the new key alone: the API reads, and the edge shows its certificate.
    world.restart_admin_later().await;
    world.edges[0].process.kill();
    world.restart_edge(0).await;
    assert_readable(&ada).await;
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "x");
}

#[tokio::test]
async fn an_interrupted_exchange_goes_on() {
    let (world, file, _folder) = start().await;
    let ada = world.user("ada").await;
    fill(&ada).await;
    let mut killed = Command::new(program("certs"))
        .arg("rotate-key")
        .env("SVC__POSTGRES__URL", world.database.as_str())
        .env("SVC__SECRETS__MASTER_KEY_FILE", &file)
        .spawn()
        .unwrap();
    let begun = "SELECT count(DISTINCT substring(sealed_value FROM 1 FOR 5)) FROM env_vars";
    crate::world::eventually(crate::BACKGROUND, "some rows are sealed anew", async || {
        keys(&file).len() == 2 && world.sql_number(begun).await == 2
            || tags(&world).await == 1 && keys(&file).len() == 2
    })
    .await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    let now = keys(&file);
    assert_readable(&ada).await;
    // Rows of the old key, as a program that knows no better makes them.
    ada.put("/projects/engine/env/KEY_0").json(&json!({ "value": "value 0" })).await.ok();
    done(&world, &file, &["rotate-key"]).await;
    assert_eq!(keys(&file), now, "it goes on with the same key");
    assert_eq!(tags(&world).await, 1);
    assert_readable(&ada).await;
    done(&world, &file, &["rotate-key", "--finish"]).await;
    assert_readable(&ada).await;
}

#[tokio::test]
async fn a_prepared_key_is_known_before_it_is_used() {
    let (world, file, _folder) = start().await;
    let ada = world.user("ada").await;
    fill(&ada).await;
    let old = keys(&file);
    done(&world, &file, &["rotate-key", "--prepare"]).await;
    let prepared = keys(&file);
    assert_eq!((prepared.len(), &prepared[0]), (2, &old[0]));
    assert!(!certs(&world, &file, &["rotate-key", "--prepare"]).await.status.success(), "one at a time");
    assert!(!certs(&world, &file, &["rotate-key", "--finish"]).await.status.success(), "nothing is sealed with it yet");
    assert_eq!(keys(&file), prepared);
    // On another machine, with the key file as it was prepared.
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("master.key");
    std::fs::copy(&file, &copy).unwrap();
    done(&world, &copy, &["rotate-key"]).await;
    assert_eq!(format!("next {}", keys(&copy)[0]), prepared[1]);
    assert_readable(&ada).await;
}

#[tokio::test]
async fn every_sealed_column_is_sealed_anew() {
    let (world, file, _folder) = start().await;
    let said = done(&world, &file, &["rotate-key"]).await;
    // Answers to repeated requests are sealed with a key of their own, which nobody keeps.
    let columns =
        "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND data_type = 'bytea'
                   AND column_name LIKE 'sealed%' AND column_name <> 'sealed_answer'";
    let sealed = usize::try_from(world.sql_number(columns).await).unwrap();
    let told = said.lines().filter(|line| line.contains(".sealed_") && line.contains("sealed anew")).count();
    assert_eq!(told, sealed, "common/db/src/upkeep/sealed.rs misses a column of the schema: {said}");
}

#[tokio::test]
async fn what_opens_with_no_key_is_named_and_keeps_the_old_keys() {
    let (world, file, _folder) = start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    ada.put("/projects/engine/env/KEY").json(&json!({ "value": "x" })).await.ok();
    world.sql("UPDATE env_vars SET sealed_value = sealed_value || '\\x00'::bytea").await;
    let output = certs(&world, &file, &["rotate-key"]).await;
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && complaint.contains("env_vars.sealed_value"), "{complaint}");
    assert_eq!(keys(&file).len(), 2);
    assert!(!certs(&world, &file, &["rotate-key", "--finish"]).await.status.success());
    assert_eq!(keys(&file).len(), 2);
}
