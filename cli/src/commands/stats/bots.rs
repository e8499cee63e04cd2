//! Prints requests by kind of client.

use api::stats::{BotsStats, ClassStats};
use domain::Timestamp;

use super::{
    draw::{bars, period, previous_period, timeline},
    midnight,
};
use crate::output::{bold, count, lines, size};

fn words(class: &str) -> &str {
    match class {
        "person" => "people",
        "search_engine" => "search engines",
        "ai_training" => "AI training",
        "ai_search" => "AI search",
        "ai_assistant" => "AI assistants",
        "coding_agent" => "coding agents",
        "preview" => "previews and feeds",
        "monitor" => "monitors",
        "other_bot" => "other bots",
        "automation" => "undeclared automation",
        newer => newer,
    }
}

pub(super) fn classes(classes: &[ClassStats]) -> String {
    match classes {
        [] => "Who asked is not settled yet.".to_owned(),
        classes => bars("WHO", "REQUESTS", classes.iter().map(|class| (words(&class.class), class.requests))),
    }
}

pub(super) fn draw(bots: &BotsStats) -> String {
    let period = period(bots.to, bots.timeline.iter().map(|day| &*day.day));
    let what = bold(&format!("{}, {period}", bots.project));
    if bots.totals.requests == 0 {
        return format!("{what}: no requests.");
    }
    let share = |requests: u64| u128::from(requests) * 100 / u128::from(bots.totals.requests);
    let head = format!(
        "{what}: {}; {}% by people, {}% by programs that say so, {}% by programs that do not.{}",
        count(bots.totals.requests, "request"),
        share(bots.people.requests),
        share(bots.declared.requests),
        share(bots.automation.requests),
        previous_period(bots.previous.map(|sums| sums.totals.requests), bots.days.into(), "day"),
    );
    let begins: Vec<Timestamp> = bots.timeline.iter().map(|day| midnight(&day.day)).collect();
    let by_day: Vec<u64> = bots.timeline.iter().map(|day| day.declared + day.automation).collect();
    let agents = lines(
        &bots.agents,
        &["AGENT", "OPERATOR", "REQUESTS", "SENT", "PAGES", "DISALLOWED", "NAME ONLY"],
        "No agents by name.",
        |agent| {
            let claimed = agent.claimed_only_percent.map_or_else(|| "-".to_owned(), |share| format!("{share}%"));
            vec![
                agent.agent.clone(),
                agent.operator.clone(),
                agent.requests.to_string(),
                size(agent.bytes),
                agent.pages.to_string(),
                agent.disallowed.to_string(),
                claimed,
            ]
        },
    );
    let operators =
        lines(&bots.operators, &["OPERATOR", "PAGES TAKEN", "SENT", "PEOPLE SENT BACK"], "No operators.", |operator| {
            vec![
                operator.operator.clone(),
                operator.pages.to_string(),
                size(operator.bytes),
                operator.people_sent.to_string(),
            ]
        });
    let line = timeline(&by_day, &begins, "requests by programs, by day", &bots.deployments);
    [head, line, classes(&bots.classes), agents, operators].join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bots_are_tables() {
        let mut bots = json!({
            "project": "docs", "from": "2026-11-22T00:00:00Z", "to": "2026-11-22T22:10:00Z", "days": 1,
            "totals": {"requests": 10, "bytes": 100}, "people": {"requests": 5, "bytes": 50},
            "declared": {"requests": 4, "bytes": 40}, "automation": {"requests": 1, "bytes": 10},
            "classes": [{"class": "person", "requests": 5, "bytes": 50},
                        {"class": "newer", "requests": 4, "bytes": 40}],
            "agents": [{"agent": "GPTBot", "operator": "OpenAI", "class": "ai_training", "requests": 4, "bytes": 40,
                        "pages": 3, "disallowed": 1, "verified": 3, "claimed_only": 1, "claimed_only_percent": 25.0}],
            "operators": [{"operator": "OpenAI", "pages": 3, "bytes": 40, "people_sent": 2}],
            "timeline": [{"day": "2026-11-22", "people": 5, "declared": 4, "automation": 1}], "deployments": [],
        });
        let show = |bots: &serde_json::Value| draw(&serde_json::from_value(bots.clone()).unwrap());
        let text = show(&bots);
        for part in ["10 requests; 50% by people, 40% by programs that say so, 10% by", "GPTBot", "25%", "newer"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        bots["totals"]["requests"] = 0.into();
        assert!(show(&bots).ends_with(": no requests."));
    }
}
