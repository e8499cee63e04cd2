//! `/notifications`: the letters that a person gets. A kind is turned off for the person's address, as the link at the foot
//! of a letter does it.

use admin_http::{
    error::ApiError,
    extract::{Json, Path},
};
use api::notifications::{NotificationSetting, NotificationSettings, SetNotification};
use app::{App, auth::CliUser};
use axum::extract::State;
use db::{audit::NewAuditEntry, letters};
use domain::{EmailAddress, audit::Action};
use mail::{kinds::LetterKind, links::LetterSubscription};

/// Lists the kinds of letters, and whether you get them.
///
/// Those that you may choose come first; the others, about money and security, are always sent.
#[utoipa::path(
    get, path = "/notifications", operation_id = "list_notifications", tag = "Notifications",
    responses((status = 200, description = "The kinds of letters", body = NotificationSettings)),
)]
pub async fn list(State(app): State<App>, caller: CliUser) -> Result<Json<NotificationSettings>, ApiError> {
    let address = address(&caller);
    let mut kinds = Vec::new();
    for &kind in LetterKind::ALL.iter().filter(|kind| !kind.is_for_operator()) {
        let subscription = address.as_ref().and_then(|address| LetterSubscription::for_recipient(address, kind));
        let is_off = match subscription {
            Some(own) => letters::is_unsubscribed(&app.db, &own.refused_address(), kind.as_str()).await?,
            None => false,
        };
        kinds.push(view(kind, !is_off));
    }
    // Those that can be chosen come first.
    kinds.sort_by_key(|kind| kind.required);
    Ok(Json(NotificationSettings { email: caller.user.email, kinds }))
}

/// Turns a kind of letters on or off.
///
/// Letters about money and security are always sent. A letter that waits to be sent is not sent when its kind is turned
/// off. The choice is your address's: a link at the foot of each letter makes the same one.
#[utoipa::path(
    put, path = "/notifications/{kind}", operation_id = "set_notification", tag = "Notifications", request_body = SetNotification,
    params(("kind" = String, Path, description = "The kind of letters, such as `deployment_failed`")),
    responses((status = 200, description = "The kind of letters as it is now", body = NotificationSetting)),
    extensions(("x-errors" = json!({
        "invalid_request": "letters of this kind are always sent, or the code host tells no address of yours",
        "not_found": "there is no such kind of letters",
    }))),
)]
pub async fn set(
    State(app): State<App>,
    caller: CliUser,
    Path(kind): Path<String>,
    Json(body): Json<SetNotification>,
) -> Result<Json<NotificationSetting>, ApiError> {
    let kind = LetterKind::parse(&kind).filter(|kind| !kind.is_for_operator());
    let kind = kind.ok_or_else(|| ApiError::not_found("kind of letters"))?;
    let address = address(&caller).ok_or_else(|| {
        ApiError::invalid(
            "The code host tells no address of yours, so no letters are sent. Make it public there, and sign in again.",
        )
    })?;
    let Some(subscription) = LetterSubscription::for_recipient(&address, kind) else {
        return if body.enabled {
            Ok(Json(view(kind, true)))
        } else {
            Err(ApiError::invalid(format!("Letters {} are always sent.", kind.topic())))
        };
    };
    let recipient = subscription.refused_address();
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    if letters::is_unsubscribed(&mut *change, &recipient, kind.as_str()).await? == body.enabled {
        if body.enabled {
            letters::subscribe(&mut *change, &recipient, kind.as_str()).await?;
        } else {
            letters::unsubscribe(&mut change, &recipient, kind.as_str(), now).await?;
        }
        let entry = NewAuditEntry::for_person(Action::LettersChange, &caller.user.id).with("kind", kind.as_str());
        change.audit(entry.with("enabled", body.enabled));
        change.commit().await?;
    }
    Ok(Json(view(kind, body.enabled)))
}

fn address(caller: &CliUser) -> Option<EmailAddress> {
    caller.user.email.as_deref()?.parse().ok()
}

fn view(kind: LetterKind, enabled: bool) -> NotificationSetting {
    NotificationSetting {
        kind: kind.as_str().to_owned(),
        about: kind.topic().to_owned(),
        enabled,
        required: !kind.is_optional(),
    }
}
