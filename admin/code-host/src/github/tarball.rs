//! Downloads the files of a commit as a gzipped tarball, from the code host into the spool folder, never into memory.

use std::time::Duration;

use domain::{
    limits::REPO_TARBALL_BYTES,
    repo::{CommitSha, RepoName},
};
use secrecy::SecretString;
use tokio::{io::AsyncWriteExt as _, time::timeout};

use super::{CodeHostError, GithubHost};
use crate::{SpoolTarget, SpooledTarball};

const TARBALL: &str = "GET /repos/{owner}/{repo}/tarball/{ref}";
/// The timeout of a whole download, including redirects.
const FETCH_TIMEOUT: Duration = Duration::from_mins(5);
const STALL: Duration = Duration::from_secs(20);
const WRITE_BUFFER: usize = 256 * 1024;

impl GithubHost {
    pub(super) async fn fetch_tarball(
        &self,
        token: &SecretString,
        repo: &RepoName,
        sha: &CommitSha,
        spool: SpoolTarget,
    ) -> Result<SpooledTarball, CodeHostError> {
        let SpoolTarget { folder, mut held } = spool;
        let stalled = || CodeHostError::Answer { call: TARBALL, reason: "it stood still".to_owned() };
        let (owner, name) = repo.parts();
        let url = self.api_url(TARBALL, &["repos", owner, name, "tarball", sha.as_str()])?;
        let following = self.follow(TARBALL, url, token, FETCH_TIMEOUT);
        let mut response = timeout(STALL, following).await.map_err(|_| stalled())??;
        if response.content_length().is_some_and(|length| length > REPO_TARBALL_BYTES) {
            return Err(CodeHostError::TooLarge { call: TARBALL });
        }
        let spool = tokio::fs::File::from_std(tempfile::tempfile_in(folder)?);
        let mut spool = tokio::io::BufWriter::with_capacity(WRITE_BUFFER, spool);
        let mut received = 0_u64;
        loop {
            let chunk = timeout(STALL, response.chunk()).await.map_err(|_| stalled())?;
            let Some(chunk) = chunk.map_err(reqwest::Error::without_url)? else { break };
            let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            received += length;
            if received > REPO_TARBALL_BYTES {
                return Err(CodeHostError::TooLarge { call: TARBALL });
            }
            held.grow(length).map_err(|_| CodeHostError::NoRoom)?;
            spool.write_all(&chunk).await?;
        }
        spool.flush().await?;
        Ok(SpooledTarball { file: spool.into_inner().into_std().await, held })
    }
}
