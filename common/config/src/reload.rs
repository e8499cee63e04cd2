//! Defines which keys a running program takes over when it reads its configuration again, and which wait for its next
//! start.
//!
//! Each key appears once in [`KEYS`], by section: a missing or duplicate key does not compile. Start with
//! [`Reloader::reload`].

use std::{path::PathBuf, sync::Arc};

use crate::{
    Acme, Admin, Backup, Billing, CodeHost, Config, ConfigError, Edge, Gateway, Limits, Mail, Postgres, Redis, Secrets,
    Site, Stats, Store, Telemetry,
};

/// A program that can reload its configuration. The tools (`certs` and admin's commands) read it each time they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadingProgram {
    /// Serves sites.
    Edge,
    /// Serves the control plane.
    Admin,
}

/// When a changed value of a key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEffect {
    /// When the program reloads its configuration, for new work only.
    OnReload,
    /// When one of these programs next starts.
    AtStart(&'static [ReloadingProgram]),
}

use KeyEffect::{AtStart, OnReload};

const EDGE: &[ReloadingProgram] = &[ReloadingProgram::Edge];
const ADMIN: &[ReloadingProgram] = &[ReloadingProgram::Admin];
const BOTH: &[ReloadingProgram] = &[ReloadingProgram::Edge, ReloadingProgram::Admin];

/// The outcome of a reload.
#[derive(Debug, Clone)]
pub struct ReloadOutcome {
    /// The configuration that is now in force. Keys that take effect at start keep their running values.
    pub config: Config,
    /// The keys whose values changed.
    pub changed: Vec<&'static str>,
    /// The keys that were changed but take effect only when this program next starts.
    pub waiting: Vec<&'static str>,
}

/// Lists each key of each section once, with when it takes effect.
macro_rules! keys {
    ($($section:ident: $Section:ident { $($key:ident: $effect:expr,)* })*) => {
        /// When each key takes effect, in the order of the sections.
        pub const KEYS: &[(&str, KeyEffect)] =
            &[$($((concat!(stringify!($section), ".", stringify!($key)), $effect),)*)*];

        fn settle(running: &Config, mut read: Config, program: ReloadingProgram) -> ReloadOutcome {
            let (mut changed, mut waiting) = (Vec::new(), Vec::new());
            $(
                let $Section { $($key,)* } = &mut read.$section;
                $(
                    if *$key != running.$section.$key {
                        let name = concat!(stringify!($section), ".", stringify!($key));
                        match $effect {
                            OnReload => changed.push(name),
                            AtStart(programs) => {
                                $key.clone_from(&running.$section.$key);
                                if programs.contains(&program) {
                                    waiting.push(name);
                                }
                            }
                        }
                    }
                )*
            )*
            ReloadOutcome { config: read, changed, waiting }
        }
    };
}

keys! {
    site: Site {
        site_domain: AtStart(BOTH),
        share_domain: AtStart(BOTH),
        base_url: AtStart(BOTH),
        ai_url: AtStart(BOTH),
        console_url: AtStart(BOTH),
        dns_target: AtStart(BOTH),
        apex_addresses: OnReload,
    }
    postgres: Postgres {
        url: AtStart(BOTH),
        max_connections: AtStart(BOTH),
        replica_url: AtStart(EDGE),
        ca_file: AtStart(BOTH),
        pooler: AtStart(BOTH),
        direct_url: AtStart(ADMIN),
    }
    redis: Redis {
        url: AtStart(BOTH),
        ca_file: AtStart(BOTH),
        take_over_from: AtStart(BOTH),
    }
    store: Store {
        url: AtStart(BOTH),
        endpoint: AtStart(BOTH),
        region: AtStart(BOTH),
        access_key: AtStart(BOTH),
        secret_key: AtStart(BOTH),
        take_over_from: AtStart(BOTH),
        trash_days: OnReload,
        replica_url: AtStart(BOTH),
        replica_endpoint: AtStart(BOTH),
        replica_region: AtStart(BOTH),
        replica_access_key: AtStart(BOTH),
        replica_secret_key: AtStart(BOTH),
        check_days: OnReload,
        check_bytes_per_second: OnReload,
    }
    backup: Backup {
        url: OnReload,
        endpoint: OnReload,
        region: OnReload,
        access_key: OnReload,
        secret_key: OnReload,
        bytes_per_second: OnReload,
        packs_at_once: OnReload,
        postgres_programs: OnReload,
    }
    edge: Edge {
        listen_http: AtStart(EDGE),
        listen_https: AtStart(EDGE),
        admin_upstreams: OnReload,
        trusted_proxies: OnReload,
        proxy_protocol_from: OnReload,
        name: AtStart(EDGE),
        http_mode: OnReload,
        threads: AtStart(EDGE),
        memory: AtStart(EDGE),
        body_cache_percent: AtStart(EDGE),
        manifest_cache_percent: AtStart(EDGE),
        in_flight_percent: AtStart(EDGE),
        routes_percent: AtStart(EDGE),
        connections: AtStart(EDGE),
        connections_per_client: AtStart(EDGE),
        platform_requests: AtStart(EDGE),
        password_hashes: AtStart(EDGE),
        blocking_threads: AtStart(EDGE),
        over_plan_bytes_per_second: OnReload,
        spool: AtStart(EDGE),
        spool_take_over_from: AtStart(EDGE),
        metrics_listen: AtStart(EDGE),
        drain_notice_seconds: OnReload,
        drain_seconds: OnReload,
        upgrade_socket: AtStart(EDGE),
    }
    admin: Admin {
        listen: AtStart(ADMIN),
        connections: AtStart(ADMIN),
        spool: AtStart(ADMIN),
        spool_bytes: AtStart(ADMIN),
        uploads: AtStart(ADMIN),
        publishes: AtStart(ADMIN),
        password_hashes: AtStart(ADMIN),
        webhook_bytes: AtStart(ADMIN),
        listings: AtStart(ADMIN),
        drain_seconds: OnReload,
        free_disk_percent: OnReload,
        name: AtStart(ADMIN),
        metrics_listen: AtStart(ADMIN),
        console: OnReload,
        gateway_url: OnReload,
        accept_fixed_edge_proof: AtStart(ADMIN),
    }
    code_host: CodeHost {
        kind: AtStart(ADMIN),
        web_url: OnReload,
        api_url: OnReload,
        client_id: OnReload,
        client_secret: OnReload,
        webhook_secret: OnReload,
        app_id: OnReload,
        private_key_file: OnReload,
    }
    gateway: Gateway {
        providers: OnReload,
        models: OnReload,
        aliases: OnReload,
        provider_url: OnReload,
        provider_api_key: OnReload,
        first_byte_seconds: OnReload,
        idle_seconds: OnReload,
        queue_seconds: OnReload,
        cors_origins: OnReload,
        clamp_max_tokens: OnReload,
    }
    billing: Billing {
        plans: OnReload,
        provider: OnReload,
        mollie_url: OnReload,
        mollie_api_key: OnReload,
        mollie_webhook_secret: OnReload,
        vies_url: OnReload,
        vat_rates: OnReload,
        seller: OnReload,
    }
    stats: Stats {
        source: AtStart(BOTH),
        geoip_file: AtStart(EDGE),
        send_seconds: AtStart(EDGE),
        agent_networks: OnReload,
        agent_directories: OnReload,
    }
    mail: Mail {
        url: OnReload,
        from: OnReload,
        operator: OnReload,
    }
    acme: Acme {
        issuer: AtStart(ADMIN),
        directory_url: OnReload,
        contact: OnReload,
        ca_file: OnReload,
        external_account: OnReload,
        profile: OnReload,
        challenges: OnReload,
        dns: OnReload,
        resolvers: OnReload,
        limits: OnReload,
        fallback: OnReload,
        local_dir: OnReload,
        probe_port: OnReload,
        probe_http_port: OnReload,
    }
    limits: Limits {
        auth_device_per_10_min: OnReload,
        auth_poll_per_10_min: OnReload,
        api_per_min: OnReload,
        api_account_per_min: OnReload,
        gateway_per_min: OnReload,
        gateway_concurrent: OnReload,
        gateway_tokens_per_day: OnReload,
        probe_allow_private: OnReload,
    }
    secrets: Secrets {
        master_key_file: AtStart(BOTH),
        edge_key_file: AtStart(EDGE),
    }
    telemetry: Telemetry {
        traces_url: AtStart(EDGE),
        traces_headers_file: AtStart(EDGE),
        traces_percent: AtStart(EDGE),
        traces_account: AtStart(EDGE),
        usage_url: OnReload,
        usage_seconds: OnReload,
        usage_secret_file: OnReload,
    }
}

/// The configuration of a running program and its file. Environment variables keep the values that they had at start.
#[derive(Debug)]
pub struct Reloader {
    program: ReloadingProgram,
    file: Option<PathBuf>,
    running: Arc<Config>,
}

impl Reloader {
    /// Creates a reloader for `program`, which runs with `running`, loaded from `file` by [`Config::load`].
    pub fn new(program: ReloadingProgram, file: Option<PathBuf>, running: Arc<Config>) -> Self {
        Self { program, file, running }
    }

    /// Reads the configuration again and calls `take_over` to rebuild the program's parts. `take_over` receives the
    /// configuration as read, to validate all of it as a start would, and the outcome that would be in force. If
    /// anything fails, the program keeps its current configuration.
    pub fn reload<E: From<ConfigError>>(
        &mut self,
        take_over: impl FnOnce(&Config, Arc<Config>) -> Result<(), E>,
    ) -> Result<ReloadOutcome, E> {
        let read = Config::load(self.file.as_deref())?;
        let settled = settle(&self.running, read.clone(), self.program);
        let config = Arc::new(settled.config.clone());
        take_over(&read, config.clone())?;
        self.running = config;
        Ok(settled)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fmt::Write as _};

    use super::*;

    /// Formats the keys for the operators' document, as `SVC_WRITE_KEYS=1 cargo test -p config` writes it.
    fn list(is_wanted: impl Fn(KeyEffect) -> bool) -> String {
        let mut lines = String::new();
        let mut last = "";
        for (key, _) in KEYS.iter().filter(|(_, effect)| is_wanted(*effect)) {
            let (section, name) = key.split_once('.').unwrap();
            if section == last {
                write!(lines, ", `{name}`").unwrap();
            } else {
                write!(lines, "\n- `[{section}]` `{name}`").unwrap();
                last = section;
            }
        }
        lines
    }

    #[test]
    fn every_key_is_classified_once() {
        let serde_json::Value::Object(sections) = serde_json::to_value(Config::default()).unwrap() else { panic!() };
        let known: BTreeSet<String> = (sections.iter())
            .flat_map(|(section, keys)| keys.as_object().unwrap().keys().map(move |key| format!("{section}.{key}")))
            .collect();
        let classified: BTreeSet<String> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
        assert_eq!(classified, known);
        assert_eq!(classified.len(), KEYS.len());
    }

    #[test]
    fn keys_that_wait_for_a_start_keep_their_running_values() {
        let running = Config::default();
        let mut read = Config::default();
        read.edge.listen_https = "127.0.0.1:1".parse().unwrap();
        read.edge.trusted_proxies = vec!["10.0.0.0/8".into()];
        read.admin.listen = "127.0.0.1:2".parse().unwrap();
        read.postgres.url = "postgres://elsewhere/svc".into();
        read.limits.api_per_min = 7;
        let of_edge = settle(&running, read.clone(), ReloadingProgram::Edge);
        assert_eq!(of_edge.waiting, ["postgres.url", "edge.listen_https"]);
        assert_eq!(of_edge.changed, ["edge.trusted_proxies", "limits.api_per_min"]);
        assert_eq!(of_edge.config.edge.listen_https, running.edge.listen_https);
        assert_eq!(of_edge.config.postgres.url, running.postgres.url);
        assert_eq!(of_edge.config.admin.listen, running.admin.listen, "whichever program reads it");
        assert_eq!((of_edge.config.limits.api_per_min, of_edge.config.edge.trusted_proxies.len()), (7, 1));
        assert_eq!(settle(&running, read, ReloadingProgram::Admin).waiting, ["postgres.url", "admin.listen"]);
        let again = settle(&of_edge.config, running, ReloadingProgram::Edge);
        assert_eq!((again.waiting.len(), again.changed.len()), (0, 2), "what waited is not changed any more");
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let folder = std::env::temp_dir().join(format!("svc-reload-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("svc.toml");
        let mut reloader = Reloader::new(ReloadingProgram::Admin, Some(file.clone()), Arc::new(Config::default()));
        let mut reload = |text: &str, is_taken: bool| {
            std::fs::write(&file, text).unwrap();
            let taken = reloader.reload(|read, config| {
                assert_eq!((read.limits.api_per_min, config.limits.api_per_min), (5, 5));
                if is_taken { Ok(()) } else { Err(ConfigError::Value("no".into())) }
            });
            taken.map(|settled| settled.changed).map_err(|error| error.to_string())
        };
        let good = "[limits]\napi_per_min = 5\n";
        assert!(reload("[limits]\napi_per_mni = 5\n", true).unwrap_err().contains("did you mean limits.api_per_min"));
        assert_eq!(reload(good, false), Err("configuration: no".to_owned()));
        assert_eq!(reload(good, true), Ok(vec!["limits.api_per_min"]));
        assert_eq!(reload(good, true), Ok(vec![]));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn operators_find_every_key() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/runbook/reloading.md");
        let text = std::fs::read_to_string(path).unwrap();
        let waiting = list(|effect| effect != OnReload);
        let (before, _) = text.split_once("\n- `[site]`").unwrap();
        let wanted = format!("{before}\n{}\n", waiting.trim_start());
        if std::env::var_os("SVC_WRITE_KEYS").is_some() {
            std::fs::write(path, wanted).unwrap();
        } else {
            assert_eq!(text, wanted, "SVC_WRITE_KEYS=1 cargo test -p config");
        }
    }
}
