//! The load generators on the load core: wrk for HTTP/1.1, h2load for HTTP/2, our own loop for new connections.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use crate::{
    figures,
    wire::{HttpsConnection, TrustedRoots},
};

/// The number of threads that open connections, so that the server is not idle while one client computes.
const DIALERS: usize = 4;

pub(crate) struct LoadResult {
    pub(crate) requests: f64,
    pub(crate) per_second: f64,
    pub(crate) p99: Duration,
}

pub(crate) struct LoadTarget<'t> {
    pub(crate) host: &'t str,
    pub(crate) port: u16,
    pub(crate) path: &'t str,
    pub(crate) core: u32,
}

impl LoadTarget<'_> {
    fn url(&self) -> String {
        format!("https://{}:{}/{}", self.host, self.port, self.path)
    }

    fn pinned(&self, program: &str) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.core.to_string(), program]);
        command
    }
}

pub(crate) fn wrk(target: &LoadTarget<'_>, seconds: u32) -> anyhow::Result<LoadResult> {
    let output = target
        .pinned("wrk")
        .args(["--threads", "1", "--connections", "32", "--latency", "--duration", &format!("{seconds}s")])
        .args(["--script", "bench/peers/wrk.lua", &target.url()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "wrk: {text}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "wrk saw errors: {text}");
    let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in ")).context("wrk: requests")?.0;
    Ok(LoadResult {
        requests: requests.parse()?,
        per_second: after("Requests/sec:").context("wrk: rate")?.parse()?,
        p99: duration(after("99%").context("wrk: 99%")?)?,
    })
}

fn duration(text: &str) -> anyhow::Result<Duration> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let value: f64 = text.trim_end_matches(unit).parse()?;
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => anyhow::bail!("a duration in {unit}"),
    };
    Ok(Duration::from_secs_f64(value * scale))
}

pub(crate) fn h2load(target: &LoadTarget<'_>, seconds: u32, log: &Path) -> anyhow::Result<LoadResult> {
    let _ = fs::remove_file(log);
    let output = target
        .pinned("h2load")
        .args(["--threads=1", "--clients=16", "--max-concurrent-streams=8", &format!("--duration={seconds}")])
        .arg(format!("--connect-to=127.0.0.1:{}", target.port))
        .arg(format!("--log-file={}", log.display()))
        .arg(target.url())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "h2load: {text}{}", String::from_utf8_lossy(&output.stderr));
    let line =
        |label: &str| text.lines().find(|line| line.starts_with(label)).with_context(|| format!("h2load: {text}"));
    ensure!(line("Application protocol:")?.ends_with("h2"), "h2load did not get HTTP/2: {text}");
    ensure!(line("status codes:")?.contains(" 0 3xx, 0 4xx, 0 5xx"), "h2load saw errors: {text}");
    let number_before = |line: &str, label: &str| -> anyhow::Result<f64> {
        let head = line.split_once(label).with_context(|| line.to_owned())?.0;
        Ok(head.trim().rsplit([' ', ',']).next().unwrap_or_default().parse()?)
    };
    // Each line has the start time, the status, and microseconds.
    let micros: Vec<f64> =
        fs::read_to_string(log)?.lines().filter_map(|line| line.rsplit('\t').next()?.parse().ok()).collect();
    Ok(LoadResult {
        requests: number_before(line("requests:")?, " succeeded")?,
        per_second: number_before(line("finished in")?, " req/s")?,
        p99: Duration::from_secs_f64(figures::quantile(&micros, 0.99) / 1e6),
    })
}

/// Opens new connections, each with a full handshake, from a copy of this program on the load core.
pub(crate) fn handshakes(target: &LoadTarget<'_>, seconds: u32, ca_file: &Path) -> anyhow::Result<LoadResult> {
    let own = std::env::current_exe()?;
    let output = target
        .pinned(&own.display().to_string())
        .args(["dial", &target.port.to_string(), target.host, &seconds.to_string()])
        .arg(ca_file)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "dial: {}", String::from_utf8_lossy(&output.stderr));
    let mut fields = text.split_whitespace().map(str::parse::<f64>);
    let mut field = || fields.next().context("dial: too few fields")?.context("dial: not a number");
    Ok(LoadResult { requests: field()?, per_second: field()?, p99: Duration::from_secs_f64(field()?) })
}

/// Does the work of that copy; prints `connections per_second p99`.
pub(crate) fn dial(port: u16, host: &str, seconds: u32, ca_file: &Path) -> anyhow::Result<String> {
    let trust = TrustedRoots::in_file(ca_file)?;
    let began = Instant::now();
    let end = began + Duration::from_secs(seconds.into());
    let dialer = || -> anyhow::Result<Vec<f64>> {
        let mut times = Vec::new();
        while Instant::now() < end {
            let start = Instant::now();
            drop(HttpsConnection::open(&trust, host, port)?);
            times.push(start.elapsed().as_secs_f64());
        }
        Ok(times)
    };
    let times = std::thread::scope(|scope| -> anyhow::Result<Vec<f64>> {
        let dialers: Vec<_> = (0..DIALERS).map(|_| scope.spawn(dialer)).collect();
        let mut all = Vec::new();
        for dialer in dialers {
            all.extend(dialer.join().map_err(|_| anyhow::anyhow!("a dialer panicked"))??);
        }
        Ok(all)
    })?;
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let count = times.len() as f64;
    let per_second = count / began.elapsed().as_secs_f64();
    Ok(format!("{count} {per_second} {}", figures::quantile(&times, 0.99)))
}
