//! Headers of a site that would act on more than its own answers: on other sites, on the console, on whatever stands in
//! front of the edge, or past a gate.

use serde_json::json;

use crate::world::{Site, World};

const REACHING: [(&str, &str); 19] = [
    ("Clear-Site-Data", "\"cookies\""),
    ("Set-Cookie", "a=b; Domain=svc.localhost"),
    ("X-Accel-Redirect", "/protected/file"),
    ("X-Accel-Expires", "86400"),
    ("X-Accel-Buffering", "no"),
    ("X-Sendfile", "/etc/passwd"),
    ("X-Lighttpd-Send-File", "/etc/passwd"),
    ("X-LiteSpeed-Location", "/protected/file"),
    ("X-Reproxy-URL", "http://127.0.0.1:1/"),
    ("X-Envoy-Immediate-Health-Check-Fail", "true"),
    ("CDN-Cache-Control", "max-age=86400"),
    ("Cloudflare-CDN-Cache-Control", "max-age=86400"),
    ("Surrogate-Control", "max-age=86400"),
    ("Surrogate-Key", "everything"),
    ("Edge-Control", "max-age=86400"),
    ("Cache-Tag", "everything"),
    ("Alt-Svc", "h2=\"evil.example:443\"; ma=31536000"),
    ("NEL", "{\"report_to\":\"evil\",\"max_age\":31536000,\"include_subdomains\":true}"),
    ("Public-Key-Pins", "pin-sha256=\"x\"; max-age=31536000; includeSubDomains"),
];

fn site() -> Site {
    let mut rules = String::from("/*\n  X-Fine: 1\n  Expires: Thu, 01 Jan 2099 00:00:00 GMT\n  Pragma: cache\n");
    // A few a rule, so that no rule has too many.
    for names in REACHING.chunks(5) {
        rules += "/*\n  X-Fine: 1\n";
        for (name, value) in names {
            rules.extend(["  ", *name, ": ", *value, "\n"]);
        }
    }
    Site::page("home").file("_headers", rules)
}

#[tokio::test]
async fn a_site_cannot_say_them() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let warnings = ada.upload("engine", &site()).await.created()["warnings"].clone();
    let warnings: Vec<&str> = warnings.as_array().unwrap().iter().filter_map(|warning| warning.as_str()).collect();
    assert_eq!(warnings.len(), REACHING.len(), "{warnings:?}");
    let answer = world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
    assert_eq!(answer.header("x-fine"), "1");
    assert_eq!(answer.header("pragma"), "cache", "of a public site's own answers it may speak");
    for (name, _) in REACHING {
        assert!(warnings.iter().any(|warning| warning.contains(&format!("`{name}`"))), "{name}: {warnings:?}");
        assert_eq!(answer.find_header(name), None);
    }
}

#[tokio::test]
async fn a_site_that_was_published_before_they_were_refused_cannot_either() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    ada.upload("engine", &Site::page("home").file("_headers", "/*\n  X-Fine: 1\n")).await.created();
    let mut files = world.stored_files();
    files.retain(|path| path.file_name().is_some_and(|name| name == "manifest"));
    let mut manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap();
    for (name, value) in REACHING {
        manifest["headers"][0]["set"].as_array_mut().unwrap().push(json!([name.to_ascii_lowercase(), value]));
    }
    std::fs::write(&files[0], manifest.to_string()).unwrap();
    let answer = world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
    assert_eq!(answer.header("x-fine"), "1");
    for (name, _) in REACHING {
        assert_eq!(answer.find_header(name), None);
    }
}

#[tokio::test]
async fn nothing_but_the_gate_says_how_long_an_answer_is_kept() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &site()).await.url;
    ada.put("/projects/engine/password").json(&json!({ "password": "hunter22" })).await.ok();
    let visit = || world.edge().get(&url).header("authorization", "Basic YTpodW50ZXIyMg==");
    let answer = visit().await.assert_body(200, "home");
    assert_eq!((answer.header("cache-control"), answer.header("x-fine")), ("private, no-store", "1"));
    for name in ["expires", "pragma", "cdn-cache-control", "surrogate-control", "x-accel-expires"] {
        assert_eq!(answer.find_header(name), None, "{name} survives the gate");
    }
}
