//! The table of agents, by class. If several match a `User-Agent`, the first one in the table wins.

mod ai;
mod others;
mod previews;
mod searches;
mod words;

use super::KnownAgent;
use crate::traffic::visitors::VisitorClass;

/// A row of the table: name, pattern, operator, and the source of its networks or an empty string.
type AgentRow = (&'static str, &'static str, &'static str, &'static str);

const ROWS: [(VisitorClass, &[AgentRow]); 13] = [
    (VisitorClass::Preview, previews::FIRST),
    (VisitorClass::CodingAgent, ai::CODING_AGENTS),
    (VisitorClass::AiAssistant, ai::ASSISTANTS),
    (VisitorClass::AiSearch, ai::SEARCHES),
    (VisitorClass::AiTraining, ai::TRAINING),
    (VisitorClass::SearchEngine, searches::SEARCH_ENGINES),
    (VisitorClass::Preview, previews::PREVIEWS),
    (VisitorClass::Preview, previews::FEED_READERS),
    (VisitorClass::Monitor, others::MONITORS),
    (VisitorClass::OtherBot, others::BOTS),
    (VisitorClass::OtherBot, others::LIBRARIES),
    (VisitorClass::Preview, words::FEEDS),
    (VisitorClass::OtherBot, words::WORDS),
];

const COUNT: usize = {
    let (mut count, mut class) = (0, 0);
    while class < ROWS.len() {
        count += ROWS[class].1.len();
        class += 1;
    }
    count
};

/// All agents that are known by a name or a word.
pub static AGENTS: [KnownAgent; COUNT] = {
    let mut agents = [UNLISTED_PROGRAM; COUNT];
    let (mut place, mut group) = (0, 0);
    while group < ROWS.len() {
        let (class, rows) = ROWS[group];
        let mut row = 0;
        while row < rows.len() {
            let (name, pattern, operator, networks) = rows[row];
            let networks = if networks.is_empty() { None } else { Some(networks) };
            agents[place] = KnownAgent { name, pattern, operator, class, networks };
            place += 1;
            row += 1;
        }
        group += 1;
    }
    agents
};

/// A program that matches no row and no generic word, but is not a browser either.
pub static UNLISTED_PROGRAM: KnownAgent =
    KnownAgent { name: "Unlisted program", pattern: "", operator: "", class: VisitorClass::OtherBot, networks: None };

pub(super) use self::ai::REFERRERS;
pub use self::words::INNOCENT_WORDS;
