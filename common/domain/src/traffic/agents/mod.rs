//! Agents that say their name: who runs them, and what for.
//!
//! The [`table`] is one of facts, gathered from what operators publish of their programs. A program that is in no row
//! is told by the words that programs use of themselves, such as `bot`. Start with [`AGENTS`].

pub mod networks;
mod table;

use std::{collections::HashMap, sync::LazyLock};

pub use self::table::{AGENTS, INNOCENT_WORDS, UNLISTED_PROGRAM};
use super::visitors::VisitorClass;

/// A program that says its name in `User-Agent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent {
    /// The name that is shown and stored, such as `GPTBot`. A program with several patterns has several rows, alike but
    /// for them.
    pub name: &'static str,
    /// The text in `User-Agent` that gives it away, in lower case. `^` is the beginning; `|` before it allows no letter
    /// or digit there, `|` after it no letter.
    pub pattern: &'static str,
    /// The company or project that runs it, such as `OpenAI`; empty where anybody does (`curl`).
    pub operator: &'static str,
    /// The class.
    pub class: VisitorClass,
    /// The source of its networks, as in `agent_networks`; none where the operator publishes none.
    pub networks: Option<&'static str>,
}

/// Returns the agent of this name.
pub fn find(name: &str) -> Option<&'static Agent> {
    static BY_NAME: LazyLock<HashMap<&str, &Agent>> =
        LazyLock::new(|| AGENTS.iter().rev().chain([&UNLISTED_PROGRAM]).map(|agent| (agent.name, agent)).collect());
    BY_NAME.get(name).copied()
}

/// Returns the operator of the AI assistant or search whose pages are on `host`, such as `OpenAI` for `chatgpt.com`.
pub fn operator_of_referrer(host: &str) -> Option<&'static str> {
    table::REFERRERS.iter().find(|(known, _)| *known == host).map(|(_, operator)| *operator)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_patterns_are_unique() {
        let mut patterns = HashSet::new();
        let mut rows: HashMap<&str, &Agent> = HashMap::new();
        for agent in &AGENTS {
            assert!(patterns.insert(agent.pattern), "{} stands twice", agent.pattern);
            if let Some(first) = rows.insert(agent.name, agent) {
                assert_eq!((first.class, first.operator), (agent.class, agent.operator), "{} are two", agent.name);
            }
            assert_eq!(find(agent.name).map(|found| found.name), Some(agent.name));
            assert!(!agent.name.is_empty() && !agent.name.contains('\t'), "{agent:?}");
            let text = agent.pattern.trim_matches(['|', '^']);
            assert!(!text.is_empty() && text == text.to_ascii_lowercase(), "{agent:?}");
        }
    }

    #[test]
    fn referrers_have_operators_of_the_table() {
        for (host, operator) in table::REFERRERS {
            assert_eq!(operator_of_referrer(host), Some(*operator));
            assert!(AGENTS.iter().any(|agent| agent.operator == *operator), "{operator} runs no agent");
        }
        assert_eq!(operator_of_referrer("example.com"), None);
    }
}
