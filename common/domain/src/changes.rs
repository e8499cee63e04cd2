//! Changes: what admin tells the edges to forget.
//!
//! A change is a row of the table `route_changes`, written in the transaction that makes it true. The messages that carry
//! it are in the crate `live`, module `bus`.

use std::{fmt, str::FromStr};

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
        }
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
crate::column::text!(Subject);

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
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
}
