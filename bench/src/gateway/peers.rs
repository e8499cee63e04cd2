//! The gateways under test before one provider, each on the server core.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use super::ask::Asking;
use crate::world::{Program, free_port};

/// For a gateway to accept connections; the one in Python takes longest.
const START: Duration = Duration::from_mins(1);
/// Where `bench/run` installs what comes from `PyPI` and npm.
const TOOLS: &str = "target/tools/bench";

/// A running gateway, and how to ask it.
pub(super) struct Gateway {
    pub(super) name: &'static str,
    pub(super) program: Program,
    pub(super) asking: Asking,
    /// Whether it can stream here.
    pub(super) streams: bool,
}

/// What a gateway is started with.
pub(super) struct Setting<'s> {
    pub(super) folder: &'s Path,
    pub(super) provider: u16,
    pub(super) core: u32,
}

/// How to ask the provider itself.
pub(super) fn provider(port: u16) -> Asking {
    Asking {
        port,
        host: "127.0.0.1".to_owned(),
        path: "/v1/chat/completions".to_owned(),
        model: "bench".to_owned(),
        header: Vec::new(),
        ca_file: None,
        stream: false,
        pace: None,
        clients: 1,
        seconds: 0,
    }
}

/// Those that can be started here; of the others, why not.
pub(super) fn start(setting: &Setting<'_>) -> (Vec<Gateway>, Vec<String>) {
    let (mut gateways, mut missing) = (Vec::new(), Vec::new());
    for (name, start) in [
        ("nginx", nginx as fn(&Setting<'_>) -> anyhow::Result<Gateway>),
        ("HAProxy", haproxy),
        ("TensorZero", tensorzero),
        ("Portkey", portkey),
        ("LiteLLM", litellm),
    ] {
        match start(setting) {
            Ok(gateway) => gateways.push(gateway),
            Err(error) => missing.push(format!("{name}: {error:#}")),
        }
    }
    (gateways, missing)
}

fn nginx(setting: &Setting<'_>) -> anyhow::Result<Gateway> {
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let text = include_str!("../../peers/gateway/nginx.conf").replace("{user}", if root { "user root;" } else { "" });
    setting.start("nginx", &text, "conf", |file| vec!["nginx".into(), "-c".into(), file])
}

fn haproxy(setting: &Setting<'_>) -> anyhow::Result<Gateway> {
    let text = include_str!("../../peers/gateway/haproxy.cfg");
    setting.start("HAProxy", text, "cfg", |file| vec!["haproxy".into(), "-db".into(), "-f".into(), file])
}

fn litellm(setting: &Setting<'_>) -> anyhow::Result<Gateway> {
    let program = tool("venv/bin/litellm")?;
    let text = include_str!("../../peers/gateway/litellm.yaml");
    setting.start("LiteLLM", text, "yaml", |file| {
        [&program, "--config", &file, "--host", "127.0.0.1", "--port", "{port}", "--num_workers", "1"]
            .map(str::to_owned)
            .into()
    })
}

fn portkey(setting: &Setting<'_>) -> anyhow::Result<Gateway> {
    let script = tool("node_modules/@portkey-ai/gateway/build/start-server.js")?;
    let mut gateway = setting
        .start("Portkey", "", "none", |_| vec!["node".into(), script, "--port={port}".into(), "--headless".into()])?;
    gateway.asking.header.extend([
        "x-portkey-provider: openai".to_owned(),
        format!("x-portkey-custom-host: http://127.0.0.1:{}/v1", setting.provider),
    ]);
    // 1.15.2 answers every stream with 500.
    gateway.streams = false;
    Ok(gateway)
}

/// Its gateway comes from `PyPI` as part of the client, which starts it on a port that it chooses and prints.
fn tensorzero(setting: &Setting<'_>) -> anyhow::Result<Gateway> {
    let python = tool("venv/bin/python")?;
    let script = setting.folder.join("start_tensorzero.py");
    fs::write(&script, include_str!("../../peers/gateway/start_tensorzero.py"))?;
    let said = setting.folder.join("tensorzero.port");
    let text = include_str!("../../peers/gateway/tensorzero.toml");
    let mut gateway = setting.start_with("TensorZero", text, "toml", None, |file| {
        vec![python, script.display().to_string(), file, said.display().to_string()]
    })?;
    let deadline = Instant::now() + START;
    while gateway.asking.port == 0 {
        if let Some(port) = fs::read_to_string(&said).ok().and_then(|text| text.trim().parse().ok()) {
            gateway.asking.port = port;
        } else if Instant::now() > deadline {
            bail!("it did not start: {}", setting.log("TensorZero"));
        }
        sleep(Duration::from_millis(100));
    }
    gateway.asking.path = String::from("/openai/v1/chat/completions");
    gateway.asking.model = String::from("tensorzero::model_name::bench");
    Ok(gateway)
}

fn tool(path: &str) -> anyhow::Result<String> {
    let tool = PathBuf::from(TOOLS).join(path);
    let tool = std::path::absolute(&tool)?;
    anyhow::ensure!(tool.exists(), "{} is not installed", tool.display());
    Ok(tool.display().to_string())
}

impl Setting<'_> {
    fn start(
        &self,
        name: &'static str,
        configuration: &str,
        extension: &str,
        command: impl FnOnce(String) -> Vec<String>,
    ) -> anyhow::Result<Gateway> {
        let gateway = self.start_with(name, configuration, extension, Some(free_port()?), command)?;
        let deadline = Instant::now() + START;
        while TcpStream::connect(("127.0.0.1", gateway.asking.port)).is_err() {
            if Instant::now() > deadline {
                bail!("it did not start: {}", self.log(name));
            }
            sleep(Duration::from_millis(100));
        }
        Ok(gateway)
    }

    fn start_with(
        &self,
        name: &'static str,
        configuration: &str,
        extension: &str,
        port: Option<u16>,
        command: impl FnOnce(String) -> Vec<String>,
    ) -> anyhow::Result<Gateway> {
        let port_text = port.unwrap_or_default().to_string();
        let fill = |text: &str| {
            text.replace("{folder}", &self.folder.display().to_string())
                .replace("{port}", &port_text)
                .replace("{provider}", &self.provider.to_string())
        };
        let file = self.folder.join(format!("gateway-{name}.{extension}"));
        fs::write(&file, fill(configuration))?;
        let arguments: Vec<String> = command(file.display().to_string()).iter().map(|text| fill(text)).collect();
        let mut taskset = Command::new("taskset");
        taskset.args(["-c", &self.core.to_string()]).args(&arguments).env("HOME", self.folder).env("BENCH_KEY", "none");
        let program = Program::start(&mut taskset, &self.folder.join(format!("gateway-{name}.out")))
            .with_context(|| arguments.join(" "))?;
        let asking =
            Asking { header: vec!["authorization: Bearer none".to_owned()], ..provider(port.unwrap_or_default()) };
        Ok(Gateway { name, program, asking, streams: true })
    }

    fn log(&self, name: &str) -> String {
        let log = fs::read_to_string(self.folder.join(format!("gateway-{name}.out"))).unwrap_or_default();
        log.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join(" / ")
    }
}
