//! `PUT /billing/profile` and `PUT /orgs/:name/billing/profile`: the details printed on invoices.

use std::time::Duration;

use admin_http::{
    error::{ApiError, Code},
    extract::Json,
};
use api::billing::{BillingProfile, SaveBillingProfile};
use app::{
    App,
    auth::{CliUser, OrgAccess},
    bounds,
    rates::Bucket,
};
use axum::extract::State;
use billing::vat_checks;
use db::{
    audit::NewAuditEntry,
    billing::profiles::{self, InvoiceProfile},
    permits::{self, Owner},
};
use domain::{
    Account, Timestamp,
    audit::Action,
    billing::vat::{VatNumber, VatStatus, prefix_for},
};
use sqlx::PgConnection;
use vat::{CheckQueue, RegistryUnavailable, VatAnswer, VatError};

/// The `Retry-After` when the VAT registry did not answer.
const TRY_AGAIN: Duration = Duration::from_mins(1);

/// Stores the details printed on your invoices, replacing the previous ones.
///
/// A new VAT number is checked against the EU's VAT registry. If only the registry of the number's state does not
/// answer, the number is stored with `vat_valid: null` and checked again later; VAT is charged until it is confirmed.
#[utoipa::path(
    put, path = "/billing/profile", operation_id = "set_billing_profile", tag = "Billing", request_body = SaveBillingProfile,
    responses((status = 200, description = "The details", body = BillingProfile)),
    extensions(("x-errors" = json!({
        "vat_number_not_found": "nobody has the VAT number; nothing was stored",
        "vat_registry_unavailable": "the VAT registry does not answer; nothing was stored",
        "rate_limit_exceeded": "you have had as many VAT numbers checked as you may in an hour",
        "busy": "as many VAT numbers are being checked as may be at a time",
    }))),
)]
pub async fn save(
    State(app): State<App>,
    caller: CliUser,
    Json(body): Json<SaveBillingProfile>,
) -> Result<Json<BillingProfile>, ApiError> {
    let account = Account::User(caller.user.id.clone());
    let answer = check(&app, &caller, &account, &body).await?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let profile = store(&mut change, account, body, answer, now).await?;
    change.commit().await?;
    Ok(Json(view(profile)))
}

/// Stores the details printed on an organization's invoices, replacing the previous ones.
///
/// A new VAT number is checked against the EU's VAT registry. If only the registry of the number's state does not
/// answer, the number is stored with `vat_valid: null` and checked again later; VAT is charged until it is confirmed.
#[utoipa::path(
    put, path = "/orgs/{name}/billing/profile", operation_id = "set_org_billing_profile", tag = "Billing", request_body = SaveBillingProfile,
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The details", body = BillingProfile)),
    extensions(("x-errors" = json!({
        "forbidden": "only owners of the organization may",
        "vat_number_not_found": "nobody has the VAT number; nothing was stored",
        "vat_registry_unavailable": "the VAT registry does not answer; nothing was stored",
        "rate_limit_exceeded": "you have had as many VAT numbers checked as you may in an hour",
        "busy": "as many VAT numbers are being checked as may be at a time",
    }))),
)]
pub async fn save_for_org(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Owner>,
    Json(body): Json<SaveBillingProfile>,
) -> Result<Json<BillingProfile>, ApiError> {
    let account = Account::Org(org.id.clone());
    let answer = check(&app, &caller, &account, &body).await?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = permits::lock(&mut change, org).await?;
    let profile = store(&mut change, account, body, answer, now).await?;
    let entry = NewAuditEntry::for_org(Action::BillingProfile, &org.id, &org.name)
        .with("country", profile.country.as_str())
        .with("vat_number", profile.vat_number.as_ref().map(VatNumber::as_str))
        .with("vat_status", profile.vat_status.map(VatStatus::as_str));
    change.audit(entry);
    change.commit().await?;
    Ok(Json(view(profile)))
}

/// Converts billing details to their API view.
pub fn view(profile: InvoiceProfile) -> BillingProfile {
    let vat_valid = match profile.vat_status {
        None | Some(VatStatus::Pending) => None,
        Some(status) => Some(status == VatStatus::Valid),
    };
    let InvoiceProfile { name, country, vat_number, address, .. } = profile;
    BillingProfile { name, country, vat_number, vat_valid, address }
}

/// Checks the VAT number outside any transaction, because the registry may be slow. Returns the answer to store with
/// it; `None` if there is no number, or the account already has it and its stored answer stays.
async fn check(
    app: &App,
    caller: &CliUser,
    account: &Account,
    wanted: &SaveBillingProfile,
) -> Result<Option<Result<VatAnswer, VatError>>, ApiError> {
    let Some(number) = &wanted.vat_number else { return Ok(None) };
    if !number.is_from(wanted.country) {
        return Err(other_country(number, wanted));
    }
    // Counted per person, because organizations are free to create.
    let (person, asker) = (&caller.user.id, CheckQueue::Person(&caller.user.id));
    let is_allowed = async || app.rate_limits.count(Bucket::VatNumber, person.as_str()).await.check();
    let before = profiles::find(&app.db, account).await?;
    if let Some(before) = before.filter(|before| before.vat_number.as_ref() == Some(number)) {
        // Without an answer, the other details may still change; a number stored as invalid is refused.
        let known = if vat_checks::is_fresh(&before, app.clock.now()) || is_allowed().await.is_err() {
            Some(before)
        } else {
            vat_checks::check_again(app, before, asker).await?
        };
        return match known {
            Some(known) if known.vat_status == Some(VatStatus::Invalid) => Err(not_found(number)),
            _ => Ok(None),
        };
    }
    is_allowed().await?;
    match app.vat.check(number, asker).await {
        Ok(VatAnswer::Unknown) => Err(not_found(number)),
        Err(VatError::Unavailable(reason @ RegistryUnavailable::Registry(_))) => Err(ApiError::new(
            Code::VatRegistryUnavailable,
            "The EU's VAT registry does not answer at the moment, so nothing was stored; try again in some minutes, or leave \
             `vat_number` out for now.",
        )
        .retry_after(TRY_AGAIN)
        .caused_by(reason)),
        Err(VatError::Busy(_)) => Err(bounds::overloaded()),
        answer => Ok(Some(answer)),
    }
}

async fn store(
    conn: &mut PgConnection,
    account: Account,
    wanted: SaveBillingProfile,
    answer: Option<Result<VatAnswer, VatError>>,
    now: Timestamp,
) -> Result<InvoiceProfile, sqlx::Error> {
    let before = profiles::lock(conn, &account).await?;
    let SaveBillingProfile { name, country, vat_number, address } = wanted;
    let has_number = vat_number.is_some();
    let unchecked = InvoiceProfile {
        account,
        name,
        country,
        address,
        vat_number,
        vat_status: has_number.then_some(VatStatus::Pending),
        vat_checked_at: None,
        vat_consultation: None,
        vat_name: None,
        vat_address: None,
        // A job checks it, in case somebody else changed the number after it was checked here.
        vat_next_check: has_number.then_some(now),
        vat_failures: 0,
        updated_at: now,
    };
    let profile = match (answer, before) {
        (Some(answer), _) => vat_checks::apply_answer(&unchecked, answer, now),
        (None, Some(before)) if has_number && before.vat_number == unchecked.vat_number => {
            let InvoiceProfile { name, country, address, updated_at, .. } = unchecked;
            InvoiceProfile { name, country, address, updated_at, ..before }
        }
        (None, _) => unchecked,
    };
    profiles::store(conn, &profile).await?;
    Ok(profile)
}

fn not_found(number: &VatNumber) -> ApiError {
    let number = number.as_str();
    ApiError::new(
        Code::VatNumberNotFound,
        format!("The EU's VAT registry does not know `vat_number` {number}; correct it, or leave it out."),
    )
}

fn other_country(number: &VatNumber, wanted: &SaveBillingProfile) -> ApiError {
    let (found, country) = (number.prefix(), wanted.country);
    ApiError::invalid(match prefix_for(country) {
        Some(prefix) => format!(
            "`vat_number` begins with {found}, but numbers of `country` {country} begin with {prefix}; correct one of them."
        ),
        None => format!(
            "`country` {country} has no EU VAT numbers, but `vat_number` begins with {found}; correct one of them, or leave \
             `vat_number` out."
        ),
    })
}
