//! Verdicts on invented answers.

use super::*;

fn addresses(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

fn platform() -> PlatformAddresses {
    PlatformAddresses { target: "edge.platform.example".into(), apex_addresses: addresses(&["198.51.100.7"]) }
}

fn seen(ipv4: &[&str], ipv6: &[&str]) -> HostnameView {
    HostnameView {
        resolver: "192.0.2.53".into(),
        aliases: Vec::new(),
        ipv4: Ok(addresses(ipv4)),
        ipv6: Ok(addresses(ipv6)),
        ours: Ok(addresses(&["198.51.100.7", "2001:db8::7"])),
        caa: Ok(None),
    }
}

fn look(hostname: &str, seen: Vec<HostnameView>) -> DnsLookup {
    DnsLookup {
        hostname: hostname.parse().unwrap(),
        platform: Arc::new(platform()),
        seen,
        identities: Some(vec!["letsencrypt.org".into()]),
        account: None,
        methods: vec!["http-01".to_owned()].into(),
    }
}

fn silent() -> HostnameView {
    let away = || LookError::Away("it did not answer within 3 seconds".into());
    HostnameView { ipv4: Err(away()), ipv6: Err(away()), caa: Err(away()), ..seen(&[], &[]) }
}

fn failing(is_bogus: bool) -> HostnameView {
    let failed = || LookError::ServFail { is_bogus };
    HostnameView { ipv4: Err(failed()), ipv6: Err(failed()), ..seen(&[], &[]) }
}

#[test]
fn a_finding_says_where_visitors_get_to() {
    let at = |ipv4: &[&str], ipv6: &[&str]| seen(ipv4, ipv6).judge_destination(&platform());
    assert_eq!(at(&["198.51.100.7"], &[]), DnsDestination::Leads);
    assert_eq!(at(&["198.51.100.7"], &["2001:db8::7"]), DnsDestination::Leads);
    assert_eq!(at(&[], &["2001:db8::7"]), DnsDestination::Leads);
    assert_eq!(at(&[], &[]), DnsDestination::Nothing);
    assert_eq!(at(&["192.0.2.1"], &[]), DnsDestination::Elsewhere(addresses(&["192.0.2.1"])));
    assert_eq!(at(&["104.16.1.1"], &["2606:4700::1"]), DnsDestination::Proxied("Cloudflare"));
    assert_eq!(at(&["198.51.100.7", "192.0.2.1"], &[]), DnsDestination::Partly(addresses(&["192.0.2.1"])));
    assert_eq!(at(&["198.51.100.7"], &["2001:db8::1"]), DnsDestination::StaleIpv6(addresses(&["2001:db8::1"])));
    assert_eq!(at(&["192.0.2.1"], &["2001:db8::7"]), DnsDestination::Partly(addresses(&["192.0.2.1"])));
}

#[test]
fn aliases_count_wherever_they_lead() {
    let alias = |of: &str, ipv4: &[&str]| HostnameView { aliases: vec![of.to_owned()], ..seen(ipv4, &[]) };
    // Other addresses of the alias target are the platform's too.
    assert_eq!(alias("edge.platform.example", &["192.0.2.200"]).judge_destination(&platform()), DnsDestination::Leads);
    assert_eq!(alias("edge.platform.example", &[]).judge_destination(&platform()), DnsDestination::NoTarget);
    assert_eq!(
        alias("gone.example", &[]).judge_destination(&platform()),
        DnsDestination::Dangling("gone.example".into())
    );
    assert_eq!(
        alias("old.example", &["192.0.2.1"]).judge_destination(&platform()),
        DnsDestination::Elsewhere(addresses(&["192.0.2.1"]))
    );
}

#[test]
fn what_could_not_be_asked_is_never_wrong() {
    assert_eq!(failing(false).judge_destination(&platform()), DnsDestination::ServFail { is_bogus: false });
    assert!(matches!(silent().judge_destination(&platform()), DnsDestination::Unasked(_)));
    let half = HostnameView { ipv6: Err(LookError::Away("x".into())), ..seen(&["198.51.100.7"], &[]) };
    assert_eq!(half.judge_destination(&platform()), DnsDestination::Leads);
    let lost = HostnameView { ours: Err(LookError::Away("x".into())), ..seen(&["192.0.2.1"], &[]) };
    assert!(matches!(lost.judge_destination(&platform()), DnsDestination::Unasked(_)));

    assert!(matches!(look("www.shop.example", vec![silent()]).verdict(), HostnameVerdict::Waiting(_)));
    assert!(matches!(look("www.shop.example", Vec::new()).verdict(), HostnameVerdict::Waiting(_)));
    assert_eq!(
        look("www.shop.example", vec![silent(), seen(&["198.51.100.7"], &[])]).verdict(),
        HostnameVerdict::Leads
    );
}

#[test]
fn a_verdict_is_one_sentence_with_the_record_to_set() {
    let said = |hostname: &str, seen: HostnameView| match look(hostname, vec![seen]).verdict() {
        HostnameVerdict::Leads => panic!("it leads"),
        HostnameVerdict::Waiting(said) => (false, said),
        HostnameVerdict::Blocked(said) => (true, said),
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
    let (is_blocked, failed) = said("www.shop.example", failing(false));
    assert!(is_blocked && failed.contains("name servers") && !failed.contains("DNSSEC"), "{failed}");
    let (is_blocked, bogus) = said("www.shop.example", failing(true));
    assert!(is_blocked && bogus.contains("DNSSEC") && bogus.contains("DS record of shop.example"), "{bogus}");
    for said in [nothing, elsewhere, stale, proxied, failed, bogus] {
        assert!(said.ends_with('.') && !said.contains("  ."), "{said}");
    }
}

#[test]
fn a_change_on_its_way_is_waited_for() {
    let verdict = look("www.shop.example", vec![seen(&["198.51.100.7"], &[]), seen(&["192.0.2.1"], &[])]).verdict();
    assert!(matches!(&verdict, HostnameVerdict::Waiting(said) if said.contains("192.0.2.53")), "{verdict:?}");
}

#[test]
fn what_does_not_pass_by_waiting_is_not_waited_for() {
    for stays in [failing(false), failing(true), seen(&["104.16.1.1"], &[])] {
        let verdict = look("www.shop.example", vec![seen(&["198.51.100.7"], &[]), stays]).verdict();
        assert!(matches!(&verdict, HostnameVerdict::Blocked(said) if !said.contains("TTL")), "{verdict:?}");
    }
}

#[test]
fn a_proxy_is_one_for_all_who_could_be_asked() {
    let is = |seen: Vec<HostnameView>| {
        let look = look("www.shop.example", seen);
        (look.is_proxied(), look.is_elsewhere())
    };
    let (proxied, elsewhere) = (seen(&["104.16.1.1"], &[]), seen(&["192.0.2.1"], &[]));
    assert_eq!(is(vec![proxied.clone(), silent()]), (true, true));
    assert_eq!(is(vec![proxied.clone(), elsewhere]), (false, true));
    assert_eq!(is(vec![proxied, seen(&["198.51.100.7"], &[])]), (false, false));
    assert_eq!(is(vec![silent()]), (false, false));
}

#[test]
fn caa_records_count_once_the_name_leads_here() {
    let record = |value: &str| caa::CaaRecord { is_critical: false, tag: "issue".into(), value: value.into() };
    let set = |value: &str| Ok(Some(CaaSet { at: "shop.example".into(), records: vec![record(value)] }));
    let with = |caa, ipv4: &[&str]| look("www.shop.example", vec![HostnameView { caa, ..seen(ipv4, &[]) }]);
    assert_eq!(with(set("letsencrypt.org"), &["198.51.100.7"]).verdict(), HostnameVerdict::Leads);
    let refused = with(set("other.example"), &["198.51.100.7"]);
    let verdict = refused.verdict();
    let record = "shop.example.  CAA  0 issue \"letsencrypt.org\"";
    assert!(matches!(&verdict, HostnameVerdict::Blocked(said) if said.contains(record)), "{verdict:?}");
    assert_eq!(refused.fixes().len(), 1);
    assert!(matches!(with(set("other.example"), &[]).verdict(), HostnameVerdict::Waiting(_)));
    assert_eq!(with(set("other.example"), &[]).fixes().len(), 2, "both are shown");
    for (is_bogus, why) in [(false, "SERVFAIL"), (true, "DNSSEC")] {
        let unreadable = with(Err(LookError::ServFail { is_bogus }), &["198.51.100.7"]).verdict();
        let is_said =
            matches!(&unreadable, HostnameVerdict::Blocked(said) if said.contains("CAA") && said.contains(why));
        assert!(is_said, "{unreadable:?}");
    }
    let unasked = with(Err(LookError::Away("x".into())), &["198.51.100.7"]).verdict();
    assert_eq!(unasked, HostnameVerdict::Leads);
    let bound = || with(set("letsencrypt.org; accounturi=https://ca.example/acct/7"), &["198.51.100.7"]);
    let by = |account: &str| bound().with_account(Some(account.to_owned()));
    assert_eq!(bound().verdict(), HostnameVerdict::Leads, "there is no account yet");
    assert_eq!(by("https://ca.example/acct/7").verdict(), HostnameVerdict::Leads);
    let other = by("https://ca.example/acct/8");
    let record = "CAA  0 issue \"letsencrypt.org; accounturi=https://ca.example/acct/8\"";
    assert!(
        matches!(other.verdict(), HostnameVerdict::Blocked(said) if said.contains(record)),
        "{:?}",
        other.verdict()
    );
    assert_eq!(other.fixes().len(), 1);
    // Without an authority, CAA records are irrelevant.
    let imported = DnsLookup { identities: None, ..with(set("other.example"), &["198.51.100.7"]) };
    assert_eq!(imported.verdict(), HostnameVerdict::Leads);
}

#[test]
fn names_under_localhost_lead_to_a_local_platform_only() {
    assert!(matches!(look("www.shop.localhost", Vec::new()).verdict(), HostnameVerdict::Blocked(_)));
    let local = PlatformAddresses { target: "edge.svc.localhost".into(), apex_addresses: Vec::new() };
    let look = DnsLookup { platform: Arc::new(local), ..look("www.shop.localhost", Vec::new()) };
    assert_eq!(look.verdict(), HostnameVerdict::Leads);
}
