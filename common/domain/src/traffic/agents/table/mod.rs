//! The table of agents, by class. Of two that are found in one `User-Agent`, the one that stands first counts.

mod ai;
mod others;
mod previews;
mod searches;
mod words;

use super::Agent;
use crate::traffic::visitors::VisitorClass;

/// A row of the table: name, pattern, operator, and the source of its networks or nothing.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// The rows of the table, by class.
const ROWS: [(VisitorClass, &[Row]); 13] = [
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

/// Every agent that is known by a name or a word.
pub static AGENTS: [Agent; COUNT] = {
    let mut agents = [UNLISTED_PROGRAM; COUNT];
    let (mut place, mut group) = (0, 0);
    while group < ROWS.len() {
        let (class, rows) = ROWS[group];
        let mut row = 0;
        while row < rows.len() {
            let (name, pattern, operator, networks) = rows[row];
            let networks = if networks.is_empty() { None } else { Some(networks) };
            agents[place] = Agent { name, pattern, operator, class, networks };
            place += 1;
            row += 1;
        }
        group += 1;
    }
    agents
};

/// A program that is in no row, and has no word of programs either: it is merely no browser.
pub static UNLISTED_PROGRAM: Agent =
    Agent { name: "Unlisted program", pattern: "", operator: "", class: VisitorClass::OtherBot, networks: None };

pub(super) use self::ai::REFERRERS;
pub use self::words::INNOCENT_WORDS;
