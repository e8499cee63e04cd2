//! Advice about a hostname for people: the record to set, and who can set it.

use std::net::IpAddr;

use api::domains::{DnsRecord, Fix, FixAction};
use domain::{Hostname, hostname::is_within};

use super::{
    PlatformAddresses,
    caa::{CaaPermission, CaaSet},
    look::DnsDestination,
};

fn address_record(name: &str, address: IpAddr) -> DnsRecord {
    record(if address.is_ipv4() { "A" } else { "AAAA" }, name, address.to_string())
}

fn record(kind: &str, name: &str, value: impl Into<String>) -> DnsRecord {
    DnsRecord { kind: kind.to_owned(), name: name.to_owned(), value: value.into() }
}

/// Returns the registered domain of `hostname`, or `hostname` itself if there is none.
pub fn registered_domain(hostname: &Hostname) -> &str {
    psl::domain_str(hostname.as_str()).unwrap_or(hostname.as_str())
}

/// Returns whether `hostname` is the apex of its zone, where DNS allows no CNAME.
pub fn is_apex(hostname: &Hostname) -> bool {
    registered_domain(hostname) == hostname.as_str()
}

/// Returns the records that lead `hostname` here; empty if none are needed.
pub fn target_records(hostname: &Hostname, platform: &PlatformAddresses) -> Vec<DnsRecord> {
    let name = hostname.as_str();
    if platform.is_local() && is_within(name, "localhost") {
        return Vec::new();
    }
    if !is_apex(hostname) {
        return vec![record("CNAME", name, &platform.target)];
    }
    if platform.apex_addresses.is_empty() {
        return vec![record("ALIAS", name, &platform.target)];
    }
    platform.apex_addresses.iter().map(|address| address_record(name, *address)).collect()
}

/// Returns whether the keeper of the DNS of `hostname` also controls the record of `owner`.
fn is_in_zone(hostname: &Hostname, owner: &str) -> bool {
    is_within(owner, registered_domain(hostname))
}

/// Describes where `hostname` leads, what is wrong with that, and the record to change. `owner` is the name that has
/// the addresses.
pub fn sentence(hostname: &Hostname, owner: &str, platform: &PlatformAddresses, finding: &DnsDestination) -> String {
    let keeper = format!("whoever keeps the DNS of {}", registered_domain(hostname));
    let set = records_phrase(hostname, platform);
    match finding {
        DnsDestination::Leads => format!("{hostname} leads here."),
        DnsDestination::Nothing => format!("{hostname} has no address in DNS yet: {keeper} sets {set}."),
        DnsDestination::Dangling(alias) => {
            format!("{hostname} is an alias of {alias}, which has no address: {keeper} sets {set} instead.")
        }
        DnsDestination::Elsewhere(addresses) => {
            format!("{hostname} leads to {}, not here: {keeper} sets {set} instead.", list(addresses))
        }
        DnsDestination::Partly(addresses) | DnsDestination::StaleIpv6(addresses) if !is_in_zone(hostname, owner) => {
            format!(
                "{hostname} is an alias of {owner}, which leads here, and to {} too: {keeper} sets {set} instead.",
                list(addresses)
            )
        }
        DnsDestination::Partly(addresses) if owner != hostname.as_str() => format!(
            "{hostname} is an alias of {owner}, which leads here, and to {} too: {keeper} removes the records of {owner} \
             with these addresses.",
            list(addresses)
        ),
        DnsDestination::StaleIpv6(addresses) if owner != hostname.as_str() => format!(
            "{hostname} is an alias of {owner}, which leads here over IPv4, but its AAAA record leads to {}, which \
             visitors and certificate authorities try first: {keeper} removes the AAAA record of {owner}.",
            list(addresses)
        ),
        DnsDestination::Partly(addresses) => format!(
            "{hostname} leads here, and to {} too: {keeper} removes the records with these addresses.",
            list(addresses)
        ),
        DnsDestination::StaleIpv6(addresses) => format!(
            "{hostname} leads here over IPv4, but its AAAA record leads to {}, which visitors and certificate \
             authorities try first: {keeper} removes the AAAA record.",
            list(addresses)
        ),
        DnsDestination::Proxied(proxy) => format!(
            "{hostname} is behind {proxy}'s proxy, which answers in our place: {keeper} switches the record to “DNS \
             only” there, as {set}."
        ),
        DnsDestination::ServFail { is_bogus: true } => {
            format!(
                "{hostname} cannot be resolved, because its DNSSEC signatures do not hold: {}.",
                mend_signatures(hostname)
            )
        }
        DnsDestination::ServFail { is_bogus: false } => format!(
            "{hostname} cannot be resolved (SERVFAIL): its name servers do not answer, or not properly; {keeper} \
             repairs them, or names others at the registrar.",
        ),
        DnsDestination::NoTarget => format!(
            "{}, where domains are to lead, has no address itself: the operator of this platform has to set one, and \
             nothing is left to do for you.",
            platform.target
        ),
        DnsDestination::Unasked(why) => lookup_failed_sentence(hostname, why),
    }
}

/// States that DNS could not be queried about `hostname`, for which the reader is not to blame.
pub(super) fn lookup_failed_sentence(hostname: &Hostname, why: &str) -> String {
    format!("DNS could not be asked about {hostname} ({why}), which says nothing about its records; it is asked again.")
}

fn mend_signatures(hostname: &Hostname) -> String {
    let zone = registered_domain(hostname);
    format!(
        "whoever keeps the DNS of {zone} repairs the zone's signatures, or removes the DS record of {zone} at the \
         registrar"
    )
}

pub(super) fn unreadable_caa(hostname: &Hostname, is_bogus: bool) -> String {
    if is_bogus {
        return format!(
            "The CAA records of {hostname} cannot be read, because their DNSSEC signatures do not hold, and without \
             them no authority may issue: {}.",
            mend_signatures(hostname)
        );
    }
    format!(
        "The CAA records of {hostname} cannot be read (SERVFAIL), and without them no authority may issue: whoever \
         keeps the DNS of {} has its name servers answer questions for CAA, with no record if there is none.",
        registered_domain(hostname)
    )
}

/// Explains why CAA records keep our authority from issuing, with the record to add if that helps.
pub(super) fn caa_sentence(
    hostname: &Hostname,
    set: &CaaSet,
    refused: &CaaPermission,
    identities: &[String],
) -> (String, Option<Fix>) {
    let at = &set.at;
    let zone = psl::domain_str(at).unwrap_or(at);
    let keeper = if is_in_zone(hostname, at) {
        format!("whoever keeps the DNS of {}", registered_domain(hostname))
    } else {
        format!("{hostname} is an alias that leads there, and whoever keeps the DNS of {zone}")
    };
    match refused {
        CaaPermission::Critical(tag) => {
            (format!("{at} has a critical CAA record of the unknown kind `{tag}`: {keeper} removes it."), None)
        }
        CaaPermission::OtherMethods(methods) => (
            format!(
                "The CAA records of {at} allow our certificate authority to use {methods} only: {keeper} removes \
                 `validationmethods={methods}`."
            ),
            None,
        ),
        CaaPermission::OtherAccount(account) => {
            let identity = identities.first().map_or("", String::as_str);
            let record = record("CAA", at, format!("0 issue \"{identity}; accounturi={account}\""));
            let why = format!("The CAA records of {at} bind our certificate authority to another account.");
            let said = format!(
                "The CAA records of {at} bind our certificate authority to another account than ours: {keeper} adds \
                 `{}`.",
                record.line()
            );
            (said, Some(Fix { action: FixAction::Set, record, why }))
        }
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
            (said, is_in_zone(hostname, at).then_some(Fix { action: FixAction::Set, record, why }))
        }
    }
}

pub(super) fn fixes(
    hostname: &Hostname,
    owner: &str,
    platform: &PlatformAddresses,
    finding: &DnsDestination,
) -> Vec<Fix> {
    let remove = |addresses: &[IpAddr], why: &str| -> Vec<Fix> {
        let fix = |address: &IpAddr| Fix {
            action: FixAction::Remove,
            record: address_record(owner, *address),
            why: why.to_owned(),
        };
        addresses.iter().map(fix).collect()
    };
    let mut fixes = match finding {
        DnsDestination::Elsewhere(addresses) if owner == hostname.as_str() => remove(addresses, "It leads elsewhere."),
        // Others may use the target of an alias as well: replace the alias.
        DnsDestination::Elsewhere(_)
        | DnsDestination::Nothing
        | DnsDestination::Dangling(_)
        | DnsDestination::Proxied(_) => Vec::new(),
        DnsDestination::Partly(_) | DnsDestination::StaleIpv6(_) if !is_in_zone(hostname, owner) => Vec::new(),
        DnsDestination::Partly(addresses) => return remove(addresses, "Visitors who take this one do not get here."),
        DnsDestination::StaleIpv6(addresses) => {
            return remove(addresses, "Visitors and certificate authorities that have IPv6 do not get here.");
        }
        DnsDestination::Leads
        | DnsDestination::ServFail { .. }
        | DnsDestination::NoTarget
        | DnsDestination::Unasked(_) => return Vec::new(),
    };
    let why = match finding {
        DnsDestination::Proxied(proxy) => format!("It leads here, without {proxy}'s proxy in front (“DNS only”)."),
        _ => "It leads here.".to_owned(),
    };
    let set = |record| Fix { action: FixAction::Set, record, why: why.clone() };
    fixes.extend(target_records(hostname, platform).into_iter().map(set));
    fixes
}

fn records_phrase(hostname: &Hostname, platform: &PlatformAddresses) -> String {
    let records = target_records(hostname, platform);
    let lines: Vec<String> = records.iter().map(|record| format!("`{}`", record.line())).collect();
    let lines = lines.join(" and ");
    if records.iter().any(|record| record.kind == "ALIAS") {
        return format!("{lines} (ANAME or a flattened CNAME with some providers; {hostname} can have no CNAME)");
    }
    lines
}

fn list(addresses: &[IpAddr]) -> String {
    const NAMED: usize = 4;
    let named: Vec<String> = addresses.iter().take(NAMED).map(ToString::to_string).collect();
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(hostname: &str, apex_addresses: &[&str]) -> Vec<String> {
        let apex_addresses = apex_addresses.iter().map(|text| text.parse().unwrap()).collect();
        let platform = PlatformAddresses { target: "edge.platform.example".into(), apex_addresses };
        target_records(&hostname.parse().unwrap(), &platform).iter().map(DnsRecord::line).collect()
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
    fn a_name_of_this_machine_s_own_needs_no_record_on_it() {
        let wanted = |target: &str, hostname: &str| {
            let platform = PlatformAddresses { target: target.into(), apex_addresses: Vec::new() };
            super::target_records(&hostname.parse().unwrap(), &platform).len()
        };
        assert_eq!(wanted("edge.svc.localhost", "www.shop.localhost"), 0);
        assert_eq!(wanted("edge.svc.localhost", "shop.localhost"), 0);
        assert_eq!(wanted("edge.svc.localhost", "www.shop.example"), 1);
        assert_eq!(wanted("edge.platform.example", "www.shop.localhost"), 1);
    }

    #[test]
    fn what_an_alias_leads_to_is_not_removed() {
        let platform = PlatformAddresses { target: "edge.platform.example".into(), apex_addresses: Vec::new() };
        let hostname = "www.shop.example".parse().unwrap();
        let finding = DnsDestination::Elsewhere(vec!["192.0.2.1".parse().unwrap()]);
        let actions = |owner| -> Vec<_> {
            fixes(&hostname, owner, &platform, &finding)
                .iter()
                .map(|fix| (fix.action, fix.record.kind.clone()))
                .collect()
        };
        let both = [(FixAction::Remove, "A".to_owned()), (FixAction::Set, "CNAME".to_owned())];
        assert_eq!(actions("www.shop.example"), both);
        assert_eq!(actions("old.example"), both[1..]);
    }

    #[test]
    fn the_name_that_has_the_record_is_the_one_to_change() {
        let platform = PlatformAddresses { target: "edge.platform.example".into(), apex_addresses: Vec::new() };
        let hostname: Hostname = "www.shop.example".parse().unwrap();
        for address in ["192.0.2.1", "2001:db8::1"] {
            let address: IpAddr = address.parse().unwrap();
            for finding in [DnsDestination::Partly(vec![address]), DnsDestination::StaleIpv6(vec![address])] {
                let own = fixes(&hostname, "shop.example", &platform, &finding);
                assert_eq!(
                    (own.len(), own[0].action, own[0].record.name.as_str()),
                    (1, FixAction::Remove, "shop.example")
                );
                let said = sentence(&hostname, "shop.example", &platform, &finding);
                assert!(said.contains("of shop.example") && said.contains("remove"), "{said}");
                let foreign = fixes(&hostname, "hosting.example", &platform, &finding);
                assert_eq!(
                    (foreign.len(), foreign[0].record.line()),
                    (1, target_records(&hostname, &platform)[0].line())
                );
                let said = sentence(&hostname, "hosting.example", &platform, &finding);
                assert!(said.contains("alias of hosting.example") && !said.contains("remove"), "{said}");
            }
        }
    }
}
