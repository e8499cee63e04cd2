//! nginx, Caddy and h2o with the same files and the same certificate, each on the server core.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::ensure;

use crate::world::{RunningProgram, free_port};

const START: Duration = Duration::from_secs(10);

pub(crate) struct ServerSetup {
    pub(crate) folder: PathBuf,
    pub(crate) files: PathBuf,
    pub(crate) host: String,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) core: u32,
}

pub(crate) struct PeerServer {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    pub(crate) program: RunningProgram,
}

/// Settings that an operator adds to Debian's nginx; without them every request opens its file.
const NGINX_FILE_CACHE: &str = "open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s;";

pub(crate) fn start(setting: &ServerSetup) -> anyhow::Result<Vec<PeerServer>> {
    // Started as root, these would serve as nobody or www-data, which may not read a temporary folder.
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let (nginx_user, h2o_user) = if root { ("user root;", "user: root") } else { ("", "") };
    let nginx = |name, cache| {
        let template = include_str!("../peers/nginx.conf").replace("{cache}", cache);
        setting.start(name, &template, nginx_user, &["nginx", "-c"])
    };
    let caddy = ["caddy", "run", "--adapter", "caddyfile", "--config"];
    Ok(vec![
        nginx("nginx", NGINX_FILE_CACHE)?,
        nginx("nginx without file cache", "")?,
        setting.start("Caddy", include_str!("../peers/Caddyfile"), "", &caddy)?,
        setting.start("h2o", include_str!("../peers/h2o.conf"), h2o_user, &["h2o", "-c"])?,
    ])
}

impl ServerSetup {
    fn start(&self, name: &'static str, template: &str, user: &str, command: &[&str]) -> anyhow::Result<PeerServer> {
        let port = free_port()?;
        let text = |path: &Path| path.display().to_string();
        let configuration = template
            .replace("{user}", user)
            .replace("{folder}", &text(&self.folder))
            .replace("{files}", &text(&self.files))
            .replace("{host}", &self.host)
            .replace("{port}", &port.to_string())
            .replace("{certificate}", &text(&self.certificate))
            .replace("{key}", &text(&self.key));
        let file = self.folder.join(format!("{name}.conf"));
        fs::write(&file, configuration)?;
        let log = self.folder.join(format!("{name}.out"));
        let mut taskset = Command::new("taskset");
        taskset
            .args(["-c", &self.core.to_string()])
            .args(command)
            .arg(file)
            .env("GOMAXPROCS", "1")
            .env("HOME", &self.folder);
        let program = RunningProgram::start(&taskset, &log)?;
        let deadline = Instant::now() + START;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(Instant::now() < deadline, "{name} did not start: {}", fs::read_to_string(&log)?);
            sleep(Duration::from_millis(50));
        }
        Ok(PeerServer { name, port, program })
    }
}

/// Returns the version of every peer, such as `nginx 1.22.1`.
pub(crate) fn versions() -> Vec<String> {
    let asked = [("nginx", "-v"), ("caddy", "version"), ("h2o", "-v"), ("wrk", "-v"), ("h2load", "--version")];
    asked
        .iter()
        .filter_map(|(program, flag)| {
            let said = version_line(program, flag)?;
            Some(if said.starts_with(program) { said } else { format!("{program} {said}") })
        })
        .collect()
}

/// Returns the first line of a program's version output.
pub(crate) fn version_line(program: &str, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let line = String::from_utf8_lossy(&text).lines().next()?.to_owned();
    Some(line.trim_start_matches("nginx version: ").to_owned())
}
