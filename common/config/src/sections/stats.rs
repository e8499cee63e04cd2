//! `[stats]`: what is counted of sites' visits.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[stats]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// The counter: the edges (`edge`, the default), or nobody (`none`).
    pub source: StatsSource,
    /// A database of countries by address, in the format of `MaxMind` (`.mmdb`), read when an edge starts and again when the file
    /// changes. Without one, every country is `XX`.
    pub geoip_file: Option<PathBuf>,
    /// Longest time, in seconds, for which an edge adds up what it has counted before Postgres gets it. An edge sends earlier
    /// when somebody opens statistics, so these are never older than five seconds. With 0, it sends every two seconds.
    pub send_seconds: u32,
    /// Lists of networks that operators of crawlers publish, by the name of the list in the table of agents. Admin
    /// reads them every few hours; what the release has built in stays while one cannot be read. An empty table reads
    /// none.
    pub agent_networks: BTreeMap<String, Url>,
    /// Directories of the keys with which agents sign their requests (Web Bot Auth), by the agent's name.
    pub agent_directories: BTreeMap<String, Url>,
}

impl Default for Stats {
    fn default() -> Self {
        let urls = |list: &[(&str, &str)]| list.iter().map(|(name, at)| ((*name).to_owned(), url(at))).collect();
        Self {
            source: StatsSource::default(),
            geoip_file: None,
            send_seconds: 30,
            agent_networks: urls(&NETWORKS),
            agent_directories: urls(&DIRECTORIES),
        }
    }
}

/// Lists of networks that are read unless `agent_networks` says otherwise.
const NETWORKS: [(&str, &str); 16] = [
    ("ahrefsbot", "https://api.ahrefs.com/v3/public/crawler-ips"),
    ("applebot", "https://search.developer.apple.com/applebot.json"),
    ("betterstack", "https://uptime.betterstack.com/ips.txt"),
    ("bingbot", "https://www.bing.com/toolbox/bingbot.json"),
    ("chatgpt-user", "https://openai.com/chatgpt-user.json"),
    ("claudebot", "https://claude.com/crawling/bots.json"),
    ("duckduckbot", "https://duckduckgo.com/duckduckbot.json"),
    ("google-special-crawlers", "https://developers.google.com/static/crawling/ipranges/special-crawlers.json"),
    (
        "google-user-triggered-fetchers",
        "https://developers.google.com/static/crawling/ipranges/user-triggered-fetchers-google.json",
    ),
    ("googlebot", "https://developers.google.com/static/crawling/ipranges/common-crawlers.json"),
    ("gptbot", "https://openai.com/gptbot.json"),
    ("oai-searchbot", "https://openai.com/searchbot.json"),
    ("perplexity-user", "https://www.perplexity.ai/perplexity-user.json"),
    ("perplexitybot", "https://www.perplexity.ai/perplexitybot.json"),
    ("telegrambot", "https://core.telegram.org/resources/cidr.txt"),
    ("uptimerobot", "https://uptimerobot.com/inc/files/ips/IPv4andIPv6.txt"),
];

/// Directories of keys that are read unless `agent_directories` says otherwise.
const DIRECTORIES: [(&str, &str); 1] =
    [("ChatGPT Agent", "https://chatgpt.com/.well-known/http-message-signatures-directory")];

/// `stats.source`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatsSource {
    /// The edges count what they answer.
    #[default]
    Edge,
    /// Nothing is counted, and the API answers `stats_unavailable`.
    None,
}
