use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, PKCS_ED25519,
    PKCS_RSA_SHA256, SanType,
};

use super::*;

const DAY: Duration = Duration::from_hours(24);

fn now() -> Timestamp {
    Timestamp::from_unix_millis(1_800_000_000_000)
}

/// A root, an intermediate, and a leaf for `names`, which `change` adjusts before it is signed.
struct Made {
    leaf: String,
    intermediate: String,
    root: String,
    key: String,
}

fn made(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Made {
    let key = KeyPair::generate().unwrap();
    made_with(&key, names, change)
}

fn made_with(key: &KeyPair, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Made {
    let authority = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, "Tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    };
    let (root_key, intermediate_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let (root, intermediate) = (authority("Root"), authority("Intermediate"));
    let root_issuer = Issuer::from_params(&root, &root_key);
    let intermediate_pem = intermediate.signed_by(&intermediate_key, &root_issuer).unwrap().pem();
    let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    params.not_before = (now() - DAY).as_datetime();
    params.not_after = (now() + DAY * 89).as_datetime();
    change(&mut params);
    let leaf = params.signed_by(key, &Issuer::from_params(&intermediate, &intermediate_key)).unwrap().pem();
    Made {
        leaf,
        intermediate: intermediate_pem,
        root: root.self_signed(&root_key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

fn judge(chain: &[&str], key: &str) -> Result<CertificateChain, ChainError> {
    CertificateChain::judge(chain.concat().as_bytes(), key.as_bytes(), now())
}

fn refusal(chain: &[&str], key: &str) -> ChainError {
    judge(chain, key).err().expect("it was accepted")
}

#[test]
fn a_whole_chain_is_taken_for_the_names_in_it() {
    let made = made(&["WWW.Example.test", "example.test", "*.b.example.test"], |_| {});
    let chain = judge(&[&made.leaf, &made.intermediate], &made.key).unwrap();
    assert_eq!(chain.names, ["*.b.example.test", "example.test", "www.example.test"]);
    assert_eq!(chain.issuer, "Intermediate (Tests)");
    assert_eq!(days_left(chain.not_after, now()), 89);
    assert_eq!((chain.not_before, &chain.notes), (now() - DAY, &Vec::new()));
    assert_eq!(chain_issuer(&chain.chain_pem).as_deref(), Some("Intermediate (Tests)"));
    // A chain may end with the root, as some authorities issue it. The stored form parses the same way.
    let with_root = judge(&[&made.leaf, &made.intermediate, &made.root], &made.key).unwrap();
    let again = judge(&[&with_root.chain_pem], &with_root.key_pem).unwrap();
    assert_eq!((again.chain_pem, again.key_pem), (with_root.chain_pem, with_root.key_pem));
}

#[test]
fn what_else_a_file_holds_is_not_stored() {
    let made = made(&["example.test"], |_| {});
    let all = format!("a word\n{}\n# another\n{}{}", made.key, made.leaf.replace('\n', "\r\n"), made.intermediate);
    let chain = judge(&[&all], &all).unwrap();
    assert!(!chain.chain_pem.contains("PRIVATE KEY") && !chain.chain_pem.contains("word"), "{}", chain.chain_pem);
    assert!(!chain.key_pem.contains("BEGIN CERTIFICATE"));
}

#[test]
fn every_kind_of_key_that_edges_can_use() {
    for key in [KeyPair::generate_for(&PKCS_ED25519).unwrap(), KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap()] {
        let made = made_with(&key, &["example.test"], |_| {});
        assert!(judge(&[&made.leaf, &made.intermediate], &made.key).is_ok());
    }
}

#[test]
fn keys_that_are_of_no_use_are_refused() {
    let (made, other) = (made(&["example.test"], |_| {}), made(&["other.test"], |_| {}));
    let chain = [made.leaf.as_str(), &made.intermediate];
    assert_eq!(refusal(&chain, &other.key), ChainError::OtherKey(None));
    // The order is wrong, and the key tells which certificate was meant.
    assert_eq!(refusal(&[&made.intermediate, &made.leaf], &made.key), ChainError::OtherKey(Some(2)));
    assert_eq!(refusal(&chain, ""), ChainError::NoKey);
    assert_eq!(refusal(&chain, &made.leaf), ChainError::NoKey);
    let label = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert_eq!(refusal(&chain, label), ChainError::EncryptedKey);
    assert_eq!(
        refusal(&chain, "-----BEGIN PRIVATE KEY-----\n%%%\n-----END PRIVATE KEY-----\n"),
        ChainError::Pem("key")
    );
    let nonsense = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert_eq!(refusal(&chain, nonsense), ChainError::UnusableKey);
}

#[test]
fn chains_that_are_none_are_refused() {
    let (made, other) = (made(&["example.test"], |_| {}), made(&["other.test"], |_| {}));
    let key = &made.key;
    assert_eq!(refusal(&[""], key), ChainError::NoCertificate);
    assert_eq!(refusal(&[key], key), ChainError::NoCertificate);
    // The same names with another key: only the signature tells.
    assert_eq!(refusal(&[&made.leaf, &other.intermediate], key), ChainError::Order(1));
    assert_eq!(refusal(&[&made.leaf, &made.root, &made.intermediate], key), ChainError::Order(1));
    assert_eq!(refusal(&[&made.leaf, &made.intermediate, &made.leaf], key), ChainError::Order(2));
    assert_eq!(refusal(&[&made.leaf.repeat(11)], key), ChainError::TooLong);
    assert_eq!(
        refusal(&["-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----\n"], key),
        ChainError::Pem("chain")
    );
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(refusal(&[&made.leaf, nonsense], key), ChainError::Unreadable(2));
}

#[test]
fn leaves_that_visitors_would_refuse_are_refused() {
    let refused = |names: &[&str], change: fn(&mut CertificateParams)| {
        let made = made(names, change);
        refusal(&[&made.leaf, &made.intermediate], &made.key)
    };
    let ended = refused(&["example.test"], |params| params.not_after = now().as_datetime());
    assert_eq!(ended, ChainError::Expired(now()));
    let early = refused(&["example.test"], |params| params.not_before = (now() + DAY).as_datetime());
    assert_eq!(early, ChainError::NotYet(now() + DAY));
    let authority = refused(&["example.test"], |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    assert_eq!(authority, ChainError::Authority);
    let clients = refused(&["example.test"], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    assert_eq!(clients, ChainError::NotForServers);
    assert_eq!(refused(&[], |_| {}), ChainError::NoNames);
    let address = |params: &mut CertificateParams| {
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    };
    assert_eq!(refused(&[], address), ChainError::NoNames);
    assert_eq!(refused(&["a b", "*.*.test", "w*.test"], |_| {}), ChainError::NoNames);
    let many: Vec<_> = (0..=NAMES).map(|number| format!("{number}.test")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(refused(&many, |_| {}), ChainError::TooManyNames);
}

#[test]
fn what_is_odd_is_said() {
    let made_soon = made(&["example.test", "a b"], |params| params.not_after = (now() + DAY * 3).as_datetime());
    let chain = judge(&[&made_soon.leaf], &made_soon.key).unwrap();
    assert_eq!(chain.notes, [ChainNote::LeftOut("a b".to_owned()), ChainNote::NoIntermediate, ChainNote::EndsSoon(3)]);
    assert_eq!(chain.names, ["example.test"]);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["example.test".to_owned()]).unwrap();
    (params.not_before, params.not_after) = ((now() - DAY).as_datetime(), (now() + DAY * 30).as_datetime());
    let own = params.self_signed(&key).unwrap().pem();
    assert_eq!(judge(&[&own], &key.serialize_pem()).unwrap().notes, [ChainNote::SelfSigned]);
}

#[test]
fn a_presented_certificate_is_read_as_people_know_it() {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let made = made(&["www.example.com", "*.example.com"], |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
    });
    let leaf = PresentedCertificate::read(&der(&made.leaf)).unwrap();
    assert_eq!((leaf.issuer.as_str(), leaf.subject.as_deref()), ("Intermediate (Tests)", None));
    assert_eq!(leaf.names, ["www.example.com", "*.example.com"]);
    assert_eq!((leaf.not_before, leaf.not_after), (now() - DAY, now() + DAY * 89));
    assert!(!leaf.is_self_issued);
    let root = PresentedCertificate::read(&der(&made.root)).unwrap();
    assert_eq!((root.subject.as_deref(), root.is_self_issued), (Some("Root (Tests)"), true));
    let long = made_with(&KeyPair::generate().unwrap(), &["a.example"], |params| {
        params.distinguished_name.push(DnType::CommonName, "\u{1b}[31m".to_owned() + &"x".repeat(5_000));
    });
    let subject = PresentedCertificate::read(&der(&long.leaf)).unwrap().subject.unwrap();
    assert!(subject.starts_with("[31mx") && subject.len() == SHOWN_NAME, "{subject}");
    assert_eq!(PresentedCertificate::read(b"nothing"), None);
}
