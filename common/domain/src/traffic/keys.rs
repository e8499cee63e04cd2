//! Multi-part keys, stored as tab-separated text. No part contains a tab.

use super::visitors::{ClassEvidence, VisitorClass};

/// A page view by a person.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ViewKey<'k> {
    /// The path, without the query.
    pub path: &'k str,
    /// The host of the referring page; empty without one, or if it is the site itself.
    pub referrer: &'k str,
    /// The two-letter country code.
    pub country: &'k str,
    /// The hostname of the page.
    pub hostname: &'k str,
}

/// An error response to a visitor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ErrorKey<'k> {
    /// The status.
    pub status: u16,
    /// The path, without the query.
    pub path: &'k str,
    /// The referring page's path on the same site (it begins with `/`), or the host of another site; empty without one.
    pub referrer: &'k str,
}

/// A client's classification.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentKey<'k> {
    /// The class.
    pub class: VisitorClass,
    /// The agent's name in the table of agents, such as `GPTBot`; empty for people and for automation without a name.
    pub agent: &'k str,
    /// The agent's name in the table of agents, such as `GPTBot`; empty for people and for automation without a name.
    pub evidence: ClassEvidence,
}

impl<'k> ViewKey<'k> {
    /// Returns the stored form.
    pub fn encode(&self) -> String {
        let Self { path, referrer, country, hostname } = self;
        format!("{path}\t{referrer}\t{country}\t{hostname}")
    }

    /// Parses the stored form.
    pub fn parse(text: &'k str) -> Option<Self> {
        let [path, referrer, country, hostname] = parts(text)?;
        Some(Self { path, referrer, country, hostname })
    }
}

impl<'k> ErrorKey<'k> {
    /// Returns the stored form.
    pub fn encode(&self) -> String {
        let Self { status, path, referrer } = self;
        format!("{status}\t{path}\t{referrer}")
    }

    /// Parses the stored form.
    pub fn parse(text: &'k str) -> Option<Self> {
        let [status, path, referrer] = parts(text)?;
        Some(Self { status: status.parse().ok()?, path, referrer })
    }
}

impl<'k> AgentKey<'k> {
    /// Returns the stored form.
    pub fn encode(&self) -> String {
        let Self { class, agent, evidence } = self;
        format!("{}\t{agent}\t{}", class.as_str(), evidence.as_str())
    }

    /// Parses the stored form.
    pub fn parse(text: &'k str) -> Option<Self> {
        let [class, agent, evidence] = parts(text)?;
        Some(Self { class: VisitorClass::parse(class)?, agent, evidence: ClassEvidence::parse(evidence)? })
    }
}

fn parts<const COUNT: usize>(text: &str) -> Option<[&str; COUNT]> {
    let mut parts = text.split('\t');
    let mut found = [""; COUNT];
    for place in &mut found {
        *place = parts.next()?;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_stored() {
        let view = ViewKey { path: "/a b", referrer: "", country: "DE", hostname: "docs.example" };
        assert_eq!(ViewKey::parse(&view.encode()), Some(view));
        let error = ErrorKey { status: 404, path: "/none", referrer: "/from" };
        assert_eq!(ErrorKey::parse(&error.encode()), Some(error));
        for class in VisitorClass::ALL {
            for evidence in ClassEvidence::ALL {
                let key = AgentKey { class, agent: "GPTBot", evidence };
                assert_eq!(AgentKey::parse(&key.encode()), Some(key));
            }
        }
        for broken in ["", "/a", "/a\t\tDE", "/a\t\tDE\thost\t", "(other)"] {
            assert_eq!(ViewKey::parse(broken), None, "{broken}");
        }
        assert_eq!(ErrorKey::parse("none\t/\t"), None);
        assert_eq!(AgentKey::parse("nobody\t\tname"), None);
    }
}
