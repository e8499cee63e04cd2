//! The gateways under test in front of one provider, each on the server core.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use super::ask::ClientArguments;
use crate::{
    peers::version_line,
    world::{RunningProgram, free_port},
};

/// The timeout until a gateway accepts connections; the Python one takes longest.
const START: Duration = Duration::from_mins(1);
/// The environment of the peers, as their production guides recommend (no development mode, only errors logged), and
/// without calls to the internet.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("LITELLM_MODE", "PRODUCTION"),
    ("LITELLM_LOG", "ERROR"),
    ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
    ("RUST_LOG", "error"),
    ("NODE_ENV", "production"),
];
const PROXIES: [&str; 6] = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
/// The master key of `LiteLLM`, which must begin with `sk-`.
const LITELLM_KEY: &str = "sk-bench-5f1d0c3a9b7e4826";
/// The folder in which `bench/run` installs the peers from `PyPI` and npm.
const TOOLS: &str = "target/tools/bench";

pub(super) struct RunningGateway {
    pub(super) program: RunningProgram,
    pub(super) asking: ClientArguments,
}

pub(super) struct PeerGateway {
    pub(super) name: &'static str,
    pub(super) streams: bool,
    /// Whether a thousand streams take it up to a minute.
    pub(super) slow: bool,
    pub(super) start: fn(&GatewaySetup<'_>) -> anyhow::Result<RunningGateway>,
}

pub(super) const PEERS: [PeerGateway; 5] = [
    PeerGateway { name: "nginx", streams: true, slow: false, start: nginx },
    PeerGateway { name: "HAProxy", streams: true, slow: false, start: haproxy },
    PeerGateway { name: "TensorZero", streams: true, slow: false, start: tensorzero },
    // 1.15.2 answers every stream with 500.
    PeerGateway { name: "Portkey", streams: false, slow: false, start: portkey },
    PeerGateway { name: "LiteLLM", streams: true, slow: true, start: litellm },
];

/// The port, folder and core that a gateway is started with.
pub(super) struct GatewaySetup<'s> {
    pub(super) folder: &'s Path,
    pub(super) provider: u16,
    pub(super) core: u32,
}

pub(super) fn provider(port: u16) -> ClientArguments {
    ClientArguments {
        at_limit: false,
        port,
        host: "127.0.0.1".to_owned(),
        path: "/v1/chat/completions".to_owned(),
        model: "bench".to_owned(),
        header: Vec::new(),
        ca_file: None,
        stream: false,
        pace: None,
        pause: None,
        clients: 1,
        seconds: 0,
    }
}

fn nginx(setting: &GatewaySetup<'_>) -> anyhow::Result<RunningGateway> {
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let text = include_str!("../../peers/gateway/nginx.conf").replace("{user}", if root { "user root;" } else { "" });
    setting.start("nginx", &text, "conf", |file| vec!["nginx".into(), "-c".into(), file])
}

fn haproxy(setting: &GatewaySetup<'_>) -> anyhow::Result<RunningGateway> {
    let text = include_str!("../../peers/gateway/haproxy.cfg");
    setting.start("HAProxy", text, "cfg", |file| vec!["haproxy".into(), "-db".into(), "-f".into(), file])
}

/// Starts `LiteLLM` with one worker per core, as its documentation recommends.
fn litellm(setting: &GatewaySetup<'_>) -> anyhow::Result<RunningGateway> {
    let program = tool("venv/bin/litellm")?;
    let text = include_str!("../../peers/gateway/litellm.yaml");
    let mut gateway = setting.start("LiteLLM", text, "yaml", |file| {
        [&program, "--config", &file, "--host", "127.0.0.1", "--port", "{port}", "--num_workers", "1"]
            .map(str::to_owned)
            .into()
    })?;
    gateway.asking.header = vec![format!("authorization: Bearer {LITELLM_KEY}")];
    Ok(gateway)
}

fn portkey(setting: &GatewaySetup<'_>) -> anyhow::Result<RunningGateway> {
    let script = tool("node_modules/@portkey-ai/gateway/build/start-server.js")?;
    let mut gateway = setting
        .start("Portkey", "", "none", |_| vec!["node".into(), script, "--port={port}".into(), "--headless".into()])?;
    gateway.asking.header.extend([
        "x-portkey-provider: openai".to_owned(),
        format!("x-portkey-custom-host: http://127.0.0.1:{}/v1", setting.provider),
    ]);
    Ok(gateway)
}

/// Starts `TensorZero`: the client in its `PyPI` package starts the gateway on a port that it chooses and prints.
fn tensorzero(setting: &GatewaySetup<'_>) -> anyhow::Result<RunningGateway> {
    let python = tool("venv/bin/python")?;
    let script = setting.folder.join("start_tensorzero.py");
    fs::write(&script, include_str!("../../peers/gateway/start_tensorzero.py"))?;
    let said = setting.folder.join("tensorzero.port");
    // Left by the round before.
    let _ = fs::remove_file(&said);
    let text = include_str!("../../peers/gateway/tensorzero.toml");
    let mut gateway = setting.start_with("TensorZero", text, "toml", None, |file| {
        vec![python, script.display().to_string(), file, said.display().to_string()]
    })?;
    setting.wait("TensorZero", &mut gateway, |gateway| {
        if let Some(port) = fs::read_to_string(&said).ok().and_then(|text| text.trim().parse().ok()) {
            gateway.asking.port = port;
        }
        gateway.asking.port != 0
    })?;
    gateway.asking.path = String::from("/openai/v1/chat/completions");
    gateway.asking.model = String::from("tensorzero::model_name::bench");
    Ok(gateway)
}

pub(super) fn versions() -> Vec<String> {
    let installed = |package: &str| {
        let folders = fs::read_dir(Path::new(TOOLS).join("venv/lib")).ok()?;
        let packages = folders.flatten().filter_map(|python| fs::read_dir(python.path().join("site-packages")).ok());
        let name = packages.flatten().flatten().find_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.strip_prefix(package)?.strip_prefix('-')?.strip_suffix(".dist-info")?.to_owned())
        })?;
        Some(name)
    };
    let portkey = || {
        let file = fs::read(Path::new(TOOLS).join("node_modules/@portkey-ai/gateway/package.json")).ok()?;
        let package: serde_json::Value = serde_json::from_slice(&file).ok()?;
        Some(format!("Portkey {} on Node {}", package["version"].as_str()?, version_line("node", "--version")?))
    };
    let haproxy = version_line("haproxy", "-v");
    [
        version_line("nginx", "-v"),
        haproxy.map(|said| said.split_whitespace().take(3).collect::<Vec<_>>().join(" ")),
        installed("tensorzero").map(|version| format!("TensorZero {version}")),
        portkey(),
        installed("litellm").map(|version| format!("LiteLLM {version}")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn tool(path: &str) -> anyhow::Result<String> {
    let tool = PathBuf::from(TOOLS).join(path);
    let tool = std::path::absolute(&tool)?;
    anyhow::ensure!(tool.exists(), "{} is not installed", tool.display());
    Ok(tool.display().to_string())
}

impl GatewaySetup<'_> {
    fn start(
        &self,
        name: &'static str,
        configuration: &str,
        extension: &str,
        command: impl FnOnce(String) -> Vec<String>,
    ) -> anyhow::Result<RunningGateway> {
        let mut gateway = self.start_with(name, configuration, extension, Some(free_port()?), command)?;
        self.wait(name, &mut gateway, |gateway| TcpStream::connect(("127.0.0.1", gateway.asking.port)).is_ok())?;
        Ok(gateway)
    }

    fn wait(
        &self,
        name: &str,
        gateway: &mut RunningGateway,
        is_up: impl Fn(&mut RunningGateway) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        while !is_up(gateway) {
            if gateway.program.has_ended() || Instant::now() > deadline {
                bail!("{}", self.log(name));
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn start_with(
        &self,
        name: &'static str,
        configuration: &str,
        extension: &str,
        port: Option<u16>,
        command: impl FnOnce(String) -> Vec<String>,
    ) -> anyhow::Result<RunningGateway> {
        let port_text = port.unwrap_or_default().to_string();
        let fill = |text: &str| {
            text.replace("{folder}", &self.folder.display().to_string())
                .replace("{key}", LITELLM_KEY)
                .replace("{port}", &port_text)
                .replace("{provider}", &self.provider.to_string())
        };
        let file = self.folder.join(format!("gateway-{name}.{extension}"));
        fs::write(&file, fill(configuration))?;
        let arguments: Vec<String> = command(file.display().to_string()).iter().map(|text| fill(text)).collect();
        let mut taskset = Command::new("taskset");
        taskset.args(["-c", &self.core.to_string()]).args(&arguments).env("HOME", self.folder).envs(ENVIRONMENT);
        for proxy in PROXIES {
            taskset.env_remove(proxy);
        }
        let program = RunningProgram::start(&taskset, &self.folder.join(format!("gateway-{name}.out")))
            .with_context(|| arguments.join(" "))?;
        let asking = ClientArguments {
            header: vec!["authorization: Bearer none".to_owned()],
            ..provider(port.unwrap_or_default())
        };
        Ok(RunningGateway { program, asking })
    }

    fn log(&self, name: &str) -> String {
        let log = fs::read_to_string(self.folder.join(format!("gateway-{name}.out"))).unwrap_or_default();
        log.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join(" / ")
    }
}
