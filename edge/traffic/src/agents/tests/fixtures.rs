//! Tests the table and the words against public collections of user agents.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::super::{memo::ParsedAgent, text};

const CRAWLERS: &str = include_str!("fixtures/crawlers.txt");
const BROWSERS: &str = include_str!("fixtures/browsers.txt");

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// Reads a file of a package that `.ci/tools` installs.
fn package(path: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = std::env::var_os("SVC_TEST_TOOLS").map_or_else(|| root.join("../../target/tools"), PathBuf::from);
    let file = tools.join("node_modules").join(path);
    let text =
        std::fs::read(&file).unwrap_or_else(|error| panic!("{}, which .ci/tools installs: {error}", file.display()));
    serde_json::from_slice(&text).unwrap()
}

fn crawler_user_agents() -> BTreeSet<String> {
    let rows = package("crawler-user-agents/crawler-user-agents.json");
    let instances = rows.as_array().unwrap().iter().filter_map(|row| row["instances"].as_array());
    instances.flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn user_agents() -> BTreeSet<String> {
    let rows = package("user-agents/dist/user-agents.json");
    rows.as_array().unwrap().iter().map(|row| row["userAgent"].as_str().unwrap().to_owned()).collect()
}

fn is_program(text: &str) -> bool {
    matches!(text::read(text.as_bytes()), ParsedAgent::Agent(_))
}

/// Asserts that at least `least` in a thousand of all these user agents are classified correctly.
#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn assert_share(collections: [(&str, BTreeSet<String>); 2], are_programs: bool, least: usize) {
    let (mut all, mut right) = (0, 0);
    for (name, texts) in collections {
        let wrong: Vec<_> = texts.iter().filter(|text| is_program(text) != are_programs).collect();
        all += texts.len();
        right += texts.len() - wrong.len();
        println!("{name}: {} of {} right; wrong are", texts.len() - wrong.len(), texts.len());
        for text in wrong {
            println!("  {text}");
        }
    }
    println!("{right} of {all}");
    assert!(right * 1_000 >= all * least, "{right} of {all} are right");
}

type Collections = [(&'static str, BTreeSet<String>); 2];

/// Returns the collections of crawlers and of browsers, without the few texts that are in both.
fn collections() -> (Collections, Collections) {
    let mut crawlers = [("isbot", lines(CRAWLERS)), ("crawler-user-agents", crawler_user_agents())];
    let mut browsers = [("isbot", lines(BROWSERS)), ("user-agents", user_agents())];
    let mut disputed = BTreeSet::new();
    for (_, crawlers) in &crawlers {
        for (_, browsers) in &browsers {
            disputed.extend(crawlers.intersection(browsers).cloned());
        }
    }
    assert!(disputed.len() < 10, "{disputed:#?}");
    for (_, texts) in crawlers.iter_mut().chain(&mut browsers) {
        texts.retain(|text| !disputed.contains(text));
    }
    (crawlers, browsers)
}

#[test]
fn crawlers_are_programs() {
    assert_share(collections().0, true, 990);
}

#[test]
fn browsers_are_no_programs() {
    assert_share(collections().1, false, 995);
}

#[test]
fn programs_have_their_rows() {
    for (text, name) in [
        (
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
            "GPTBot",
        ),
        ("Mozilla/5.0 (compatible; ClaudeBot/1.0; +claudebot@anthropic.com)", "ClaudeBot"),
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot"),
        ("TelegramBot (like TwitterBot)", "TelegramBot"),
        ("Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "Slackbot"),
        ("facebookexternalhit/1.1 Facebot Twitterbot/1.0", "iMessage"),
        ("facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "facebookexternalhit"),
        ("curl/8.10.1", "curl"),
        ("Wget/1.24.5", "Wget"),
        ("Go-http-client/2.0", "Go"),
        ("python-requests/2.32.3", "python-requests"),
        ("FreshRSS/1.24 (Linux; https://freshrss.org)", "FreshRSS"),
        (
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/131.0.0.0",
            "HeadlessChrome",
        ),
        ("acme-bot/1.0", "Unlisted bot"),
        ("SomethingNew/3", "Unlisted program"),
        ("", "Unlisted program"),
    ] {
        let ParsedAgent::Agent(agent) = text::read(text.as_bytes()) else { panic!("{text} is taken for a browser") };
        assert_eq!(agent.name, name, "{text}");
    }
}
