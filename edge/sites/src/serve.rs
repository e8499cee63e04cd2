//! From a path to the response: redirects, files, assets for tabs that are still open, 404 pages, single-page sites.

use domain::{
    DeploymentId,
    site::{Site, SiteGate, SiteKind},
};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode, Uri, header::VARY};
use http_types::{SiteBody, pages};

use super::{
    SiteService,
    answer::{FileRequest, PendingResponse, ServedAs, send},
    guards, header_rules,
    pack::LoadedPack,
    packs::PackError,
    path::{PathError, decode, encode},
    resolve::{Resolution, not_found_page, resolve_request, rewrite_target},
    routes::{expects_page, is_route},
    rules::{RedirectOutcome, follow, redirect, varying},
};

/// The shortest name that can carry a hash: eight characters, a dot, an extension.
const FINGERPRINTED_NAME: usize = 10;

impl SiteService {
    pub(crate) async fn serve(
        &self,
        method: &Method,
        uri: &Uri,
        asked: FileRequest<'_>,
        site: &Site,
    ) -> Response<SiteBody> {
        let is_options = method == Method::OPTIONS;
        if !is_options && method != Method::GET && method != Method::HEAD {
            return pages::method_not_allowed();
        }
        if is_options && uri.path() == "*" {
            return pages::options();
        }
        let path = match decode(uri) {
            Ok(path) => path,
            Err(PathError::Malformed) => return pages::bad_request(),
            Err(PathError::TooLong) => return pages::too_long(),
        };
        let Some(deployment) = &site.deployment else { return pages::nothing_deployed() };
        let asked = FileRequest { path: &path.decoded, sent: path.sent, is_nameable: path.is_nameable, ..asked };
        let answer = async {
            let live_guards = self.live_guards(site).await?;
            let asked = FileRequest { live_guards: live_guards.as_deref(), ..asked };
            if is_options {
                self.options(deployment, asked, site).await
            } else {
                self.answer_from(deployment, uri, asked, site).await
            }
        };
        match answer.await {
            Ok(response) => response,
            // The deployment was deleted after the site was looked up.
            Err(PackError::Missing) => pages::not_found(),
            Err(error @ PackError::Unavailable(_)) => {
                let log = |id: &str| tracing::warn!(request = id, %error, %deployment, "a site could not be read");
                pages::read_failed(self.incidents.id(deployment.as_str(), log))
            }
            // The file was logged where it was read.
            Err(error @ (PackError::Lost | PackError::Damaged(_))) => {
                let log =
                    |id: &str| tracing::warn!(request = id, %error, %deployment, "a site has lost or damaged files");
                pages::damaged(self.incidents.id(deployment.as_str(), log))
            }
            Err(PackError::Guarded(accounts)) => guards::restricted_placeholder(accounts),
        }
    }

    /// Answers OPTIONS with the methods and what the site's `_headers` say about other origins at this path. Whether a
    /// file exists makes no difference: a preflight asks what a request would be allowed.
    async fn options(
        &self,
        deployment: &DeploymentId,
        asked: FileRequest<'_>,
        site: &Site,
    ) -> Result<Response<SiteBody>, PackError> {
        let pack = self.packs.pack(deployment, &site.owner).await?;
        let mut said = HeaderMap::new();
        // A preflight has no credentials: for a guarded path it learns only the methods.
        if !pack.headers.is_empty() && pack.admit(asked).is_ok() {
            header_rules::apply(&pack.headers, asked.host, asked.sent, &mut said);
        }
        let mut response = pages::options();
        let is_about_origins = |name: &HeaderName| name == VARY || name.as_str().starts_with("access-control-");
        for (name, value) in said.iter().filter(|(name, _)| is_about_origins(name)) {
            response.headers_mut().append(name, value.clone());
        }
        Ok(response)
    }

    async fn answer_from(
        &self,
        deployment: &DeploymentId,
        uri: &Uri,
        asked: FileRequest<'_>,
        site: &Site,
    ) -> Result<Response<SiteBody>, PackError> {
        let (look, varying) = {
            let pack = self.packs.pack(deployment, &site.owner).await?;
            let mut look = look_up(&pack, uri, asked, may_be_lent(asked, site))?;
            if asked.agent.is_some_and(|agent| pack.disallows(agent, uri)) {
                look.disallow();
            }
            (look, varying(&pack, uri, asked))
        };
        let mut response = match look {
            LiveLookup::Decided(decided) => decided.begin().await,
            LiveLookup::Elsewhere(missing) => Box::pin(self.lent_or_missing(deployment, asked, site, missing)).await,
        }?;
        varying.apply_to(response.headers_mut());
        Ok(response)
    }

    async fn lent_or_missing(
        &self,
        live: &DeploymentId,
        asked: FileRequest<'_>,
        site: &Site,
        missing: MissingFile,
    ) -> Result<Response<SiteBody>, PackError> {
        if let Some(lent) = self.find_lent(live, asked, site, missing.is_disallowed).await? {
            return Ok(lent);
        }
        let mut decided = {
            let pack = self.packs.pack(live, &site.owner).await?;
            match missing.rewritten {
                Some((to, status)) => serve_rewritten(&pack, &to, status, asked)?,
                None => serve_missing(&pack, asked)?,
            }
        };
        if missing.is_disallowed {
            decided.disallow();
        }
        decided.begin().await
    }

    /// Returns a fingerprinted file from the newest recent deployment of the project that has it. A tab that was opened
    /// before the last deployment still requests the assets of its own. A deployment whose pack is lost or damaged
    /// lends nothing and does not prevent the live one from answering.
    async fn find_lent(
        &self,
        live: &DeploymentId,
        asked: FileRequest<'_>,
        site: &Site,
        is_disallowed: bool,
    ) -> Result<Option<Response<SiteBody>>, PackError> {
        let path = asked.path.strip_prefix('/').unwrap_or(asked.path);
        // The lending deployment may spell the path differently than the request.
        let live_guards = self.packs.pack(live, &site.owner).await?.guards.clone();
        let asked = FileRequest { live_guards: Some(&live_guards), ..asked };
        for id in self.recent.recent(&site.project).await.iter().filter(|id| *id != live) {
            let decided = match self.packs.pack(id, &site.owner).await {
                Ok(pack) => {
                    let Some(file) = pack.file(path).filter(|file| file.is_lent) else { continue };
                    send(&pack, file, asked, ServedAs::Found)
                }
                Err(error) => Err(error),
            };
            let begun = match decided {
                Ok(mut decided) => {
                    if is_disallowed {
                        decided.disallow();
                    }
                    decided.begin().await
                }
                Err(error) => Err(error),
            };
            match begun {
                Err(error) if error.is_pack_fault() => {}
                begun => return begun.map(Some),
            }
        }
        Ok(None)
    }
}

/// The outcome of a lookup in the live deployment.
enum LiveLookup {
    Decided(PendingResponse),
    Elsewhere(MissingFile),
}

struct MissingFile {
    /// The file (decoded path) and status that a rule serves if no deployment has the path.
    rewritten: Option<(String, StatusCode)>,
    is_disallowed: bool,
}

impl LiveLookup {
    fn elsewhere(rewritten: Option<(String, StatusCode)>) -> Self {
        Self::Elsewhere(MissingFile { rewritten, is_disallowed: false })
    }

    fn disallow(&mut self) {
        match self {
            Self::Decided(decided) => decided.disallow(),
            Self::Elsewhere(missing) => missing.is_disallowed = true,
        }
    }
}

/// Looks up a path in the live deployment. With `may_be_lent`, a missing file may come from an earlier deployment.
fn look_up(pack: &LoadedPack, uri: &Uri, asked: FileRequest<'_>, may_be_lent: bool) -> Result<LiveLookup, PackError> {
    pack.admit(asked)?;
    if !pack.redirects.is_empty() {
        match follow(pack, uri, asked) {
            RedirectOutcome::Nothing => {}
            RedirectOutcome::Redirect(response) => return Ok(LiveLookup::Decided(response.into())),
            // Not the next rule: the site assigns this path to this rule.
            RedirectOutcome::TooLong => return Ok(LiveLookup::Decided(pages::too_long().into())),
            RedirectOutcome::Rewrite { to, status, is_fallback } if is_fallback && may_be_lent => {
                return Ok(LiveLookup::elsewhere(Some((to, status))));
            }
            RedirectOutcome::Rewrite { to, status, .. } => {
                return serve_rewritten(pack, &to, status, asked).map(LiveLookup::Decided);
            }
        }
    }
    match resolve_request(pack, asked) {
        Resolution::File(file) => send(pack, file, asked, ServedAs::Found).map(LiveLookup::Decided),
        Resolution::Cleaner(path) => {
            pack.admit_to_path(&path, asked)?;
            let response = redirect(pack, asked, StatusCode::PERMANENT_REDIRECT, &encode(&path), uri.query());
            Ok(LiveLookup::Decided(response.unwrap_or_else(pages::bad_request).into()))
        }
        Resolution::Nothing if may_be_lent => Ok(LiveLookup::elsewhere(None)),
        Resolution::Nothing => serve_missing(pack, asked).map(LiveLookup::Decided),
    }
}

/// Serves the file that a rule substitutes for the requested one.
fn serve_rewritten(
    pack: &LoadedPack,
    to: &str,
    status: StatusCode,
    asked: FileRequest<'_>,
) -> Result<PendingResponse, PackError> {
    let role = match status {
        StatusCode::NOT_FOUND => ServedAs::NotFound,
        StatusCode::GONE => ServedAs::Gone,
        _ => ServedAs::Rewritten,
    };
    match rewrite_target(pack, to) {
        Some(file) => send(pack, file, asked, role),
        None if role == ServedAs::Gone => Ok(pages::page_gone().into()),
        None if role == ServedAs::NotFound => Ok(pages::not_found().into()),
        None => serve_missing(pack, asked),
    }
}

/// Answers a path without a file: the single page, the site's own 404 page, or the platform's.
fn serve_missing(pack: &LoadedPack, asked: FileRequest<'_>) -> Result<PendingResponse, PackError> {
    if let Some(page) = pack.single_page().filter(|_| is_route(asked)) {
        return send(pack, page, asked, ServedAs::SinglePage);
    }
    match not_found_page(pack, asked.path) {
        Some(page) => send(pack, page, asked, ServedAs::NotFound),
        None if expects_page(asked) => Ok(pages::not_found().into()),
        None => Ok(pages::no_such_file().into()),
    }
}

/// Returns whether an earlier deployment may have a missing file, so that its manifest is worth reading.
fn may_be_lent(asked: FileRequest<'_>, site: &Site) -> bool {
    site.kind == SiteKind::Live
        && site.gate == SiteGate::Public
        && asked.is_nameable
        && could_be_fingerprinted(asked.path)
        && !is_document_request(asked.headers)
}

/// Returns whether a browser says that it opens the address as a document, rather than loads it from a page.
fn is_document_request(headers: &HeaderMap) -> bool {
    let destination = headers.get("sec-fetch-dest").and_then(|value| value.to_str().ok());
    destination.is_some_and(|destination| {
        matches!(destination, "document" | "frame" | "iframe" | "embed" | "object" | "fencedframe")
    })
}

/// Returns whether the name is long enough to contain a hash.
fn could_be_fingerprinted(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.len() >= FINGERPRINTED_NAME && name.contains('.')
}
