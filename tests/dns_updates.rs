//! TXT records for `dns-01`, written into a zone of BIND's by dynamic updates (RFC 2136).

use certs::dns01::{DnsError, RecordWriter};
use config::acme::{DnsChallengeConfig, DynamicDnsServer};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::bind::{Bind, KEY_NAME};

const ZONE: &str = "acme.example";
const NAME: &str = "_acme-challenge.www.acme.example";

/// A writer with the settings for `bind`, but for these.
fn writer(bind: &Bind, other: &Value) -> RecordWriter {
    let mut settings = bind.rfc2136();
    settings.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    let rfc2136: DynamicDnsServer = serde_json::from_value(settings).unwrap();
    RecordWriter::from_config(&DnsChallengeConfig { rfc2136: Some(rfc2136), ..DnsChallengeConfig::default() })
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn values_come_and_go_one_by_one() {
    let folder = TempDir::new().unwrap();
    let mut bind = Bind::start(folder.path(), ZONE).await;
    // With the zone in the settings, and with the one that the server names.
    for other in [&json!({}), &json!({ "zone": null })] {
        let writer = writer(&bind, other);
        assert_eq!(bind.texts(NAME), [""; 0]);
        writer.add(NAME, "first").await.unwrap();
        writer.add(NAME, "second").await.unwrap();
        writer.add(NAME, "second").await.unwrap();
        assert_eq!(bind.texts(NAME), ["first", "second"]);
        writer.remove(NAME, "first").await.unwrap();
        writer.remove(NAME, "first").await.unwrap();
        assert_eq!(bind.texts(NAME), ["second"]);
        bind.restart().await;
        assert_eq!(bind.texts(NAME), ["second"], "it outlives the server");
        writer.remove(NAME, "second").await.unwrap();
        assert_eq!(bind.texts(NAME), [""; 0]);
    }
    let at_once = writer(&bind, &json!({}));
    let values: Vec<String> = (0..20).map(|number| format!("value-{number:02}")).collect();
    let added = values.iter().map(|value| at_once.add(NAME, value));
    futures_util::future::try_join_all(added).await.unwrap();
    assert_eq!(bind.texts(NAME), values);
}

#[tokio::test]
async fn a_refusal_says_what_to_set_right() {
    let folder = TempDir::new().unwrap();
    let mut bind = Bind::start(folder.path(), ZONE).await;
    let refusal = async |other: Value, name: &str| match writer(&bind, &other).add(name, "value").await {
        Err(DnsError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let secret = refusal(json!({ "key_secret": "b3RoZXIgc2VjcmV0IHRoYW4gdGhlIHNlcnZlcidz" }), NAME).await;
    assert!(secret.contains("key_secret") && secret.contains(KEY_NAME), "{secret}");
    let name = refusal(json!({ "key_name": "somebody" }), NAME).await;
    assert!(name.contains("knows no key named somebody"), "{name}");
    let algorithm = refusal(json!({ "key_algorithm": "hmac-sha512" }), NAME).await;
    assert!(algorithm.contains("key_algorithm"), "{algorithm}");
    let outside = refusal(json!({}), "_acme-challenge.elsewhere.example").await;
    assert!(outside.contains("outside of acme.example"), "{outside}");
    let zone = refusal(json!({ "zone": "elsewhere.example" }), "_acme-challenge.elsewhere.example").await;
    assert!(zone.contains("does not answer for the zone"), "{zone}");
    let unknown = refusal(json!({ "zone": null }), "_acme-challenge.elsewhere.example").await;
    assert!(unknown.contains("acme.dns.rfc2136.zone"), "{unknown}");
    assert_eq!(bind.texts(NAME), [""; 0]);

    bind.process.kill();
    let away = writer(&bind, &json!({})).add(NAME, "value").await.unwrap_err();
    assert!(matches!(&away, DnsError::Away { server, .. } if *server == bind.address()), "{away}");
}
