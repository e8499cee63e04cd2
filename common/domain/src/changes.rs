//! Changes: invalidations that admin sends to the edges.
//!
//! A change is a row of the table `route_changes`, written in the same transaction as the change itself. The messages
//! that carry it are in the crate `live`, module `bus`.
//!
//! A `seq` alone does not identify a change: a promoted copy or a restored backup reuses the numbers of lost commits.
//! An [`Epoch`] names a span of the database's history in which each number is used once. The database begins a new
//! epoch with its first change after anything that may have lost commits, including a mere restart.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Account, CertificateId, HostKey, IdError, OrgId, ProjectId, TokenId, UserId};

/// A committed change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteChange {
    /// The position in commit order. Numbers have no gaps.
    pub seq: i64,
    /// The thing that changed; an edge drops everything that it remembers about it.
    pub subject: ChangeSubject,
    /// Labels ([`super::HostKey::label`]) of hosts that appeared or disappeared; edges also forget that they were
    /// unknown.
    pub hosts: Vec<String>,
    /// The epoch of the database when the change was read. Absent from messages of versions that predate epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// A random number that tells apart changes with the same `seq`. Absent from messages and rows of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<i64>,
}

impl RouteChange {
    /// Returns the change's position, or `None` for a message of a version that predates epochs.
    pub fn position(&self) -> Option<ChangePosition> {
        self.epoch.clone().map(|epoch| ChangePosition { epoch, seq: self.seq })
    }
}

/// The name of a span of the database's history in which no `seq` is used twice. Generated at random by the database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Epoch(Arc<str>);

impl Epoch {
    /// Maximum characters of an epoch's name.
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

/// A position in the order of changes, by `seq` within one epoch. Not comparable across epochs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePosition {
    /// The epoch.
    pub epoch: Epoch,
    /// The number of the newest change up to this position.
    pub seq: i64,
}

/// Something changed by a transaction that edges may remember; it becomes a [`RouteChange`] at commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "edges go on serving what they remember until they are told"]
pub struct PendingChange {
    /// The thing that changed.
    pub subject: ChangeSubject,
    /// Hosts that began or ceased to exist with the change.
    pub hosts: Vec<HostKey>,
}

impl PendingChange {
    /// Creates a change of `subject` that affects no hosts.
    pub fn new(subject: impl Into<ChangeSubject>) -> Self {
        Self { subject: subject.into(), hosts: Vec::new() }
    }

    /// Adds hosts that begin or cease to exist.
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = HostKey>) -> Self {
        self.hosts.extend(hosts);
        self
    }
}

impl From<ChangeSubject> for PendingChange {
    fn from(subject: ChangeSubject) -> Self {
        Self::new(subject)
    }
}

/// A thing that edges remember. Serialized as its id, whose prefix gives the kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ChangeSubject {
    /// A project: its content, and who may see it.
    Project(ProjectId),
    /// An organization: its members.
    Org(OrgId),
    /// A gateway token: whether it is valid, and for which account.
    Token(TokenId),
    /// A person: whether their sessions on gated sites stay valid.
    User(UserId),
    /// A certificate that was issued, renewed or removed.
    Certificate(CertificateId),
    /// The plan of an account, and so its limits.
    Plan(AccountPlan),
    /// A thing of a kind that only a newer version knows, by its text. Only read from messages and rows.
    ///
    /// This version remembers nothing about such a thing. A version that adds a kind and thereby changes something that
    /// its predecessor remembers must name the hosts in the same change, or touch a subject of a known kind as well.
    Unknown(Box<str>),
}

/// The plan of an account, as the subject of a change. Serialized as `plan/` and the account's id.
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

impl ChangeSubject {
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

    /// Reads a subject written by this or another, possibly newer, version.
    fn from_stored(text: &str) -> Self {
        text.parse().unwrap_or_else(|IdError| Self::Unknown(text.into()))
    }
}

impl fmt::Display for ChangeSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ChangeSubject {
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
crate::column::text!(ChangeSubject, |text| Self::from_stored(text));

impl Serialize for ChangeSubject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ChangeSubject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::from_stored(&text))
    }
}

impl From<&ProjectId> for ChangeSubject {
    fn from(id: &ProjectId) -> Self {
        Self::Project(id.clone())
    }
}

impl From<&Account> for ChangeSubject {
    fn from(account: &Account) -> Self {
        Self::Plan(account.clone().into())
    }
}

impl From<&OrgId> for ChangeSubject {
    fn from(id: &OrgId) -> Self {
        Self::Org(id.clone())
    }
}

impl From<&TokenId> for ChangeSubject {
    fn from(id: &TokenId) -> Self {
        Self::Token(id.clone())
    }
}

impl From<&UserId> for ChangeSubject {
    fn from(id: &UserId) -> Self {
        Self::User(id.clone())
    }
}

impl From<&CertificateId> for ChangeSubject {
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
            (ChangeSubject::Project(ProjectId::from_body(body).unwrap()), "prj_0123456789abcdefghij"),
            (ChangeSubject::Org(org.clone()), "org_0123456789abcdefghij"),
            (ChangeSubject::User(user.clone()), "usr_0123456789abcdefghij"),
            (ChangeSubject::Token(TokenId::from_body(body).unwrap()), "tok_0123456789abcdefghij"),
            (ChangeSubject::Certificate(CertificateId::from_body(body).unwrap()), "crt_0123456789abcdefghij"),
            (ChangeSubject::Plan(Account::Org(org).into()), "plan/org_0123456789abcdefghij"),
            (ChangeSubject::Plan(Account::User(user).into()), "plan/usr_0123456789abcdefghij"),
        ] {
            assert_eq!(subject.to_string(), text);
            assert_eq!(text.parse(), Ok(subject.clone()));
            let json = serde_json::to_string(&subject).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<ChangeSubject>(&json).unwrap(), subject);
        }
        for bad in
            ["", "plan/", "plan/prj_0123456789abcdefghij", "planusr_0123456789abcdefghij", "dep_0123456789abcdefghij"]
        {
            assert_eq!(bad.parse::<ChangeSubject>(), Err(IdError), "{bad}");
        }
    }

    #[test]
    fn a_change_of_a_newer_version_is_read_and_handed_on_as_it_was() {
        let newer =
            r#"{"seq":7,"subject":"rgn_0123456789abcdefghij","hosts":["blog"],"epoch":"e-1","nonce":5,"new":true}"#;
        let change: RouteChange = serde_json::from_str(newer).unwrap();
        assert_eq!(change.subject, ChangeSubject::Unknown("rgn_0123456789abcdefghij".into()));
        assert_eq!(change.position().unwrap(), ChangePosition { epoch: "e-1".parse().unwrap(), seq: 7 });
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
