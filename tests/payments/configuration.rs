//! A provider that lacks something says what, when the program starts.

use config::{BillingProvider, Config};
use domain::Clock;
use payments::{ProviderKind, from_config};
use serde_json::json;
use sqlx::PgPool;

/// What the start says of this configuration: the kind of provider, or the error.
fn kind(change: impl FnOnce(&mut Config)) -> Result<Option<ProviderKind>, String> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut config = Config::default();
    config.billing.seller = serde_json::from_value(json!({
        "name": "Sites B.V.", "address": ["Keizersgracht 1"], "postcode": "1015 AA", "city": "Amsterdam",
        "vat_number": "NL123456789B01", "registration": "12345678",
    }))
    .unwrap();
    change(&mut config);
    let db = PgPool::connect_lazy("postgres://localhost/none").unwrap();
    match from_config(&config, &db, &Clock::system()) {
        Ok(payments) => Ok(payments.map(|provider| provider.kind())),
        Err(error) => Err(format!("{error:#}")),
    }
}

#[tokio::test]
async fn each_provider_is_made_from_what_it_needs() {
    assert_eq!(kind(|_| {}), Ok(None));
    assert_eq!(kind(|config| config.billing.seller = None), Ok(None));
    assert_eq!(kind(|config| config.billing.provider = BillingProvider::Play), Ok(Some(ProviderKind::Play)));
    let mollie = |config: &mut Config| {
        config.billing.provider = BillingProvider::Mollie;
        config.billing.mollie_api_key = Some("live_0123456789".to_owned());
    };
    assert_eq!(kind(mollie), Ok(Some(ProviderKind::Mollie)));
}

#[tokio::test]
async fn what_is_missing_is_named() {
    for provider in [BillingProvider::Mollie, BillingProvider::Play] {
        let error = kind(|config| {
            config.billing.provider = provider;
            config.billing.seller = None;
        });
        assert!(error.unwrap_err().contains("billing.seller"));
    }
    let without = |spoil: fn(&mut config::InvoiceSeller)| {
        let error = kind(|config| {
            config.billing.provider = BillingProvider::Play;
            spoil(config.billing.seller.as_mut().unwrap());
        });
        error.unwrap_err()
    };
    assert!(without(|seller| seller.registration = None).contains("billing.seller.registration"));
    assert!(without(|seller| seller.vat_number = None).contains("billing.seller.vat_number"));
    assert!(without(|seller| seller.country = "DE".parse().unwrap()).contains("billing.seller.vat_number"));
    assert!(without(|seller| seller.address.clear()).contains("billing.seller.address"));
    for key in [None, Some(""), Some(" "), Some("access_0123456789"), Some("live_ 1")] {
        let error = kind(|config| {
            config.billing.provider = BillingProvider::Mollie;
            config.billing.mollie_api_key = key.map(str::to_owned);
        });
        let error = error.unwrap_err();
        assert!(error.contains("billing.mollie_api_key") && !error.contains("0123456789"), "{error}");
    }
    for url in ["http://api.mollie.com", "http://10.0.0.1", "ftp://localhost"] {
        let error = kind(|config| {
            config.billing.provider = BillingProvider::Mollie;
            config.billing.mollie_api_key = Some("live_0123456789".to_owned());
            config.billing.mollie_url = url.parse().unwrap();
        });
        assert!(error.unwrap_err().contains("billing.mollie_url"), "{url}");
    }
}
