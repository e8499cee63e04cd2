//! What an account may order: the published limits of Let's Encrypt, with room to spare.

use std::time::Duration;

use certs::acme::ProblemKind;
use db::certificates::budgets::Bucket;
use domain::networks;
use url::{Host, Url};

const HOUR: Duration = Duration::from_hours(1);
const WEEK: Duration = Duration::from_hours(7 * 24);

/// Orders of an account in three hours; 300 are allowed.
const ORDERS: u32 = 250;
/// Certificates for names under one registered domain in a week; 50 are allowed.
const OF_DOMAIN: u32 = 45;
/// Certificates for the same names in a week; 5 are allowed.
const OF_SAME_NAMES: u32 = 4;
/// Failed authorizations of a name in an hour; 5 are allowed.
const FAILURES: u32 = 3;

/// The buckets that an order of `name` at the authority of `directory` is taken from. An order that replaces a certificate is
/// counted by no authority.
pub(super) fn of_order(directory: &str, name: &str) -> Vec<Bucket> {
    let mut buckets = vec![Bucket { is_taken: false, ..of_failure(name) }];
    if is_public(directory) {
        let host = name.trim_start_matches("*.");
        let domain = psl::domain_str(host).unwrap_or(host);
        let bucket = |name, limit, period| Bucket { name, limit, period, is_taken: true };
        buckets.extend([
            bucket("orders".to_owned(), ORDERS, 3 * HOUR),
            bucket(format!("domain:{domain}"), OF_DOMAIN, WEEK),
            bucket(format!("names:{name}"), OF_SAME_NAMES, WEEK),
        ]);
    }
    buckets
}

/// The bucket that a failed authorization is charged to.
pub(super) fn of_failure(name: &str) -> Bucket {
    Bucket { name: format!("failures:{name}"), limit: FAILURES, period: HOUR, is_taken: true }
}

/// Whether a refusal of this kind ends an authorization.
pub(super) fn is_failed_authorization(kind: ProblemKind) -> bool {
    matches!(kind, ProblemKind::Caa | ProblemKind::Dns | ProblemKind::Connection | ProblemKind::Unauthorized)
}

/// The meaning of an empty bucket, for a person.
pub(super) fn sentence(bucket: &str) -> String {
    match bucket.split_once(':') {
        Some(("domain", domain)) => format!(
            "This week's certificates for names under {domain} are used up; the next is ordered when the limit allows it."
        ),
        Some(("names", _)) => "This name has had as many certificates as it may have in a week.".to_owned(),
        Some(("failures", _)) => {
            "The certificate authority could not verify this name several times; it is asked again when its limit allows it."
                .to_owned()
        }
        _ => "The certificate authority takes no more orders right now; this one waits for its turn.".to_owned(),
    }
}

/// Whether an authority is on the internet. One on this machine or in this network is the operator's own, with limits of its own.
fn is_public(directory: &str) -> bool {
    match Url::parse(directory).ok().as_ref().and_then(Url::host) {
        Some(Host::Domain(host)) => !domain::hostname::is_within(host, "localhost"),
        Some(Host::Ipv4(address)) => networks::is_global(address.into()),
        Some(Host::Ipv6(address)) => networks::is_global(address.into()),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "https://acme-v02.api.letsencrypt.org/directory";

    fn names(directory: &str, name: &str) -> Vec<String> {
        of_order(directory, name).into_iter().map(|bucket| bucket.name).collect()
    }

    #[test]
    fn an_order_counts_against_its_registered_domain() {
        let of_name = names(PUBLIC, "www.shop.co.uk");
        assert_eq!(of_name, ["failures:www.shop.co.uk", "orders", "domain:shop.co.uk", "names:www.shop.co.uk"]);
        assert!(names(PUBLIC, "*.sites.example.com").contains(&"domain:example.com".to_owned()));
        assert!(
            of_order(PUBLIC, "a.example").iter().all(|bucket| bucket.is_taken != bucket.name.starts_with("failures"))
        );
    }

    #[test]
    fn an_authority_of_one_s_own_has_no_public_limits() {
        for own in
            ["https://127.0.0.1:14000/dir", "https://[::1]/dir", "https://ca.localhost/dir", "https://10.0.0.1/dir"]
        {
            assert_eq!(names(own, "a.example"), ["failures:a.example"], "{own}");
        }
    }
}
