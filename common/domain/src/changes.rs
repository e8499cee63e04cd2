//! Changes: what admin tells the edges to forget.
//!
//! A change is a row of the table `route_changes`, written in the transaction that makes it true. The messages that carry
//! it are in the crate `live`, module `bus`.
//!
//! A `seq` alone does not say which change is meant: a promoted copy or a restored backup gives the numbers of lost commits
//! out again. An [`Epoch`] names a stretch of the database's history in which each number was given once. The database begins
//! another with its first change after anything that may have lost commits, a mere restart included.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Account, CertificateId, HostKey, IdError, OrgId, ProjectId, TokenId, UserId};

/// One committed change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteChange {
    /// The change's place in the order of commits. The numbers have no gaps.
    pub seq: i64,
    /// The thing that changed; an edge forgets everything that it remembers of it.
    pub subject: Subject,
    /// Labels ([`super::HostKey::label`]) of hosts that began or ceased to exist; an edge also forgets that they were
    /// unknown.
    pub hosts: Vec<String>,
    /// The epoch that the database was in when the change was read from it. Absent from messages of versions that know of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// A random number, by which the change is told from one that has its `seq` in another history. Absent from messages of
    /// versions that know of none, and from rows that they wrote before the column was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<i64>,
}

impl RouteChange {
    /// Returns the change's position; `None` for a message of a version that knows of no epochs.
    pub fn position(&self) -> Option<Position> {
        self.epoch.clone().map(|epoch| Position { epoch, seq: self.seq })
    }
}

/// The name of a stretch of the database's history in which no `seq` was given twice. Made up at random by the database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Epoch(Arc<str>);

impl Epoch {
    /// The most characters of a name.
    const MAX_LEN: usize = 64;

    /// Returns the text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Epoch {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        ((1..=Self::MAX_LEN).contains(&text.len()) && is_name(text)).then(|| Self(text.into())).ok_or(IdError)
    }
}

impl Serialize for Epoch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "sqlx")]
crate::column::text!(Epoch);

/// A position in the order of changes. Positions of one epoch are ordered by `seq`; those of two are not comparable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The epoch.
    pub epoch: Epoch,
    /// The number of the newest change up to here.
    pub seq: i64,
}

/// Something that a transaction has changed and that edges may remember: at the commit it becomes a [`RouteChange`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "edges go on serving what they remember until they are told"]
pub struct Touched {
    /// The thing that changed.
    pub subject: Subject,
    /// Hosts that began or ceased to exist with the change.
    pub hosts: Vec<HostKey>,
}

impl Touched {
    /// Names a subject that changed while all hosts stay.
    pub fn new(subject: impl Into<Subject>) -> Self {
        Self { subject: subject.into(), hosts: Vec::new() }
    }

    /// Adds hosts that begin or cease to exist.
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = HostKey>) -> Self {
        self.hosts.extend(hosts);
        self
    }
}

impl From<Subject> for Touched {
    fn from(subject: Subject) -> Self {
        Self::new(subject)
    }
}

/// A thing that edges remember something of. Written as its id, whose prefix tells the kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A project: what it serves, and who may see it.
    Project(ProjectId),
    /// An organization: its members.
    Org(OrgId),
    /// A token of the gateway: whether it works, and for which account.
    Token(TokenId),
    /// A person: whether their visits to gated sites go on.
    User(UserId),
    /// A certificate that was issued, renewed or removed.
    Certificate(CertificateId),
    /// The plan of an account: what it allows.
    Plan(AccountPlan),
    /// A thing of a kind that only a newer version knows, by its text. Found in messages and rows, and never parsed from
    /// other text.
    ///
    /// This version remembers nothing of such a thing. A version that adds a kind and has with it changed what the one before
    /// remembers names the hosts in the same change, or touches a subject of a known kind as well.
    Unknown(Box<str>),
}

/// The plan of an account, as the subject of a change. Written `plan/` and the account's id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AccountPlan {
    account: Account,
    text: String,
}

impl AccountPlan {
    const PREFIX: &'static str = "plan/";

    /// Returns the account whose plan it is.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the text form.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<Account> for AccountPlan {
    fn from(account: Account) -> Self {
        let text = format!("{}{account}", Self::PREFIX);
        Self { account, text }
    }
}

impl FromStr for AccountPlan {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let account: Account = text.strip_prefix(Self::PREFIX).ok_or(IdError)?.parse()?;
        Ok(account.into())
    }
}

impl Subject {
    /// Returns the text form.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Project(id) => id.as_str(),
            Self::Org(id) => id.as_str(),
            Self::Token(id) => id.as_str(),
            Self::User(id) => id.as_str(),
            Self::Certificate(id) => id.as_str(),
            Self::Plan(plan) => &plan.text,
            Self::Unknown(text) => text,
        }
    }

    /// Reads a subject that this or another version wrote, which may be newer.
    fn written(text: &str) -> Self {
        text.parse().unwrap_or_else(|IdError| Self::Unknown(text.into()))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Subject {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        (text.parse().map(Self::Project))
            .or_else(|_| text.parse().map(Self::Org))
            .or_else(|_| text.parse().map(Self::Token))
            .or_else(|_| text.parse().map(Self::User))
            .or_else(|_| text.parse().map(Self::Certificate))
            .or_else(|_| text.parse().map(Self::Plan))
    }
}

#[cfg(feature = "sqlx")]
crate::column::text!(Subject, |text| Self::written(text));

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::written(&text))
    }
}

impl From<&ProjectId> for Subject {
    fn from(id: &ProjectId) -> Self {
        Self::Project(id.clone())
    }
}

impl From<&Account> for Subject {
    fn from(account: &Account) -> Self {
        Self::Plan(account.clone().into())
    }
}

impl From<&OrgId> for Subject {
    fn from(id: &OrgId) -> Self {
        Self::Org(id.clone())
    }
}

impl From<&TokenId> for Subject {
    fn from(id: &TokenId) -> Self {
        Self::Token(id.clone())
    }
}

impl From<&UserId> for Subject {
    fn from(id: &UserId) -> Self {
        Self::User(id.clone())
    }
}

impl From<&CertificateId> for Subject {
    fn from(id: &CertificateId) -> Self {
        Self::Certificate(id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_is_read_back_as_what_it_was() {
        let body = "0123456789abcdefghij";
        let (user, org) = (UserId::from_body(body).unwrap(), OrgId::from_body(body).unwrap());
        for (subject, text) in [
            (Subject::Project(ProjectId::from_body(body).unwrap()), "prj_0123456789abcdefghij"),
            (Subject::Org(org.clone()), "org_0123456789abcdefghij"),
            (Subject::User(user.clone()), "usr_0123456789abcdefghij"),
            (Subject::Token(TokenId::from_body(body).unwrap()), "tok_0123456789abcdefghij"),
            (Subject::Certificate(CertificateId::from_body(body).unwrap()), "crt_0123456789abcdefghij"),
            (Subject::Plan(Account::Org(org).into()), "plan/org_0123456789abcdefghij"),
            (Subject::Plan(Account::User(user).into()), "plan/usr_0123456789abcdefghij"),
        ] {
            assert_eq!(subject.to_string(), text);
            assert_eq!(text.parse(), Ok(subject.clone()));
            let json = serde_json::to_string(&subject).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Subject>(&json).unwrap(), subject);
        }
        for bad in
            ["", "plan/", "plan/prj_0123456789abcdefghij", "planusr_0123456789abcdefghij", "dep_0123456789abcdefghij"]
        {
            assert_eq!(bad.parse::<Subject>(), Err(IdError), "{bad}");
        }
    }

    #[test]
    fn a_change_of_a_newer_version_is_read_and_handed_on_as_it_was() {
        let newer =
            r#"{"seq":7,"subject":"rgn_0123456789abcdefghij","hosts":["blog"],"epoch":"e-1","nonce":5,"new":true}"#;
        let change: RouteChange = serde_json::from_str(newer).unwrap();
        assert_eq!(change.subject, Subject::Unknown("rgn_0123456789abcdefghij".into()));
        assert_eq!(change.position().unwrap(), Position { epoch: "e-1".parse().unwrap(), seq: 7 });
        assert_eq!(serde_json::to_string(&change).unwrap(), newer.replace(r#","new":true"#, ""));
    }

    #[test]
    fn a_change_of_an_older_version_has_no_epoch() {
        let older = r#"{"seq":7,"subject":"plan/usr_0123456789abcdefghij","hosts":[]}"#;
        let change: RouteChange = serde_json::from_str(older).unwrap();
        assert_eq!((change.position(), change.nonce), (None, None));
        assert_eq!(serde_json::to_string(&change).unwrap(), older);
    }

    #[test]
    fn an_epoch_is_a_short_name() {
        let long = "a".repeat(Epoch::MAX_LEN);
        for (text, is_good) in
            [("", false), ("0189-ab", true), ("a b", false), (&long, true), (&format!("{long}a"), false)]
        {
            assert_eq!(text.parse::<Epoch>().is_ok(), is_good, "{text}");
        }
    }
}
