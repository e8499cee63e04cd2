//! Certificates of this installation's own authority, for names under `localhost`.

use app::App;
use certs::local_ca::LocalCa;
use db::certificates::{NewCertificate, orders::OrderClaim};
use domain::{certificates::CertificateSource, hostname::is_within};

use super::outcome::AttemptError;

pub(super) async fn sign(app: &App, claim: &OrderClaim) -> Result<(), AttemptError> {
    let obstacle = |sentence: String| Err(AttemptError::Obstacle(sentence));
    let Some(folder) = app.certificates.local_dir() else {
        return obstacle("acme.local_dir names no folder of a local authority.".to_owned());
    };
    if !is_within(&claim.name, "localhost") {
        return obstacle(format!(
            "This installation signs certificates for names under localhost only; for {} the operator brings one along with \
             `certs import`, or sets acme.issuer.",
            claim.name
        ));
    }
    let (names, now) = (super::covered_names(claim), app.clock.now());
    let signed = LocalCa::open(folder, &names).and_then(|ca| ca.issue(&names, now));
    let leaf = match signed {
        Ok(leaf) => leaf,
        Err(error) => return obstacle(format!("The local authority cannot sign for {}: {error}.", claim.name)),
    };
    let certificate = NewCertificate {
        names: &names,
        chain_pem: &leaf.chain_pem,
        key_pem: &leaf.key_pem,
        not_before: leaf.not_before,
        not_after: leaf.not_after,
        source: CertificateSource::Local,
        account: None,
    };
    super::go_live(app, claim, &certificate, None, super::find_obstacle(app, claim).await?).await
}
