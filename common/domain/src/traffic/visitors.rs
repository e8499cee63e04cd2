//! Classes of visitors, and the evidence for them.

/// The class of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VisitorClass {
    /// A person with a browser.
    Person,
    /// A crawler of a search engine.
    SearchEngine,
    /// A crawler that gathers training data for models.
    AiTraining,
    /// A crawler for the index of an AI search.
    AiSearch,
    /// An AI assistant that reads a page because a person requested it.
    AiAssistant,
    /// A coding agent, or one of its tools.
    CodingAgent,
    /// A link preview or feed reader.
    Preview,
    /// A monitor of availability or performance.
    Monitor,
    /// A self-identifying program of no other class.
    OtherBot,
    /// A program that pretends to be a browser.
    Automation,
}

impl VisitorClass {
    /// All classes.
    pub const ALL: [Self; 10] = [
        Self::Person,
        Self::SearchEngine,
        Self::AiTraining,
        Self::AiSearch,
        Self::AiAssistant,
        Self::CodingAgent,
        Self::Preview,
        Self::Monitor,
        Self::OtherBot,
        Self::Automation,
    ];

    /// Returns the word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::SearchEngine => "search_engine",
            Self::AiTraining => "ai_training",
            Self::AiSearch => "ai_search",
            Self::AiAssistant => "ai_assistant",
            Self::CodingAgent => "coding_agent",
            Self::Preview => "preview",
            Self::Monitor => "monitor",
            Self::OtherBot => "other_bot",
            Self::Automation => "automation",
        }
    }

    /// Parses the stored word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == text)
    }
}

/// The evidence for a class, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClassEvidence {
    /// The request's header fields, which agree with or contradict each other.
    Fields,
    /// Only the name that the client gives itself.
    Name,
    /// The client's behaviour: it loaded a page's subresources as a browser does, or did not.
    Behaviour,
    /// The name, and an address published by its operator.
    Network,
    /// The name, and a signature with its operator's key (RFC 9421).
    Signature,
}

impl ClassEvidence {
    /// All kinds of evidence, weakest first.
    pub const ALL: [Self; 5] = [Self::Fields, Self::Name, Self::Behaviour, Self::Network, Self::Signature];

    /// Returns the word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fields => "fields",
            Self::Name => "name",
            Self::Behaviour => "behaviour",
            Self::Network => "network",
            Self::Signature => "signature",
        }
    }

    /// Parses the stored word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|evidence| evidence.as_str() == text)
    }
}
