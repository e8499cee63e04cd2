//! `svc domains`, end to end.

use serde_json::json;

use crate::{cli::Shell, world::World};

#[tokio::test]
async fn domains_are_attached_listed_and_detached() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    ada.create_project("engine").await;
    eve.create_project("rival").await;
    let (shell, other) = (Shell::new(&world, ada.token), Shell::new(&world, eve.token));
    assert_eq!(shell.run(&["domains"]).await.code, 2, "which project?");
    shell.write(".svcproject", "engine\n");
    let none = shell.text(&["domains"]).await;
    assert!(none.contains("svc domains add"), "the next step is missing: {none}");
    assert_eq!(shell.json(&["domains", "list"]).await, json!({ "domains": [] }));

    // The record to create is the result; the rest is commentary.
    let added = shell.run(&["domains", "add", "https://WWW.Example.com/about"]).await;
    assert_eq!((added.code, added.out.trim()), (0, "www.example.com.  CNAME  edge.svc.localhost."), "{}", added.err);
    assert!(
        added.err.contains("Attached www.example.com to engine") && added.err.contains("certificate"),
        "{}",
        added.err
    );
    let domain = json!({ "domain": "www.example.com", "tls_ready": false, "dns_target": "edge.svc.localhost" });
    assert_eq!(shell.json(&["domains", "add", "www.example.com"]).await["domain"], domain);
    assert_eq!(shell.json(&["domains"]).await, json!({ "domains": [domain] }));
    let listed = shell.text(&["domains", "list", "--project", "engine"]).await;
    assert!(listed.contains("www.example.com") && listed.contains("pending"), "{listed}");
    assert!(listed.contains("edge.svc.localhost"), "{listed}");

    let taken = other.run(&["domains", "add", "www.example.com", "--project", "rival"]).await;
    assert!(taken.code == 5 && taken.err.contains("another project"), "{}", taken.err);
    for (wrong, said) in [("*.example.com", "wildcard"), ("127.0.0.1", "IP address"), ("example", "two labels")] {
        let outcome = shell.run(&["domains", "add", wrong]).await;
        assert!(outcome.code == 2 && outcome.err.contains(said), "{wrong}: {}", outcome.err);
    }
    let own = shell.run(&["domains", "add", "blog.svc.localhost"]).await;
    assert!(own.code != 0 && own.err.contains("platform"), "{}", own.err);
    let hidden = other.run(&["domains", "--project", "engine"]).await;
    assert!(hidden.code == 4 && hidden.err.contains("no project engine"), "{}", hidden.err);

    let removed = shell.run(&["domains", "remove", "www.example.com"]).await;
    assert_eq!(removed.code, 0, "{}", removed.err);
    assert!(removed.err.contains("DNS record"), "{}", removed.err);
    let gone = shell.run(&["domains", "rm", "www.example.com"]).await;
    assert!(gone.code == 4 && gone.err.contains("no domain www.example.com"), "{}", gone.err);
    shell.text(&["domains", "add", "www.example.com"]).await;
    assert_eq!(shell.json(&["domains", "remove", "www.example.com"]).await, json!({ "ok": true }));
}
