//! One line of text is judged alike in every field.

use serde_json::{Value, json};

use crate::world::{Actor, World};

/// What is refused in every field: line breaks, turns of direction, and what cannot be seen.
const HIDDEN: [&str; 20] = [
    "a\u{0}b",
    "a\nb",
    "a\r\nb",
    "a\tb",
    "a\u{1b}[31mb",
    "a\u{7f}b",
    "a\u{85}b",
    "a\u{ad}b",
    "a\u{61c}b",
    "a\u{180e}b",
    "a\u{200b}b",
    "a\u{200d}b",
    "a\u{200e}b",
    "a\u{202e}fdp.exe",
    "a\u{2028}b",
    "a\u{2066}b",
    "a\u{2060}b",
    "\u{feff}ab",
    "a\u{3164}b",
    "a\u{e0041}b",
];
/// What is taken in every field, as it is.
const VISIBLE: [&str; 6] =
    ["Acme & Söhne", "株式会社", "עברית", "<b>x</b>", "👩\u{200d}💻 ❤\u{fe0f}", "=cmd|' /C calc'!A0"];

/// The fields that hold one line of text: a name, and the request that writes a value. The answer holds what was stored.
async fn write(owner: &Actor, field: &str, value: &str) -> crate::world::answer::Answer {
    let profile = |changed: Value| {
        let mut profile = json!({
            "name": "Acme", "country": "NL",
            "address": { "lines": ["Keizersgracht 1"], "postcode": "1016 AA", "city": "Amsterdam" },
        });
        let merged = profile.as_object_mut().unwrap();
        for (key, value) in changed.as_object().unwrap() {
            match (key.as_str(), value) {
                ("address", Value::Object(parts)) => {
                    merged["address"].as_object_mut().unwrap().extend(parts.clone());
                }
                _ => drop(merged.insert(key.clone(), value.clone())),
            }
        }
        owner.put("/billing/profile").json(&profile)
    };
    match field {
        "label of a token" => owner.post("/tokens").json(&json!({ "kind": "cli", "label": value })).await,
        "label of a key" => owner.post("/tokens").json(&json!({ "kind": "ai", "label": value })).await,
        "label of an organization's token" => {
            owner.post("/orgs/acme/tokens").json(&json!({ "kind": "deploy", "label": value })).await
        }
        "display name" => {
            owner.request(reqwest::Method::PATCH, "/orgs/acme").json(&json!({ "display_name": value })).await
        }
        "name on invoices" => profile(json!({ "name": value })).await,
        "line of an address" => profile(json!({ "address": { "lines": [value] } })).await,
        "postcode" => profile(json!({ "address": { "postcode": value } })).await,
        "city" => profile(json!({ "address": { "city": value } })).await,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn one_line_of_text_is_judged_alike_in_every_field() {
    let world = World::start().await;
    let org = world.acme().await;
    for field in [
        "label of a token",
        "label of a key",
        "label of an organization's token",
        "display name",
        "name on invoices",
        "line of an address",
        "postcode",
        "city",
    ] {
        for value in HIDDEN {
            let answer = write(&org.owner, field, value).await;
            assert_eq!(answer.status, 400, "{field} takes {value:?}: {}", answer.text());
            answer.assert_error(400, "invalid_request");
        }
        for value in VISIBLE {
            let answer = write(&org.owner, field, &format!("  {value} ")).await;
            assert!(answer.status.is_success(), "{field} refuses {value:?}: {}", answer.text());
            let stored = serde_json::to_string(value).unwrap();
            assert!(answer.text().contains(&stored), "{field} keeps {value:?} as it is: {}", answer.text());
        }
    }
    // A new organization's is the same field.
    for value in HIDDEN {
        let body = json!({ "name": "another", "display_name": value });
        org.owner.post("/orgs").json(&body).await.assert_error(400, "invalid_request");
    }
}
