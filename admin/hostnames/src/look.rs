//! Judges the resolvers' answers about a hostname: where it leads, and what prevents a certificate.

use std::{net::IpAddr, sync::Arc};

use api::domains::Fix;
use domain::{Hostname, hostname::is_within};

use super::{
    LookError, PlatformAddresses, advice,
    caa::{self, CaaPermission, CaaSet},
    proxies,
};

/// One resolver's view of a hostname.
#[derive(Debug, Clone)]
pub struct HostnameView {
    /// The resolver's address.
    pub resolver: String,
    /// The alias targets of the hostname, nearest first.
    pub aliases: Vec<String>,
    /// The hostname's IPv4 addresses.
    pub ipv4: Result<Vec<IpAddr>, LookError>,
    /// The hostname's IPv6 addresses.
    pub ipv6: Result<Vec<IpAddr>, LookError>,
    /// The platform's addresses.
    pub ours: Result<Vec<IpAddr>, LookError>,
    /// The CAA records that apply to the hostname.
    pub caa: Result<Option<CaaSet>, LookError>,
}

/// The destination to which one resolver leads the visitors of a hostname.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsDestination {
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
    /// Nowhere: the name's own servers fail.
    ServFail {
        /// Whether invalid DNSSEC signatures are the reason.
        is_bogus: bool,
    },
    /// To the platform's own target name, which has no address.
    NoTarget,
    /// Unknown: the resolver could not answer, for this reason.
    Unasked(String),
}

/// The verdict on the answers of all resolvers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostnameVerdict {
    /// The hostname leads here, and DNS does not prevent a certificate.
    Leads,
    /// A record is missing or has not propagated yet. The sentence is for the domain's owner.
    Waiting(String),
    /// A record must be changed. The sentence is for the domain's owner.
    Blocked(String),
}

/// Every resolver's view of a hostname.
#[derive(Debug, Clone)]
pub struct DnsLookup {
    /// The hostname.
    pub hostname: Hostname,
    /// The platform, to which it should lead.
    pub platform: Arc<PlatformAddresses>,
    /// Each resolver's view. Empty for names under `localhost`, which are not looked up.
    pub seen: Vec<HostnameView>,
    /// The authority's identities in CAA records; `None` if no authority issues certificates here.
    pub(super) identities: Option<Vec<String>>,
    pub(super) account: Option<String>,
    pub(super) methods: Arc<[String]>,
}

impl HostnameView {
    /// Returns the name that has the addresses: the hostname's last alias target, or the hostname itself.
    pub fn owner<'a>(&'a self, hostname: &'a Hostname) -> &'a str {
        self.aliases.last().map_or(hostname.as_str(), String::as_str)
    }

    /// Judges where the resolver leads visitors.
    pub fn judge_destination(&self, platform: &PlatformAddresses) -> DnsDestination {
        let (ipv4, ipv6) = match (&self.ipv4, &self.ipv6) {
            (Ok(ipv4), Ok(ipv6)) => (ipv4.as_slice(), ipv6.as_slice()),
            (Ok(ipv4), Err(_)) if !ipv4.is_empty() => (ipv4.as_slice(), &[][..]),
            (Err(_), Ok(ipv6)) if !ipv6.is_empty() => (&[][..], ipv6.as_slice()),
            (Err(LookError::ServFail { is_bogus }), _) | (_, Err(LookError::ServFail { is_bogus })) => {
                return DnsDestination::ServFail { is_bogus: *is_bogus };
            }
            (Err(LookError::Away(why)), _) | (_, Err(LookError::Away(why))) => {
                return DnsDestination::Unasked(why.clone());
            }
        };
        let is_alias_of_ours = self.aliases.contains(&platform.target);
        if ipv4.is_empty() && ipv6.is_empty() {
            return match self.aliases.last() {
                // A local platform's target name is not in DNS, and need not be.
                Some(_) if is_alias_of_ours && platform.is_local() => DnsDestination::Leads,
                Some(_) if is_alias_of_ours => DnsDestination::NoTarget,
                Some(alias) => DnsDestination::Dangling(alias.clone()),
                None => DnsDestination::Nothing,
            };
        }
        if is_alias_of_ours {
            return DnsDestination::Leads;
        }
        let ours = match &self.ours {
            Ok(ours) if ours.is_empty() => return DnsDestination::NoTarget,
            Ok(ours) => ours,
            Err(why) => {
                return DnsDestination::Unasked(format!("the platform's own name could not be looked up: {why}"));
            }
        };
        let strangers = |addresses: &[IpAddr]| -> Vec<IpAddr> {
            addresses.iter().copied().filter(|address| !ours.contains(&address.to_canonical())).collect()
        };
        let (strange4, strange6) = (strangers(ipv4), strangers(ipv6));
        let strange = [strange4.as_slice(), strange6.as_slice()].concat();
        if strange.is_empty() {
            DnsDestination::Leads
        } else if strange.len() == ipv4.len() + ipv6.len() {
            proxies::find_proxy(&strange).map_or(DnsDestination::Elsewhere(strange), DnsDestination::Proxied)
        } else if strange4.is_empty() && !ipv4.is_empty() && strange6.len() == ipv6.len() {
            DnsDestination::StaleIpv6(strange6)
        } else {
            DnsDestination::Partly(strange)
        }
    }
}

impl DnsLookup {
    /// Judges CAA records for the account with this URL at the authority.
    #[must_use]
    pub fn with_account(self, account: Option<String>) -> Self {
        Self { account, ..self }
    }

    /// Judges the answers: one sentence, with the single next step.
    pub fn verdict(&self) -> HostnameVerdict {
        match self.destination() {
            HostnameVerdict::Leads => self.caa_obstacle().map_or(HostnameVerdict::Leads, HostnameVerdict::Blocked),
            obstacle => obstacle,
        }
    }

    /// Judges where the hostname leads, regardless of CAA records.
    pub fn destination(&self) -> HostnameVerdict {
        if is_within(self.hostname.as_str(), "localhost") {
            return if self.platform.is_local() {
                HostnameVerdict::Leads
            } else {
                HostnameVerdict::Blocked(format!(
                    "{} is each visitor's own machine, whatever DNS says; attach a hostname of the internet.",
                    self.hostname
                ))
            };
        }
        let findings: Vec<_> = self.seen.iter().map(|seen| (seen, seen.judge_destination(&self.platform))).collect();
        let asked = || findings.iter().filter(|(_, finding)| !matches!(finding, DnsDestination::Unasked(_)));
        let Some((seen, finding)) = asked().find(|(_, finding)| *finding != DnsDestination::Leads) else {
            if asked().next().is_some() {
                return HostnameVerdict::Leads;
            }
            let why = findings.iter().find_map(|(_, finding)| match finding {
                DnsDestination::Unasked(why) => Some(why.as_str()),
                _ => None,
            });
            return HostnameVerdict::Waiting(advice::lookup_failed_sentence(
                &self.hostname,
                why.unwrap_or("no resolver is known"),
            ));
        };
        let sentence = advice::sentence(&self.hostname, seen.owner(&self.hostname), &self.platform, finding);
        // Neither of these resolves by waiting.
        let stays = matches!(finding, DnsDestination::ServFail { .. } | DnsDestination::Proxied(_));
        if !stays && asked().any(|(_, finding)| *finding == DnsDestination::Leads) {
            return HostnameVerdict::Waiting(format!(
                "The change has not reached every resolver yet, which may take as long as the old record's TTL. As \
                 seen by {}: {sentence}",
                seen.resolver
            ));
        }
        match finding {
            DnsDestination::Nothing | DnsDestination::Dangling(_) | DnsDestination::Elsewhere(_) => {
                HostnameVerdict::Waiting(sentence)
            }
            _ => HostnameVerdict::Blocked(sentence),
        }
    }

    /// Returns whether all answers lead visitors to a known proxy.
    pub fn is_proxied(&self) -> bool {
        self.all(|finding| matches!(finding, DnsDestination::Proxied(_)))
    }

    /// Returns whether all answers lead visitors to servers other than the platform's. These may be proxies that
    /// forward to us.
    pub fn is_elsewhere(&self) -> bool {
        self.all(|finding| matches!(finding, DnsDestination::Proxied(_) | DnsDestination::Elsewhere(_)))
    }

    fn all(&self, is_so: impl Fn(&DnsDestination) -> bool) -> bool {
        let mut asked = self
            .findings()
            .map(|(_, finding)| finding)
            .filter(|it| !matches!(it, DnsDestination::Unasked(_)))
            .peekable();
        asked.peek().is_some() && asked.all(|finding| is_so(&finding))
    }

    /// Returns each resolver with where it leads visitors.
    pub fn findings(&self) -> impl Iterator<Item = (&str, DnsDestination)> {
        self.seen.iter().map(|seen| (seen.resolver.as_str(), seen.judge_destination(&self.platform)))
    }

    /// Returns why CAA records keep our authority from issuing, as a sentence; `None` if they do not, or if that is
    /// unknown.
    pub fn caa_obstacle(&self) -> Option<String> {
        self.caa_refusal().map(|(sentence, _)| sentence)
    }

    /// Returns the records to change, ready for copying.
    pub fn fixes(&self) -> Vec<Fix> {
        let findings = self.seen.iter().map(|seen| (seen, seen.judge_destination(&self.platform)));
        let wrong =
            findings.into_iter().find(|(_, it)| !matches!(it, DnsDestination::Leads | DnsDestination::Unasked(_)));
        let mut fixes = wrong.map_or_else(Vec::new, |(seen, finding)| {
            advice::fixes(&self.hostname, seen.owner(&self.hostname), &self.platform, &finding)
        });
        fixes.extend(self.caa_refusal().and_then(|(_, fix)| fix));
        fixes
    }

    /// Returns the CAA record to add for an authority with these identities, if it must not issue without it for any
    /// account.
    pub fn caa_fix_for(&self, identities: &[String]) -> Option<Fix> {
        self.caa_refusal_for(identities, None)?.1
    }

    fn caa_refusal(&self) -> Option<(String, Option<Fix>)> {
        self.caa_refusal_for(self.identities.as_ref()?, self.account.as_deref())
    }

    fn caa_refusal_for(&self, identities: &[String], account: Option<&str>) -> Option<(String, Option<Fix>)> {
        for seen in &self.seen {
            match &seen.caa {
                Ok(Some(set)) => match caa::judge(set, identities, &self.methods, account) {
                    CaaPermission::Granted | CaaPermission::Unknown => {}
                    refused => return Some(advice::caa_sentence(&self.hostname, set, &refused, identities)),
                },
                // An authority that cannot read CAA records must not issue. If every query fails, that is reported
                // already.
                Err(LookError::ServFail { is_bogus })
                    if seen.judge_destination(&self.platform) == DnsDestination::Leads =>
                {
                    return Some((advice::unreadable_caa(&self.hostname, *is_bogus), None));
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
