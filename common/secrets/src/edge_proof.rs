//! The proof that an edge sends to admin with each request, so that admin trusts what the edge says about its client.
//!
//! It is a MAC over the request and the time. An eavesdropper between the two can replay that very request within
//! [`WINDOW`], but cannot forge another. The proof does not cover the body, the cookies or the token, which an
//! eavesdropper has anyway, so the network between edges and admins must be private, or encrypted below HTTP.
//!
//! Edges of the previous version sent the same bytes in every request. Edges with the whole master key still send them,
//! for admins of that version; admin accepts them as long as `admin.accept_fixed_edge_proof` allows it.

use std::time::Duration;

use domain::Timestamp;
use subtle::ConstantTimeEq as _;

use crate::{
    EdgeKey, KeyPurpose, MasterKey,
    master_key::{MasterKeyBytes, derive},
};

/// The header in which an edge sends its proofs, one per line.
pub const HEADER: &str = "x-svc-edge";
/// The maximum difference between the time in a proof and admin's clock: the two clocks may differ by a minute, and a
/// request may wait for half a minute on its way.
pub const WINDOW: Duration = Duration::from_secs(90);
/// The first part of a request's proof.
const VERSION: &str = "v1";

/// The parts of a request that a proof covers, as admin receives them.
#[derive(Debug, Clone, Copy)]
pub struct ForwardedRequest<'a> {
    /// The method. `HEAD` counts as `GET`, because the proxy requests what it caches with `GET`.
    pub method: &'a str,
    /// The path with the query.
    pub path: &'a str,
    /// The value of `Host`.
    pub host: &'a [u8],
    /// The value of `X-Forwarded-For`.
    pub client: &'a [u8],
    /// The value of `X-Forwarded-Proto`.
    pub scheme: &'a [u8],
}

impl ForwardedRequest<'_> {
    fn mac(&self, key: &[u8; 32], seconds: u64) -> [u8; 32] {
        let method = if self.method == "HEAD" { "GET" } else { self.method };
        let mut message = seconds.to_be_bytes().to_vec();
        for part in [method.as_bytes(), self.path.as_bytes(), self.host, self.client, self.scheme] {
            // The length prefix keeps one part from being mistaken for the end of another.
            message.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            message.extend(part);
        }
        derive(key, VERSION, &message)
    }
}

impl EdgeKey {
    /// Returns the values of [`HEADER`] for a request that is forwarded now. The first is the one that admins of the
    /// previous version check, if this edge has it. Each key adds another: between `certs rotate-key --finish` and the
    /// arrival of the new file on this machine, admin knows only the prepared key.
    pub fn proofs(&self, request: &ForwardedRequest<'_>, now: Timestamp) -> Vec<String> {
        let seconds = seconds(now);
        let proof = |key: [u8; 32]| format!("{VERSION}.{seconds}.{}", hex::encode(request.mac(&key, seconds)));
        self.fixed_proof().map(hex::encode).into_iter().chain(self.requests().into_iter().map(proof)).collect()
    }
}

impl MasterKey {
    /// Returns whether `proof` is an edge's proof of this request, made within [`WINDOW`] of `now`. It may be made with
    /// any of the keys, because programs read their files at different times while the master key is rotated.
    pub fn is_edge_request(&self, proof: &[u8], request: &ForwardedRequest<'_>, now: Timestamp) -> bool {
        let Some((made, given)) = parse(proof) else { return false };
        let is_ours = |key: &MasterKeyBytes| {
            bool::from(request.mac(&key.derive(KeyPurpose::EdgeRequests, b""), made).ct_eq(&given))
        };
        seconds(now).abs_diff(made) <= WINDOW.as_secs() && self.keys().iter().any(is_ours)
    }

    /// Returns whether `value` is the fixed proof of the previous version's edges.
    pub fn is_fixed_edge_proof(&self, value: &[u8]) -> bool {
        let mut given = [0; 32];
        hex::decode_to_slice(value, &mut given).is_ok()
            && self.keys().iter().any(|key| key.derive(KeyPurpose::EdgeProof, b"").ct_eq(&given).into())
    }
}

fn parse(proof: &[u8]) -> Option<(u64, [u8; 32])> {
    let mut parts = str::from_utf8(proof).ok()?.splitn(3, '.');
    if parts.next() != Some(VERSION) {
        return None;
    }
    let made = parts.next()?.parse().ok()?;
    let mut given = [0; 32];
    hex::decode_to_slice(parts.next()?, &mut given).ok()?;
    Some((made, given))
}

fn seconds(time: Timestamp) -> u64 {
    time.unix_millis() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master_key::KeyFile;

    const REQUEST: ForwardedRequest<'_> = ForwardedRequest {
        method: "POST",
        path: "/auth/device?x",
        host: b"api.svc.example",
        client: b"203.0.113.9",
        scheme: b"https",
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_millis(seconds * 1_000)
    }

    #[test]
    fn a_proof_is_of_one_request_and_of_its_time() {
        let master = MasterKey::generate();
        let edge = EdgeKey::from_master_key(&master);
        let proof = edge.proofs(&REQUEST, at(1_000_000)).pop().unwrap();
        let is_known = |request: &ForwardedRequest<'_>, now| master.is_edge_request(proof.as_bytes(), request, at(now));
        assert!([999_910, 1_000_000, 1_000_090].iter().all(|now| is_known(&REQUEST, *now)));
        assert!(![999_909, 1_000_091].iter().any(|now| is_known(&REQUEST, *now)));
        for other in [
            ForwardedRequest { method: "PUT", ..REQUEST },
            ForwardedRequest { path: "/auth/device", ..REQUEST },
            ForwardedRequest { host: b"app.svc.example", ..REQUEST },
            ForwardedRequest { client: b"203.0.113.8", ..REQUEST },
            ForwardedRequest { scheme: b"http", ..REQUEST },
        ] {
            assert!(!is_known(&other, 1_000_000), "{other:?}");
        }
        assert!(!MasterKey::generate().is_edge_request(proof.as_bytes(), &REQUEST, at(1_000_000)));
        for wrong in ["", "v1", "v1.1000000", "v1.1000000.00", &proof.replace("v1", "v2"), &format!("{proof}00")] {
            assert!(!master.is_edge_request(wrong.as_bytes(), &REQUEST, at(1_000_000)), "{wrong}");
        }
    }

    #[test]
    fn what_the_proxy_keeps_is_asked_for_by_another_method() {
        let master = MasterKey::generate();
        let head = ForwardedRequest { method: "HEAD", ..REQUEST };
        let proof = EdgeKey::from_master_key(&master).proofs(&head, at(5)).pop().unwrap();
        assert!(master.is_edge_request(proof.as_bytes(), &ForwardedRequest { method: "GET", ..REQUEST }, at(5)));
    }

    #[test]
    fn the_version_before_is_known_by_its_fixed_proof() {
        let (key, other) = (MasterKey::generate(), MasterKey::generate());
        let proofs = EdgeKey::from_master_key(&key).proofs(&REQUEST, at(5));
        let [fixed, _] = &proofs[..] else { panic!("{proofs:?}") };
        assert!(key.is_fixed_edge_proof(fixed.as_bytes()) && !other.is_fixed_edge_proof(fixed.as_bytes()));
        for wrong in ["", "00", &fixed[..62], &format!("{fixed}00"), &"0".repeat(64)] {
            assert!(!key.is_fixed_edge_proof(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn a_proof_by_a_key_that_is_being_exchanged_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let load = |lines: &[&str]| {
            let path = folder.path().join(lines.len().to_string());
            std::fs::write(&path, lines.join("\n")).unwrap();
            MasterKey::load(&path).unwrap()
        };
        let [old, new] = [(); 2].map(|()| MasterKeyBytes::generate().to_base64());
        let (before, after) = (load(&[&old]), load(&[&new, &old]));
        let is_believed = |edge: &EdgeKey, admin: &MasterKey| {
            edge.proofs(&REQUEST, at(5)).iter().any(|proof| admin.is_edge_request(proof.as_bytes(), &REQUEST, at(5)))
        };
        for (edge, admin) in [(&before, &after), (&after, &after), (&after, &before)] {
            assert!(is_believed(&EdgeKey::from_master_key(edge), admin));
        }
    }

    #[test]
    fn an_edge_whose_key_file_is_from_before_the_end_of_a_rotation_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let [old, next] = [(); 2].map(|()| MasterKeyBytes::generate());
        let (edge, admin) = (folder.path().join("edge.key"), folder.path().join("master.key"));
        let prepared = KeyFile { keys: vec![old], next: Some(next.clone()) };
        std::fs::write(&edge, prepared.to_edge_text()).unwrap();
        std::fs::write(&admin, KeyFile { keys: vec![next], next: None }.to_text()).unwrap();
        let (edge, admin) = (EdgeKey::load(&edge).unwrap(), MasterKey::load(&admin).unwrap());
        let proofs = edge.proofs(&REQUEST, at(5));
        let fitting = proofs.iter().filter(|proof| admin.is_edge_request(proof.as_bytes(), &REQUEST, at(5)));
        assert_eq!((proofs.len(), fitting.count()), (2, 1), "{proofs:?}");
    }
}
