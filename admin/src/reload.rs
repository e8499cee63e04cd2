//! Reloads the configuration on SIGHUP.
//!
//! A new app and its routes are built completely before they replace the previous ones, so a rejected configuration
//! changes nothing. Running requests and jobs keep the app that they started with. Start with [`ConfigReload::run`].

use std::sync::Arc;

use anyhow::Context as _;
use app::{App, LiveApp};
use arc_swap::ArcSwap;
use axum::{Router, extract::Request, response::Response};
use config::reload::{ReloadOutcome, Reloader};
use domain::networks::NetworkSet;
use telemetry::reload::{HangupSignals, ReloadedKeys};
use tower::ServiceExt as _;

use crate::router;

/// The parts of an admin that apply a new configuration.
pub struct ConfigReload {
    reloader: Reloader,
    live: LiveApp,
    routes: Arc<ArcSwap<Router>>,
    hangups: HangupSignals,
}

impl ConfigReload {
    /// Starts with `app`. SIGHUP is handled from now on instead of ending the process.
    pub fn new(reloader: Reloader, app: App) -> anyhow::Result<Self> {
        let hangups = HangupSignals::listen().context("SIGHUP cannot be heard")?;
        let routes = Arc::new(ArcSwap::from_pointee(routes(&app)?));
        Ok(Self { reloader, live: LiveApp::new(app), routes, hangups })
    }

    /// Returns the app with the current configuration.
    pub fn live(&self) -> LiveApp {
        self.live.clone()
    }

    /// Returns a service that dispatches each request to the routes in use when it arrives.
    pub fn service(&self) -> Router {
        let routes = self.routes.clone();
        Router::new().fallback(async move |request: Request| -> Response {
            let router = Router::clone(&routes.load());
            match router.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        })
    }

    /// Reloads the configuration at each signal, for as long as it is polled.
    pub async fn run(self) {
        let Self { mut reloader, live, routes: of_requests, hangups } = self;
        let reload = move || {
            let ReloadOutcome { changed, waiting, .. } = reloader.reload(|_, config| {
                let app = live.now().reconfigured(config)?;
                let routes = routes(&app)?;
                // Nothing can fail from here on.
                live.replace(app);
                of_requests.store(Arc::new(routes));
                anyhow::Ok(())
            })?;
            Ok(ReloadedKeys { changed, waiting })
        };
        hangups.run(reload).await;
    }
}

fn routes(app: &App) -> anyhow::Result<Router> {
    let trusted = NetworkSet::parse(&app.config.edge.trusted_proxies).context("edge.trusted_proxies")?;
    router::router(app, trusted)
}
