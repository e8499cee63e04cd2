//! Tokens of our own app: a JWT signed with its private key (RS256) is exchanged for an installation access token,
//! which reads one repository for an hour without a signed-in person.
//!
//! Tokens are cached in memory until shortly before they expire. Concurrent callers for the same token share one
//! request.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{Clock, Timestamp, repo::RepoName};
use http::{HeaderMap, StatusCode, header};
use moka::{Expiry, future::Cache};
use reqwest::Response;
use rustls::{
    SignatureScheme,
    crypto::aws_lc_rs::sign::any_supported_type,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
    sign::SigningKey,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::json;
use time::OffsetDateTime;

use super::{
    CodeHostError, GithubHost,
    call::{self, CALL_TIMEOUT},
};
use crate::{AppToken, HostAccount};

const CREATE: &str = "POST /app/installations/{installation_id}/access_tokens";
const PERMISSION: &str = "GET /repos/{owner}/{repo}/collaborators/{username}/permission";
/// How far a JWT's `iat` is backdated, as GitHub recommends for clock differences.
const BACKDATED: Duration = Duration::from_mins(1);
/// The lifetime of a JWT. GitHub accepts 10 minutes; one less allows for clock differences.
const JWT_LIFETIME: Duration = Duration::from_mins(9);
/// The clock difference from which a retry uses GitHub's time.
const CLOCK_SKEW: Duration = Duration::from_secs(30);
/// The longest lifetime of a token. A token that claims more is cached for this long.
const TOKEN_LIFETIME: Duration = Duration::from_hours(1);
/// The remaining lifetime below which a cached token is not used: fetching an archive can take almost this long.
const EARLY: Duration = Duration::from_mins(6);
/// The most tokens in the cache: one for each linked repository with a push in the last hour.
const TOKENS: u64 = 10_000;
/// How long some of GitHub's servers may not know a new token: a refusal within this time proves nothing.
const REPLICATION: Duration = Duration::from_secs(30);
const KEY_BYTES: u64 = 64 * 1024;

pub(super) struct GithubApp {
    issuer: String,
    key: Arc<dyn SigningKey>,
    clock: Clock,
    tokens: Cache<TokenKey, CachedToken>,
}

type TokenKey = (i64, i64);

#[derive(Clone)]
struct CachedToken {
    token: AppToken,
    made: Instant,
    lasts: Duration,
}

struct TokenExpiry;

impl Expiry<TokenKey, CachedToken> for TokenExpiry {
    fn expire_after_create(&self, _: &TokenKey, kept: &CachedToken, _: Instant) -> Option<Duration> {
        Some(kept.lasts.saturating_sub(EARLY))
    }
}

#[derive(Deserialize)]
struct AppTokenResponse {
    token: String,
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
    #[serde(default)]
    repositories: Vec<TokenRepository>,
}

#[derive(Deserialize)]
struct TokenRepository {
    id: i64,
    full_name: String,
}

#[derive(Deserialize)]
struct CollaboratorPermission {
    permission: String,
    user: Option<GithubUserId>,
}

#[derive(Deserialize)]
struct GithubUserId {
    id: u64,
}

impl GithubApp {
    /// Loads the key of the app `issuer` from `file`: PEM, in the form that GitHub issues (PKCS#1) or PKCS#8.
    pub(super) fn load(issuer: &str, file: &Path, clock: Clock) -> anyhow::Result<Self> {
        let shown = file.display();
        let read = || -> anyhow::Result<Vec<u8>> {
            let size = std::fs::metadata(file)?.len();
            anyhow::ensure!(size <= KEY_BYTES, "it is larger than any key");
            Ok(std::fs::read(file)?)
        };
        let pem = read().with_context(|| format!("code_host.private_key_file: cannot read {shown}"))?;
        let der = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|_| anyhow::anyhow!("code_host.private_key_file: {shown} holds no private key in PEM"))?;
        let key = any_supported_type(&der).ok().filter(|key| key.choose_scheme(&[RS256]).is_some());
        let key =
            key.with_context(|| format!("code_host.private_key_file: {shown} holds no RSA key of 2048 bits or more"))?;
        let tokens = Cache::builder().max_capacity(TOKENS).expire_after(TokenExpiry).build();
        Ok(Self { issuer: issuer.to_owned(), key, clock, tokens })
    }

    fn jwt(&self, now: Timestamp) -> Result<SecretString, CodeHostError> {
        let head = json!({ "alg": "RS256", "typ": "JWT" });
        let claims = json!({
            "iat": (now - BACKDATED).unix_seconds(),
            "exp": (now + JWT_LIFETIME).unix_seconds(),
            "iss": self.issuer,
        });
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let said = format!("{}.{}", encode(head.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        let unsigned = || CodeHostError::Answer { call: CREATE, reason: "the app's key does not sign".to_owned() };
        let signer = self.key.choose_scheme(&[RS256]).ok_or_else(unsigned)?;
        let signature = signer.sign(said.as_bytes()).map_err(|_| unsigned())?;
        Ok(format!("{said}.{}", encode(&signature)).into())
    }
}

/// RSASSA-PKCS1-v1_5 with SHA-256: the only algorithm that GitHub accepts.
const RS256: SignatureScheme = SignatureScheme::RSA_PKCS1_SHA256;

impl GithubHost {
    /// Returns a token that reads one repository through an installation; `None` if the app has no key.
    pub(super) async fn app_token_for(
        &self,
        installation: i64,
        repo_id: i64,
    ) -> Result<Option<AppToken>, CodeHostError> {
        let Some(app) = &self.app else { return Ok(None) };
        let making = self.create_token(app, installation, repo_id);
        let kept = app.tokens.try_get_with((installation, repo_id), making).await;
        // Concurrent callers that waited for the same request share its error.
        let kept = kept.map_err(|error| Arc::try_unwrap(error).unwrap_or_else(|shared| shared.copy()))?;
        Ok(Some(kept.token))
    }

    /// Drops a refused token, unless it is so new that some of GitHub's servers may not know it yet.
    pub(super) async fn drop_refused_app_token(&self, installation: i64, repo_id: i64) {
        let Some(app) = &self.app else { return };
        let wanted = (installation, repo_id);
        if app.tokens.get(&wanted).await.is_some_and(|kept| kept.made.elapsed() > REPLICATION) {
            app.tokens.invalidate(&wanted).await;
        }
    }

    pub(super) async fn drop_app_token(&self, installation: i64, repo_id: i64) {
        if let Some(app) = &self.app {
            app.tokens.invalidate(&(installation, repo_id)).await;
        }
    }

    /// Returns whether the account may read the repository. The app's token needs only the permission *Metadata* for
    /// this.
    pub(super) async fn can_read(
        &self,
        token: &SecretString,
        repo: &RepoName,
        account: &HostAccount,
    ) -> Result<bool, CodeHostError> {
        let (owner, name) = repo.parts();
        let segments = ["repos", owner, name, "collaborators", &account.login, "permission"];
        let url = self.api_url(PERMISSION, &segments)?;
        match self.fetch::<CollaboratorPermission>(PERMISSION, url, token).await {
            // Compare ids: a login that was given up may belong to another account by now.
            Ok(CollaboratorPermission { permission, user: Some(user) }) => {
                Ok(permission != "none" && user.id.to_string() == account.vcs_id)
            }
            Ok(_) | Err(CodeHostError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn create_token(
        &self,
        app: &GithubApp,
        installation: i64,
        repo_id: i64,
    ) -> Result<CachedToken, CodeHostError> {
        let mut now = app.clock.now();
        let mut response = self.request_token(&app.jwt(now)?, installation, repo_id).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(theirs) = date(response.headers())
            && theirs.since(now).max(now.since(theirs)) > CLOCK_SKEW
        {
            tracing::warn!(%theirs, ours = %now, "this machine's clock and the code host's differ");
            now = theirs;
            response = self.request_token(&app.jwt(now)?, installation, repo_id).await?;
        }
        let answered = date(response.headers()).unwrap_or(now);
        let response = succeeded(response)?;
        let AppTokenResponse { token, expires_at, repositories } = call::json(CREATE, response).await?;
        let odd = |what: &str| CodeHostError::Answer { call: CREATE, reason: format!("an odd {what}") };
        // GitHub includes the present name of the repository to which the token is limited.
        let reached = repositories.into_iter().find(|repo| repo.id == repo_id).ok_or_else(|| odd("repository"))?;
        let repo = reached.full_name.parse().map_err(|_| odd("full_name"))?;
        let lasts = Timestamp::from(expires_at).since(answered).min(TOKEN_LIFETIME);
        Ok(CachedToken { token: AppToken { token: token.into(), repo }, made: Instant::now(), lasts })
    }

    async fn request_token(
        &self,
        jwt: &SecretString,
        installation: i64,
        repo_id: i64,
    ) -> Result<Response, CodeHostError> {
        let url = self.api_url(CREATE, &["app", "installations", &installation.to_string(), "access_tokens"])?;
        let body = json!({ "repository_ids": [repo_id], "permissions": { "contents": "read" } });
        let request = self.api_post(url).timeout(CALL_TIMEOUT).bearer_auth(jwt.expose_secret()).json(&body);
        Ok(request.send().await.map_err(reqwest::Error::without_url)?)
    }
}

/// Maps the responses to this call, whose statuses have meanings of their own.
fn succeeded(response: Response) -> Result<Response, CodeHostError> {
    match response.status() {
        // The key is not this app's, or the app was deleted: the pusher cannot correct either.
        StatusCode::UNAUTHORIZED => Err(CodeHostError::AppRefused),
        StatusCode::FORBIDDEN if !call::is_rate_limit(response.status(), response.headers()) => {
            Err(CodeHostError::Suspended)
        }
        StatusCode::UNPROCESSABLE_ENTITY => Err(CodeHostError::Unreached),
        _ => call::succeeded(CREATE, response, |_| false),
    }
}

fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let date = httpdate::parse_http_date(headers.get(header::DATE)?.to_str().ok()?).ok()?;
    Some(OffsetDateTime::from(date).into())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::Value;

    use super::*;

    const KEY: &str = include_str!("../../../../tests/stubs/codehost/app_key.pem");
    const ED25519: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEICtx1dczKxwcvvof/m+x9p8wUwDauXjq5zE0sDHyd27F\n-----END PRIVATE KEY-----\n";

    fn load(text: &str) -> anyhow::Result<GithubApp> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("app.pem");
        std::fs::write(&file, text)?;
        let now = Timestamp::from_unix_millis(1_700_000_000_000);
        GithubApp::load("123", &file, Clock::from_fn(move || now))
    }

    #[test]
    fn a_jwt_says_what_github_wants_and_for_no_longer() {
        let app = load(KEY).unwrap();
        let jwt = app.jwt(app.clock.now()).unwrap();
        let parts: Vec<&str> = jwt.expose_secret().split('.').collect();
        let read = |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
        assert_eq!(read(parts[0]), json!({ "alg": "RS256", "typ": "JWT" }));
        assert_eq!(read(parts[1]), json!({ "iat": 1_699_999_940, "exp": 1_700_000_540, "iss": "123" }));
        assert_eq!((parts.len(), URL_SAFE_NO_PAD.decode(parts[2]).unwrap().len()), (3, 2_048 / 8));
    }

    #[test]
    fn what_is_no_rsa_key_is_refused_with_the_files_name() {
        let large = "x".repeat(70_000);
        for text in ["", "nonsense", ED25519, &KEY.replace("MII", "AAA"), &large] {
            let error = format!("{:#}", load(text).err().unwrap());
            assert!(error.contains("code_host.private_key_file") && error.contains("app.pem"), "{error}");
        }
        let missing = GithubApp::load("123", &PathBuf::from("/nowhere/app.pem"), Clock::system());
        assert!(format!("{:#}", missing.err().unwrap()).contains("/nowhere/app.pem"));
    }

    #[test]
    fn githubs_time_is_read() {
        let headers = HeaderMap::from_iter([(header::DATE, "Tue, 14 Nov 2023 22:13:20 GMT".parse().unwrap())]);
        assert_eq!(date(&headers), Some(Timestamp::from_unix_millis(1_700_000_000_000)));
        assert_eq!(date(&HeaderMap::new()), None);
    }
}
