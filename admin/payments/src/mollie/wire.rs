//! Mollie's JSON. Anything outside its documentation (a status, a currency, an amount in another form) is an error,
//! never a guess.

use domain::{
    PaymentId,
    billing::{
        Cents,
        payment::{PaymentSequence, PaymentState, ReversalKind, ReversalState},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::call::unexpected_response;
use crate::{MandateState, PaymentError, PaymentOrder, ProviderPayment, ProviderReversal};

const CURRENCY: &str = "EUR";
const EURO_DIGITS: usize = 10;
const ID_CHARS: usize = 100;
const REASON_CHARS: usize = 200;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireAmount {
    currency: String,
    value: String,
}

#[derive(Deserialize)]
pub(super) struct WirePayment {
    id: String,
    status: String,
    amount: WireAmount,
    method: Option<String>,
    #[serde(default)]
    metadata: Value,
    #[serde(default, rename = "statusReason")]
    status_reason: Value,
    #[serde(default)]
    details: Value,
    #[serde(default, rename = "_links")]
    links: PaymentLinks,
    #[serde(default, rename = "_embedded")]
    embedded: EmbeddedReversals,
}

#[derive(Default, Deserialize)]
struct PaymentLinks {
    checkout: Option<PaymentLink>,
}

#[derive(Deserialize)]
struct PaymentLink {
    href: String,
}

#[derive(Default, Deserialize)]
struct EmbeddedReversals {
    #[serde(default)]
    refunds: Vec<WireRefund>,
    #[serde(default)]
    chargebacks: Vec<WireChargeback>,
}

#[derive(Deserialize)]
pub(super) struct WireRefund {
    id: String,
    amount: WireAmount,
    status: String,
    #[serde(default)]
    metadata: Value,
}

#[derive(Deserialize)]
struct WireChargeback {
    id: String,
    amount: WireAmount,
    #[serde(rename = "reversedAt")]
    reversed_at: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct WireCustomer {
    pub(super) id: String,
}

#[derive(Deserialize)]
pub(super) struct PaymentList {
    #[serde(rename = "_embedded")]
    embedded: EmbeddedPayments,
}

#[derive(Deserialize)]
struct EmbeddedPayments {
    payments: Vec<ListedPayment>,
}

#[derive(Deserialize)]
struct ListedPayment {
    id: String,
    #[serde(default)]
    metadata: Value,
}

#[derive(Deserialize)]
pub(super) struct MandateList {
    #[serde(rename = "_embedded")]
    embedded: EmbeddedMandates,
}

#[derive(Deserialize)]
struct EmbeddedMandates {
    mandates: Vec<WireMandate>,
}

#[derive(Deserialize)]
struct WireMandate {
    status: String,
}

impl From<Cents> for WireAmount {
    fn from(cents: Cents) -> Self {
        Self { currency: CURRENCY.to_owned(), value: cents.decimal() }
    }
}

impl WireAmount {
    /// Parses the amount exactly: digits, a point, two digits.
    fn read(&self, call: &'static str) -> Result<Cents, PaymentError> {
        if self.currency != CURRENCY {
            return Err(unexpected_response(call, "an amount in another currency"));
        }
        let parts = self.value.split_once('.').filter(|(euros, cents)| {
            let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            (1..=EURO_DIGITS).contains(&euros.len()) && cents.len() == 2 && are_digits(euros) && are_digits(cents)
        });
        let cents = parts.and_then(|(euros, cents)| format!("{euros}{cents}").parse().ok());
        cents.map(Cents).ok_or_else(|| unexpected_response(call, "an amount that is no decimal number with two digits"))
    }
}

impl WirePayment {
    pub(super) fn read(self, call: &'static str) -> Result<ProviderPayment, PaymentError> {
        let state = match self.status.as_str() {
            // `authorized` is not paid: it needs a capture, which this program never requests.
            "open" | "pending" | "authorized" => PaymentState::Open,
            "paid" => PaymentState::Paid,
            "failed" => PaymentState::Failed,
            "canceled" => PaymentState::Canceled,
            "expired" => PaymentState::Expired,
            _ => return Err(unexpected_response(call, "an unknown status of a payment")),
        };
        let checkout_url = self.links.checkout.map(|link| {
            let url = link.href.parse().ok().filter(|url: &Url| matches!(url.scheme(), "https" | "http"));
            url.ok_or_else(|| unexpected_response(call, "a checkout page that is no address"))
        });
        let mut reversals = Vec::new();
        for refund in self.embedded.refunds {
            reversals.push(refund.read(call)?);
        }
        for chargeback in self.embedded.chargebacks {
            reversals.push(chargeback.read(call)?);
        }
        Ok(ProviderPayment {
            id: check_id(call, self.id)?,
            order: metadata_id(&self.metadata, "intent_id"),
            state,
            total: self.amount.read(call)?,
            method: self.method,
            failure: (state == PaymentState::Failed).then(|| reason(&self.status_reason, &self.details)).flatten(),
            checkout_url: checkout_url.transpose()?,
            reversals,
        })
    }
}

impl WireRefund {
    pub(super) fn read(self, call: &'static str) -> Result<ProviderReversal, PaymentError> {
        let state = match self.status.as_str() {
            "queued" | "pending" | "processing" => ReversalState::Pending,
            "refunded" => ReversalState::Done,
            "failed" | "canceled" => ReversalState::Canceled,
            _ => return Err(unexpected_response(call, "an unknown status of a refund")),
        };
        Ok(ProviderReversal {
            id: check_id(call, self.id)?,
            order: metadata_id(&self.metadata, "reversal_id"),
            kind: ReversalKind::Refund,
            total: self.amount.read(call)?,
            state,
        })
    }
}

impl WireChargeback {
    fn read(self, call: &'static str) -> Result<ProviderReversal, PaymentError> {
        let state = if self.reversed_at.is_some() { ReversalState::Canceled } else { ReversalState::Done };
        let total = self.amount.read(call)?;
        Ok(ProviderReversal { id: check_id(call, self.id)?, order: None, kind: ReversalKind::Chargeback, total, state })
    }
}

impl PaymentList {
    pub(super) fn find_id(&self, order: &PaymentId) -> Option<&str> {
        let is_ordered =
            |listed: &&ListedPayment| metadata_id::<PaymentId>(&listed.metadata, "intent_id").as_ref() == Some(order);
        self.embedded.payments.iter().find(is_ordered).map(|listed| &*listed.id)
    }
}

impl MandateList {
    pub(super) fn read(self, call: &'static str) -> Result<MandateState, PaymentError> {
        let mut best = MandateState::Missing;
        for mandate in self.embedded.mandates {
            match (mandate.status.as_str(), best) {
                ("valid", _) => best = MandateState::Valid,
                ("pending", MandateState::Missing) => best = MandateState::Pending,
                ("pending" | "invalid", _) => {}
                _ => return Err(unexpected_response(call, "an unknown status of a mandate")),
            }
        }
        Ok(best)
    }
}

pub(super) fn order(order: &PaymentOrder<'_>, description: &str) -> Value {
    let mut body = json!({
        "amount": WireAmount::from(order.total),
        "description": description,
        "webhookUrl": order.webhook_url.as_str(),
        "customerId": order.customer_id,
        "metadata": { "intent_id": order.id.as_str() },
    });
    match order.sequence {
        PaymentSequence::First => {
            body["sequenceType"] = "first".into();
            body["redirectUrl"] = order.redirect_url.as_str().into();
        }
        // The payer is absent and cannot return.
        PaymentSequence::Recurring => body["sequenceType"] = "recurring".into(),
    }
    body
}

/// Checks an id, because it is stored, logged and put into URLs.
pub(super) fn check_id(call: &'static str, id: String) -> Result<String, PaymentError> {
    let is_plain = (1..=ID_CHARS).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_plain { Ok(id) } else { Err(unexpected_response(call, "an id that is none")) }
}

/// Reads an id of ours from Mollie's metadata. Payments created by others have none, or something else there.
fn metadata_id<T: std::str::FromStr>(metadata: &Value, field: &str) -> Option<T> {
    metadata.get(field)?.as_str()?.parse().ok()
}

/// Returns Mollie's reason for a failure, from wherever the payment method reports it.
fn reason(status_reason: &Value, details: &Value) -> Option<String> {
    let places =
        [(status_reason, "message"), (details, "failureMessage"), (details, "bankReason"), (details, "failureReason")];
    let words = places.into_iter().find_map(|(object, field)| object.get(field)?.as_str())?;
    Some(words.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payment(with: &Value) -> Result<ProviderPayment, PaymentError> {
        let mut all = json!({
            "resource": "payment", "id": "tr_WDqYK6vllg", "mode": "test", "status": "open",
            "amount": { "currency": "EUR", "value": "12.34" }, "metadata": null, "method": null,
        });
        all.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        serde_json::from_value::<WirePayment>(all).unwrap().read("X")
    }

    #[test]
    fn every_status_has_its_state_and_no_other_is_guessed() {
        for (status, state) in [
            ("open", PaymentState::Open),
            ("pending", PaymentState::Open),
            ("authorized", PaymentState::Open),
            ("paid", PaymentState::Paid),
            ("failed", PaymentState::Failed),
            ("canceled", PaymentState::Canceled),
            ("expired", PaymentState::Expired),
        ] {
            assert_eq!(payment(&json!({ "status": status })).unwrap().state, state);
        }
        for status in ["", "PAID", "settled", "shipping"] {
            assert!(matches!(payment(&json!({ "status": status })), Err(PaymentError::Unavailable { .. })), "{status}");
        }
    }

    #[test]
    fn amounts_are_read_to_the_cent_or_not_at_all() {
        let read = |currency: &str, value: &str| {
            WireAmount { currency: currency.to_owned(), value: value.to_owned() }.read("X").ok().map(|cents| cents.0)
        };
        for (text, cents) in [
            ("12.34", 1_234),
            ("0.00", 0),
            ("0.07", 7),
            ("1000000.10", 100_000_010),
            ("9999999999.99", 999_999_999_999),
        ] {
            assert_eq!(read("EUR", text), Some(cents), "{text}");
        }
        for text in
            ["", "12", "12.3", "12.345", ".34", "12,34", "-1.00", "+1.00", "1e3.00", " 1.00", "1.0x", "99999999999.00"]
        {
            assert_eq!(read("EUR", text), None, "{text:?}");
        }
        assert_eq!(read("USD", "12.34"), None);
        assert_eq!(read("eur", "12.34"), None);
        let written = WireAmount::from(Cents(5));
        assert_eq!((written.currency.as_str(), written.value.as_str()), ("EUR", "0.05"));
    }

    #[test]
    fn what_went_back_is_read_with_the_payment() {
        use ReversalState::{Canceled, Done, Pending};
        let refund = |id: &str, status: &str| {
            json!({ "id": id, "status": status, "amount": { "currency": "EUR", "value": "1.00" },
                    "metadata": { "reversal_id": "rev_0123456789abcdefghij" } })
        };
        let amount = json!({ "currency": "EUR", "value": "12.34" });
        let embedded = json!({
            "refunds": [refund("re_1", "queued"), refund("re_2", "processing"), refund("re_3", "refunded"),
                        refund("re_4", "failed"), refund("re_5", "canceled")],
            "chargebacks": [{ "id": "chb_1", "amount": amount, "reversedAt": null },
                            { "id": "chb_2", "amount": amount, "reversedAt": "2026-03-14T17:09:02+00:00" }],
        });
        let found = payment(&json!({ "status": "paid", "_embedded": embedded })).unwrap().reversals;
        let states: Vec<ReversalState> = found.iter().map(|reversal| reversal.state).collect();
        assert_eq!(states, [Pending, Pending, Done, Canceled, Canceled, Done, Canceled]);
        assert_eq!(found[0].order.as_ref().unwrap().as_str(), "rev_0123456789abcdefghij");
        assert_eq!((found[5].kind, found[5].total, &found[5].order), (ReversalKind::Chargeback, Cents(1_234), &None));
        let odd = json!({ "_embedded": { "refunds": [refund("re_1", "lost")] } });
        assert!(payment(&odd).is_err());
    }

    #[test]
    fn what_others_noted_is_not_our_order() {
        for metadata in [json!(null), json!("x"), json!([1]), json!({ "order_id": 7 }), json!({ "intent_id": "tr_1" })]
        {
            assert_eq!(payment(&json!({ "metadata": metadata })).unwrap().order, None);
        }
        let ours = json!({ "metadata": { "intent_id": "pay_0123456789abcdefghij" } });
        assert_eq!(payment(&ours).unwrap().order.unwrap().as_str(), "pay_0123456789abcdefghij");
    }

    #[test]
    fn addresses_and_ids_that_are_none_are_refused() {
        for href in ["javascript:alert(1)", "", "/checkout", "data:text/html,x"] {
            assert!(payment(&json!({ "_links": { "checkout": { "href": href } } })).is_err(), "{href}");
        }
        for bad in ["", "../x", "tr 1", &"t".repeat(101)] {
            assert!(payment(&json!({ "id": bad })).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_reason_of_a_failure_is_found_where_the_method_has_it() {
        for with in [
            json!({ "statusReason": { "code": "insufficient_funds", "message": "No funds" } }),
            json!({ "details": { "failureReason": "insufficient_funds", "failureMessage": "No funds" } }),
            json!({ "details": { "bankReasonCode": "AM04", "bankReason": "No funds" } }),
        ] {
            let mut failed = with.clone();
            failed["status"] = "failed".into();
            assert_eq!(payment(&failed).unwrap().failure.as_deref(), Some("No funds"));
            assert_eq!(payment(&with).unwrap().failure, None, "only of what failed");
        }
    }

    #[test]
    fn one_valid_mandate_is_enough() {
        let of = |states: &[&str]| {
            let mandates: Vec<Value> = states.iter().map(|status| json!({ "status": status })).collect();
            let list = json!({ "count": states.len(), "_embedded": { "mandates": mandates } });
            serde_json::from_value::<MandateList>(list).unwrap().read("X").ok()
        };
        assert_eq!(of(&[]), Some(MandateState::Missing));
        assert_eq!(of(&["invalid"]), Some(MandateState::Missing));
        assert_eq!(of(&["invalid", "pending"]), Some(MandateState::Pending));
        assert_eq!(of(&["pending", "valid", "pending", "invalid"]), Some(MandateState::Valid));
        assert_eq!(of(&["valid", "odd"]), None);
    }
}
