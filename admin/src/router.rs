//! The index of every route. The OpenAPI document is made from it, so a handler cannot be served without being
//! described.

use std::sync::Arc;

use axum::{Extension, Router, middleware::from_fn, middleware::from_fn_with_state};
use domain::networks::Networks;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    api::{
        self,
        docs::{OpenApiJson, document},
    },
    app::App,
    auth,
    error::{ApiError, Code},
    middleware::{
        client::{self, Believed},
        close, hosts, idempotency, panics, rate_limit, request_id, trace,
    },
    pages,
    rates::Bucket,
    webhooks,
};

/// Routes without a credential and without a limit.
fn public() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(api::health::health))
        .routes(routes!(api::docs::root))
        .routes(routes!(api::docs::openapi))
        .routes(routes!(pages::docs::show))
        .routes(routes!(pages::device::show, pages::device::answer))
}

/// The start of the device flow: without a token, so limited by address.
fn device_start() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(api::device::start))
}

/// The polls of the device flow: without a token, with a limit of their own by address.
fn device_poll() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(api::device::poll))
}

/// Routes for callers with a credential, with small bodies: middleware applies `Idempotency-Key`.
fn control_plane() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(api::me::me))
        .routes(routes!(api::tokens::list, api::tokens::create))
        .routes(routes!(api::tokens::change, api::tokens::revoke))
        .routes(routes!(api::usage::of_user))
        .routes(routes!(api::usage::of_org))
        .routes(routes!(api::usage::limit_of_org, api::usage::set_limit_of_org))
        .routes(routes!(api::projects::list, api::projects::create))
        .routes(routes!(api::projects::show, api::projects::delete))
        .routes(routes!(api::suspensions::list))
        .routes(routes!(api::deployments::list))
        .routes(routes!(api::deployments::show, api::deployments::delete))
        .routes(routes!(api::deployments::activate))
        .routes(routes!(api::access::set_access))
        .routes(routes!(api::access::set_password, api::access::delete_password))
        .routes(routes!(api::transfer::transfer))
        .routes(routes!(api::domains::attach))
        .routes(routes!(api::domains::detach))
        .routes(routes!(api::domains::refresh))
        .routes(routes!(api::domains::diagnosis::diagnose))
        .routes(routes!(api::domains::certificate::show))
        .routes(routes!(api::env::list))
        .routes(routes!(api::env::set, api::env::remove))
        .routes(routes!(api::audit::of_project))
        .routes(routes!(api::audit::of_org))
        .routes(routes!(api::stats::live))
        .routes(routes!(api::stats::history))
        .routes(routes!(api::stats::audience::show))
        .routes(routes!(api::stats::bots::show))
        .routes(routes!(api::stats::errors::show))
        .routes(routes!(api::stats::export::show))
        .routes(routes!(api::stats::public::show, api::stats::public::set))
        .routes(routes!(api::repo::set))
        .routes(routes!(api::vcs::list))
        .routes(routes!(api::shares::list))
        .routes(routes!(api::shares::delete))
}

/// Routes of organizations and what belongs to them, behind the same layers as [`control_plane`].
fn organizations() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(api::orgs::list, api::orgs::create))
        .routes(routes!(api::orgs::show, api::orgs::rename, api::orgs::delete))
        .routes(routes!(api::orgs::members::set_role, api::orgs::members::remove))
        .routes(routes!(api::orgs::icon::put, api::orgs::icon::delete))
        .routes(routes!(api::orgs::tokens::list, api::orgs::tokens::create))
        .routes(routes!(api::orgs::tokens::change, api::orgs::tokens::revoke))
        .routes(routes!(api::invites::sent::list, api::invites::sent::create))
        .routes(routes!(api::invites::sent::revoke))
        .routes(routes!(api::invites::accept))
}

/// Routes without a credential that ask the database, so limited by address.
fn limited_public() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(api::invites::show))
        .routes(routes!(api::orgs::icon::show))
        .routes(routes!(api::stats::public::by_link))
        .routes(routes!(api::billing::documents::by_link))
}

/// Routes of what organizations share of the code host, behind the same layers as [`control_plane`].
fn installations() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(api::orgs::installations::list, api::orgs::installations::share))
        .routes(routes!(api::orgs::installations::unshare))
}

/// Routes of plans and money, behind the same layers as [`control_plane`].
fn billing() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(api::billing::overview::of_user))
        .routes(routes!(api::billing::overview::of_org))
        .routes(routes!(api::billing::subscription::checkout_of_user))
        .routes(routes!(api::billing::subscription::checkout_of_org))
        .routes(routes!(api::billing::subscription::change_of_user))
        .routes(routes!(api::billing::subscription::change_of_org))
        .routes(routes!(api::billing::subscription::cancel_of_user))
        .routes(routes!(api::billing::subscription::cancel_of_org))
        .routes(routes!(api::billing::subscription::resume_of_user))
        .routes(routes!(api::billing::subscription::resume_of_org))
        .routes(routes!(api::billing::profile::save))
        .routes(routes!(api::billing::profile::save_of_org))
        .routes(routes!(api::billing::invoices::of_user))
        .routes(routes!(api::billing::invoices::of_org))
        .routes(routes!(api::billing::documents::pdf_of_user))
        .routes(routes!(api::billing::documents::pdf_of_org))
        .routes(routes!(api::billing::documents::xml_of_user))
        .routes(routes!(api::billing::documents::xml_of_org))
        .routes(routes!(api::billing::ledger::of_user))
        .routes(routes!(api::billing::ledger::of_org))
}

/// Routes for the code host, which signs what it sends, and for the payment provider, of which only an id is believed.
fn webhooks() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(webhooks::github)).routes(routes!(webhooks::payments::receive))
}

/// Routes for callers with a credential, with streamed bodies: the handler applies `Idempotency-Key` itself, once it
/// has the body's hash.
fn uploads() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(api::deployments::upload::upload)).routes(routes!(api::shares::create::create))
}

/// Combines the routes, each behind its layers, with the document that describes them.
fn index(app: &App) -> (Router<App>, OpenApi) {
    let limited = |bucket| from_fn_with_state((app.clone(), bucket), rate_limit::per_client);
    let authenticated = control_plane()
        .merge(organizations())
        .merge(installations())
        .merge(billing())
        .layer(from_fn_with_state(app.clone(), idempotency::replay))
        .merge(uploads())
        .layer(from_fn_with_state(app.clone(), rate_limit::per_token))
        .layer(from_fn_with_state(app.clone(), auth::authenticate))
        .layer(from_fn_with_state(app.clone(), rate_limit::unauthorized));
    public()
        .merge(device_start().layer(limited(Bucket::AuthDevice)))
        .merge(device_poll().layer(limited(Bucket::AuthPoll)))
        .merge(limited_public().layer(limited(Bucket::Public)))
        .merge(webhooks())
        .merge(authenticated)
        .split_for_parts()
}

/// Makes the whole service. Its layers, outermost first: the request's id, for everything below; the log line, which
/// covers everything below; panics, inside both; the rest of bodies that handlers do not read; the client's address,
/// which limits are counted by. `trusted` are the networks whose `X-Forwarded-For` is believed beside that of edges.
pub fn router(app: &App, trusted: Networks) -> anyhow::Result<Router> {
    let (routes, described) = index(app);
    let mut document = document::complete(&described)?;
    document::serve_at(&mut document, app.config.site.base_url.as_str());
    let believed = Believed { master_key: app.master_key.clone(), proxies: Arc::new(trusted) };
    let api = routes
        .fallback(async || ApiError::new(Code::NotFound, "There is nothing at this path; /docs lists what there is."))
        .method_not_allowed_fallback(async || {
            ApiError::new(Code::MethodNotAllowed, "This path does not have this method; see the Allow header.")
        })
        .layer(Extension(OpenApiJson::new(&document)))
        .layer(Extension(Arc::new(pages::docs::ReferencePage::new(&document)?)));
    let within_layers = |routes: Router<App>| {
        routes
            .layer(from_fn_with_state(believed.clone(), client::find))
            .layer(from_fn(close::after_refused_bodies))
            .layer(CatchPanicLayer::custom(panics::answer))
            .layer(from_fn(trace::record))
            .layer(from_fn(request_id::assign))
            .with_state(app.clone())
    };
    Ok(hosts::by_host(app, within_layers(api), within_layers(pages::router(app))))
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, fs, path::Path};

    use serde_json::Value;

    use super::*;

    fn described() -> Value {
        let all = public()
            .merge(device_start())
            .merge(device_poll())
            .merge(limited_public())
            .merge(control_plane())
            .merge(organizations())
            .merge(uploads())
            .merge(installations())
            .merge(billing())
            .merge(webhooks());
        document::complete(&all.into_openapi()).unwrap()
    }

    /// Every `.rs` file under `folder`, as text.
    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                found.push(fs::read_to_string(path).unwrap());
            }
        }
    }

    fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
        let paths = document["paths"].as_object().unwrap().iter();
        let methods = paths.flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |m| (path, m)));
        methods.map(|(path, (method, said))| (path.as_str(), method.as_str(), said)).collect()
    }

    #[test]
    fn every_handler_is_served_and_described() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (mut files, mut pages) = (Vec::new(), Vec::new());
        sources(&root.join("api"), &mut files);
        sources(&root.join("webhooks"), &mut files);
        sources(&root.join("pages"), &mut pages);
        let described_in = |text: &String| text.matches("#[utoipa::path(").count();
        let handlers: usize = files.iter().chain(&pages).map(described_in).sum();
        assert_eq!(operations(&described()).len(), handlers, "a handler stands in no list of this file");
        // A route that is added in the other way would not be described.
        let here = include_str!("router.rs");
        let undescribed = [".rou", "te("].concat();
        assert!(!here.contains(&undescribed) && files.iter().all(|text| !text.contains(&undescribed)));
    }

    #[test]
    fn the_contract_is_described() {
        let document = described();
        let operations = operations(&document);
        for wanted in [
            "get /health",
            "get /me",
            "post /auth/device",
            "post /auth/device/poll",
            "get /tokens",
            "post /tokens",
            "delete /tokens/{id}",
            "get /usage/ai",
            "get /orgs/{name}/usage/ai",
            "get /projects",
            "post /projects",
            "get /projects/{name}",
            "delete /projects/{name}",
            "get /projects/{name}/deployments",
            "post /projects/{name}/deployments",
            "get /projects/{name}/deployments/{id}",
            "post /projects/{name}/deployments/{id}/activate",
            "delete /projects/{name}/deployments/{id}",
            "post /projects/{name}/domains",
            "delete /projects/{name}/domains/{domain}",
            "post /projects/{name}/domains/{domain}/certificate/refresh",
            "get /projects/{name}/domains/{domain}/certificate",
            "put /projects/{name}/access",
            "put /projects/{name}/password",
            "delete /projects/{name}/password",
            "post /projects/{name}/transfer",
            "get /projects/{name}/env",
            "put /projects/{name}/env/{key}",
            "delete /projects/{name}/env/{key}",
            "get /projects/{name}/audit",
            "get /orgs/{name}/audit",
            "put /billing/profile",
            "put /orgs/{name}/billing/profile",
            "get /projects/{name}/stats",
            "get /projects/{name}/stats/history",
            "get /projects/{name}/stats/audience",
            "post /projects/{name}/repo",
            "get /vcs",
            "get /orgs/{name}/installations",
            "post /orgs/{name}/installations",
            "delete /orgs/{name}/installations/{id}",
            "get /orgs",
            "post /orgs",
            "get /orgs/{name}",
            "patch /orgs/{name}",
            "delete /orgs/{name}",
            "get /orgs/{name}/invites",
            "post /orgs/{name}/invites",
            "delete /orgs/{name}/invites/{id}",
            "get /invites/{token}",
            "post /invites/{token}/accept",
            "put /orgs/{name}/members/{login}",
            "delete /orgs/{name}/members/{login}",
            "get /orgs/{name}/icon",
            "put /orgs/{name}/icon",
            "delete /orgs/{name}/icon",
            "get /orgs/{name}/tokens",
            "post /orgs/{name}/tokens",
            "delete /orgs/{name}/tokens/{id}",
            "get /billing",
            "put /billing/profile",
            "post /billing/checkout",
            "post /billing/change-plan",
            "post /billing/cancel",
            "post /billing/resume",
            "get /billing/invoices/{id}/pdf",
            "get /orgs/{name}/billing",
            "put /orgs/{name}/billing/profile",
            "post /orgs/{name}/billing/checkout",
            "post /orgs/{name}/billing/change-plan",
            "post /orgs/{name}/billing/cancel",
            "post /orgs/{name}/billing/resume",
            "get /orgs/{name}/billing/invoices/{id}/pdf",
            "get /shares",
            "post /shares",
            "delete /shares/{name}",
        ] {
            let there = operations.iter().any(|(path, method, _)| format!("{method} {path}") == wanted);
            assert!(there, "{wanted} is missing");
        }
    }

    #[test]
    fn the_committed_document_is_current() {
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../openapi.json");
        let document = format!("{}\n", serde_json::to_string_pretty(&described()).unwrap());
        if std::env::var_os("SVC_WRITE_OPENAPI").is_some() {
            fs::write(&committed, &document).unwrap();
        }
        let is_current = fs::read_to_string(&committed).is_ok_and(|text| text == document);
        assert!(
            is_current,
            "openapi.json is not what the handlers say; `make openapi` rewrites it, commit the difference"
        );
    }

    /// The codes in the envelope of a response, references resolved.
    fn codes<'d>(document: &'d Value, response: &'d Value) -> Vec<&'d str> {
        let target = response["$ref"].as_str().and_then(|reference| document.pointer(&reference[1..]));
        let pointer = "/content/application~1json/schema/allOf/1/properties/error/properties/code/enum";
        let codes = target.unwrap_or(response).pointer(pointer).and_then(Value::as_array);
        codes.into_iter().flatten().map(|code| code.as_str().unwrap()).collect()
    }

    /// The document tells the layers around an operation by its path and security; here they are put around groups.
    #[test]
    fn the_layers_of_every_group_are_described() {
        let groups = [
            (public(), false, false),
            (webhooks(), true, false),
            (limited_public(), true, false),
            (device_start(), true, false),
            (device_poll(), true, false),
            (control_plane(), true, true),
            (organizations(), true, true),
            (installations(), true, true),
            (billing(), true, true),
            (uploads(), true, true),
        ];
        for (group, is_limited, is_idempotent) in groups {
            let document = document::complete(&group.into_openapi()).unwrap();
            for (path, method, said) in operations(&document) {
                let has_limit = codes(&document, &said["responses"]["429"]).contains(&"rate_limit_exceeded");
                assert_eq!(has_limit, is_limited, "{method} {path}");
                let parameters = said["parameters"].as_array().into_iter().flatten();
                let has_key = parameters.into_iter().any(|parameter| parameter["name"] == "Idempotency-Key");
                assert_eq!(has_key, is_idempotent && method == "post", "{method} {path}");
            }
        }
    }

    #[test]
    fn every_code_is_listed_by_an_operation_and_under_its_own_status() {
        let document = described();
        let mut listed = HashSet::new();
        for (path, method, said) in operations(&document) {
            for (status, response) in said["responses"].as_object().unwrap() {
                for code in codes(&document, response) {
                    let known = Code::ALL.iter().find(|known| known.as_str() == code);
                    let known = known.unwrap_or_else(|| panic!("{method} {path}: {code} is no code"));
                    assert_eq!(known.status().as_str(), status, "{method} {path}: {code}");
                    listed.insert(code);
                }
            }
        }
        // No operation has a method that its path does not have.
        listed.insert("method_not_allowed");
        let unlisted: Vec<&str> =
            Code::ALL.iter().map(|code| code.as_str()).filter(|code| !listed.contains(code)).collect();
        assert!(unlisted.is_empty(), "no operation lists {unlisted:?}");
    }

    #[test]
    fn every_operation_says_how_it_fails_and_every_reference_leads_somewhere() {
        let document = described();
        for (path, method, said) in operations(&document) {
            let responses = said["responses"].as_object().unwrap();
            assert!(responses.contains_key("500"), "{method} {path}");
            assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path}");
            // An empty requirement asks for nothing; an absent one stands for the document's, a token.
            let is_open =
                said.get("security").is_some_and(|wanted| wanted[0].as_object().is_none_or(serde_json::Map::is_empty));
            assert_eq!(responses.contains_key("401"), !is_open, "{method} {path}");
        }
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer} leads nowhere");
        }
    }
}
