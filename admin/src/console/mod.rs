//! The console's host: pages for people, rendered here, without script.
//!
//! Signing in and out ([`sign_in`], [`sign_out`]), the way through the gate of an organization's site ([`gate`]), joining
//! an organization ([`invite`]), and the [`home`] page. The same host answers the API under `/api`, for pages that are signed in by cookie: the cookie is
//! this host's alone, so the API has to be where it is sent, and no other origin needs to be let in (no CORS).
//!
//! Not here: what programs ask, which is [`crate::api`].

mod addresses;
mod gate;
mod home;
mod invite;
mod problem;
mod sign_in;
mod sign_out;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderName, StatusCode, uri::PathAndQuery},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};

pub use self::{
    addresses::{Console, OwnPath, paths},
    problem::Problem,
};
use crate::{app::App, pages};

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Every page of the console.
pub fn router(app: &App) -> Router<App> {
    Router::new()
        .route(paths::HOME, get(home::show))
        .route(paths::SIGN_IN, get(sign_in::show).post(sign_in::local::answer))
        .route(paths::BEGIN, get(sign_in::code_host::begin))
        .route(paths::CALLBACK, get(sign_in::code_host::finish))
        .route(paths::SIGN_OUT, post(sign_out::here))
        .route(paths::SIGN_OUT_EVERYWHERE, post(sign_out::everywhere))
        .route(paths::END_SESSION, post(sign_out::elsewhere))
        .route(paths::GATE, get(gate::pass))
        .route(&format!("{}/{{token}}", paths::INVITES), get(invite::show).post(invite::accept))
        .fallback(async || message(StatusCode::NOT_FOUND, "Page not found", "There is nothing at this address."))
        .method_not_allowed_fallback(async || {
            message(StatusCode::METHOD_NOT_ALLOWED, "Not like this", "This page cannot be used that way.")
        })
        .layer(from_fn_with_state(app.clone(), over_https))
}

/// Middleware: secrets are typed and cookies are set here, so nothing is answered in the clear.
async fn over_https(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.headers().get(X_FORWARDED_PROTO).is_none_or(|proto| proto != "http") {
        return next.run(request).await;
    }
    let path = request.uri().path_and_query().map(PathAndQuery::as_str).filter(|path| path.starts_with('/'));
    Redirect::permanent(&format!("{}{}", app.console.origin(), path.unwrap_or(paths::HOME))).into_response()
}

/// A page that says one thing, and leads home. `sentence` is HTML.
fn message(status: StatusCode, title: &str, sentence: &str) -> Response {
    let home = paths::HOME;
    let title_html = pages::escape(title);
    let body = format!(
        "<div class=\"narrow card\"><h1>{title_html}</h1><p>{sentence}</p><p><a href=\"{home}\">To the console</a></p></div>"
    );
    pages::page(status, title, &body)
}
