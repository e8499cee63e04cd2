//! The HTML pages: the console's, the device flow's and the API's documentation, one file or folder each.
//!
//! Start with [`router`], the console's routes. [`device`] and [`docs`] are served at the API's host and routed in
//! `admin::router`. The API is in `handlers`; the headers, layout and stylesheet of every page in
//! [`admin_http::html`]; the markup in `templates`.
//!
//! The console's host also serves the API under `/api`, for pages that authenticate by cookie: browsers send the cookie
//! only to that host, and no other origin has to be allowed by CORS.

mod console;
pub mod device;
pub mod docs;
mod error;
mod gate;
mod home;
mod invites;
mod letters;
mod play;
mod sign_in;
mod sign_out;
mod stats;
pub mod webhooks;

use admin_http::{addresses::paths, html};
use app::{App, middleware::in_time};
use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderName, StatusCode, uri::PathAndQuery},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use domain::role::Role;

pub use self::error::PageError;

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Returns the routes of all console pages.
pub fn router(app: &App) -> Router<App> {
    let console = console::PAGES.iter().fold(Router::new(), |router, page| {
        router.route(page, get(console::page)).route(&format!("{page}/{{*rest}}"), get(console::page))
    });
    console
        .route(paths::HOME, get(console::front))
        .route(console::FILES, get(console::file))
        .route(console::FAVICON, get(console::favicon))
        .route(console::GUIDE, get(console::guide_front))
        .route(&format!("{}/", console::GUIDE), get(console::guide))
        .route(&format!("{}/{{*path}}", console::GUIDE), get(console::guide))
        .route(paths::SIGN_IN, get(sign_in::show).post(sign_in::local::submit))
        .route(paths::BEGIN, get(sign_in::code_host::begin))
        .route(paths::CALLBACK, get(sign_in::code_host::finish))
        .route(paths::SIGN_OUT, post(sign_out::this_browser))
        .route(paths::SIGN_OUT_EVERYWHERE, post(sign_out::everywhere))
        .route(paths::END_SESSION, post(sign_out::one_session))
        .route(paths::GATE, get(gate::admit))
        .route(&format!("{}/{{token}}", paths::INVITES), get(invites::show).post(invites::accept))
        .route(paths::UNSUBSCRIBE, get(letters::show).post(letters::unsubscribe))
        .route(paths::SUBSCRIBE, post(letters::subscribe))
        .route(&format!("{}/{{token}}", paths::STATS), get(stats::show))
        .route(&format!("{}/{{id}}", paths::PLAY), get(play::show).post(play::decide))
        .fallback(not_found)
        .method_not_allowed_fallback(async || {
            html::message(
                StatusCode::METHOD_NOT_ALLOWED,
                "Not like this",
                "This page cannot be opened this way; go back and load the page anew.",
            )
        })
        .layer(from_fn(answer_in_time))
        .layer(from_fn_with_state(app.clone(), require_https))
}

/// Middleware that gives up on pages that take too long, with an error page.
async fn answer_in_time(request: Request, next: Next) -> Result<Response, PageError> {
    Ok(in_time::with_timeout(State(in_time::EXTERNAL_TIMEOUT), request, next).await?)
}

async fn not_found() -> Response {
    html::message(StatusCode::NOT_FOUND, "Page not found", "There is nothing at this address.")
}

/// Middleware that redirects requests without TLS, because these pages accept secrets and set cookies.
async fn require_https(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.headers().get(X_FORWARDED_PROTO).is_none_or(|proto| proto != "http") {
        return next.run(request).await;
    }
    let path = request.uri().path_and_query().map(PathAndQuery::as_str).filter(|path| path.starts_with('/'));
    Redirect::permanent(&format!("{}{}", app.console.origin(), path.unwrap_or(paths::HOME))).into_response()
}

/// Returns the role with an article, to follow "you are".
fn with_article(role: Role) -> &'static str {
    match role {
        Role::Member => "a member",
        Role::Admin => "an admin",
        Role::Owner => "an owner",
    }
}
