//! The index of all routes. The OpenAPI document is generated from it, so every handler is described.

use std::sync::Arc;

use admin_http::error::{ApiError, Code};
use app::{
    App, auth,
    middleware::{
        client::{self, TrustedPeers},
        close, hosts, idempotency, in_time, panics, rate_limit, request_id, trace,
    },
    rates::Bucket,
};
use axum::{Extension, Router, middleware::from_fn, middleware::from_fn_with_state};
use domain::networks::NetworkSet;
use handlers::docs::{OpenApiJson, document};
use http::{Method, Uri};
use pages::{self, webhooks};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

/// Routes without authentication and without a rate limit.
fn public() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(handlers::health::health))
        .routes(routes!(handlers::docs::root))
        .routes(routes!(handlers::docs::openapi))
        .routes(routes!(pages::docs::show))
        .routes(routes!(pages::device::show, pages::device::answer))
}

/// The start of the device flow, without a token and therefore rate limited by address.
fn device_start() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(handlers::device::start))
}

/// Polling of the device flow, without a token and with its own rate limit by address.
fn device_poll() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(handlers::device::poll))
}

/// Authenticated routes with small bodies: middleware applies `Idempotency-Key`.
fn control_plane() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(handlers::me::me))
        .routes(routes!(handlers::tokens::list, handlers::tokens::create))
        .routes(routes!(handlers::tokens::change, handlers::tokens::revoke))
        .routes(routes!(handlers::sessions::list, handlers::sessions::end_all))
        .routes(routes!(handlers::sessions::end))
        .routes(routes!(handlers::notifications::list))
        .routes(routes!(handlers::notifications::set))
        .routes(routes!(handlers::ai::models))
        .routes(routes!(handlers::ai_aliases::for_user, handlers::ai_aliases::set_for_user))
        .routes(routes!(handlers::ai_aliases::for_org, handlers::ai_aliases::set_for_org))
        .routes(routes!(handlers::usage::for_user))
        .routes(routes!(handlers::usage::for_org))
        .routes(routes!(handlers::usage::days_for_user))
        .routes(routes!(handlers::usage::days_for_org))
        .routes(routes!(handlers::ai_requests::for_user))
        .routes(routes!(handlers::ai_requests::for_org))
        .routes(routes!(handlers::usage::limit_for_org, handlers::usage::set_limit_for_org))
        .routes(routes!(handlers::projects::list::list, handlers::projects::create))
        .routes(routes!(handlers::projects::show, handlers::projects::delete))
        .routes(routes!(handlers::deleted_projects::list))
        .routes(routes!(handlers::deleted_projects::restore))
        .routes(routes!(handlers::suspensions::list))
        .routes(routes!(handlers::deployments::list))
        .routes(routes!(handlers::deployments::show, handlers::deployments::delete))
        .routes(routes!(handlers::deployments::activate))
        .routes(routes!(handlers::deployments::lookup::project))
        .routes(routes!(handlers::access::set_access))
        .routes(routes!(handlers::access::set_password, handlers::access::delete_password))
        .routes(routes!(handlers::transfer::transfer))
        .routes(routes!(handlers::env::list))
        .routes(routes!(handlers::env::set, handlers::env::remove))
        .routes(routes!(handlers::audit::for_project))
        .routes(routes!(handlers::audit::for_org))
        .routes(routes!(handlers::audit::for_user))
        .routes(routes!(stats_handlers::live))
        .routes(routes!(stats_handlers::history))
        .routes(routes!(stats_handlers::audience::show))
        .routes(routes!(stats_handlers::bots::show))
        .routes(routes!(stats_handlers::errors::show))
        .routes(routes!(stats_handlers::export::show))
        .routes(routes!(stats_handlers::public::show, stats_handlers::public::set))
        .routes(routes!(handlers::shares::list))
        .routes(routes!(handlers::shares::delete))
}

/// Routes that contact other services (the store, DNS, the code host), behind the same layers as [`control_plane`].
fn external_services() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(handlers::deployments::files::list))
        .routes(routes!(handlers::deployments::files::changes))
        .routes(routes!(handlers::deployments::icon::show))
        .routes(routes!(handlers::domains::attach))
        .routes(routes!(handlers::domains::detach))
        .routes(routes!(handlers::domains::refresh))
        .routes(routes!(handlers::domains::diagnosis::diagnose))
        .routes(routes!(handlers::domains::certificate::show))
        .routes(routes!(handlers::repo::set))
        .routes(routes!(handlers::vcs::list))
}

/// Routes of organizations and what belongs to them, behind the same layers as [`control_plane`].
fn organizations() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(handlers::orgs::list, handlers::orgs::create))
        .routes(routes!(handlers::orgs::show, handlers::orgs::rename, handlers::orgs::delete))
        .routes(routes!(handlers::orgs::members::set_role, handlers::orgs::members::remove))
        .routes(routes!(handlers::orgs::payer::take_over))
        .routes(routes!(handlers::orgs::icon::put, handlers::orgs::icon::delete))
        .routes(routes!(handlers::orgs::tokens::list, handlers::orgs::tokens::create))
        .routes(routes!(handlers::orgs::tokens::change, handlers::orgs::tokens::revoke))
        .routes(routes!(handlers::invites::sent::list, handlers::invites::sent::create))
        .routes(routes!(handlers::invites::sent::revoke))
        .routes(routes!(handlers::invites::accept))
}

/// Unauthenticated routes that query the database and are therefore rate limited by address.
fn limited_public() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(handlers::invites::show))
        .routes(routes!(handlers::orgs::icon::show))
        .routes(routes!(stats_handlers::public::by_link))
        .routes(routes!(handlers::billing::documents::by_link))
}

/// Routes of the code host installations that organizations share, behind the same layers as [`control_plane`].
fn installations() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(handlers::orgs::installations::list, handlers::orgs::installations::share))
        .routes(routes!(handlers::orgs::installations::unshare))
}

/// Routes of plans and payments, behind the same layers as [`control_plane`].
fn billing() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(handlers::billing::overview::for_user))
        .routes(routes!(handlers::billing::overview::for_org))
        .routes(routes!(handlers::billing::subscription::checkout_for_user))
        .routes(routes!(handlers::billing::subscription::checkout_for_org))
        .routes(routes!(handlers::billing::subscription::change_for_user))
        .routes(routes!(handlers::billing::subscription::change_for_org))
        .routes(routes!(handlers::billing::subscription::cancel_for_user))
        .routes(routes!(handlers::billing::subscription::cancel_for_org))
        .routes(routes!(handlers::billing::subscription::resume_for_user))
        .routes(routes!(handlers::billing::subscription::resume_for_org))
        .routes(routes!(handlers::billing::profile::save))
        .routes(routes!(handlers::billing::profile::save_for_org))
        .routes(routes!(handlers::billing::invoices::for_user))
        .routes(routes!(handlers::billing::invoices::for_org))
        .routes(routes!(handlers::billing::documents::pdf_for_user))
        .routes(routes!(handlers::billing::documents::pdf_for_org))
        .routes(routes!(handlers::billing::documents::xml_for_user))
        .routes(routes!(handlers::billing::documents::xml_for_org))
        .routes(routes!(handlers::billing::ledger::for_user))
        .routes(routes!(handlers::billing::ledger::for_org))
}

/// Webhook routes: the code host's are signed, and of the payment provider's only an id is used.
fn webhooks() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(webhooks::github)).routes(routes!(webhooks::payments::receive))
}

/// Authenticated routes with streamed bodies: handlers apply `Idempotency-Key` once they have the body's hash.
fn uploads() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(handlers::deployments::upload::upload))
        .routes(routes!(handlers::shares::create::create))
}

/// Routes for the console's own pages, which ignore `Idempotency-Key`: their responses must not be stored.
fn console() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(handlers::ai::try_completion))
}

/// Routes with unending responses, which are not stored for replay.
fn streams() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(handlers::events::follow))
}

/// Routes with large files as responses, created while they are sent.
fn downloads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(handlers::deployments::archive::download))
}

/// Combines the routes, each behind its layers, with the document that describes them.
fn build_routes(app: &App) -> (Router<App>, OpenApi) {
    let limited = |bucket| from_fn_with_state((app.clone(), bucket), rate_limit::per_client);
    let by_ourselves = from_fn_with_state(in_time::INTERNAL_TIMEOUT, in_time::with_timeout);
    let with_others = from_fn_with_state(in_time::EXTERNAL_TIMEOUT, in_time::with_timeout);
    let authenticated = control_plane()
        .merge(organizations())
        .layer(by_ourselves.clone())
        .merge(external_services().merge(installations()).merge(billing()).layer(with_others.clone()))
        .layer(from_fn_with_state(app.clone(), idempotency::replay))
        .merge(uploads())
        .merge(console())
        .merge(streams().layer(by_ourselves.clone()))
        .merge(downloads().layer(with_others.clone()))
        .layer(from_fn_with_state(app.clone(), auth::refuse_suspended))
        .layer(from_fn_with_state(app.clone(), rate_limit::per_token))
        .layer(from_fn_with_state(app.clone(), auth::authenticate))
        .layer(from_fn_with_state(app.clone(), rate_limit::unauthorized));
    public()
        .merge(device_start().layer(limited(Bucket::AuthDevice)))
        .merge(device_poll().layer(limited(Bucket::AuthPoll)))
        .merge(limited_public().layer(limited(Bucket::Public)))
        .layer(by_ourselves)
        .merge(webhooks().layer(with_others))
        .merge(authenticated)
        .split_for_parts()
}

/// Returns the error for a method that a path does not support. `curl -T` sends a file with PUT.
async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    let is_upload = ["/deployments", "/shares"].iter().any(|path| uri.path().ends_with(path));
    let message = if method == Method::PUT && is_upload {
        "Archives are sent by POST; with curl by `--data-binary @site.tar.gz` and `-H 'Content-Type: application/gzip'`, not by `-T`."
    } else {
        "This path does not have this method; see the Allow header."
    };
    ApiError::new(Code::MethodNotAllowed, message)
}

/// Builds the complete service.
///
/// Its layers, outermost first: the request's id, for everything below; the log line, which covers everything below;
/// panics, inside both; unread request bodies; the client's address, for rate limits. `trusted` are the networks,
/// besides edges, whose `X-Forwarded-For` is trusted.
pub fn router(app: &App, trusted: NetworkSet) -> anyhow::Result<Router> {
    let (routes, described) = build_routes(app);
    let mut document = document::complete(&described)?;
    document::set_server(&mut document, app.config.site.base_url.as_str());
    let believed = TrustedPeers {
        master_key: app.master_key.clone(),
        clock: app.clock.clone(),
        accepts_fixed_proof: app.config.admin.accept_fixed_edge_proof,
        proxies: Arc::new(trusted),
    };
    let api = routes
        .fallback(async || ApiError::new(Code::NotFound, "There is nothing at this path; /docs lists what there is."))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(Extension(OpenApiJson::new(&document)))
        .layer(Extension(Arc::new(pages::docs::ReferencePage::new(&document)?)));
    let within_layers = |routes: Router<App>| {
        routes
            .layer(from_fn_with_state(believed.clone(), client::find_client))
            .layer(from_fn(close::drain_unread_bodies))
            .layer(CatchPanicLayer::custom(panics::panic_response))
            .layer(from_fn(trace::record))
            .layer(from_fn(request_id::assign))
            .with_state(app.clone())
    };
    Ok(hosts::dispatch_by_host(app, within_layers(api), within_layers(pages::router(app))))
}

#[cfg(test)]
mod tests;
