//! `svc domains`, end to end.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{attach, certificate::anywhere};
use crate::{
    BACKGROUND,
    cli::Shell,
    world::{Site, World, eventually, name_server::NameServer},
};

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
    let domain = shell.json(&["domains", "add", "www.example.com"]).await["domain"].clone();
    assert_eq!((&domain["domain"], &domain["tls_ready"]), (&json!("www.example.com"), &json!(false)));
    assert_eq!(domain["status"]["state"], "blocked", "certificates are imported here");
    assert_eq!(shell.json(&["domains"]).await, json!({ "domains": [domain] }));
    let listed = shell.text(&["domains", "list", "--project", "engine"]).await;
    assert!(listed.contains("www.example.com") && listed.contains("blocked"), "{listed}");
    assert!(listed.contains("www.example.com.  CNAME  edge.svc.localhost."), "{listed}");
    let why = shell.run(&["domains"]).await.err;
    assert!(why.contains("www.example.com has no certificate") && why.contains("certs import"), "{why}");

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

/// What a command prints that finds something broken, and says so by its exit code too.
async fn broken(shell: &Shell, args: &[&str]) -> String {
    let found = shell.run(args).await;
    assert_eq!(found.code, 1, "svc {args:?}: {}{}", found.out, found.err);
    found.out
}

#[tokio::test]
async fn the_doctor_tells_what_to_change_and_refresh_what_came_of_it() {
    let folder = TempDir::with_prefix("svc-names-").unwrap();
    let names = NameServer::start(folder.path(), "").await;
    names.a("edge.platform.example", &["127.0.0.1"]).await;
    names.a("www.shop.example", &["203.0.113.9"]).await;
    let world = World::builder()
        .set("SITE__DNS_TARGET", "edge.platform.example")
        .set("ACME__RESOLVERS", names.resolvers())
        .set("LIMITS__PROBE_ALLOW_PRIVATE", "true")
        .start()
        .await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let shell = Shell::new(&world, ada.token);
    shell.write(".svcproject", "engine\n");

    // Before it is attached.
    let eve = world.user("eve").await;
    eve.create_project("rival").await;
    let told = broken(&shell, &["domains", "doctor", "https://www.shop.example/"]).await;
    for said in [
        "www.shop.example leads to 203.0.113.9, not here",
        &names.address(),
        "elsewhere",
        "not attached to this project; `svc domains add www.shop.example`",
        "set     www.shop.example.  CNAME  edge.platform.example.",
        "remove  www.shop.example.  A  203.0.113.9",
    ] {
        assert!(told.contains(said), "`{said}` is not said: {told}");
    }
    let document: Value =
        serde_json::from_str(&broken(&shell, &["--json", "domains", "doctor", "www.shop.example"]).await).unwrap();
    assert_eq!((&document["verdict"], &document["attached"]), (&json!("waiting"), &json!(false)), "{document}");

    names.cname("www.shop.example", "edge.platform.example").await;
    let told = shell.text(&["domains", "doctor", "www.shop.example"]).await;
    assert!(told.contains("Plain HTTP: Our own file came back") && !told.contains("To change"), "{told}");

    let unknown = shell.run(&["domains", "refresh", "www.shop.example"]).await;
    assert!(unknown.code == 4 && unknown.err.contains("no domain www.shop.example"), "{}", unknown.err);
    shell.text(&["domains", "add", "www.shop.example"]).await;
    let other = Shell::new(&world, eve.token);
    let doctor = ["domains", "doctor", "www.shop.example", "--project", "rival", "--json"];
    let told = broken(&other, &doctor[..5]).await;
    assert!(told.contains("attached to another project") && told.contains("claim"), "{told}");
    let document: Value = serde_json::from_str(&broken(&other, &doctor).await).unwrap();
    assert_eq!((&document["attached"], &document["taken"]), (&json!(false), &json!(true)), "{document}");
    let refreshed = shell.run(&["domains", "refresh", "www.shop.example"]).await;
    assert!(refreshed.code == 0 && refreshed.err.contains("certs import"), "{}", refreshed.err);
    assert_eq!(shell.json(&["domains", "refresh", "www.shop.example"]).await["domain"]["domain"], "www.shop.example");
    let missing = shell.run(&["domains", "doctor", "www.shop.example", "--project", "rival"]).await;
    assert!(missing.code == 4 && missing.err.contains("no project rival"), "{}", missing.err);
}

#[tokio::test]
async fn an_apex_is_advised_when_it_is_added() {
    let world = World::builder().set("SITE__APEX_ADDRESSES", "198.51.100.7").start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let shell = Shell::new(&world, ada.token);
    let added = shell.run(&["domains", "add", "shop.example", "--project", "engine"]).await;
    assert_eq!((added.code, added.out.trim()), (0, "shop.example.  A  198.51.100.7"), "{}", added.err);

    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let shell = Shell::new(&world, ada.token);
    let added = shell.run(&["domains", "add", "shop.example", "--project", "engine"]).await;
    assert_eq!(added.out.trim(), "shop.example.  ALIAS  edge.svc.localhost.");
    assert!(added.err.contains("top of its zone") && added.err.contains("www.shop.example"), "{}", added.err);
}

#[tokio::test]
async fn a_domain_with_a_certificate_is_live_once_it_leads_here() {
    let folder = TempDir::with_prefix("svc-names-").unwrap();
    let names = NameServer::start(folder.path(), "").await;
    names.a("edge.platform.example", &["127.0.0.1"]).await;
    names.a("www.shop.example", &["203.0.113.9"]).await;
    let ca = World::start().await.ca().parent().unwrap().display().to_string();
    let world = World::builder().set("SITE__DNS_TARGET", "edge.platform.example");
    let world = world.set("ACME__RESOLVERS", names.resolvers()).set("ACME__ISSUER", "local").set("ACME__LOCAL_DIR", ca);
    let world = world.start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    certified(&world).await;
    let shell = Shell::new(&world, ada.token);
    shell.write(".svcproject", "engine\n");
    let added = shell.run(&["domains", "add", "www.shop.example"]).await;
    assert!(added.code == 0 && !added.err.contains("is live"), "{}", added.err);
    assert!(added.err.contains("www.shop.example leads to 203.0.113.9, not here"), "{}", added.err);
    names.cname("www.shop.example", "edge.platform.example").await;
    let refreshed = shell.run(&["domains", "refresh", "www.shop.example"]).await;
    let live = format!("https://www.shop.example:{} is live.", world.public_port());
    assert!(refreshed.code == 0 && refreshed.err.contains(&live), "{}", refreshed.err);
    let listed = shell.run(&["domains"]).await;
    assert!(listed.out.contains("live") && !listed.err.contains("www.shop.example"), "{} {}", listed.out, listed.err);
    let again = shell.run(&["domains", "add", "www.shop.example"]).await;
    assert!(again.err.contains("for reference") && again.err.contains(&live), "{}", again.err);
}

#[tokio::test]
async fn where_nobody_looks_at_dns_a_certificate_is_not_called_live() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    certified(&world).await;
    let shell = Shell::new(&world, ada.token);
    let added = shell.run(&["domains", "add", "www.shop.example", "--project", "engine"]).await;
    assert!(added.code == 0 && !added.err.contains("is live"), "{}", added.err);
    let said = "www.shop.example has a certificate; its record is `www.shop.example.  CNAME  edge.svc.localhost.`";
    assert!(added.err.contains(said), "{}", added.err);
}

/// Stores a certificate for `www.shop.example`.
async fn certified(world: &World) {
    world
        .sql(
            "INSERT INTO certificates (id, names, chain_pem, sealed_key, not_before, not_after, created_at)
             VALUES ('crt_00000000000000000001', '{www.shop.example}', '', '',
                     now() - interval '1 day', now() + interval '1 day', now())",
        )
        .await;
}

#[tokio::test]
async fn the_certificate_that_visitors_are_given_is_shown() {
    let domain = "www.shop.localhost";
    let world = anywhere().set("ACME__LOCAL_DIR", World::ca_folder().await.display()).start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    attach(&ada, "engine", domain).await.created();
    let shell = Shell::new(&world, ada.token.clone());
    shell.write(".svcproject", "engine\n");

    let without = broken(&shell, &["domains", "certificate", domain]).await;
    assert!(without.starts_with(&format!("{domain} cannot be reached over HTTPS: ")), "{without}");

    world.certify(&[domain]).await;
    let url = world.domain_url(domain);
    eventually(BACKGROUND, "the edge shows it", async || world.edge().get(&url).attempt().await.is_ok()).await;
    let shown = shell.text(&["domains", "certificate", &format!("https://{domain}/")]).await;
    assert!(shown.starts_with(&format!("The certificate of {domain} is valid.")), "{shown}");
    let status = shell.json(&["domains", "certificate", domain]).await;
    assert_eq!((&status["domain"], &status["valid"]), (&json!(domain), &json!(true)), "{status}");
    for (label, key) in [
        ("issuer", "issuer"),
        ("subject", "subject"),
        ("valid from", "valid_from"),
        ("valid to", "valid_to"),
        ("days remaining", "days_remaining"),
    ] {
        let value = status[key].as_str().map_or_else(|| status[key].to_string(), str::to_owned);
        let line = shown.lines().find_map(|line| line.trim().strip_prefix(label)).unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(line.trim(), value, "{shown}");
    }

    let unknown = shell.run(&["domains", "certificate", "other.shop.localhost"]).await;
    assert!(unknown.code == 4 && unknown.err.contains("no domain other.shop.localhost"), "{}", unknown.err);
    let missing = shell.run(&["domains", "certificate", domain, "--project", "rival"]).await;
    assert!(missing.code == 4 && missing.err.contains("no project rival"), "{}", missing.err);
}
