//! Self-identifying agents: their operators and purposes.
//!
//! The [`table`] is gathered from what operators publish about their programs. A program that matches no row is
//! recognized by the words that programs use for themselves, such as `bot`. Start with [`AGENTS`].

pub mod networks;
mod table;

use std::{collections::HashMap, sync::LazyLock};

pub use self::table::{AGENTS, INNOCENT_WORDS, UNLISTED_PROGRAM};
use super::visitors::VisitorClass;

/// A program that identifies itself in `User-Agent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownAgent {
    /// The stored and shown name, such as `GPTBot`. A program with several patterns has a row for each.
    pub name: &'static str,
    /// The text to find in `User-Agent`, in lower case. `^` anchors it at the beginning; a leading `|` means that no
    /// letter or digit precedes it, a trailing `|` that no letter follows it.
    pub pattern: &'static str,
    /// The company or project that runs it, such as `OpenAI`; empty if anybody may (`curl`).
    pub operator: &'static str,
    /// The class.
    pub class: VisitorClass,
    /// The source of its networks, as in `agent_networks`; `None` if the operator publishes none.
    pub networks: Option<&'static str>,
}

/// Returns the agent with this name.
pub fn find(name: &str) -> Option<&'static KnownAgent> {
    static BY_NAME: LazyLock<HashMap<&str, &KnownAgent>> =
        LazyLock::new(|| AGENTS.iter().rev().chain([&UNLISTED_PROGRAM]).map(|agent| (agent.name, agent)).collect());
    BY_NAME.get(name).copied()
}

/// Returns the operator of the AI assistant or search engine on `host`, such as `OpenAI` for `chatgpt.com`.
pub fn operator_by_referrer(host: &str) -> Option<&'static str> {
    table::REFERRERS.iter().find(|(known, _)| *known == host).map(|(_, operator)| *operator)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_patterns_are_unique() {
        let mut patterns = HashSet::new();
        let mut rows: HashMap<&str, &KnownAgent> = HashMap::new();
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
            assert_eq!(operator_by_referrer(host), Some(*operator));
            assert!(AGENTS.iter().any(|agent| agent.operator == *operator), "{operator} runs no agent");
        }
        assert_eq!(operator_by_referrer("example.com"), None);
    }
}
