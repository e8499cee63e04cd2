//! The orders that an ACME account may place: the published limits of Let's Encrypt, with a margin.

use std::time::Duration;

use certs::acme::ProblemKind;
use config::acme::{Acme, OrderLimits};
use db::certificates::{budgets::RateLimitBucket, orders::OrderClaim};
use domain::{Timestamp, networks};
use url::{Host, Url};

const HOUR: Duration = Duration::from_hours(1);
const WEEK: Duration = Duration::from_hours(7 * 24);
const MINUTE_MILLIS: i64 = 60_000;

/// The orders of an ACME account in three hours; the authority allows 300.
const ORDERS: u32 = 250;
/// The share of [`ORDERS`] for custom domains without a certificate: the rest is left for renewals and for the
/// platform's own names.
const NEW_ORDERS: u32 = 200;
/// The orders of one payer in three hours, over all their accounts, for names without a certificate; the same number is
/// allowed for renewals.
const PAYER_ORDERS_IN_PERIOD: u32 = 30;
/// The failed orders of one payer in three hours, for names under one registered domain.
const PAYER_FAILURES: u32 = 10;
/// The certificates for names under one registered domain in a week; the authority allows 50.
const OF_DOMAIN: u32 = 45;
/// The certificates for the same names in a week; the authority allows 5.
const OF_SAME_NAMES: u32 = 4;
/// The failed authorizations of a name in an hour; the authority allows 5.
const FAILURES: u32 = 3;

/// The longest hold of the other names under a registered domain after the authority rate-limited one of them: a domain
/// that has used its allowance gets its next certificate after 202 minutes.
const LONGEST_DOMAIN_HOLD: Duration = Duration::from_hours(4);
const LONGEST_ACCOUNT_HOLD: Duration = Duration::from_mins(15);
/// The number of recently refused payers after which a limit counts as the account's own. A payer who exhausts the
/// limits of any number of domains must not hold up others.
pub(super) const PAYERS_BEFORE_ACCOUNT: i64 = 3;
const HELD: &str = "held";
const HELD_DOMAINS: &str = "held-domain:";
/// The prefix of the buckets that count refused payers. No order waits for them.
pub(super) const HELD_PAYERS: &str = "held-payer:";
const PLATFORM: &str = "platform";

/// The name of an order, with everything that limits depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderSubject<'a> {
    /// The hostname, or a wildcard of the platform's.
    name: &'a str,
    /// The person or account that pays; `None` for the platform's own names.
    payer: Option<&'a str>,
    is_renewal: bool,
}

impl<'a> From<&'a OrderClaim> for OrderSubject<'a> {
    fn from(claim: &'a OrderClaim) -> Self {
        Self { name: &claim.name, payer: claim.payer.as_deref(), is_renewal: claim.certificate_id.is_some() }
    }
}

/// Returns the buckets to hold, for these durations, after the authority rate-limited an order of `name` and asked for
/// the pause `after`.
pub(super) fn holds_after_refusal(name: &str, after: Duration) -> [(String, Duration); 2] {
    [(held_bucket(name), after), (held_domain_bucket(name), after.min(LONGEST_DOMAIN_HOLD))]
}

/// Returns the bucket that records that the payer of a name was refused, with its duration, after the authority asked
/// for the pause `after`. Returns `None` if its message `said` names the registered domain, so that the limit is that
/// domain's.
pub(super) fn payer_hold(subject: OrderSubject<'_>, said: &str, after: Duration) -> Option<(String, Duration)> {
    let is_of_domain = said.to_ascii_lowercase().contains(registered_domain(subject.name));
    let payer = subject.payer.unwrap_or(PLATFORM);
    (!is_of_domain).then(|| (format!("{HELD_PAYERS}{payer}"), after.min(LONGEST_DOMAIN_HOLD)))
}

/// Returns the bucket that holds all orders of the account, with its duration, after the authority asked for the pause
/// `after`.
pub(super) fn account_hold(after: Duration) -> (&'static str, Duration) {
    (HELD, after.min(LONGEST_ACCOUNT_HOLD))
}

fn held_bucket(name: &str) -> String {
    format!("{HELD}:{name}")
}

fn held_domain_bucket(name: &str) -> String {
    format!("{HELD_DOMAINS}{}", registered_domain(name))
}

/// Returns the registered domain of `name`, or `name` itself if there is none.
fn registered_domain(name: &str) -> &str {
    let host = name.trim_start_matches("*.");
    psl::domain_str(host).unwrap_or(host)
}

/// Returns the buckets of an order that replaces a certificate: the authority does not count it, but a name that was
/// refused waits.
pub(super) fn replacement_buckets(name: &str) -> Vec<RateLimitBucket> {
    vec![RateLimitBucket::for_hold(held_bucket(name))]
}

/// Returns the buckets of an order at the authority of `directory`. Authorities do not count an order that replaces a
/// certificate within the window that they suggested.
pub(super) fn order_buckets(acme: &Acme, directory: &str, subject: OrderSubject<'_>) -> Vec<RateLimitBucket> {
    let name = subject.name;
    let mut buckets = vec![RateLimitBucket { is_taken: false, ..authorization_bucket(name) }];
    buckets.extend([HELD.to_owned(), held_domain_bucket(name), held_bucket(name)].map(RateLimitBucket::for_hold));
    buckets.extend(order_count_buckets(acme, directory, subject));
    buckets.extend(certificate_buckets(acme, directory, name));
    buckets
}

/// Returns the buckets of [`order_buckets`] that count orders with any outcome; they are not refunded once an order is
/// placed. All payers share one allowance, so each has a limited part of it.
pub(super) fn order_count_buckets(acme: &Acme, directory: &str, subject: OrderSubject<'_>) -> Vec<RateLimitBucket> {
    if !is_limited(acme, directory) {
        return Vec::new();
    }
    let bucket = |name: String, limit| RateLimitBucket { name, limit, period: 3 * HOUR, is_taken: true };
    let mut buckets = vec![bucket("orders".to_owned(), ORDERS)];
    match subject.payer {
        Some(payer) if subject.is_renewal => buckets.push(bucket(format!("renewals:{payer}"), PAYER_ORDERS_IN_PERIOD)),
        Some(payer) => {
            buckets.push(bucket("new-orders".to_owned(), NEW_ORDERS));
            buckets.push(bucket(format!("orders:{payer}"), PAYER_ORDERS_IN_PERIOD));
            let failed = failed_order_bucket(acme, directory, subject);
            buckets.extend(failed.map(|failed| RateLimitBucket { is_taken: false, ..failed }));
        }
        None => {}
    }
    buckets
}

/// Returns the bucket that an order with a failed proof is charged to, in addition to [`authorization_bucket`]: anybody can
/// create any number of unprovable names under one registered domain.
pub(super) fn failed_order_bucket(acme: &Acme, directory: &str, subject: OrderSubject<'_>) -> Option<RateLimitBucket> {
    let payer = subject.payer.filter(|_| !subject.is_renewal && is_limited(acme, directory))?;
    let name = format!("failed-orders:{payer}:{}", registered_domain(subject.name));
    Some(RateLimitBucket { name, limit: PAYER_FAILURES, period: 3 * HOUR, is_taken: true })
}

/// Returns the buckets of [`order_buckets`] that count certificates: a failed order is refunded.
pub(super) fn certificate_buckets(acme: &Acme, directory: &str, name: &str) -> Vec<RateLimitBucket> {
    if !is_limited(acme, directory) {
        return Vec::new();
    }
    let domain = registered_domain(name);
    let bucket = |name, limit| RateLimitBucket { name, limit, period: WEEK, is_taken: true };
    vec![bucket(format!("domain:{domain}"), OF_DOMAIN), bucket(format!("names:{name}"), OF_SAME_NAMES)]
}

/// Returns the bucket that a failed authorization is charged to.
pub(super) fn authorization_bucket(name: &str) -> RateLimitBucket {
    RateLimitBucket { name: format!("failures:{name}"), limit: FAILURES, period: HOUR, is_taken: true }
}

pub(super) fn is_failed_authorization(kind: ProblemKind) -> bool {
    matches!(kind, ProblemKind::Caa | ProblemKind::Dns | ProblemKind::Connection | ProblemKind::Unauthorized)
}

pub(super) fn explain_bucket(bucket: &str, at: Timestamp) -> String {
    // Round up to the next whole minute.
    let minutes = at.unix_seconds().div_euclid(60) + 1;
    let at = Timestamp::from_unix_millis(minutes * MINUTE_MILLIS);
    match bucket.split_once(':') {
        Some(("orders" | "renewals", _)) => format!(
            "Your domains, with those of your organizations, have had as many orders of certificates as they may have in three \
             hours; this one waits until {at} at least."
        ),
        Some(("failed-orders", names)) => {
            let domain = names.rsplit(':').next().unwrap_or(names);
            format!(
                "The certificate authority could not verify many of your names under {domain}; this one waits until {at} at \
                 least."
            )
        }
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
        _ => format!(
            "The certificate authority takes no more orders right now; this one waits for its turn, until {at} at least."
        ),
    }
}

/// Returns whether orders at an authority stay below the published limits.
fn is_limited(acme: &Acme, directory: &str) -> bool {
    match acme.limits {
        OrderLimits::Auto => is_public(directory),
        OrderLimits::Public => true,
        OrderLimits::None => false,
    }
}

/// Returns whether an authority is on the internet. One on this machine or in a private network is the operator's own,
/// with its own limits.
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

    fn new(name: &str) -> OrderSubject<'_> {
        OrderSubject { name, payer: Some("usr_1"), is_renewal: false }
    }

    fn names(directory: &str, name: &str) -> Vec<String> {
        order_buckets(&Acme::default(), directory, new(name)).into_iter().map(|bucket| bucket.name).collect()
    }

    #[test]
    fn an_order_counts_against_its_registered_domain() {
        let of_name = names(PUBLIC, "www.shop.co.uk");
        let payers = ["new-orders", "orders:usr_1", "failed-orders:usr_1:shop.co.uk"];
        let counted = [&["orders"], &payers[..], &["domain:shop.co.uk", "names:www.shop.co.uk"]].concat();
        let held = ["held", "held-domain:shop.co.uk", "held:www.shop.co.uk"];
        assert_eq!(of_name, [&["failures:www.shop.co.uk"], &held[..], &counted[..]].concat());
        assert!(names(PUBLIC, "*.sites.example.com").contains(&"domain:example.com".to_owned()));
        assert!(order_buckets(&Acme::default(), PUBLIC, new("a.example")).iter().all(|bucket| {
            bucket.is_taken != ["failures", "failed", HELD].iter().any(|prefix| bucket.name.starts_with(prefix))
        }));
    }

    #[test]
    fn nobody_has_all_orders_and_some_are_left_for_renewals_and_the_platform() {
        let orders = |subject| {
            let buckets = order_count_buckets(&Acme::default(), PUBLIC, subject).into_iter();
            buckets.filter(|bucket| bucket.is_taken).map(|bucket| (bucket.name, bucket.limit)).collect::<Vec<_>>()
        };
        let bucket = |name: &str, limit| (name.to_owned(), limit);
        let all = bucket("orders", ORDERS);
        let of_payer = bucket("orders:usr_1", PAYER_ORDERS_IN_PERIOD);
        assert_eq!(orders(new("a.example")), [all.clone(), bucket("new-orders", NEW_ORDERS), of_payer]);
        let renewal = OrderSubject { is_renewal: true, ..new("a.example") };
        assert_eq!(orders(renewal), [all.clone(), bucket("renewals:usr_1", PAYER_ORDERS_IN_PERIOD)]);
        assert_eq!(orders(OrderSubject { payer: None, ..new("*.sites.example") }), [all]);
        const {
            assert!(
                NEW_ORDERS < ORDERS
                    && PAYER_ORDERS_IN_PERIOD * 2 < NEW_ORDERS
                    && PAYER_FAILURES < PAYER_ORDERS_IN_PERIOD
            );
        };
    }

    #[test]
    fn a_failed_order_counts_against_its_payer_and_registered_domain_and_no_renewal_does() {
        let failed = |subject| failed_order_bucket(&Acme::default(), PUBLIC, subject).map(|bucket| bucket.name);
        assert_eq!(failed(new("a.shop.co.uk")).unwrap(), "failed-orders:usr_1:shop.co.uk");
        assert_eq!(failed(OrderSubject { is_renewal: true, ..new("a.example") }), None);
        assert_eq!(failed(OrderSubject { payer: None, ..new("a.example") }), None);
    }

    #[test]
    fn a_refusal_that_names_the_domain_says_nothing_of_the_account() {
        let of = |said| payer_hold(new("www.shop.co.uk"), said, HOUR);
        assert_eq!(of("too many certificates already issued for \"Shop.co.uk\""), None);
        let payer = Some(("held-payer:usr_1".to_owned(), HOUR));
        assert_eq!(of("too many new orders from this account"), payer);
    }

    #[test]
    fn who_waits_is_told_until_when() {
        let at = Timestamp::from_unix_millis(1_799_999_999_500);
        for bucket in ["orders", "new-orders", "orders:usr_1", "renewals:usr_1", "failed-orders:usr_1:shop.example"] {
            let said = explain_bucket(bucket, at);
            assert!(said.contains(" until 2027-01-15T08:00:00Z ") && !said.contains("usr_1"), "{said}");
        }
    }

    #[test]
    fn what_fails_is_given_back_to_the_buckets_that_count_certificates() {
        let given_back = certificate_buckets(&Acme::default(), PUBLIC, "www.shop.co.uk");
        let given_back: Vec<_> = given_back.into_iter().map(|bucket| bucket.name).collect();
        assert_eq!(given_back, ["domain:shop.co.uk", "names:www.shop.co.uk"]);
    }

    #[test]
    fn the_configuration_decides_over_the_address() {
        let acme = |limits| Acme { limits, ..Acme::default() };
        assert!(is_limited(&acme(OrderLimits::Public), "https://127.0.0.1:14000/dir"));
        assert!(!is_limited(&acme(OrderLimits::None), PUBLIC) && is_limited(&acme(OrderLimits::Auto), PUBLIC));
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
        let held = holds_after_refusal("www.shop.co.uk", 34 * HOUR);
        assert_eq!(held[0], ("held:www.shop.co.uk".to_owned(), 34 * HOUR));
        assert_eq!(held[1], ("held-domain:shop.co.uk".to_owned(), LONGEST_DOMAIN_HOLD));
        let of_order: Vec<String> = names(PUBLIC, "www.shop.co.uk");
        assert!(held.iter().all(|(bucket, _)| of_order.contains(bucket)));
        assert!(held.iter().any(|(bucket, _)| bucket.starts_with(HELD_DOMAINS)));
    }
}
