//! The reports, of rows whose numbers are known.

use domain::traffic::{
    TrafficSums,
    visitors::{ClassEvidence, VisitorClass},
};
use serde_json::{Value, json};

use super::{
    rows::{agent, sums},
    *,
};
use crate::world::answer::assert_keys;

/// A line of time as pairs of a number and another of each part that has any, with its distance from the last.
fn by_age(timeline: &Value, one: &str, other: &str) -> Vec<(usize, u64, Value)> {
    let parts = timeline.as_array().unwrap().iter().rev().enumerate();
    parts
        .map(|(age, part)| (age, part[one].as_u64().unwrap(), part[other].clone()))
        .filter(|(_, number, _)| *number > 0)
        .collect()
}

/// What two days ago had, when today was like this.
async fn views(visited: &Visited) {
    visited
        .append(
            0,
            &sums(20, 2_000, 9),
            &[
                ("view", "/\tnews.example\tDE\tengine.svc.localhost", 4, 400),
                ("view", "/docs\t\tDE\twww.engine.localhost", 3, 300),
                ("view", "/docs\tnews.example\tFR\tengine.svc.localhost", 2, 200),
            ],
            0..500,
        )
        .await;
    visited
        .append(0, &sums(3, 30, 1), &[("view", "/docs\tchatgpt.com\tXX\tengine.svc.localhost", 1, 10)], 400..600)
        .await;
    let lists = json!({
        "page": [["/", 8, 800], ["/old", 2, 200], ["(other)", 90, 9]],
        "referrer": [["forum.example", 6, 600], ["(other)", 3, 3]],
        "view_country": [["DE", 10, 1000]],
        "view": [["/\tforum.example\tDE\tengine.svc.localhost", 6, 600], ["/old\t\tDE\tengine.svc.localhost", 2, 200]],
    });
    visited.write_day(2, &sums(50, 5_000, 100), 77, &lists).await;
}

#[tokio::test]
async fn the_audience_is_the_views_of_people() {
    let visited = Visited::start(&Site::page("home")).await;
    let nothing = visited.report("audience").await;
    assert_keys(
        &nothing,
        "project from to days totals previous timeline hours truncated top_pages top_referrers top_countries deployments",
    );
    assert_eq!(nothing["timeline"].as_array().unwrap().len(), 30);
    assert_eq!(nothing["totals"], json!({ "pageviews": 0 }));
    assert_eq!(by_age(&nothing["timeline"], "pageviews", "visitors"), []);
    assert_eq!(nothing["timeline"][0]["visitors"], 0);

    views(&visited).await;
    let audience = visited.report("audience?days=3").await;
    assert_eq!((&audience["project"], &audience["days"]), (&json!("engine"), &json!(3)));
    assert_eq!(audience["totals"], json!({ "pageviews": 110 }));
    let days = by_age(&audience["timeline"], "pageviews", "visitors");
    assert_eq!((days.len(), days[0].1, days[1].clone()), (2, 10, (2, 100, json!(77))));
    let visitors = days[0].2.as_u64().unwrap();
    // 600 of them, whom two batches overlap in; the sketch is this exact for so few.
    assert!(visitors.abs_diff(600) <= 18, "{visitors} visitors");
    assert_eq!(
        audience["top_pages"],
        json!([{ "path": "/", "views": 12 }, { "path": "/docs", "views": 6 }, { "path": "/old", "views": 2 }])
    );
    assert_eq!(
        audience["top_referrers"],
        json!([
            { "referrer": "forum.example", "views": 6 },
            { "referrer": "news.example", "views": 6 },
            { "referrer": "chatgpt.com", "views": 1 },
        ])
    );
    assert_eq!(
        audience["top_countries"],
        json!([
            { "country": "DE", "views": 17 },
            { "country": "FR", "views": 2 },
            { "country": "XX", "views": 1 },
        ])
    );
    assert_eq!(visited.report("audience?days=1").await["totals"]["pageviews"], 10);
}

#[tokio::test]
async fn the_audience_can_be_asked_for_a_page_a_referrer_a_country_and_a_hostname() {
    let visited = Visited::start(&Site::page("home")).await;
    views(&visited).await;
    for (filter, today, before, pages) in [
        ("page=/docs", 6, 0, vec![("/docs", 6)]),
        // A page, a referrer or a country by itself is known to its own list, which has more than that of combinations.
        ("page=/", 4, 8, vec![("/", 12)]),
        ("referrer=News.example", 6, 0, vec![("/", 4), ("/docs", 2)]),
        ("referrer=", 3, 2, vec![("/docs", 3), ("/old", 2)]),
        ("country=de", 7, 10, vec![("/", 10), ("/docs", 3), ("/old", 2)]),
        ("hostname=www.engine.localhost", 3, 0, vec![("/docs", 3)]),
        ("hostname=engine.svc.localhost&page=/docs&country=FR&referrer=news.example", 2, 0, vec![("/docs", 2)]),
        ("page=/nowhere", 0, 0, vec![]),
    ] {
        let audience = visited.report(&format!("audience?days=3&{filter}")).await;
        let timeline = &audience["timeline"];
        assert_eq!((&timeline[2]["pageviews"], &timeline[0]["pageviews"]), (&json!(today), &json!(before)), "{filter}");
        assert_eq!(audience["totals"]["pageviews"], today + before, "{filter}");
        assert_eq!(timeline[2]["visitors"], Value::Null, "visitors of some pages are not known");
        let pages: Vec<_> = pages.iter().map(|(path, views)| json!({ "path": path, "views": views })).collect();
        assert_eq!(audience["top_pages"], json!(pages), "{filter}");
    }
}

#[tokio::test]
async fn lists_have_their_lengths() {
    let visited = Visited::start(&Site::page("home")).await;
    let keys: Vec<&'static str> = (0..30_u8)
        .map(|number| {
            let country = char::from(b'A' + number % 26);
            let key = format!("/{number:02}\t{number:02}.example\tA{country}\tengine.svc.localhost");
            &*key.leak()
        })
        .collect();
    let entries: Vec<_> = (100..).zip(&keys).map(|(views, key)| ("view", *key, views, 0)).collect();
    visited.append(0, &sums(1, 1, 1), &entries, 0..1).await;
    let audience = visited.report("audience").await;
    for (list, length, key, first) in [
        ("top_pages", 10, "path", "/29"),
        ("top_referrers", 10, "referrer", "29.example"),
        ("top_countries", 8, "country", "AD"),
    ] {
        assert_eq!(audience[list].as_array().unwrap().len(), length, "{list}");
        assert_eq!(audience[list][0][key], first, "{list}");
    }
    assert_eq!(audience["timeline"][29]["visitors"], 1);
}

#[tokio::test]
async fn whoever_knows_more_of_a_day_is_believed() {
    let visited = Visited::start(&Site::page("home")).await;
    let lists = |path: &str| json!({ "page": [[path, 1, 1]], "hostname": [["x", 1, 1]] });
    // The row has more than the hours: those have gone in part.
    visited.write_day(3, &sums(10, 100, 5), 9, &lists("/row")).await;
    visited.write_hour(3 * 24, &sums(4, 40, 1), &[]).await;
    // The hours have more than the row: something came late.
    visited.write_day(2, &sums(10, 100, 5), 9, &lists("/stale")).await;
    visited.write_hour(2 * 24, &sums(10, 100, 5), &[]).await;
    visited.append(2 * 24, &sums(1, 10, 1), &[("view", "/late\t\tDE\tx", 1, 1)], 0..3).await;
    // Both have the same.
    visited.write_day(1, &sums(10, 100, 5), 9, &lists("/same")).await;
    visited.write_hour(24, &sums(10, 100, 5), &[]).await;
    let audience = visited.report("audience?days=4").await;
    let days = by_age(&audience["timeline"], "pageviews", "visitors");
    assert_eq!(days, [(1, 5, json!(9)), (2, 6, json!(3)), (3, 5, json!(9))]);
    let pages: Vec<_> = audience["top_pages"].as_array().unwrap().iter().map(|page| page["path"].clone()).collect();
    assert_eq!(pages, ["/late", "/row", "/same"]);
    let history = visited.report("history?days=4").await;
    assert_eq!(history["totals"]["requests"], 10 + 11 + 10);
}

#[tokio::test]
async fn what_was_appended_adds_to_the_hours() {
    let visited = Visited::start(&Site::page("home")).await;
    let statuses = TrafficSums { statuses: [1, 2, 3, 4, 5], cache_hits: 6, cache_misses: 7, ..sums(15, 150, 0) };
    let path = [("path", "/a", 5, 50), ("hostname", "engine.svc.localhost", 15, 150), ("country", "DE", 15, 150)];
    visited.write_hour(0, &statuses, &path).await;
    visited.append(0, &statuses, &path, 0..0).await;
    visited.append(0, &sums(1, 1, 0), &[("path", "/b", 11, 1), ("path", "(other)", 1, 1)], 0..0).await;
    visited.append(1, &sums(2, 2, 0), &[], 0..0).await;
    let live = visited.report("?hours=2").await;
    assert_eq!(live["totals"], json!({ "requests": 33, "bytes": 303, "cache_hits": 12 }));
    assert_eq!(live["status"], json!({ "2xx": 2 + 3, "3xx": 4, "4xx": 6, "5xx": 8, "other": 10 }));
    assert_eq!(live["cache"], json!({ "HIT": 12, "MISS": 14 }));
    assert_eq!(by_age(&live["timeline"], "requests", "bytes"), [(0, 31, json!(301)), (1, 2, json!(2))]);
    assert_eq!(
        live["top_paths"],
        json!([{ "path": "/b", "requests": 11, "bytes": 1 }, { "path": "/a", "requests": 10, "bytes": 100 }])
    );
    assert_eq!(live["top_countries"], json!([{ "country": "DE", "requests": 30 }]));
    assert_eq!(live["truncated"], true);
    assert_eq!(visited.report("?hours=1").await["totals"]["requests"], 31);
    // A day has all of its hours.
    let history = visited.report("history?days=2").await;
    assert_eq!(history["totals"], live["totals"]);
}

#[tokio::test]
async fn traffic_can_be_asked_for_a_hostname() {
    let visited = Visited::start(&Site::page("home")).await;
    let hosts = [("hostname", "engine.svc.localhost", 4, 40), ("hostname", "www.engine.localhost", 2, 20)];
    visited.write_hour(0, &sums(6, 60, 0), &hosts).await;
    visited.append(0, &sums(6, 60, 0), &hosts, 0..0).await;
    let lists = json!({ "hostname": [["www.engine.localhost", 7, 70], ["(other)", 1, 1]] });
    visited.write_day(1, &sums(8, 80, 0), 0, &lists).await;
    let live = visited.report("?hours=1&hostname=WWW.engine.localhost").await;
    let four = json!({ "requests": 4, "bytes": 40, "cache_hits": null });
    assert_eq!(live["totals"], four);
    assert_eq!((&live["timeline"][0]["requests"], &live["timeline"][0]["cache_hits"]), (&json!(4), &Value::Null));
    assert_eq!(live["hostnames"], json!([{ "hostname": "www.engine.localhost", "requests": 4, "bytes": 40 }]));
    for unknown in ["status", "cache", "top_paths", "top_countries", "bots"] {
        assert_eq!(live[unknown], Value::Null, "{unknown} is not known of one hostname");
    }
    let history = visited.report("history?days=2&hostname=www.engine.localhost").await;
    assert_eq!(by_age(&history["timeline"], "requests", "bytes"), [(0, 4, json!(40)), (1, 7, json!(70))]);
    assert_eq!(history["totals"], json!({ "requests": 11, "bytes": 110, "cache_hits": null }));
    for nobody in ["?hours=1&hostname=other.example", "?hours=1&hostname=%00", "history?hostname=&days=2"] {
        let nothing = visited.report(nobody).await;
        assert_eq!(nothing["totals"], json!({ "requests": 0, "bytes": 0, "cache_hits": null }), "{nobody}");
    }
}

#[tokio::test]
async fn who_asked_is_told_apart() {
    let visited = Visited::start(&Site::page("home")).await;
    let person = agent(VisitorClass::Person, "", ClassEvidence::Behaviour);
    let unseen = agent(VisitorClass::Automation, "", ClassEvidence::Fields);
    let verified = agent(VisitorClass::AiTraining, "GPTBot", ClassEvidence::Network);
    let claimed = agent(VisitorClass::AiTraining, "GPTBot", ClassEvidence::Name);
    let curl = agent(VisitorClass::OtherBot, "curl", ClassEvidence::Name);
    visited
        .append(
            0,
            &sums(30, 3_000, 4),
            &[
                ("agent", person, 10, 1_000),
                ("agent", unseen, 7, 700),
                ("agent", verified, 5, 500),
                ("agent", claimed, 3, 300),
                ("agent", curl, 5, 500),
                ("agent_page", "GPTBot", 4, 400),
                ("agent_disallowed", "GPTBot", 2, 0),
                ("view", "/\tchatgpt.com\tDE\tengine.svc.localhost", 3, 300),
                ("view", "/\tnews.example\tDE\tengine.svc.localhost", 1, 100),
            ],
            0..2,
        )
        .await;
    visited
        .write_day(
            1,
            &sums(9, 900, 0),
            0,
            &json!({ "agent": [[claimed, 8, 800], [person, 1, 100]], "agent_page": [["GPTBot", 1, 1]],
                     "referrer": [["chatgpt.com", 2, 2]] }),
        )
        .await;
    let live = visited.report("?hours=1").await;
    assert_eq!(
        live["bots"],
        json!({
            "people": { "requests": 10, "bytes": 1_000 },
            "declared": { "requests": 13, "bytes": 1_300 },
            "automation": { "requests": 7, "bytes": 700 },
            "classes": [
                { "class": "person", "requests": 10, "bytes": 1_000 },
                { "class": "ai_training", "requests": 8, "bytes": 800 },
                { "class": "automation", "requests": 7, "bytes": 700 },
                { "class": "other_bot", "requests": 5, "bytes": 500 },
            ],
        })
    );
    let bots = visited.report("bots?days=2").await;
    assert_keys(
        &bots,
        "project from to days totals previous people declared automation classes agents operators timeline deployments",
    );
    assert_eq!(bots["totals"], json!({ "requests": 39, "bytes": 3_900 }));
    assert_eq!(bots["people"], json!({ "requests": 11, "bytes": 1_100 }));
    assert_eq!(bots["automation"], json!({ "requests": 7, "bytes": 700 }));
    assert_eq!(
        bots["agents"],
        json!([
            { "agent": "GPTBot", "operator": "OpenAI", "class": "ai_training", "requests": 16, "bytes": 1_600, "pages": 5,
              "disallowed": 2, "verified": 5, "claimed_only": 11, "claimed_only_percent": 68.8 },
            { "agent": "curl", "operator": "", "class": "other_bot", "requests": 5, "bytes": 500, "pages": 0,
              "disallowed": 0, "verified": 0, "claimed_only": 5, "claimed_only_percent": null },
        ])
    );
    assert_eq!(bots["operators"], json!([{ "operator": "OpenAI", "pages": 5, "bytes": 1_600, "people_sent": 5 }]));
    let days: Vec<_> = bots["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .map(|day| (&day["people"], &day["declared"], &day["automation"]))
        .collect();
    assert_eq!(days, [(&json!(1), &json!(8), &json!(0)), (&json!(10), &json!(13), &json!(7))]);
}

#[tokio::test]
async fn errors_name_the_page_that_led_there_and_the_deployment_that_broke_it() {
    let visited = Visited::start(&Site::page("home").file("about.html", "about")).await;
    let second = visited.ada.deploy("engine", &Site::page("home")).await.id;
    let missing = TrafficSums { statuses: [0, 0, 9, 0, 0], ..sums(9, 90, 0) };
    visited
        .append(
            0,
            &missing,
            &[
                ("path", "/about", 5, 50),
                ("path", "/mended", 1, 1),
                ("error", "404\t/about\t/", 4, 40),
                ("error", "404\t/about\tnews.example", 2, 20),
                ("error", "404\t/never\t", 3, 30),
                ("error", "404\t/mended\t", 1, 30),
                ("error", "503\t/about\t", 1, 10),
                ("error", "405\t/about\t", 7, 10),
                ("error", "(other)", 11, 10),
            ],
            0..0,
        )
        .await;
    visited.append(1, &missing, &[("error", "404\t/mended\t/", 1, 1)], 0..0).await;
    visited
        .write_day(
            2,
            &missing,
            0,
            &json!({ "error": [["404\t/gone\t/list", 20, 2], ["(other)", 5, 5]], "path": [["/gone", 5, 5]] }),
        )
        .await;
    let errors = visited.report("errors?days=3").await;
    assert_keys(&errors, "project from to days totals previous timeline errors deployments");
    assert_eq!(errors["totals"], json!({ "not_found": 31, "server_errors": 1, "other": 16 }));
    assert_eq!(errors["timeline"][0]["not_found"], 20);
    assert_eq!(errors["timeline"][0]["other"], 5);
    assert_eq!(
        errors["errors"],
        json!([
            // No deployment between its last answer and its first absence.
            { "status": 404, "path": "/gone", "requests": 20, "broken_by_deployment": null,
              "referrers": [{ "referrer": "/list", "requests": 20 }] },
            { "status": 404, "path": "/about", "requests": 6, "broken_by_deployment": second,
              "referrers": [{ "referrer": "/", "requests": 4 }, { "referrer": "news.example", "requests": 2 }] },
            { "status": 404, "path": "/never", "requests": 3, "broken_by_deployment": null,
              "referrers": [{ "referrer": "", "requests": 3 }] },
            { "status": 404, "path": "/mended", "requests": 2, "broken_by_deployment": null,
              "referrers": [{ "referrer": "", "requests": 1 }, { "referrer": "/", "requests": 1 }] },
            { "status": 503, "path": "/about", "requests": 1, "broken_by_deployment": null,
              "referrers": [{ "referrer": "", "requests": 1 }] },
        ])
    );
    // A path that was answered before the days that are asked for is known still.
    visited.write_day(3, &sums(1, 1, 0), 0, &json!({ "path": [["/never", 1, 1]] })).await;
    let today = visited.report("errors?days=1").await;
    let never = today["errors"].as_array().unwrap().iter().find(|error| error["path"] == "/never").unwrap();
    assert_ne!(never["broken_by_deployment"], Value::Null, "{today:#}");
}

#[tokio::test]
async fn every_line_of_time_has_the_deployments() {
    let visited = Visited::start(&Site::page("one")).await;
    let first = visited.ada.project("engine").await["active_deployment_id"].as_str().unwrap().to_owned();
    let upload = visited.ada.upload("engine", &Site::page("two")).header("x-svc-git-sha", "abc123").await;
    let second = upload.created()["deployment_id"].as_str().unwrap().to_owned();
    // What is live already is no other deployment.
    visited.ada.activate("engine", &second).await.ok();
    visited.ada.activate("engine", &first).await.ok();
    for path in ["", "history", "audience", "bots", "errors"] {
        let report = visited.report(path).await;
        let marks = report["deployments"].as_array().unwrap();
        let ids: Vec<_> = marks.iter().map(|mark| mark["id"].clone()).collect();
        assert_eq!(ids, [&*first, &*second, &*first], "{path}");
        assert_eq!((&marks[0]["git_sha"], &marks[1]["git_sha"]), (&Value::Null, &json!("abc123")));
        let times: Vec<_> = marks.iter().map(|mark| mark["at"].as_str().unwrap()).collect();
        assert!(times.is_sorted() && times[0] >= report["from"].as_str().unwrap(), "{times:?}");
    }
    // They stay when their files are gone.
    visited.ada.delete(&format!("/projects/engine/deployments/{second}")).await.ok();
    assert_eq!(
        visited.report("").await["deployments"][1],
        json!({
            "id": second, "at": visited.report("").await["deployments"][1]["at"], "git_sha": null,
        })
    );
}
