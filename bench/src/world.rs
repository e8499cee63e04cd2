//! An installation for the bench: `deploy/up` with a temporary state folder, and additional edges.

use std::{
    fs::File,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use crate::{
    cpu,
    wire::{HttpResponse, HttpsConnection, TrustedRoots},
};

/// The timeout until `deploy/up` is ready; everything is already built.
const START: Duration = Duration::from_mins(3);
/// The time for a program to end; then it is killed with its children.
const STOP: Duration = Duration::from_mins(1);
const EDGE_START: Duration = Duration::from_secs(15);

/// The fields of `up.json` that the bench reads.
#[derive(Deserialize)]
pub(crate) struct UpFile {
    pub(crate) base_url: String,
    pub(crate) console_url: String,
    pub(crate) site_domain: String,
    pub(crate) https_port: u16,
    pub(crate) ca_file: PathBuf,
    pub(crate) token: String,
    pub(crate) postgres_url: String,
    pub(crate) config_file: PathBuf,
}

/// A running installation, stopped on drop.
pub(crate) struct BenchWorld {
    // Before the folder, so that the programs stop while it still exists.
    running: RunningProgram,
    pub(crate) state: tempfile::TempDir,
    pub(crate) up: UpFile,
    pub(crate) trust: TrustedRoots,
    api: String,
    /// The program of the additional edges.
    edge: PathBuf,
}

/// A running program, terminated on drop or when the bench is killed.
pub(crate) struct RunningProgram(Child);

impl RunningProgram {
    pub(crate) fn start(command: &Command, log: &Path) -> anyhow::Result<Self> {
        let log = File::create(log)?;
        let mut tied = Command::new("setpriv");
        tied.args(["--pdeathsig", "TERM", "--"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => tied.env(name, value),
                None => tied.env_remove(name),
            };
        }
        tied.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self(tied.spawn().with_context(|| format!("{}", command.get_program().display()))?))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let kill = |signal: &str, ids: &[u32]| {
            let ids = ids.iter().map(u32::to_string);
            let _ = Command::new("kill").arg(signal).args(ids).stderr(Stdio::null()).status();
        };
        kill("-TERM", &[self.0.id()]);
        let deadline = Instant::now() + STOP;
        while !self.has_ended() {
            if Instant::now() > deadline {
                kill("-KILL", &cpu::family(self.0.id()));
                let _ = self.0.wait();
                return;
            }
            sleep(Duration::from_millis(10));
        }
    }
}

pub(crate) struct EdgeProcess {
    pub(crate) program: RunningProgram,
    pub(crate) port: u16,
    pub(crate) http_port: u16,
}

impl BenchWorld {
    /// Starts an installation. Additional edges run the program `edge`, or the one built with the bench.
    pub(crate) fn start(edge: Option<PathBuf>) -> anyhow::Result<Self> {
        let edge = edge.map_or_else(|| Ok(Self::programs()?.join("edge")), anyhow::Ok)?;
        let state = tempfile::tempdir()?;
        let log = state.path().join("up.log");
        let mut command = Command::new("deploy/up");
        // The bench sends more requests than a person may.
        command
            .env("SVC_STATE_DIR", state.path())
            .env("SVC__LIMITS__API_PER_MIN", "1000000")
            .env("SVC__LIMITS__API_ACCOUNT_PER_MIN", "1000000");
        let mut program = RunningProgram::start(&command, &log)?;
        let deadline = Instant::now() + START;
        let file = state.path().join("up.json");
        while !file.exists() {
            if program.has_ended() || Instant::now() > deadline {
                bail!("deploy/up did not come up:\n{}", std::fs::read_to_string(&log).unwrap_or_default());
            }
            sleep(Duration::from_millis(100));
        }
        let up: UpFile = serde_json::from_slice(&std::fs::read(file)?)?;
        let trust = TrustedRoots::in_file(&up.ca_file)?;
        let api = host_of(&up.base_url).to_owned();
        Ok(Self { running: program, state, up, trust, api, edge })
    }

    /// Returns the CPU time of what `deploy/up` runs: PostgreSQL, Redis, admin, and an edge without requests.
    pub(crate) fn spent(&self) -> Duration {
        cpu::spent(self.running.id())
    }

    pub(crate) fn spent_by(&self, program: &str) -> Duration {
        cpu::spent_by(self.running.id(), program)
    }

    pub(crate) fn programs() -> anyhow::Result<PathBuf> {
        Ok(std::env::current_exe()?.parent().context("a program has a folder")?.to_path_buf())
    }

    pub(crate) fn host(&self, project: &str) -> String {
        format!("{project}.{}", self.up.site_domain)
    }

    pub(crate) fn console_host(&self) -> &str {
        host_of(&self.up.console_url)
    }

    /// Runs `svc` with these arguments, signed in, and returns its standard output.
    pub(crate) fn svc(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(Self::programs()?.join("svc"))
            .args(arguments)
            .env("SVC_STATE_DIR", self.state.path())
            .output()?;
        ensure!(output.status.success(), "svc {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Opens a connection to the API through the edge of `deploy/up`.
    pub(crate) fn api(&self) -> anyhow::Result<HttpsConnection> {
        HttpsConnection::open(&self.trust, &self.api, self.up.https_port)
    }

    pub(crate) fn call(&self, api: &mut HttpsConnection, method: &str, path: &str) -> anyhow::Result<HttpResponse> {
        let answer = api.request(method, &self.api, path, &format!("authorization: Bearer {}\r\n", self.up.token))?;
        ensure!(
            (200..300).contains(&answer.status),
            "{method} {path} answered {}: {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
        Ok(answer)
    }

    /// Starts another edge on a free port: pinned to one core with one thread, or unpinned.
    pub(crate) fn edge(&self, core: Option<u32>) -> anyhow::Result<EdgeProcess> {
        self.edge_with(core, &[])
    }

    /// Starts another edge like [`Self::edge`], with these configuration keys set.
    pub(crate) fn edge_with(&self, core: Option<u32>, environment: &[(&str, &str)]) -> anyhow::Result<EdgeProcess> {
        let (port, http_port) = (free_port()?, free_port()?);
        let mut command = match core {
            Some(core) => {
                let mut pinned = Command::new("taskset");
                pinned.args(["-c", &core.to_string()]).arg(&self.edge).env("SVC__EDGE__THREADS", "1");
                pinned
            }
            None => Command::new(&self.edge),
        };
        command
            .env("SVC_CONFIG", &self.up.config_file)
            .env("SVC__EDGE__LISTEN_HTTPS", format!("127.0.0.1:{port}"))
            .env("SVC__EDGE__LISTEN_HTTP", format!("127.0.0.1:{http_port}"))
            .envs(environment.iter().copied());
        let log = self.state.path().join(format!("edge-{port}.log"));
        let program = RunningProgram::start(&command, &log)?;
        let deadline = Instant::now() + EDGE_START;
        while HttpsConnection::open(&self.trust, &self.api, port).is_err() {
            ensure!(
                Instant::now() < deadline,
                "an edge did not start: {}",
                std::fs::read_to_string(&log).unwrap_or_default()
            );
            sleep(Duration::from_millis(50));
        }
        Ok(EdgeProcess { program, port, http_port })
    }
}

fn host_of(url: &str) -> &str {
    let authority = url.trim_start_matches("https://");
    authority.split([':', '/']).next().unwrap_or(authority)
}

pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
