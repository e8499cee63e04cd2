//! The corpus of hostile archives, uploaded to a running service: each gets its answer and nothing else changes.

use std::fmt::Write as _;

use crate::world::{Site, World};

#[tokio::test]
async fn every_archive_of_the_corpus_gets_its_answer() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &Site::page("before")).await.url;
    ada.create_project("corpus").await;
    let cases = corpus::cases();
    assert!(cases.len() >= 40, "{}", cases.len());
    let mut failures = String::new();
    for case in cases {
        let stored = world.stored_files();
        let answer = ada
            .post("/projects/corpus/deployments")
            .header("content-type", case.form.media_type())
            .body(case.bytes)
            .await;
        let (status, text) = (answer.status.as_u16(), answer.text());
        if status != case.expect.status() || case.expect.code().is_some_and(|code| !text.contains(code)) {
            writeln!(failures, "{}: {status} {text}", case.name).unwrap();
        }
        if status != 201 && world.stored_files() != stored {
            writeln!(failures, "{}: left files behind", case.name).unwrap();
        }
        if let (corpus::Expect::Files(files), 201) = (&case.expect, status) {
            let newest = &ada.project("corpus").await["deployments"][0];
            if newest["files"] != files.len() {
                writeln!(failures, "{}: {} files instead of {}", case.name, newest["files"], files.len()).unwrap();
            }
        }
        world.edge().get(&url).await.assert_body(200, "before");
    }
    assert!(failures.is_empty(), "\n{failures}");
}
