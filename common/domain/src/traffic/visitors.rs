//! Who asked: the classes of visitors, and the reasons for them.

/// What a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VisitorClass {
    /// A person with a browser.
    Person,
    /// A crawler of a search engine.
    SearchEngine,
    /// A crawler that gathers what models are trained with.
    AiTraining,
    /// A crawler that fills the index of an AI search.
    AiSearch,
    /// An AI assistant that reads a page because a person asked it to.
    AiAssistant,
    /// A coding agent, or a tool of one.
    CodingAgent,
    /// A preview of a link, or a reader of feeds.
    Preview,
    /// A monitor of availability or performance.
    Monitor,
    /// A program that says what it is and is none of the others.
    OtherBot,
    /// A program that pretends to be a browser.
    Automation,
}

impl VisitorClass {
    /// Every class.
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

    /// Reads the stored word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == text)
    }
}

/// The reason for a class, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Evidence {
    /// The request's fields, which agree or contradict each other.
    Fields,
    /// The name that the client gives itself, and nothing else.
    Name,
    /// What the client did: it loaded a page's parts as a browser does, or did not.
    Behaviour,
    /// The name, and an address that its operator publishes.
    Network,
    /// The name, and a signature by its operator's key (RFC 9421).
    Signature,
}

impl Evidence {
    /// Every reason.
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

    /// Reads the stored word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|evidence| evidence.as_str() == text)
    }
}
