//! TXT records for the challenge `dns-01` (RFC 8555, 8.4), written by dynamic updates or by an operator's program.
//!
//! A [`RecordWriter`] adds and removes single values and leaves others at the same name alone: a wildcard and its
//! parent name are proved at the same name, and two orders may be in progress together. Both operations may be
//! repeated.

mod hook;
mod updates;

use std::time::Duration;

use config::acme::DnsChallengeConfig;
use domain::{Clock, Hostname, ProjectId};
use sha2::{Digest as _, Sha256};

pub use self::updates::{answers_unchecked, query_resolver};
use self::{hook::HookProgram, updates::DynamicUpdates};

/// The timeout of an operator's program, which returns once the record is visible everywhere.
const HOOK_WITHIN: Duration = Duration::from_mins(2);
/// The length of the label that stands for a hostname in the zone for delegations.
const DELEGATION_LENGTH: usize = 20;

/// The reason a record was not written. The text is written for the operator.
#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    /// The configuration is invalid.
    #[error("acme.dns: {0}")]
    Configuration(String),
    /// The name server is unreachable, or its response is invalid or cannot be authenticated.
    #[error("the name server {server} of acme.dns.rfc2136 cannot be asked: {reason}")]
    Away {
        /// The address and port.
        server: String,
        /// The fault.
        reason: String,
    },
    /// The name server refused the update.
    #[error("the name server {server} of acme.dns.rfc2136 refuses to change {name}: {reason}")]
    Refused {
        /// The address and port.
        server: String,
        /// The name of the record.
        name: String,
        /// The reason, and the remedy.
        reason: String,
    },
    /// The operator's program failed.
    #[error("acme.dns.command {program} {reason}")]
    Hook {
        /// The path of the program.
        program: String,
        /// Its exit status, with the beginning of its standard error.
        reason: String,
    },
}

/// Writes TXT records as configured. Cheap to clone.
#[derive(Clone)]
pub struct RecordWriter(WriteMethod);

#[derive(Clone)]
enum WriteMethod {
    Updates(DynamicUpdates),
    Hook(HookProgram),
}

impl RecordWriter {
    /// Creates the configured writer, or returns `None` if none is configured.
    pub fn from_config(dns: &DnsChallengeConfig) -> Result<Option<Self>, DnsError> {
        match (&dns.rfc2136, &dns.command) {
            (Some(_), Some(_)) => {
                Err(DnsError::Configuration("either rfc2136 or command writes the records, not both".to_owned()))
            }
            (Some(updates), None) => {
                Ok(Some(Self(WriteMethod::Updates(DynamicUpdates::new(updates, Clock::system())?))))
            }
            (None, Some(program)) => Ok(Some(Self(WriteMethod::Hook(HookProgram::new(program.clone(), HOOK_WITHIN))))),
            (None, None) => Ok(None),
        }
    }

    /// Returns whether an added value is at one name server when [`Self::add`] returns, from which others copy it. An
    /// operator's program returns only once the value is visible everywhere.
    pub fn is_copied_later(&self) -> bool {
        matches!(self.0, WriteMethod::Updates(_))
    }

    /// Adds `value` to the values at `name`.
    pub async fn add(&self, name: &str, value: &str) -> Result<(), DnsError> {
        match &self.0 {
            WriteMethod::Updates(updates) => updates.add(name, value).await,
            WriteMethod::Hook(hook) => hook.run("add", name, value).await,
        }
    }

    /// Removes `value` from `name`. With dynamic updates, a missing value is not an error.
    pub async fn remove(&self, name: &str, value: &str) -> Result<(), DnsError> {
        match &self.0 {
            WriteMethod::Updates(updates) => updates.remove(name, value).await,
            WriteMethod::Hook(hook) => hook.run("remove", name, value).await,
        }
    }
}

/// Returns the name in `acme.dns.zone` that a CNAME at `_acme-challenge.<hostname>` must point to, so that certificates
/// for the hostname can be proved there.
///
/// Returns `None` if no zone is configured. The name stays the same while the zone does. It is specific to the project,
/// so that the record of a former owner proves nothing for the next project with the hostname. The project's id is
/// sufficient, because nobody can choose it; a key would invalidate every delegation when rotated.
pub fn delegation(dns: &DnsChallengeConfig, project: &ProjectId, hostname: &Hostname) -> Option<String> {
    let zone = dns.zone.as_deref()?.trim_end_matches('.').to_ascii_lowercase();
    let mut id = hex::encode(Sha256::digest(format!("{project} {hostname}")));
    id.truncate(DELEGATION_LENGTH);
    Some(format!("{id}.{zone}"))
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;

    use super::*;

    #[test]
    fn a_delegation_has_a_name_of_its_own() {
        let dns = DnsChallengeConfig { zone: Some("ACME.example.".to_owned()), ..DnsChallengeConfig::default() };
        let now = Timestamp::from_unix_millis(1_800_000_000_000);
        let (project, another) = (ProjectId::new(now), ProjectId::new(now));
        let of = |project, hostname: &str| delegation(&dns, project, &hostname.parse().unwrap()).unwrap();
        let name = of(&project, "www.example.com");
        assert!(name.len() == DELEGATION_LENGTH + ".acme.example".len() && name.ends_with(".acme.example"), "{name}");
        assert_eq!(of(&project, "WWW.example.com."), name);
        assert_ne!(of(&project, "example.com"), name);
        assert_ne!(of(&another, "www.example.com"), name);
        assert_eq!(delegation(&DnsChallengeConfig::default(), &project, &"www.example.com".parse().unwrap()), None);
    }

    #[test]
    fn one_way_is_configured_or_none() {
        let command = Some("/bin/true".into());
        let rfc2136: config::acme::DynamicDnsServer =
            serde_json::from_str(r#"{"server":"127.0.0.1:53","key_name":"k","key_secret":"c2VjcmV0"}"#).unwrap();
        let writer = |rfc2136, command| RecordWriter::from_config(&DnsChallengeConfig { rfc2136, command, zone: None });
        assert!(writer(None, None).unwrap().is_none());
        assert!(writer(None, command.clone()).unwrap().is_some());
        assert!(writer(Some(rfc2136.clone()), None).unwrap().is_some());
        assert!(writer(Some(rfc2136.clone()), command).is_err());
        let no_base64 = config::acme::DynamicDnsServer { key_secret: "not base64!".to_owned(), ..rfc2136 };
        let refused = writer(Some(no_base64), None).err().unwrap().to_string();
        assert!(refused.contains("key_secret") && !refused.contains("not base64!"), "{refused}");
    }
}
