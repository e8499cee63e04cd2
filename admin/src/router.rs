//! The index of every route. The OpenAPI document is made from it: a handler cannot be served without being described.

use std::sync::Arc;

use axum::{Extension, Router, middleware::from_fn, middleware::from_fn_with_state};
use common::domain::networks::Networks;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    api,
    app::App,
    auth,
    error::{ApiError, Code},
    middleware::{
        client, close, idempotency, panics,
        rate_limit::{self, Bucket},
        request_id, trace,
    },
};

/// Open to everybody.
fn public() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(api::health::health))
        .routes(routes!(api::docs::openapi))
        .routes(routes!(api::device::page::show, api::device::page::answer))
}

/// The device flow: without a token, so limited by address.
fn sign_in(app: &App) -> OpenApiRouter<App> {
    let limited = |bucket| from_fn_with_state((app.clone(), bucket), rate_limit::per_client);
    let start = OpenApiRouter::new().routes(routes!(api::device::start));
    let poll = OpenApiRouter::new().routes(routes!(api::device::poll));
    start
        .layer(from_fn_with_state(app.clone(), idempotency::replay))
        .layer(limited(Bucket::AuthDevice))
        .merge(poll.layer(from_fn_with_state(app.clone(), idempotency::replay)).layer(limited(Bucket::AuthPoll)))
}

/// For callers with a token, with bodies that are small: `Idempotency-Key` is seen to by middleware.
fn control_plane() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(api::me::me))
        .routes(routes!(api::tokens::list, api::tokens::create))
        .routes(routes!(api::tokens::revoke))
        .routes(routes!(api::projects::list, api::projects::create))
        .routes(routes!(api::projects::show, api::projects::delete))
        .routes(routes!(api::deployments::list))
        .routes(routes!(api::deployments::show, api::deployments::delete))
        .routes(routes!(api::deployments::activate))
        .routes(routes!(api::access::set_access))
        .routes(routes!(api::access::set_password, api::access::delete_password))
        .routes(routes!(api::shares::list))
        .routes(routes!(api::shares::delete))
}

/// For callers with a token, with bodies that are streamed: the handler sees to `Idempotency-Key` itself, once it has
/// the body's hash.
fn uploads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(api::deployments::upload::upload)).routes(routes!(api::shares::create::create))
}

/// Every route, and the document that describes them.
fn index(app: &App) -> (Router<App>, OpenApi) {
    let authenticated = control_plane()
        .layer(from_fn_with_state(app.clone(), idempotency::replay))
        .merge(uploads())
        .layer(from_fn_with_state(app.clone(), rate_limit::per_token))
        .layer(from_fn_with_state(app.clone(), auth::authenticate));
    public().merge(sign_in(app)).merge(authenticated).split_for_parts()
}

/// The whole service. Layers, outermost first: the id, so that everything below can say it; the log line, so that it
/// covers everything; panics, inside both; the end of connections whose request was refused unread; the client's
/// address, which limits are kept by.
pub fn router(app: &App, trusted_proxies: Networks) -> Router {
    let (routes, document) = index(app);
    routes
        .fallback(async || ApiError::new(Code::NotFound, "There is nothing at this path; /docs lists what there is."))
        .method_not_allowed_fallback(async || {
            ApiError::new(Code::MethodNotAllowed, "This path does not have this method; see the Allow header.")
        })
        .layer(Extension(Arc::new(document)))
        .layer(from_fn_with_state(Arc::new(trusted_proxies), client::find))
        .layer(from_fn(close::after_refused_bodies))
        .layer(CatchPanicLayer::custom(panics::answer))
        .layer(from_fn(trace::record))
        .layer(from_fn(request_id::assign))
        .with_state(app.clone())
}
