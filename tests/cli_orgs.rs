//! `svc orgs`, `members`, `invites` and `tokens --org`, end to end.

use serde_json::{Value, json};

use crate::{cli::Shell, orgs::icons::png, world::World};

/// `ada` and `eve`, each at a terminal of their own.
async fn two_people() -> (World, Shell, Shell) {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let (ada, eve) = (Shell::new(&world, ada.token), Shell::new(&world, eve.token));
    (world, ada, eve)
}

#[tokio::test]
async fn an_org_is_made_shown_renamed_and_deleted() {
    let (world, ada, eve) = two_people().await;
    let made = ada.run(&["orgs", "create", "acme", "--display-name", "Acme & Co"]).await;
    assert_eq!((made.code, made.out.trim()), (0, "acme"));
    assert!(made.err.contains("svc invites create"), "the next step is missing: {}", made.err);
    assert_eq!(eve.run(&["orgs", "create", "acme"]).await.code, 5);
    assert_eq!(ada.run(&["orgs", "create", "Acme"]).await.code, 2);

    let list = ada.text(&["orgs"]).await;
    assert!(list.contains("acme") && list.contains("Acme & Co") && list.contains("owner"), "{list}");
    assert_eq!(ada.json(&["orgs"]).await["orgs"][0]["role"], "owner");
    assert_eq!(eve.json(&["orgs", "list"]).await, json!({ "orgs": [] }));
    assert_eq!(ada.json(&["orgs", "rename", "acme", "Acme"]).await["display_name"], "Acme");
    let shown = ada.text(&["orgs", "show", "acme"]).await;
    assert!(shown.contains("Acme (acme): 0 projects") && shown.contains("ada"), "{shown}");
    assert_eq!(ada.json(&["orgs", "rename", "acme", "--clear"]).await["display_name"], Value::Null);
    assert_eq!(ada.run(&["orgs", "rename", "acme"]).await.code, 2);
    let hidden = eve.run(&["orgs", "show", "acme"]).await;
    assert!(hidden.code == 4 && hidden.err.contains("svc orgs"), "{}", hidden.err);

    std::fs::write(ada.folder().join("icon.png"), png(1, 1)).unwrap();
    ada.write("icon.svg", "<svg/>");
    let url = ada.json(&["orgs", "icon", "acme", "icon.png"]).await["icon_url"].clone();
    world.nobody().get(url.as_str().unwrap()).await.assert_body(200, png(1, 1));
    let refused = ada.run(&["orgs", "icon", "acme", "icon.svg"]).await;
    assert!(refused.code == 1 && refused.err.contains("PNG"), "{}", refused.err);
    assert_eq!(ada.run(&["orgs", "icon", "acme", "nothing.png"]).await.code, 2);
    ada.text(&["orgs", "icon", "acme", "--remove"]).await;
    assert_eq!(ada.run(&["orgs", "icon", "acme", "--remove"]).await.code, 4);

    assert_eq!(ada.run(&["orgs", "delete", "acme"]).await.code, 2, "nobody can be asked");
    assert_eq!(ada.json(&["orgs", "delete", "acme", "--yes"]).await, json!({ "ok": true }));
    assert_eq!(ada.json(&["orgs"]).await, json!({ "orgs": [] }));
}

#[tokio::test]
async fn people_are_invited_join_rise_and_leave() {
    let (world, ada, eve) = two_people().await;
    ada.text(&["orgs", "create", "acme"]).await;
    assert_eq!(ada.run(&["invites"]).await.code, 2, "which org?");
    let invited = ada.run(&["invites", "create", "eve@example.com", "--role", "admin", "--org", "acme"]).await;
    assert_eq!(invited.code, 0, "{}", invited.err);
    assert!(invited.err.contains("No mail was sent"), "{}", invited.err);
    let link = invited.out.trim().to_owned();
    let listed = ada.text(&["invites", "--org", "acme"]).await;
    assert!(
        listed.contains("eve@example.com") && listed.contains("admin") && listed.contains("in 14 days"),
        "{listed}"
    );

    // Without signing in; by the link or by its end.
    let stranger = Shell::new(&world, None);
    let preview = stranger.text(&["invites", "preview", &link]).await;
    assert!(preview.contains("ada invites you to acme as admin"), "{preview}");
    assert_eq!(stranger.run(&["invites", "accept", &link]).await.code, 3);
    let end = link.rsplit('/').next().unwrap();
    assert_eq!(eve.json(&["invites", "accept", end]).await["role"], "admin");
    let over = eve.run(&["invites", "accept", &link]).await;
    assert!(over.code == 4 && over.err.contains("new one"), "{}", over.err);
    assert_eq!(eve.run(&["invites", "accept", "nonsense"]).await.code, 2);

    let revoked = ada.json(&["invites", "create", "x@example.com", "--org", "acme"]).await;
    assert_eq!((&revoked["role"], &revoked["email_sent"]), (&json!("member"), &json!(false)));
    let id = revoked["id"].as_str().unwrap();
    assert_eq!(eve.json(&["invites", "revoke", id, "--org", "acme"]).await, json!({ "ok": true }));
    assert_eq!(eve.run(&["invites", "revoke", id, "--org", "acme"]).await.code, 4);
    assert_eq!(ada.json(&["invites", "--org", "acme"]).await, json!({ "invites": [] }));
    assert_eq!(ada.run(&["invites", "create", "nobody", "--org", "acme"]).await.code, 2);

    let members = ada.text(&["members", "--org", "acme"]).await;
    assert!(members.contains("ada") && members.contains("eve"), "{members}");
    let last = ada.run(&["members", "leave", "--org", "acme"]).await;
    assert!(last.code == 5 && last.err.contains("svc members role"), "{}", last.err);
    assert_eq!(eve.run(&["members", "role", "eve", "owner", "--org", "acme"]).await.code, 1, "admins may not");
    assert_eq!(ada.json(&["members", "role", "eve", "owner", "--org", "acme"]).await["role"], "owner");
    ada.text(&["members", "leave", "--org", "acme"]).await;
    assert_eq!(ada.run(&["members", "--org", "acme"]).await.code, 4);
    let members = eve.json(&["members", "list", "--org", "acme"]).await;
    assert_eq!(members["members"].as_array().unwrap().len(), 1);
    assert_eq!(eve.run(&["members", "rm", "ada", "--org", "acme"]).await.code, 4);
    assert_eq!(eve.run(&["members", "rm", "../tokens/x", "--org", "acme"]).await.code, 2);
}

#[tokio::test]
async fn an_org_gives_its_machines_tokens() {
    let (world, ada, eve) = two_people().await;
    ada.text(&["orgs", "create", "acme"]).await;
    let token = ada.text(&["tokens", "create", "--label", "ci", "--org", "acme"]).await;
    let robot = Shell::new(&world, Some(token.trim().to_owned()));
    assert_eq!(robot.json(&["whoami"]).await["token_kind"], "deploy");
    let key = ada.json(&["tokens", "create", "--kind", "ai", "--org", "acme"]).await;
    assert_eq!((&key["kind"], &key["created_by"]), (&json!("ai"), &json!("ada")));
    let listed = ada.text(&["tokens", "--org", "acme"]).await;
    assert!(listed.contains("ci") && listed.contains("deploy") && listed.contains("ada"), "{listed}");
    assert_eq!(ada.json(&["tokens"]).await["tokens"].as_array().unwrap().len(), 1, "they are not ada's own");
    for wrong in
        [&["tokens", "create", "--kind", "deploy"][..], &["tokens", "create", "--kind", "cli", "--org", "acme"]]
    {
        let outcome = ada.run(wrong).await;
        assert!(outcome.code == 2 && outcome.err.contains("--org"), "{wrong:?}: {}", outcome.err);
    }
    assert_eq!(eve.run(&["tokens", "--org", "acme"]).await.code, 4);
    let id = ada.json(&["tokens", "--org", "acme"]).await["tokens"][1]["id"].as_str().unwrap().to_owned();
    assert_eq!(ada.run(&["tokens", "revoke", &id]).await.code, 4);
    assert_eq!(ada.json(&["tokens", "revoke", &id, "--org", "acme"]).await, json!({ "ok": true }));
    assert_eq!(robot.run(&["whoami"]).await.code, 3);
}
