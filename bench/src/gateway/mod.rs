//! The AI gateway and its peers before one provider: what they add, what they cost, what an open stream weighs.
//!
//! [`provider`] is the provider, [`ask`] the clients, both on the load core; [`peers`] the gateways on the server core.

pub(crate) mod ask;
mod peers;
pub(crate) mod provider;

use std::{
    fmt::Write as _,
    net::TcpStream,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use self::{
    ask::{Asked, Asking},
    peers::{Gateway, Setting},
};
use crate::{
    Effort, cpu,
    figures::{median, shown},
    world::{Program, World, free_port},
};

const SERVER_CORE: u32 = 0;
const LOAD_CORE: u32 = 1;
/// For the provider to accept connections.
const START: Duration = Duration::from_secs(10);
/// Clients in the measurements of cost.
const CLIENTS: usize = 32;
/// Streams open at once, and milliseconds between the chunks of each.
const OPEN: [(usize, u32); 4] = [(1, 20), (10, 20), (100, 40), (1_000, 80)];
/// Of our models, the one that costs least.
const MODEL: &str = "svc/gpt-oss-20b";
/// More than any run asks for. What an account may use is counted all the same.
const NO_LIMITS: [(&str, &str); 2] =
    [("SVC__LIMITS__GATEWAY_PER_MIN", "1000000000"), ("SVC__LIMITS__GATEWAY_TOKENS_PER_DAY", "1000000000000")];

/// One gateway's figures.
#[derive(Default)]
struct Figures {
    json_per_cpu: Vec<f64>,
    streams_per_cpu: Vec<f64>,
    /// Seconds over those of the provider alone: median and 99th percentile.
    json_added: (f64, f64),
    first_added: (f64, f64),
    /// Bytes a stream, by streams open.
    stream_bytes: Vec<f64>,
    cpu_share: Vec<f64>,
}

/// Runs all of it and gives back the section of the report.
pub(crate) fn measure(world: &World, effort: Effort) -> anyhow::Result<String> {
    let work = tempfile::tempdir()?;
    let port = free_port()?;
    let mut provider = Command::new("taskset");
    provider.args(["-c", &LOAD_CORE.to_string()]).arg(std::env::current_exe()?).args(["provide", &port.to_string()]);
    let _provider = Program::start(&mut provider, &work.path().join("provider.out"))?;
    let deadline = Instant::now() + START;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(Instant::now() < deadline, "the provider did not start");
        sleep(Duration::from_millis(20));
    }
    let setting = Setting { folder: work.path(), provider: port, core: SERVER_CORE };
    let mut gateways = svc(world, port)?;
    let (others, mut missing) = peers::start(&setting);
    gateways.extend(others);

    let mut all: Vec<(&'static str, Figures)> = Vec::new();
    let direct = peers::provider(port);
    for gateway in &gateways {
        match figures(gateway, &direct, effort) {
            Ok(figures) => all.push((gateway.name, figures)),
            Err(error) => missing.push(format!("{}: {error:#}", gateway.name)),
        }
    }
    // Interleaved, so that what else the machine does meets all of them.
    for _ in 0..effort.rounds {
        for (name, figures) in &mut all {
            let gateway = gateways.iter().find(|gateway| gateway.name == *name).context("it was started")?;
            figures.json_per_cpu.push(per_cpu(gateway, false, effort.seconds)?);
            if gateway.streams {
                figures.streams_per_cpu.push(per_cpu(gateway, true, effort.seconds)?);
            }
        }
    }
    Ok(report(&all, &missing, effort))
}

/// Our gateway, over plain HTTP and over TLS.
fn svc(world: &World, provider: u16) -> anyhow::Result<Vec<Gateway>> {
    let said: serde_json::Value = serde_json::from_str(&world.svc(&["tokens", "create", "--kind", "ai", "--json"])?)?;
    let token = said["token"].as_str().context("a token")?;
    let url = format!("http://127.0.0.1:{provider}");
    let mut environment = NO_LIMITS.to_vec();
    environment.extend([("SVC__GATEWAY__PROVIDER_URL", url.as_str()), ("SVC__EDGE__HTTP_MODE", "serve")]);
    let mut gateways = Vec::new();
    for (name, over_tls) in [("svc", false), ("svc over TLS", true)] {
        let edge = world.edge_with(Some(SERVER_CORE), &environment)?;
        let asking = Asking {
            host: world.host("ai"),
            model: MODEL.to_owned(),
            header: vec![format!("authorization: Bearer {token}")],
            ca_file: over_tls.then(|| world.up.ca_file.clone()),
            ..peers::provider(if over_tls { edge.port } else { edge.http_port })
        };
        gateways.push(Gateway { name, program: edge.program, asking, streams: true });
    }
    Ok(gateways)
}

/// What does not depend on the others: latency one at a time, and open streams.
fn figures(gateway: &Gateway, direct: &Asking, effort: Effort) -> anyhow::Result<Figures> {
    let mut figures = Figures::default();
    let one = |asking: &Asking, stream| ask(&Asking { stream, seconds: effort.seconds, ..asking.clone() });
    ask(&Asking { seconds: 1, ..gateway.asking.clone() }).context("the first answers")?;
    let (alone, through) = (one(direct, false)?, one(&gateway.asking, false)?);
    figures.json_added = (through.whole_p50 - alone.whole_p50, through.whole_p99 - alone.whole_p99);
    if !gateway.streams {
        return Ok(figures);
    }
    let (alone, through) = (one(direct, true)?, one(&gateway.asking, true)?);
    figures.first_added = (through.first_p50 - alone.first_p50, through.first_p99 - alone.first_p99);
    for (clients, pace) in OPEN {
        let before = cpu::resident_all(gateway.program.id());
        let asking = Asking { stream: true, clients, pace: Some(pace), ..gateway.asking.clone() };
        let spent = cpu::spent(gateway.program.id());
        let began = Instant::now();
        let mut running = command(&asking)?.spawn()?;
        let mut most = before;
        while running.try_wait()?.is_none() {
            most = most.max(cpu::resident_all(gateway.program.id()));
            sleep(Duration::from_millis(50));
        }
        ensure!(running.wait()?.success(), "{clients} open streams failed");
        let spent = cpu::spent(gateway.program.id()).saturating_sub(spent);
        figures.cpu_share.push(spent.as_secs_f64() / began.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a thousand at most")]
        figures.stream_bytes.push((most - before) / clients as f64);
    }
    Ok(figures)
}

fn per_cpu(gateway: &Gateway, stream: bool, seconds: u32) -> anyhow::Result<f64> {
    let before = cpu::spent(gateway.program.id());
    let asked = ask(&Asking { stream, clients: CLIENTS, seconds, ..gateway.asking.clone() })
        .with_context(|| format!("{}, {CLIENTS} clients", gateway.name))?;
    let spent = cpu::spent(gateway.program.id()).saturating_sub(before);
    Ok(asked.answers / spent.as_secs_f64().max(0.01))
}

/// A copy of this program on the load core.
fn command(asking: &Asking) -> anyhow::Result<Command> {
    let mut command = Command::new("taskset");
    command.args(["-c", &LOAD_CORE.to_string()]).arg(std::env::current_exe()?).arg("ask");
    command.args(["--port", &asking.port.to_string(), "--host", &asking.host, "--path", &asking.path]);
    command.args(["--model", &asking.model, "--clients", &asking.clients.to_string()]);
    command.args(["--seconds", &asking.seconds.to_string()]);
    for header in &asking.header {
        command.args(["--header", header]);
    }
    if let Some(ca_file) = &asking.ca_file {
        command.arg("--ca-file").arg(ca_file);
    }
    if asking.stream {
        command.arg("--stream");
    }
    if let Some(pace) = asking.pace {
        command.args(["--pace", &pace.to_string()]);
    }
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    Ok(command)
}

fn ask(asking: &Asking) -> anyhow::Result<Asked> {
    let output = command(asking)?.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    serde_json::from_slice(&output.stdout).context("what the clients said")
}

fn report(all: &[(&'static str, Figures)], missing: &[String], effort: Effort) -> String {
    let mut text = format!(
        "One server core; clients and provider share the other. Clear text on both sides unless said. {} rounds of {} s, \
         interleaved; medians. Streams are of {} chunks, each sent by itself. Our gateway checks the key, reserves, \
         meters and journals every completion.\n\nCost, {CLIENTS} clients, per CPU second of the gateway (all its \
         processes):\n\n| | JSON | svc ÷ it | streams | svc ÷ it |\n|---|--:|--:|--:|--:|\n",
        effort.rounds,
        effort.seconds,
        provider::CHUNKS,
    );
    let own = all.first().map(|(_, figures)| (median(&figures.json_per_cpu), median(&figures.streams_per_cpu)));
    let (own_json, own_streams) = own.unwrap_or_default();
    for (name, figures) in all {
        let (json, streams) = (median(&figures.json_per_cpu), median(&figures.streams_per_cpu));
        let (streams, ratio) = if figures.streams_per_cpu.is_empty() {
            ("–".to_owned(), "–".to_owned())
        } else {
            (shown(streams), format!("{:.2}", own_streams / streams))
        };
        let _ = writeln!(text, "| {name} | {} | {:.2} | {streams} | {ratio} |", shown(json), own_json / json);
    }
    text.push_str(
        "\nAdded to the provider's own time, one request at a time, in ms:\n\n| | JSON p50 | p99 | first byte of a stream \
         p50 | p99 |\n|---|--:|--:|--:|--:|\n",
    );
    for (name, figures) in all {
        let ms = |seconds: f64| format!("{:.3}", seconds * 1e3);
        let first = if figures.stream_bytes.is_empty() {
            "– | –".to_owned()
        } else {
            format!("{} | {}", ms(figures.first_added.0), ms(figures.first_added.1))
        };
        let _ = writeln!(text, "| {name} | {} | {} | {first} |", ms(figures.json_added.0), ms(figures.json_added.1));
    }
    text.push_str(
        "\nStreams open at once, a chunk every 20 to 80 ms: KB of memory for each, and share of the core:\n\n|",
    );
    for (clients, _) in OPEN {
        let _ = write!(text, " | {clients}");
    }
    text.push_str(" |\n|---|--:|--:|--:|--:|\n");
    for (name, figures) in all.iter().filter(|(_, figures)| !figures.stream_bytes.is_empty()) {
        let _ = write!(text, "| {name}");
        for (bytes, share) in figures.stream_bytes.iter().zip(&figures.cpu_share) {
            let _ = write!(text, " | {} ({:.0}%)", shown(bytes / 1024.0), share * 100.0);
        }
        text.push_str(" |\n");
    }
    for reason in missing {
        let _ = writeln!(text, "\nNot measured: {reason}");
    }
    text
}
