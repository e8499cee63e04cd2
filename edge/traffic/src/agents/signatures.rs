//! Web Bot Auth: requests that an agent signs with its operator's key (RFC 9421, profile `web-bot-auth`).
//!
//! `Signature-Input` names the covered parts of a request and the key; `Signature` signs them. Only Ed25519 signatures
//! that cover the host and `Signature-Agent` are verified, with keys that admin has fetched from the agents'
//! directories. A signature that cannot be verified is ignored, and the rest of the fields decide. Start with
//! [`AgentKeys::signer`].

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use db::stats::agents::AgentKey;
use domain::{
    Timestamp,
    traffic::agents::{self, KnownAgent},
};
use http::{HeaderMap, header};
use rustls::{SignatureScheme, pki_types::SignatureVerificationAlgorithm};

use super::ClientClaim;

const INPUT: &str = "signature-input";
const SIGNATURE: &str = "signature";
const TAG: &str = "web-bot-auth";
static ED25519: LazyLock<Option<&'static dyn SignatureVerificationAlgorithm>> = LazyLock::new(|| {
    let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
    let (_, found) = algorithms.mapping.iter().find(|(scheme, _)| *scheme == SignatureScheme::ED25519)?;
    found.first().copied()
});

#[derive(Default)]
pub(super) struct AgentKeys(HashMap<Box<str>, (&'static KnownAgent, Box<[u8]>)>);

#[derive(Default)]
pub(super) struct VerificationLimit(AtomicU64);

impl VerificationLimit {
    /// Takes one of the verifications allowed in the second of `now`.
    pub(super) fn take(&self, now: Timestamp) -> bool {
        let second = now.unix_millis() / 1_000;
        // The upper half holds the second, the lower half the number of verifications.
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
            let count = if state >> 32 == second { state & u64::from(u32::MAX) } else { 0 };
            (count < limits::SIGNATURES_PER_SECOND).then_some(second << 32 | (count + 1))
        });
        taken.is_ok()
    }
}

/// The signed parts of a request, as `Signature-Input` names them.
struct SignatureInput<'r> {
    parts: Vec<&'r str>,
    /// The list of parts and the parameters, which are signed themselves.
    parameters: &'r str,
    key_id: &'r str,
    created: i64,
    expires: i64,
}

impl AgentKeys {
    pub(super) fn from_rows(keys: Vec<AgentKey>) -> Self {
        let of_agent = |key: AgentKey| Some((key.key_id.into(), (agents::find(&key.agent)?, key.public_key.into())));
        Self(keys.into_iter().filter_map(of_agent).collect())
    }

    /// Returns the agent whose key signed `request`, if one of its signatures is valid at `now`.
    pub(super) fn signer(
        &self,
        request: &ClientClaim<'_>,
        now: Timestamp,
        verifications: &VerificationLimit,
    ) -> Option<&'static KnownAgent> {
        let (label, input) = parse_input(single_value(request.headers, INPUT)?)?;
        let (agent, key) = self.0.get(input.key_id)?;
        let seconds = now.unix_seconds();
        let lasts = |bound: Duration| i64::try_from(bound.as_secs()).unwrap_or(i64::MAX);
        let is_timely = input.created <= seconds.saturating_add(lasts(limits::SIGNATURE_AHEAD))
            && input.expires > seconds
            && input.expires.saturating_sub(input.created) <= lasts(limits::SIGNATURE_AGE);
        let covers = |part: &str| input.parts.iter().any(|covered| part_name(covered) == Some(part));
        if !is_timely || !covers("@authority") || !covers("signature-agent") {
            return None;
        }
        let signature = member(single_value(request.headers, SIGNATURE)?, label)?;
        let signature = BASE64_STANDARD.decode(signature.strip_prefix(':')?.strip_suffix(':')?).ok()?;
        let base = signature_base(request, &input)?;
        if !verifications.take(now) {
            return None;
        }
        (*ED25519)?.verify_signature(key, base.as_bytes(), &signature).ok()?;
        Some(agent)
    }
}

/// Returns the value of a field that occurs exactly once.
fn single_value<'r>(headers: &'r HeaderMap, name: &str) -> Option<&'r str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    (values.next().is_none() && value.len() <= limits::SIGNATURE_FIELD_BYTES).then_some(value)
}

/// Splits a dictionary (RFC 9651) into its members. A comma within quotes or parentheses does not separate.
fn members(dictionary: &str) -> impl Iterator<Item = (&str, &str)> {
    let (mut quoted, mut depth) = (false, 0_u32);
    let parts = dictionary.split(move |letter| {
        match letter {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && !quoted && depth == 0
    });
    parts.filter_map(|part| part.trim_matches([' ', '\t']).split_once('='))
}

fn member<'r>(dictionary: &'r str, key: &str) -> Option<&'r str> {
    members(dictionary).find(|(known, _)| *known == key).map(|(_, value)| value)
}

/// Returns the first input with the profile's tag, and its label.
fn parse_input(dictionary: &str) -> Option<(&str, SignatureInput<'_>)> {
    members(dictionary).find_map(|(label, parameters)| {
        let (list, rest) = parameters.strip_prefix('(')?.split_once(')')?;
        let (mut key_id, mut created, mut expires, mut is_ours) = (None, None, None, false);
        for parameter in rest.split(';').skip(1) {
            let (name, value) = parameter.trim_start_matches(' ').split_once('=')?;
            let text = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            match name {
                "keyid" => key_id = text,
                "created" => created = value.parse().ok(),
                "expires" => expires = value.parse().ok(),
                "tag" => is_ours = text == Some(TAG),
                "alg" if text != Some("ed25519") => return None,
                _ => {}
            }
        }
        let parts: Vec<&str> = list.split(' ').filter(|part| !part.is_empty()).take(limits::SIGNED_PARTS + 1).collect();
        let input = SignatureInput { parts, parameters, key_id: key_id?, created: created?, expires: expires? };
        (is_ours && input.parts.len() <= limits::SIGNED_PARTS).then_some((label, input))
    })
}

fn part_name(part: &str) -> Option<&str> {
    part.strip_prefix('"')?.split_once('"').map(|(name, _)| name)
}

/// Builds the signature base (RFC 9421, section 2.5).
fn signature_base(request: &ClientClaim<'_>, input: &SignatureInput<'_>) -> Option<String> {
    let mut base = String::with_capacity(limits::SIGNATURE_FIELD_BYTES);
    for (place, part) in input.parts.iter().enumerate() {
        // A duplicate part makes the signature invalid.
        if input.parts[..place].contains(part) {
            return None;
        }
        let name = part_name(part)?;
        let parameter = part.get(name.len() + 2..)?;
        let value = match name {
            "@authority" => authority(request),
            "@method" => request.method.as_str().to_owned(),
            "@path" => request.uri.path().to_owned(),
            "@query" => format!("?{}", request.uri.query().unwrap_or_default()),
            "@scheme" => if request.tls { "https" } else { "http" }.to_owned(),
            _ if name.starts_with('@') => return None,
            _ => field(request.headers, name, parameter)?,
        };
        // Parameters would change the meaning of other parts.
        if !parameter.is_empty() && name != "signature-agent" {
            return None;
        }
        writeln!(base, "{part}: {value}").ok()?;
    }
    write!(base, "\"@signature-params\": {}", input.parameters).ok()?;
    Some(base)
}

/// Returns the host with its port, unless it is the default one.
fn authority(request: &ClientClaim<'_>) -> String {
    let named = request.uri.authority().map(http::uri::Authority::as_str);
    let sent = || request.headers.get(header::HOST)?.to_str().ok();
    let written = named.or_else(sent).unwrap_or(request.host).to_ascii_lowercase();
    let usual = if request.tls { ":443" } else { ":80" };
    written.strip_suffix(usual).map(str::to_owned).unwrap_or(written)
}

/// Returns the value of a field with its lines joined, or the dictionary member that `parameter` names.
fn field(headers: &HeaderMap, name: &str, parameter: &str) -> Option<String> {
    let lines: Option<Vec<&str>> = headers
        .get_all(name)
        .iter()
        .map(|line| line.to_str().ok().map(|line| line.trim_matches([' ', '\t'])))
        .collect();
    let lines = lines.filter(|lines| !lines.is_empty())?;
    let whole = lines.join(", ");
    if parameter.is_empty() {
        return Some(whole);
    }
    let key = parameter.strip_prefix(";key=\"")?.strip_suffix('"')?;
    member(&whole, key).map(str::to_owned)
}
