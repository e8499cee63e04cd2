//! Advice about a hostname, in words: the record to set, and who can.

use std::net::IpAddr;

use api::domains::{DnsRecord, Fix, FixAction};
use domain::Hostname;

use super::{
    Platform,
    caa::{CaaSet, Permission},
    look::Finding,
};

fn address_record(name: &str, address: IpAddr) -> DnsRecord {
    record(if address.is_ipv4() { "A" } else { "AAAA" }, name, address.to_string())
}

fn record(kind: &str, name: &str, value: impl Into<String>) -> DnsRecord {
    DnsRecord { kind: kind.to_owned(), name: name.to_owned(), value: value.into() }
}

/// The name that `hostname` was registered as, or under.
pub fn registered(hostname: &Hostname) -> &str {
    psl::domain_str(hostname.as_str()).unwrap_or(hostname.as_str())
}

/// Whether `hostname` is the top of its zone, where DNS allows no CNAME.
pub fn is_apex(hostname: &Hostname) -> bool {
    registered(hostname) == hostname.as_str()
}

/// The records that lead `hostname` here.
pub fn wanted(hostname: &Hostname, platform: &Platform) -> Vec<DnsRecord> {
    let name = hostname.as_str();
    if !is_apex(hostname) {
        return vec![record("CNAME", name, &platform.target)];
    }
    if platform.apex_addresses.is_empty() {
        return vec![record("ALIAS", name, &platform.target)];
    }
    platform.apex_addresses.iter().map(|address| address_record(name, *address)).collect()
}

/// Says where `hostname` leads, what is wrong with that, and the record to change.
pub fn sentence(hostname: &Hostname, platform: &Platform, finding: &Finding) -> String {
    let keeper = format!("whoever keeps the DNS of {}", registered(hostname));
    let set = set(hostname, platform);
    match finding {
        Finding::Leads => format!("{hostname} leads here."),
        Finding::Nothing => format!("{hostname} has no address in DNS yet: {keeper} sets {set}."),
        Finding::Dangling(alias) => {
            format!("{hostname} is an alias of {alias}, which has no address: {keeper} sets {set} instead.")
        }
        Finding::Elsewhere(addresses) => {
            format!("{hostname} leads to {}, not here: {keeper} sets {set} instead.", list(addresses))
        }
        Finding::Partly(addresses) => format!(
            "{hostname} leads here, and to {} too: {keeper} removes the records with these addresses.",
            list(addresses)
        ),
        Finding::StaleIpv6(addresses) => format!(
            "{hostname} leads here over IPv4, but its AAAA record leads to {}, which visitors and certificate \
             authorities try first: {keeper} removes the AAAA record.",
            list(addresses)
        ),
        Finding::Proxied(proxy) => format!(
            "{hostname} is behind {proxy}'s proxy, which answers in our place: {keeper} switches the record to “DNS \
             only” there, as {set}."
        ),
        Finding::ServFail => format!(
            "{hostname} cannot be resolved (SERVFAIL), most often because DNSSEC is broken: {keeper} repairs the \
             zone's signatures, or removes the DS record of {} at the registrar.",
            registered(hostname)
        ),
        Finding::NoTarget => format!(
            "{}, where domains are to lead, has no address itself: the operator of this platform has to set one, and \
             nothing is left to do for you.",
            platform.target
        ),
        Finding::Unasked(why) => unasked(hostname, why),
    }
}

/// That nothing is known of `hostname`, which is nobody's fault who reads it.
pub(super) fn unasked(hostname: &Hostname, why: &str) -> String {
    format!("DNS could not be asked about {hostname} ({why}), which says nothing about its records; it is asked again.")
}

/// That the CAA records of `hostname` cannot be read.
pub(super) fn unreadable_caa(hostname: &Hostname) -> String {
    format!(
        "The CAA records of {hostname} cannot be read (SERVFAIL), and without them no authority may issue: whoever \
         keeps the DNS of {} has its name servers answer questions for CAA, with no record if there is none.",
        registered(hostname)
    )
}

/// Why CAA records keep our authority from issuing, and the record to add if that helps.
pub(super) fn caa(
    hostname: &Hostname,
    set: &CaaSet,
    refused: &Permission,
    identities: &[String],
) -> (String, Option<Fix>) {
    let keeper = format!("whoever keeps the DNS of {}", registered(hostname));
    let at = &set.at;
    match refused {
        Permission::Critical(tag) => {
            (format!("{at} has a critical CAA record of the unknown kind `{tag}`: {keeper} removes it."), None)
        }
        Permission::OtherMethods(methods) => (
            format!(
                "The CAA records of {at} allow our certificate authority to use {methods} only: {keeper} removes \
                 `validationmethods={methods}`."
            ),
            None,
        ),
        _ => {
            let Some(identity) = identities.first() else {
                return (
                    format!("The CAA records of {at} allow no certificate authority: {keeper} removes them."),
                    None,
                );
            };
            let record = record("CAA", at, format!("0 issue \"{identity}\""));
            let why = format!("The CAA records of {at} do not allow our certificate authority.");
            let said = format!(
                "The CAA records of {at} do not allow our certificate authority: {keeper} adds `{}`.",
                record.line()
            );
            (said, Some(Fix { action: FixAction::Set, record, why }))
        }
    }
}

/// The changes that lead `hostname` here.
pub(super) fn fixes(hostname: &Hostname, platform: &Platform, finding: &Finding, aliased: bool) -> Vec<Fix> {
    let remove = |addresses: &[IpAddr], why: &str| -> Vec<Fix> {
        // What an alias leads to is not the hostname's to remove.
        let addresses = if aliased { &[] } else { addresses };
        let fix = |address: &IpAddr| Fix {
            action: FixAction::Remove,
            record: address_record(hostname.as_str(), *address),
            why: why.to_owned(),
        };
        addresses.iter().map(fix).collect()
    };
    let mut fixes = match finding {
        Finding::Elsewhere(addresses) => remove(addresses, "It leads elsewhere."),
        Finding::Partly(addresses) => return remove(addresses, "Visitors who take this one do not get here."),
        Finding::StaleIpv6(addresses) => {
            return remove(addresses, "Visitors and certificate authorities that have IPv6 do not get here.");
        }
        Finding::Nothing | Finding::Dangling(_) | Finding::Proxied(_) => Vec::new(),
        Finding::Leads | Finding::ServFail | Finding::NoTarget | Finding::Unasked(_) => return Vec::new(),
    };
    let why = match finding {
        Finding::Proxied(proxy) => format!("It leads here, without {proxy}'s proxy in front (“DNS only”)."),
        _ => "It leads here.".to_owned(),
    };
    let set = |record| Fix { action: FixAction::Set, record, why: why.clone() };
    fixes.extend(wanted(hostname, platform).into_iter().map(set));
    fixes
}

/// The records to set, in the middle of a sentence.
fn set(hostname: &Hostname, platform: &Platform) -> String {
    let records = wanted(hostname, platform);
    let lines: Vec<String> = records.iter().map(|record| format!("`{}`", record.line())).collect();
    let lines = lines.join(" and ");
    if records.iter().any(|record| record.kind == "ALIAS") {
        return format!("{lines} (ANAME or a flattened CNAME with some providers; {hostname} can have no CNAME)");
    }
    lines
}

fn list(addresses: &[IpAddr]) -> String {
    /// Addresses that a sentence names.
    const NAMED: usize = 4;
    let named: Vec<String> = addresses.iter().take(NAMED).map(ToString::to_string).collect();
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(hostname: &str, apex_addresses: &[&str]) -> Vec<String> {
        let apex_addresses = apex_addresses.iter().map(|text| text.parse().unwrap()).collect();
        let platform = Platform { target: "edge.platform.example".into(), apex_addresses };
        wanted(&hostname.parse().unwrap(), &platform).iter().map(DnsRecord::line).collect()
    }

    #[test]
    fn an_apex_gets_what_dns_allows_there() {
        for host in ["www.shop.example", "shop.github.io.example", "www.shop.co.uk"] {
            assert_eq!(lines(host, &["198.51.100.7"]), [format!("{host}.  CNAME  edge.platform.example.")]);
        }
        for host in ["shop.example", "shop.co.uk", "github.io"] {
            assert_eq!(
                lines(host, &["198.51.100.7", "2001:db8::7"]),
                [format!("{host}.  A  198.51.100.7"), format!("{host}.  AAAA  2001:db8::7")]
            );
            assert_eq!(lines(host, &[]), [format!("{host}.  ALIAS  edge.platform.example.")]);
        }
    }

    #[test]
    fn what_an_alias_leads_to_is_not_removed() {
        let platform = Platform { target: "edge.platform.example".into(), apex_addresses: Vec::new() };
        let hostname = "www.shop.example".parse().unwrap();
        let finding = Finding::Elsewhere(vec!["192.0.2.1".parse().unwrap()]);
        let actions = |aliased| -> Vec<_> {
            fixes(&hostname, &platform, &finding, aliased)
                .iter()
                .map(|fix| (fix.action, fix.record.kind.clone()))
                .collect()
        };
        assert_eq!(actions(false), [(FixAction::Remove, "A".to_owned()), (FixAction::Set, "CNAME".to_owned())]);
        assert_eq!(actions(true), [(FixAction::Set, "CNAME".to_owned())]);
    }
}
