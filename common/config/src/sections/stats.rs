//! `[stats]`: visit statistics of sites.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[stats]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// The source of statistics: the edges (`edge`, the default), or none (`none`).
    pub source: StatsSource,
    /// A database of countries by address, in `MaxMind`'s format (`.mmdb`), which an edge reads when it starts and when
    /// the file changes. When absent, every country is `XX`.
    pub geoip_file: Option<PathBuf>,
    /// The longest time, in seconds, that an edge aggregates counts before it sends them to Postgres. It sends earlier
    /// when somebody opens statistics, so these are never older than five seconds. With 0, it sends every two seconds.
    pub send_seconds: u32,
    /// Lists of networks that crawler operators publish, by the list's name in the table of agents. Admin reads them
    /// every few hours; while a list cannot be read, the one built into the release applies. With an empty table, no
    /// lists are read.
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

/// The default of `agent_networks`.
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

/// The default of `agent_directories`.
const DIRECTORIES: [(&str, &str); 1] =
    [("ChatGPT Agent", "https://chatgpt.com/.well-known/http-message-signatures-directory")];

/// `stats.source`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatsSource {
    /// The edges count their responses.
    #[default]
    Edge,
    /// No statistics: the API returns `stats_unavailable`.
    None,
}
