//! Mollie's stored objects.

use std::collections::HashMap;

use axum::http::Method;
use serde_json::{Value, json};

use super::{Asked, rules};

/// The creation time of everything, since tests that depend on time have their own clock.
const CREATED: &str = "2026-01-01T12:00:00+00:00";

/// The outcome of a payment without the payer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recurring {
    /// Paid during the request, as with cards.
    #[default]
    Paid,
    /// Pending until the test settles it, as with direct debits.
    Pending,
    /// Failed during the request.
    Failed,
    /// Refused with 422.
    Refused,
}

#[derive(Debug)]
struct Payment {
    id: String,
    /// The requested payment.
    order: Value,
    cents: i64,
    status: String,
    failure: Option<String>,
    refunds: Vec<Refund>,
    chargebacks: Vec<Chargeback>,
}

#[derive(Debug)]
struct Refund {
    id: String,
    order: Value,
    cents: i64,
    status: String,
}

#[derive(Debug)]
struct Chargeback {
    id: String,
    cents: i64,
    is_reversed: bool,
}

#[derive(Debug)]
pub(super) struct Ledger {
    customers: Vec<(String, Value)>,
    payments: Vec<Payment>,
    /// Each mandate's id, customer and status.
    mandates: Vec<(String, String, String)>,
    /// Responses by idempotency key.
    pub(super) answers: HashMap<String, (u16, Value)>,
    /// The ids of payments whose webhooks are due.
    pub(super) webhooks: Vec<String>,
    pub(super) mandate_status: String,
    pub(super) refund_status: String,
    pub(super) recurring: Recurring,
    ids: u32,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            customers: Vec::new(),
            payments: Vec::new(),
            mandates: Vec::new(),
            answers: HashMap::new(),
            webhooks: Vec::new(),
            mandate_status: "valid".to_owned(),
            refund_status: "pending".to_owned(),
            recurring: Recurring::Paid,
            ids: 0,
        }
    }
}

fn amount(cents: i64) -> Value {
    json!({ "currency": "EUR", "value": format!("{}.{:02}", cents / 100, cents % 100) })
}

fn list(name: &str, entries: &[Value]) -> (u16, Value) {
    let count = entries.len();
    (200, json!({ "count": count, "_embedded": { name: entries }, "_links": { "next": null, "previous": null } }))
}

impl Ledger {
    /// Handles a request whose API key is valid.
    pub(super) fn act(&mut self, asked: &Asked) -> (u16, Value) {
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let answer = match (&asked.method, segments.as_slice()) {
            (&Method::POST, ["v2", "customers"]) => self.create_customer(&asked.body),
            (&Method::POST, ["v2", "payments"]) => self.create_payment(&asked.body),
            (&Method::POST, ["v2", "payments", id, "refunds"]) => self.refund(id, &asked.body),
            (&Method::GET, ["v2", "payments", id]) => Ok(self.show(id, query.contains("embed="))),
            (&Method::GET, ["v2", "customers", id, "mandates"]) => self.list_mandates(id),
            (&Method::GET, ["v2", "customers", id, "payments"]) => self.list_payments(id),
            _ => Err(rules::error(404, "No such endpoint", None)),
        };
        answer.unwrap_or_else(|refusal| refusal)
    }

    pub(super) fn payments(&self) -> Vec<Value> {
        self.payments.iter().map(|payment| payment.json(true)).collect()
    }

    pub(super) fn payment(&self, id: &str) -> Option<Value> {
        self.payments.iter().find(|payment| payment.id == id).map(|payment| payment.json(true))
    }

    pub(super) fn settle(&mut self, id: &str, status: &str) {
        let payment = self.find(id);
        status.clone_into(&mut payment.status);
        let customer = payment.order["customerId"].as_str().unwrap().to_owned();
        let is_first = payment.order["sequenceType"] == "first";
        let mandate = match status {
            "paid" => Some(self.mandate_status.clone()),
            "canceled" => Some("pending".to_owned()),
            _ => None,
        };
        if let (true, Some(mandate)) = (is_first, mandate) {
            let mandate_id = self.new_id("mdt");
            self.mandates.push((mandate_id, customer, mandate));
        }
        self.webhooks.push(id.to_owned());
    }

    pub(super) fn fail(&mut self, id: &str, reason: &str) {
        self.find(id).failure = Some(reason.to_owned());
        self.settle(id, "failed");
    }

    pub(super) fn set_mandates(&mut self, customer: &str, status: &str) {
        let of_customer = self.mandates.iter_mut().filter(|(_, owner, _)| owner == customer);
        of_customer.for_each(|mandate| status.clone_into(&mut mandate.2));
    }

    pub(super) fn set_refund(&mut self, id: &str, status: &str) {
        let (payment, refund) = self
            .payments
            .iter_mut()
            .find_map(|payment| {
                let refund = payment.refunds.iter_mut().find(|refund| refund.id == id)?;
                Some((payment.id.clone(), refund))
            })
            .unwrap_or_else(|| panic!("no refund {id}"));
        status.clone_into(&mut refund.status);
        self.webhooks.push(payment);
    }

    pub(super) fn charge_back(&mut self, payment: &str, cents: i64) -> String {
        let id = self.new_id("chb");
        self.find(payment).chargebacks.push(Chargeback { id: id.clone(), cents, is_reversed: false });
        self.webhooks.push(payment.to_owned());
        id
    }

    pub(super) fn reverse_chargeback(&mut self, id: &str) {
        let (payment, chargeback) = self
            .payments
            .iter_mut()
            .find_map(|payment| {
                let chargeback = payment.chargebacks.iter_mut().find(|chargeback| chargeback.id == id)?;
                Some((payment.id.clone(), chargeback))
            })
            .unwrap_or_else(|| panic!("no charge-back {id}"));
        chargeback.is_reversed = true;
        self.webhooks.push(payment);
    }

    fn find(&mut self, id: &str) -> &mut Payment {
        let found = self.payments.iter_mut().find(|payment| payment.id == id);
        found.unwrap_or_else(|| panic!("no payment {id}"))
    }

    fn new_id(&mut self, prefix: &str) -> String {
        self.ids += 1;
        format!("{prefix}_{:010}", self.ids)
    }

    fn create_customer(&mut self, body: &Value) -> Result<(u16, Value), (u16, Value)> {
        rules::only(body, &["name", "email", "locale", "metadata"])?;
        if body["email"].as_str().is_some_and(|email| !email.contains('@')) {
            return Err(rules::error(422, "The email address is invalid", Some("email")));
        }
        let id = self.new_id("cst");
        self.customers.push((id.clone(), body.clone()));
        let customer = json!({
            "resource": "customer", "id": id, "mode": "test", "createdAt": CREATED,
            "name": body["name"], "email": body["email"], "metadata": body["metadata"],
        });
        Ok((201, customer))
    }

    fn create_payment(&mut self, body: &Value) -> Result<(u16, Value), (u16, Value)> {
        let known = [
            "amount",
            "description",
            "redirectUrl",
            "cancelUrl",
            "webhookUrl",
            "sequenceType",
            "customerId",
            "mandateId",
            "metadata",
            "method",
            "locale",
        ];
        rules::only(body, &known)?;
        let cents = rules::amount(body)?;
        rules::texts(body)?;
        let customer = body["customerId"].as_str().unwrap_or_default();
        if !self.has_customer(customer) {
            return Err(rules::error(422, "The customer id is invalid", Some("customerId")));
        }
        rules::url(body, "webhookUrl", false)?;
        let is_first = match body["sequenceType"].as_str() {
            Some("first") => true,
            Some("recurring") => false,
            _ => return Err(rules::error(422, "The sequence type is invalid", Some("sequenceType"))),
        };
        rules::url(body, "redirectUrl", is_first)?;
        let is_valid = |mandate: &(String, String, String)| mandate.1 == customer && mandate.2 == "valid";
        if !is_first && (self.recurring == Recurring::Refused || !self.mandates.iter().any(is_valid)) {
            return Err(rules::error(422, "No suitable mandates found for customer", None));
        }
        let (status, failure) = match (is_first, self.recurring) {
            (true, _) => ("open", None),
            (false, Recurring::Paid) => ("paid", None),
            (false, Recurring::Pending | Recurring::Refused) => ("pending", None),
            (false, Recurring::Failed) => ("failed", Some("Insufficient funds".to_owned())),
        };
        let id = self.new_id("tr");
        let payment = Payment {
            id: id.clone(),
            order: body.clone(),
            cents,
            status: status.to_owned(),
            failure,
            refunds: Vec::new(),
            chargebacks: Vec::new(),
        };
        if matches!(status, "paid" | "failed") {
            self.webhooks.push(id);
        }
        let shown = payment.json(false);
        self.payments.push(payment);
        Ok((201, shown))
    }

    fn refund(&mut self, payment: &str, body: &Value) -> Result<(u16, Value), (u16, Value)> {
        rules::only(body, &["amount", "description", "metadata"])?;
        let cents = rules::amount(body)?;
        rules::texts(body)?;
        let (id, status) = (self.new_id("re"), self.refund_status.clone());
        let Some(payment) = self.payments.iter_mut().find(|known| known.id == payment) else {
            return Err(rules::error(404, "No payment exists with this id", None));
        };
        if payment.status != "paid" || payment.returned() + cents > payment.cents {
            return Err(rules::error(422, "The specified amount cannot be refunded", Some("amount")));
        }
        let refund = Refund { id, order: body.clone(), cents, status };
        let shown = refund.json(&payment.id);
        payment.refunds.push(refund);
        Ok((201, shown))
    }

    fn show(&self, id: &str, embeds: bool) -> (u16, Value) {
        match self.payments.iter().find(|payment| payment.id == id) {
            Some(payment) => (200, payment.json(embeds)),
            None => rules::error(404, "No payment exists with this id", None),
        }
    }

    fn list_mandates(&self, customer: &str) -> Result<(u16, Value), (u16, Value)> {
        self.known_customer(customer)?;
        let of_customer = self.mandates.iter().filter(|(_, owner, _)| owner == customer);
        let shown = of_customer.map(|(id, _, status)| {
            json!({ "resource": "mandate", "id": id, "mode": "test", "status": status, "method": "directdebit",
                    "createdAt": CREATED })
        });
        Ok(list("mandates", &shown.collect::<Vec<_>>()))
    }

    fn list_payments(&self, customer: &str) -> Result<(u16, Value), (u16, Value)> {
        self.known_customer(customer)?;
        let of_customer = self.payments.iter().rev().filter(|payment| payment.order["customerId"] == customer);
        Ok(list("payments", &of_customer.map(|payment| payment.json(false)).collect::<Vec<_>>()))
    }

    fn has_customer(&self, id: &str) -> bool {
        self.customers.iter().any(|(known, _)| known == id)
    }

    fn known_customer(&self, id: &str) -> Result<(), (u16, Value)> {
        if self.has_customer(id) { Ok(()) } else { Err(rules::error(404, "No customer exists with this id", None)) }
    }
}

impl Payment {
    /// Returns the cents that were refunded or charged back, including pending ones.
    fn returned(&self) -> i64 {
        let refunds = self.refunds.iter().filter(|refund| !["failed", "canceled"].contains(&&*refund.status));
        let chargebacks = self.chargebacks.iter().filter(|chargeback| !chargeback.is_reversed);
        refunds.map(|refund| refund.cents).sum::<i64>() + chargebacks.map(|one| one.cents).sum::<i64>()
    }

    fn json(&self, embeds: bool) -> Value {
        let Self { id, order, cents, status, .. } = self;
        let is_settled = ["paid", "failed"].contains(&status.as_str());
        let mut shown = json!({
            "resource": "payment", "id": id, "mode": "test", "createdAt": CREATED, "amount": amount(*cents),
            "description": order["description"], "method": is_settled.then_some("ideal"), "metadata": order["metadata"],
            "status": status, "isCancelable": false, "profileId": "pfl_0000000001", "customerId": order["customerId"],
            "sequenceType": order["sequenceType"], "redirectUrl": order["redirectUrl"],
            "webhookUrl": order["webhookUrl"], "details": null,
            "_links": { "self": { "href": format!("https://api.mollie.com/v2/payments/{id}"), "type": "application/hal+json" } },
        });
        if let Some(failure) = &self.failure {
            shown["details"] = json!({ "failureReason": "insufficient_funds", "failureMessage": failure });
        }
        if status == "open" {
            let href = format!("https://www.mollie.com/checkout/select-method/{id}");
            shown["_links"]["checkout"] = json!({ "href": href, "type": "text/html" });
        }
        if status == "paid" {
            shown["amountRefunded"] = amount(self.returned());
            shown["amountRemaining"] = amount(cents - self.returned());
        }
        if embeds {
            let refunds: Vec<Value> = self.refunds.iter().map(|refund| refund.json(id)).collect();
            let chargebacks: Vec<Value> = self.chargebacks.iter().map(|chargeback| chargeback.json(id)).collect();
            shown["_embedded"] = json!({ "refunds": refunds, "chargebacks": chargebacks });
        }
        shown
    }
}

impl Refund {
    fn json(&self, payment: &str) -> Value {
        json!({
            "resource": "refund", "id": self.id, "mode": "test", "amount": amount(self.cents), "status": self.status,
            "createdAt": CREATED, "description": self.order["description"], "metadata": self.order["metadata"],
            "paymentId": payment,
        })
    }
}

impl Chargeback {
    fn json(&self, payment: &str) -> Value {
        json!({
            "resource": "chargeback", "id": self.id, "amount": amount(self.cents), "createdAt": CREATED,
            "reason": { "code": "AC01", "description": "Account identifier incorrect" }, "paymentId": payment,
            "reversedAt": self.is_reversed.then_some(CREATED),
        })
    }
}
