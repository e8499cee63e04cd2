//! What the resolvers say of a hostname, judged: where it leads, and what is in the way of a certificate.

use std::{net::IpAddr, sync::Arc};

use api::domains::Fix;
use domain::{Hostname, hostname::is_within};

use super::{
    LookError, Platform, advice,
    caa::{self, CaaSet, Permission},
    proxies,
};

/// One resolver's view of a hostname.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The resolver's address.
    pub resolver: String,
    /// The names that the hostname is an alias of, the nearest first.
    pub aliases: Vec<String>,
    /// Its IPv4 addresses.
    pub ipv4: Result<Vec<IpAddr>, LookError>,
    /// Its IPv6 addresses.
    pub ipv6: Result<Vec<IpAddr>, LookError>,
    /// The platform's addresses.
    pub ours: Result<Vec<IpAddr>, LookError>,
    /// The CAA records that count for it.
    pub caa: Result<Option<CaaSet>, LookError>,
}

/// The destination to which one resolver leads the visitors of a hostname.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Here, over every address.
    Leads,
    /// Nowhere: there is no record.
    Nothing,
    /// Nowhere: the hostname is an alias of a name without an address.
    Dangling(String),
    /// To these addresses, none of which is the platform's.
    Elsewhere(Vec<IpAddr>),
    /// Here and to these addresses.
    Partly(Vec<IpAddr>),
    /// Here over IPv4, and elsewhere over IPv6.
    StaleIpv6(Vec<IpAddr>),
    /// To a proxy of this name.
    Proxied(&'static str),
    /// Nowhere: the answers of the name's own servers cannot be used.
    ServFail,
    /// To the platform's name, which has no address itself.
    NoTarget,
    /// The resolver could not say, for this reason.
    Unasked(String),
}

/// The verdict on a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The hostname leads here, and nothing in DNS is in the way of a certificate.
    Leads,
    /// A record is still to be set, or to spread. The sentence is for the domain's owner.
    Waiting(String),
    /// A record has to be changed. The sentence is for the domain's owner.
    Blocked(String),
}

/// Every resolver's view of a hostname.
#[derive(Debug, Clone)]
pub struct Look {
    /// The hostname.
    pub hostname: Hostname,
    /// Its proper destination.
    pub platform: Arc<Platform>,
    /// Each resolver's view. Nobody is asked about names under `localhost`.
    pub seen: Vec<Seen>,
    /// The authority's names in CAA records; none when no authority is asked for certificates.
    pub(super) identities: Option<Vec<String>>,
    /// The validation methods that are open to us.
    pub(super) methods: Arc<[String]>,
}

impl Seen {
    /// Judges where the resolver leads visitors.
    pub fn finding(&self, platform: &Platform) -> Finding {
        let (ipv4, ipv6) = match (&self.ipv4, &self.ipv6) {
            (Ok(ipv4), Ok(ipv6)) => (ipv4.as_slice(), ipv6.as_slice()),
            (Ok(ipv4), Err(_)) if !ipv4.is_empty() => (ipv4.as_slice(), &[][..]),
            (Err(_), Ok(ipv6)) if !ipv6.is_empty() => (&[][..], ipv6.as_slice()),
            (Err(LookError::ServFail), _) | (_, Err(LookError::ServFail)) => return Finding::ServFail,
            (Err(LookError::Away(why)), _) | (_, Err(LookError::Away(why))) => return Finding::Unasked(why.clone()),
        };
        let is_alias_of_ours = self.aliases.contains(&platform.target);
        if ipv4.is_empty() && ipv6.is_empty() {
            return match self.aliases.last() {
                // A local platform's name is in nobody's DNS, and needs none.
                Some(_) if is_alias_of_ours && platform.is_local() => Finding::Leads,
                Some(_) if is_alias_of_ours => Finding::NoTarget,
                Some(alias) => Finding::Dangling(alias.clone()),
                None => Finding::Nothing,
            };
        }
        if is_alias_of_ours {
            return Finding::Leads;
        }
        let ours = match &self.ours {
            Ok(ours) if ours.is_empty() => return Finding::NoTarget,
            Ok(ours) => ours,
            Err(why) => return Finding::Unasked(format!("the platform's own name could not be looked up: {why}")),
        };
        let strangers = |addresses: &[IpAddr]| -> Vec<IpAddr> {
            addresses.iter().copied().filter(|address| !ours.contains(&address.to_canonical())).collect()
        };
        let (strange4, strange6) = (strangers(ipv4), strangers(ipv6));
        let strange = [strange4.as_slice(), strange6.as_slice()].concat();
        if strange.is_empty() {
            Finding::Leads
        } else if strange.len() == ipv4.len() + ipv6.len() {
            proxies::of(&strange).map_or(Finding::Elsewhere(strange), Finding::Proxied)
        } else if strange4.is_empty() && !ipv4.is_empty() && strange6.len() == ipv6.len() {
            Finding::StaleIpv6(strange6)
        } else {
            Finding::Partly(strange)
        }
    }
}

impl Look {
    /// Judges the look: one sentence, with the one next step.
    pub fn verdict(&self) -> Verdict {
        if is_within(self.hostname.as_str(), "localhost") {
            return if self.platform.is_local() {
                Verdict::Leads
            } else {
                Verdict::Blocked(format!(
                    "{} is each visitor's own machine, whatever DNS says; attach a hostname of the internet.",
                    self.hostname
                ))
            };
        }
        let findings: Vec<_> = self.findings().collect();
        let asked = || findings.iter().filter(|(_, finding)| !matches!(finding, Finding::Unasked(_)));
        let Some((resolver, finding)) = asked().find(|(_, finding)| *finding != Finding::Leads) else {
            if asked().next().is_some() {
                return self.caa_obstacle().map_or(Verdict::Leads, Verdict::Blocked);
            }
            let why = findings.iter().find_map(|(_, finding)| match finding {
                Finding::Unasked(why) => Some(why.as_str()),
                _ => None,
            });
            return Verdict::Waiting(advice::unasked(&self.hostname, why.unwrap_or("no resolver is known")));
        };
        let sentence = advice::sentence(&self.hostname, &self.platform, finding);
        if asked().any(|(_, finding)| *finding == Finding::Leads) {
            return Verdict::Waiting(format!(
                "The change has not reached every resolver yet, which may take as long as the old record's TTL. As \
                 seen by {resolver}: {sentence}"
            ));
        }
        match finding {
            Finding::Nothing | Finding::Dangling(_) | Finding::Elsewhere(_) => Verdict::Waiting(sentence),
            _ => Verdict::Blocked(sentence),
        }
    }

    /// Each resolver with where it leads visitors.
    pub fn findings(&self) -> impl Iterator<Item = (&str, Finding)> {
        self.seen.iter().map(|seen| (seen.resolver.as_str(), seen.finding(&self.platform)))
    }

    /// Why CAA records keep our authority from issuing, as a sentence; none when they do not, or nobody could say.
    pub fn caa_obstacle(&self) -> Option<String> {
        self.caa_refusal().map(|(sentence, _)| sentence)
    }

    /// The records to change, for copying.
    pub fn fixes(&self) -> Vec<Fix> {
        let finding =
            self.findings().map(|(_, finding)| finding).find(|it| !matches!(it, Finding::Leads | Finding::Unasked(_)));
        let mut fixes = finding.map_or_else(Vec::new, |finding| {
            let aliased = self.seen.iter().any(|seen| !seen.aliases.is_empty());
            advice::fixes(&self.hostname, &self.platform, &finding, aliased)
        });
        fixes.extend(self.caa_refusal().and_then(|(_, fix)| fix));
        fixes
    }

    /// Why CAA records keep our authority from issuing, and the record to add.
    fn caa_refusal(&self) -> Option<(String, Option<Fix>)> {
        let identities = self.identities.as_ref()?;
        for seen in &self.seen {
            match &seen.caa {
                Ok(Some(set)) => match caa::judge(set, identities, &self.methods) {
                    Permission::Granted { .. } | Permission::Unknown => {}
                    refused => return Some(advice::caa(&self.hostname, set, &refused, identities)),
                },
                // An authority that cannot read them must not issue. Where everything fails, that is said already.
                Err(LookError::ServFail) if seen.finding(&self.platform) == Finding::Leads => {
                    return Some((advice::unreadable_caa(&self.hostname), None));
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn platform() -> Platform {
        Platform { target: "edge.platform.example".into(), apex_addresses: addresses(&["198.51.100.7"]) }
    }

    fn seen(ipv4: &[&str], ipv6: &[&str]) -> Seen {
        Seen {
            resolver: "192.0.2.53".into(),
            aliases: Vec::new(),
            ipv4: Ok(addresses(ipv4)),
            ipv6: Ok(addresses(ipv6)),
            ours: Ok(addresses(&["198.51.100.7", "2001:db8::7"])),
            caa: Ok(None),
        }
    }

    fn look(hostname: &str, seen: Vec<Seen>) -> Look {
        Look {
            hostname: hostname.parse().unwrap(),
            platform: Arc::new(platform()),
            seen,
            identities: Some(vec!["letsencrypt.org".into()]),
            methods: vec!["http-01".to_owned()].into(),
        }
    }

    fn silent() -> Seen {
        let away = || LookError::Away("it did not answer within 3 seconds".into());
        Seen { ipv4: Err(away()), ipv6: Err(away()), caa: Err(away()), ..seen(&[], &[]) }
    }

    #[test]
    fn a_finding_says_where_visitors_get_to() {
        let at = |ipv4: &[&str], ipv6: &[&str]| seen(ipv4, ipv6).finding(&platform());
        assert_eq!(at(&["198.51.100.7"], &[]), Finding::Leads);
        assert_eq!(at(&["198.51.100.7"], &["2001:db8::7"]), Finding::Leads);
        assert_eq!(at(&[], &["2001:db8::7"]), Finding::Leads);
        assert_eq!(at(&[], &[]), Finding::Nothing);
        assert_eq!(at(&["192.0.2.1"], &[]), Finding::Elsewhere(addresses(&["192.0.2.1"])));
        assert_eq!(at(&["104.16.1.1"], &["2606:4700::1"]), Finding::Proxied("Cloudflare"));
        assert_eq!(at(&["198.51.100.7", "192.0.2.1"], &[]), Finding::Partly(addresses(&["192.0.2.1"])));
        assert_eq!(at(&["198.51.100.7"], &["2001:db8::1"]), Finding::StaleIpv6(addresses(&["2001:db8::1"])));
        assert_eq!(at(&["192.0.2.1"], &["2001:db8::7"]), Finding::Partly(addresses(&["192.0.2.1"])));
    }

    #[test]
    fn aliases_count_wherever_they_lead() {
        let alias = |of: &str, ipv4: &[&str]| Seen { aliases: vec![of.to_owned()], ..seen(ipv4, &[]) };
        // Addresses of the target that were not seen a moment ago are the platform's too.
        assert_eq!(alias("edge.platform.example", &["192.0.2.200"]).finding(&platform()), Finding::Leads);
        assert_eq!(alias("edge.platform.example", &[]).finding(&platform()), Finding::NoTarget);
        assert_eq!(alias("gone.example", &[]).finding(&platform()), Finding::Dangling("gone.example".into()));
        assert_eq!(
            alias("old.example", &["192.0.2.1"]).finding(&platform()),
            Finding::Elsewhere(addresses(&["192.0.2.1"]))
        );
    }

    #[test]
    fn what_could_not_be_asked_is_never_wrong() {
        let failed = Seen { ipv4: Err(LookError::ServFail), ipv6: Err(LookError::ServFail), ..seen(&[], &[]) };
        assert_eq!(failed.finding(&platform()), Finding::ServFail);
        assert!(matches!(silent().finding(&platform()), Finding::Unasked(_)));
        let half = Seen { ipv6: Err(LookError::Away("x".into())), ..seen(&["198.51.100.7"], &[]) };
        assert_eq!(half.finding(&platform()), Finding::Leads);
        let lost = Seen { ours: Err(LookError::Away("x".into())), ..seen(&["192.0.2.1"], &[]) };
        assert!(matches!(lost.finding(&platform()), Finding::Unasked(_)));

        assert!(matches!(look("www.shop.example", vec![silent()]).verdict(), Verdict::Waiting(_)));
        assert!(matches!(look("www.shop.example", Vec::new()).verdict(), Verdict::Waiting(_)));
        assert_eq!(look("www.shop.example", vec![silent(), seen(&["198.51.100.7"], &[])]).verdict(), Verdict::Leads);
    }

    #[test]
    fn a_verdict_is_one_sentence_with_the_record_to_set() {
        let said = |hostname: &str, seen: Seen| match look(hostname, vec![seen]).verdict() {
            Verdict::Leads => panic!("it leads"),
            Verdict::Waiting(said) => (false, said),
            Verdict::Blocked(said) => (true, said),
        };
        let (is_blocked, nothing) = said("www.shop.example", seen(&[], &[]));
        assert!(!is_blocked && nothing.contains("www.shop.example.  CNAME  edge.platform.example."), "{nothing}");
        assert!(nothing.contains("DNS of shop.example"), "{nothing}");
        let (is_blocked, elsewhere) = said("shop.example", seen(&["192.0.2.1"], &[]));
        assert!(!is_blocked && elsewhere.contains("192.0.2.1"), "{elsewhere}");
        assert!(elsewhere.contains("shop.example.  A  198.51.100.7"), "an apex: {elsewhere}");
        let (is_blocked, stale) = said("www.shop.example", seen(&["198.51.100.7"], &["2001:db8::1"]));
        assert!(is_blocked && stale.contains("AAAA") && stale.contains("2001:db8::1"), "{stale}");
        let (is_blocked, proxied) = said("www.shop.example", seen(&["104.16.1.1"], &[]));
        assert!(is_blocked && proxied.contains("Cloudflare") && proxied.contains("DNS only"), "{proxied}");
        let failed = Seen { ipv4: Err(LookError::ServFail), ipv6: Err(LookError::ServFail), ..seen(&[], &[]) };
        let (is_blocked, failed) = said("www.shop.example", failed);
        assert!(is_blocked && failed.contains("DNSSEC"), "{failed}");
        for said in [nothing, elsewhere, stale, proxied, failed] {
            assert!(said.ends_with('.') && !said.contains("  ."), "{said}");
        }
    }

    #[test]
    fn a_change_on_its_way_is_waited_for() {
        let verdict = look("www.shop.example", vec![seen(&["198.51.100.7"], &[]), seen(&["192.0.2.1"], &[])]).verdict();
        assert!(matches!(&verdict, Verdict::Waiting(said) if said.contains("192.0.2.53")), "{verdict:?}");
    }

    #[test]
    fn caa_records_count_once_the_name_leads_here() {
        let record = |value: &str| caa::CaaRecord { is_critical: false, tag: "issue".into(), value: value.into() };
        let set = |value: &str| Ok(Some(CaaSet { at: "shop.example".into(), records: vec![record(value)] }));
        let with = |caa, ipv4: &[&str]| look("www.shop.example", vec![Seen { caa, ..seen(ipv4, &[]) }]);
        assert_eq!(with(set("letsencrypt.org"), &["198.51.100.7"]).verdict(), Verdict::Leads);
        let refused = with(set("other.example"), &["198.51.100.7"]);
        let verdict = refused.verdict();
        let record = "shop.example.  CAA  0 issue \"letsencrypt.org\"";
        assert!(matches!(&verdict, Verdict::Blocked(said) if said.contains(record)), "{verdict:?}");
        assert_eq!(refused.fixes().len(), 1);
        assert!(matches!(with(set("other.example"), &[]).verdict(), Verdict::Waiting(_)));
        assert_eq!(with(set("other.example"), &[]).fixes().len(), 2, "both are shown");
        let unreadable = with(Err(LookError::ServFail), &["198.51.100.7"]).verdict();
        assert!(matches!(&unreadable, Verdict::Blocked(said) if said.contains("CAA")), "{unreadable:?}");
        let unasked = with(Err(LookError::Away("x".into())), &["198.51.100.7"]).verdict();
        assert_eq!(unasked, Verdict::Leads);
        // Without an authority nobody reads them.
        let imported = Look { identities: None, ..with(set("other.example"), &["198.51.100.7"]) };
        assert_eq!(imported.verdict(), Verdict::Leads);
    }

    #[test]
    fn names_under_localhost_lead_to_a_local_platform_only() {
        assert!(matches!(look("www.shop.localhost", Vec::new()).verdict(), Verdict::Blocked(_)));
        let local = Platform { target: "edge.svc.localhost".into(), apex_addresses: Vec::new() };
        let look = Look { platform: Arc::new(local), ..look("www.shop.localhost", Vec::new()) };
        assert_eq!(look.verdict(), Verdict::Leads);
    }
}
