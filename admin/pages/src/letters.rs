//! `/letters/unsubscribe`: the target of the links at the foot of letters. Viewing the page changes nothing, so that a
//! mail program that prefetches links unsubscribes nobody. The link itself authorizes, so its forms are accepted from
//! any origin: mail programs post to it automatically (RFC 8058).

use admin_http::{extract::Query, html};
use app::App;
use askama::Template;
use axum::{extract::State, http::StatusCode, response::Response};
use db::letters;
use mail::links::{self, LetterSubscription};

use super::PageError;

/// The page of a link: whether the recipient gets this kind of letter, and how to change that.
#[derive(Template)]
#[template(path = "letters/subscription.html")]
struct SubscriptionPage<'a> {
    recipient: &'a str,
    about: &'a str,
    is_unsubscribed: bool,
    unsubscribe: &'a str,
    subscribe: &'a str,
}

/// Shows whether the recipient gets this kind of letter, without changing anything.
pub(super) async fn show(
    State(app): State<App>,
    Query(link): Query<links::UnsubscribeQuery>,
) -> Result<Response, PageError> {
    let Some(subscription) = LetterSubscription::verify(&app.master_key, &link) else { return Ok(no_link()) };
    page(&app, &subscription).await
}

pub(super) async fn unsubscribe(
    State(app): State<App>,
    Query(link): Query<links::UnsubscribeQuery>,
) -> Result<Response, PageError> {
    let Some(subscription) = LetterSubscription::verify(&app.master_key, &link) else { return Ok(no_link()) };
    let mut tx = app.db.begin().await?;
    let kind = subscription.kind().as_str();
    letters::unsubscribe(&mut tx, &subscription.refused_address(), kind, app.clock.now()).await?;
    tx.commit().await?;
    page(&app, &subscription).await
}

pub(super) async fn subscribe(
    State(app): State<App>,
    Query(link): Query<links::UnsubscribeQuery>,
) -> Result<Response, PageError> {
    let Some(subscription) = LetterSubscription::verify(&app.master_key, &link) else { return Ok(no_link()) };
    letters::subscribe(&app.db, &subscription.refused_address(), subscription.kind().as_str()).await?;
    page(&app, &subscription).await
}

async fn page(app: &App, subscription: &LetterSubscription) -> Result<Response, PageError> {
    let (recipient, kind) = (subscription.recipient(), subscription.kind());
    let page = SubscriptionPage {
        recipient: recipient.as_str(),
        about: kind.topic(),
        is_unsubscribed: letters::is_unsubscribed(&app.db, &subscription.refused_address(), kind.as_str()).await?,
        unsubscribe: &subscription.unsubscribe(&app.master_key),
        subscribe: &subscription.subscribe(&app.master_key),
    };
    Ok(html::page(StatusCode::OK, &page))
}

fn no_link() -> Response {
    let sentence = "It is not whole, the platform's keys were exchanged since, or these letters can no longer be turned off. Take the \
                    link from a newer letter.";
    html::message(StatusCode::NOT_FOUND, "This link does not work", sentence)
}
