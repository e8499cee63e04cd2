//! Judges CAA records: whether our authority may issue for a name (RFC 8659, RFC 8657).

use config::acme::ChallengeType;

/// The identities of authorities in CAA records, by the host of their directory, as published by them. Others are read
/// from their directory.
const KNOWN: [(&str, &[&str]); 5] = [
    ("acme-v02.api.letsencrypt.org", &["letsencrypt.org"]),
    ("acme-staging-v02.api.letsencrypt.org", &["letsencrypt.org"]),
    ("dv.acme-v02.api.pki.goog", &["pki.goog"]),
    ("acme.zerossl.com", &["sectigo.com", "zerossl.com"]),
    ("api.buypass.com", &["buypass.com"]),
];

/// A CAA record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaaRecord {
    /// Whether an authority that does not know the tag must refuse to issue.
    pub is_critical: bool,
    /// The property tag, in lower case.
    pub tag: String,
    /// The value, as text.
    pub value: String,
}

impl CaaRecord {
    /// Returns the record's data in the syntax of zone files.
    pub fn data(&self) -> String {
        format!("{} {} \"{}\"", if self.is_critical { 128 } else { 0 }, self.tag, self.value)
    }
}

/// The CAA records that apply to a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaaSet {
    /// The name that has them: the hostname, a parent of it, or the target of an alias of such a name.
    pub at: String,
    /// The records.
    pub records: Vec<CaaRecord>,
}

/// The meaning of CAA records for our authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaaPermission {
    /// Our authority may issue.
    Granted,
    /// The records authorize other authorities only, or none.
    Refused,
    /// Our authority may issue, but only by these validation methods, which we do not offer.
    OtherMethods(String),
    /// Our authority may issue, but not for our account, whose URL this is.
    OtherAccount(String),
    /// A critical record has this unknown tag.
    Critical(String),
    /// The authority's identities are unknown.
    Unknown,
}

/// Returns the identities of the authority whose directory is at `host`, if they are known.
pub(super) fn known_identities(host: &str) -> &'static [&'static str] {
    KNOWN.iter().find(|(known, _)| *known == host).map_or(&[], |(_, names)| names)
}

pub(super) fn validation_method(challenge: ChallengeType) -> &'static str {
    match challenge {
        ChallengeType::Http01 => "http-01",
        ChallengeType::TlsAlpn01 => "tls-alpn-01",
        ChallengeType::Dns01 => "dns-01",
    }
}

/// Judges the records that apply to a name without a wildcard, for an authority with these identities that validates by
/// one of these methods and knows us by the account with this URL. An account that is not registered yet fits every
/// record.
pub fn judge(set: &CaaSet, identities: &[String], methods: &[String], account: Option<&str>) -> CaaPermission {
    let is_known =
        |tag: &str| matches!(tag, "issue" | "issuewild" | "iodef" | "contactemail" | "contactphone" | "issuemail");
    if let Some(record) = set.records.iter().find(|record| record.is_critical && !is_known(&record.tag)) {
        return CaaPermission::Critical(record.tag.clone());
    }
    let issue: Vec<IssueRecord> = set
        .records
        .iter()
        .filter(|record| record.tag == "issue")
        .map(|record| IssueRecord::parse(&record.value))
        .collect();
    // Without an `issue` record, the set restricts other things only.
    if issue.is_empty() {
        return CaaPermission::Granted;
    }
    if issue.iter().all(|issue| issue.issuer.is_empty()) {
        return CaaPermission::Refused;
    }
    if identities.is_empty() {
        return CaaPermission::Unknown;
    }
    let is_ours = |issue: &&IssueRecord| identities.iter().any(|name| name.eq_ignore_ascii_case(&issue.issuer));
    let ours: Vec<&IssueRecord> = issue.iter().filter(is_ours).collect();
    if ours.is_empty() {
        return CaaPermission::Refused;
    }
    let by_ours = |issue: &&&IssueRecord| {
        issue.methods.as_ref().is_none_or(|allowed| {
            allowed.split(',').any(|allowed| methods.iter().any(|ours| ours.eq_ignore_ascii_case(allowed.trim())))
        })
    };
    let usable: Vec<&&IssueRecord> = ours.iter().filter(by_ours).collect();
    if usable.is_empty() {
        let methods: Vec<_> = ours.iter().filter_map(|issue| issue.methods.clone()).collect();
        return CaaPermission::OtherMethods(methods.join(","));
    }
    let fits = |account: &str| usable.iter().any(|issue| issue.account.as_ref().is_none_or(|bound| bound == account));
    match account {
        Some(account) if !fits(account) => CaaPermission::OtherAccount(account.to_owned()),
        _ => CaaPermission::Granted,
    }
}

/// The value of an `issue` record. A value that cannot be parsed has an empty issuer, which allows nobody.
#[derive(Debug, Default)]
struct IssueRecord {
    issuer: String,
    account: Option<String>,
    methods: Option<String>,
}

impl IssueRecord {
    fn parse(value: &str) -> Self {
        let mut parts = value.split(';').map(str::trim);
        let issuer = parts.next().unwrap_or_default();
        if !issuer.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-')) {
            return Self::default();
        }
        let mut issue = Self { issuer: issuer.to_owned(), ..Self::default() };
        for parameter in parts.filter(|part| !part.is_empty()) {
            let Some((tag, value)) = parameter.split_once('=') else { return Self::default() };
            match tag.trim().to_ascii_lowercase().as_str() {
                "accounturi" => issue.account = Some(value.trim().to_owned()),
                "validationmethods" => issue.methods = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        issue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(records: &[(&str, &str)], identities: &[&str]) -> CaaPermission {
        judged_for(None, records, identities)
    }

    fn judged_for(account: Option<&str>, records: &[(&str, &str)], identities: &[&str]) -> CaaPermission {
        let record = |(tag, value): &(&str, &str)| CaaRecord {
            is_critical: tag.starts_with('!'),
            tag: tag.trim_start_matches('!').to_owned(),
            value: (*value).to_owned(),
        };
        let set = CaaSet { at: "example.com".into(), records: records.iter().map(record).collect() };
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        judge(&set, &owned(identities), &owned(&["tls-alpn-01", "http-01"]), account)
    }

    #[test]
    fn records_allow_whom_they_name() {
        let ours = &["letsencrypt.org"];
        for records in [
            &[("issue", "letsencrypt.org")][..],
            &[("issue", " LetsEncrypt.org ; foo=bar")],
            &[("issue", ";"), ("issue", "letsencrypt.org")],
            &[("issue", "other.example"), ("issue", "letsencrypt.org")],
            // Records about other things only.
            &[("iodef", "mailto:x@example.com")],
            &[("issuewild", ";")],
            &[("!issue", "letsencrypt.org")],
            &[("issue", "letsencrypt.org; validationmethods=dns-01,http-01")],
        ] {
            assert_eq!(judged(records, ours), CaaPermission::Granted, "{records:?}");
        }
        for records in [
            &[("issue", ";")][..],
            &[("issue", "")],
            &[("issue", "other.example")],
            &[("issue", "%%%%%")],
            &[("issue", "letsencrypt.org; nonsense")],
            &[("issue", "xletsencrypt.org")],
            &[("issue", "other.example"), ("issuewild", "letsencrypt.org")],
        ] {
            assert_eq!(judged(records, ours), CaaPermission::Refused, "{records:?}");
        }
    }

    #[test]
    fn parameters_narrow_what_is_allowed() {
        let ours = &["letsencrypt.org"];
        let methods = judged(&[("issue", "letsencrypt.org; validationmethods=dns-01")], ours);
        assert_eq!(methods, CaaPermission::OtherMethods("dns-01".into()));
        let bound = ("issue", "letsencrypt.org;accounturi=https://ca.example/acct/7");
        let (seven, eight) = ("https://ca.example/acct/7", "https://ca.example/acct/8");
        for (account, records, granted) in [
            (None, &[bound][..], true),
            (Some(seven), &[bound], true),
            (Some(eight), &[bound], false),
            (Some(eight), &[bound, ("issue", "letsencrypt.org")], true),
            (Some(eight), &[bound, ("issue", "other.example")], false),
            (Some(eight), &[bound, ("issue", "letsencrypt.org; validationmethods=dns-01")], false),
        ] {
            let wanted = if granted { CaaPermission::Granted } else { CaaPermission::OtherAccount(eight.to_owned()) };
            assert_eq!(judged_for(account, records, ours), wanted, "{account:?} {records:?}");
        }
        let critical = judged(&[("!tbs", "x"), ("issue", "letsencrypt.org")], ours);
        assert_eq!(critical, CaaPermission::Critical("tbs".into()));
    }

    #[test]
    fn of_an_authority_without_a_known_name_little_can_be_said() {
        assert_eq!(judged(&[("issue", "letsencrypt.org")], &[]), CaaPermission::Unknown);
        assert_eq!(judged(&[("issue", ";")], &[]), CaaPermission::Refused);
    }
}
