//! `svc repo` and `svc vcs`.

use serde_json::{Value, json};

use super::scene::Scene;
use crate::cli::Shell;

#[tokio::test]
async fn a_repository_is_linked_shown_and_unlinked() {
    let (scene, mona) = Scene::with_repo().await;
    mona.create_project("engine").await;
    let shell = Shell::new(&scene.world, mona.token.clone());

    let listed = shell.json(&["vcs"]).await;
    assert_eq!(listed["installations"][0]["account"], "acme");
    assert!(shell.text(&["vcs"]).await.contains("acme"));

    // The installation is found by the repository's owner.
    let linked = shell.json(&["repo", "link", "Acme/site", "--directory", "./dist/", "--project", "engine"]).await;
    assert_eq!(linked, json!({ "ok": true, "repo": "acme/site", "branch": "main", "directory": "dist" }));
    let shown = shell.json(&["repo", "--project", "engine"]).await;
    let link = json!({ "repo": "acme/site", "branch": "main", "directory": "dist", "waits_for": null });
    assert_eq!(shown["repo"], link);
    let text = shell.text(&["repo", "show", "--project", "engine"]).await;
    assert!(text.contains("dist of acme/site, from main"), "{text}");

    shell.json(&["repo", "unlink", "--project", "engine"]).await;
    assert_eq!(shell.json(&["repo", "--project", "engine"]).await["repo"], Value::Null);

    for (args, code) in [
        (&["repo", "link", "nobody/site", "--project", "engine"][..], 2),
        (&["repo", "link", "not a repository", "--project", "engine"], 2),
        (&["repo", "link", "acme/site", "--directory", "../x", "--project", "engine"], 2),
        (&["repo", "link", "acme/nothing", "--project", "engine"], 4),
        (&["repo", "--project", "nothing-of-mine"], 4),
    ] {
        let outcome = shell.run(args).await;
        assert_eq!(outcome.code, code, "{args:?}: {}{}", outcome.out, outcome.err);
    }
}

#[tokio::test]
async fn an_installation_is_shared_and_unshared() {
    let (scene, mona) = Scene::with_repo().await;
    scene.org(&mona, "team", &[]).await;
    scene.org(&mona, "other", &[]).await;
    let shell = Shell::new(&scene.world, mona.token.clone());
    assert_eq!(shell.json(&["vcs", "share", "7", "--org", "team"]).await["org"], "team");
    assert!(shell.text(&["vcs"]).await.contains("team, by mona"));
    assert_eq!(shell.run(&["vcs", "share", "7", "--org", "other"]).await.code, 5);
    assert_eq!(shell.json(&["vcs", "unshare", "7", "--org", "team"]).await, json!({ "ok": true }));
    assert_eq!(shell.run(&["vcs", "unshare", "7", "--org", "team"]).await.code, 4);
}
