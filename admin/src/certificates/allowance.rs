//! What an account may order: the published limits of Let's Encrypt, with room to spare.

use std::time::Duration;

use certs::acme::ProblemKind;
use config::acme::{Acme, Limits};
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

/// Longest hold of the other names under a registered domain when one of them was refused as one too many: a domain
/// that has had all its certificates has the next after 202 minutes.
const LONGEST_DOMAIN_HOLD: Duration = Duration::from_hours(4);
/// Longest hold of all orders of an account.
const LONGEST_ACCOUNT_HOLD: Duration = Duration::from_mins(15);
/// Registered domains that are held at a time before a limit is taken for the account's own. What one domain has used
/// up, anybody can use up for a domain of theirs: that must not keep others from theirs.
pub(super) const DOMAINS_BEFORE_ACCOUNT: i64 = 2;
/// The bucket of all orders of an account.
const HELD: &str = "held";
/// Prefix of the buckets of registered domains.
pub(super) const HELD_DOMAINS: &str = "held-domain:";

/// The buckets that are empty for some time after an order of `name` was refused as one too many, with that time when
/// the authority asked for `after`.
pub(super) fn of_refusal(name: &str, after: Duration) -> [(String, Duration); 2] {
    [(held(name), after), (held_domain(name), after.min(LONGEST_DOMAIN_HOLD))]
}

/// The bucket that all orders of the account wait for, and its time when the authority asked for `after`.
pub(super) fn of_account(after: Duration) -> (&'static str, Duration) {
    (HELD, after.min(LONGEST_ACCOUNT_HOLD))
}

fn held(name: &str) -> String {
    format!("{HELD}:{name}")
}

fn held_domain(name: &str) -> String {
    format!("{HELD_DOMAINS}{}", registered(name))
}

/// The name that `name` was registered as, or under.
fn registered(name: &str) -> &str {
    let host = name.trim_start_matches("*.");
    psl::domain_str(host).unwrap_or(host)
}

/// The buckets that an order which replaces a certificate is taken from: no authority counts it, but one that was
/// refused waits.
pub(super) fn of_replacement(name: &str) -> Vec<Bucket> {
    vec![Bucket::of_hold(held(name))]
}

/// The buckets that an order of `name` at the authority of `directory` is taken from. An order that replaces a certificate within
/// the window that the authority suggested is counted by no authority.
pub(super) fn of_order(acme: &Acme, directory: &str, name: &str) -> Vec<Bucket> {
    let mut buckets = vec![Bucket { is_taken: false, ..of_failure(name) }];
    buckets.extend([HELD.to_owned(), held_domain(name), held(name)].map(Bucket::of_hold));
    buckets.extend(of_any_order(acme, directory));
    buckets.extend(of_certificate(acme, directory, name));
    buckets
}

/// Those of [`of_order`] that every order of the account is taken from.
pub(super) fn of_any_order(acme: &Acme, directory: &str) -> Vec<Bucket> {
    let orders = Bucket { name: "orders".to_owned(), limit: ORDERS, period: 3 * HOUR, is_taken: true };
    if is_limited(acme, directory) { vec![orders] } else { Vec::new() }
}

/// Those of [`of_order`] that count certificates, not orders: an order that fails is given back to them.
pub(super) fn of_certificate(acme: &Acme, directory: &str, name: &str) -> Vec<Bucket> {
    if !is_limited(acme, directory) {
        return Vec::new();
    }
    let domain = registered(name);
    let bucket = |name, limit| Bucket { name, limit, period: WEEK, is_taken: true };
    vec![bucket(format!("domain:{domain}"), OF_DOMAIN), bucket(format!("names:{name}"), OF_SAME_NAMES)]
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
        Some(("held", _)) => {
            "The certificate authority takes no more orders for this name until its limit allows it.".to_owned()
        }
        Some(("held-domain", domain)) => format!(
            "The certificate authority takes no more orders for names under {domain} right now; this one waits for its turn."
        ),
        Some(("failures", _)) => {
            "The certificate authority could not verify this name several times; it is asked again when its limit allows it."
                .to_owned()
        }
        _ => "The certificate authority takes no more orders right now; this one waits for its turn.".to_owned(),
    }
}

/// Whether orders at an authority stay below the published limits.
fn is_limited(acme: &Acme, directory: &str) -> bool {
    match acme.limits {
        Limits::Auto => is_public(directory),
        Limits::Public => true,
        Limits::None => false,
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
        of_order(&Acme::default(), directory, name).into_iter().map(|bucket| bucket.name).collect()
    }

    #[test]
    fn an_order_counts_against_its_registered_domain() {
        let of_name = names(PUBLIC, "www.shop.co.uk");
        let counted = ["orders", "domain:shop.co.uk", "names:www.shop.co.uk"];
        let held = ["held", "held-domain:shop.co.uk", "held:www.shop.co.uk"];
        assert_eq!(of_name, [&["failures:www.shop.co.uk"], &held[..], &counted[..]].concat());
        assert!(names(PUBLIC, "*.sites.example.com").contains(&"domain:example.com".to_owned()));
        assert!(of_order(&Acme::default(), PUBLIC, "a.example").iter().all(|bucket| {
            bucket.is_taken != (bucket.name.starts_with("failures") || bucket.name.starts_with(HELD))
        }));
    }

    #[test]
    fn what_fails_is_given_back_to_the_buckets_that_count_certificates() {
        let given_back = of_certificate(&Acme::default(), PUBLIC, "www.shop.co.uk");
        let given_back: Vec<_> = given_back.into_iter().map(|bucket| bucket.name).collect();
        assert_eq!(given_back, ["domain:shop.co.uk", "names:www.shop.co.uk"]);
    }

    #[test]
    fn the_configuration_decides_over_the_address() {
        let acme = |limits| Acme { limits, ..Acme::default() };
        assert!(is_limited(&acme(Limits::Public), "https://127.0.0.1:14000/dir"));
        assert!(!is_limited(&acme(Limits::None), PUBLIC) && is_limited(&acme(Limits::Auto), PUBLIC));
    }

    #[test]
    fn an_authority_of_one_s_own_has_no_public_limits() {
        for own in
            ["https://127.0.0.1:14000/dir", "https://[::1]/dir", "https://ca.localhost/dir", "https://10.0.0.1/dir"]
        {
            let held = ["failures:a.example", "held", "held-domain:a.example", "held:a.example"];
            assert_eq!(names(own, "a.example"), held, "{own}");
        }
    }

    #[test]
    fn a_refusal_holds_the_name_as_long_as_it_says_and_the_others_beside_it_for_hours_at_most() {
        let held = of_refusal("www.shop.co.uk", 34 * HOUR);
        assert_eq!(held[0], ("held:www.shop.co.uk".to_owned(), 34 * HOUR));
        assert_eq!(held[1], ("held-domain:shop.co.uk".to_owned(), LONGEST_DOMAIN_HOLD));
        let of_order: Vec<String> = names(PUBLIC, "www.shop.co.uk");
        assert!(held.iter().all(|(bucket, _)| of_order.contains(bucket)));
        assert!(held.iter().any(|(bucket, _)| bucket.starts_with(HELD_DOMAINS)));
    }
}
