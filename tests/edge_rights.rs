//! What an edge may do with all that it has (its role in Postgres, its user in Redis, its keys for the store, its key file), and what it
//! may not. The edges of all other tests have the same rights, so what they lack shows there.

use std::{path::Path, process::Output, time::Duration};

use domain::Clock;
use redis::{Cmd, Value};
use secrets::{
    EdgeKey, MasterKey,
    edge_proof::{self, ForwardedRequest},
};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, error::DatabaseError};

use crate::{
    BACKGROUND,
    world::{
        Actor, Site, World,
        edge_rights::{EDGE_ROLE, EDGE_USER, redis_url},
        eventually,
        process::program,
    },
};

/// The columns that an edge reads whose names sound like a secret.
const READ: [&str; 5] = [
    "acme_challenges.token",
    "ai_usage_keys.token_id",
    "certificates.sealed_key",
    "master_key_checks.sealed_check",
    "projects.password_hash",
];
/// The functions that it may call.
const CALLED: [&str; 15] = [
    "append_traffic",
    "draw_free_credit",
    "find_ai_key",
    "find_gateway_key",
    "find_gateway_key_and_credit",
    "find_model_aliases",
    "find_suspension_of_owners",
    "note_lost_changes",
    "note_settled_edges",
    "record_ai_usage_by_key",
    "record_ai_usage_by_kind",
    "record_edge",
    "sum_ai_usage_keys",
    "take_gate_ticket",
    "visitor_salt",
];

/// What somebody tries who has an edge's role.
const TRIED: [&str; 27] = [
    "INSERT INTO tokens SELECT * FROM tokens",
    "UPDATE tokens SET revoked_at = NULL",
    "SELECT secret_hash FROM tokens",
    "SELECT secret_hash FROM sessions",
    "SELECT sealed_value FROM env_vars",
    "SELECT * FROM users",
    "SELECT * FROM audit_log",
    "DELETE FROM audit_log",
    "ALTER TABLE audit_log DISABLE TRIGGER ALL",
    "DROP TRIGGER audit_log_append_only ON audit_log",
    "UPDATE projects SET access_mode = 'public', password_hash = NULL",
    "UPDATE projects SET active_deployment_id = NULL",
    "DELETE FROM deployments",
    "INSERT INTO route_changes SELECT * FROM route_changes",
    "UPDATE route_counter SET last_seq = 0",
    "INSERT INTO pending_route_changes (subject, hosts, created_at) VALUES ('prj_0', '{}', now())",
    "SELECT number_route_changes(1)",
    "UPDATE master_key_checks SET sealed_check = ''",
    "UPDATE schema_floor SET oldest_migration = 9999",
    "SELECT * FROM deleted_env_vars",
    "DELETE FROM gate_tickets",
    "INSERT INTO edge_grants VALUES ('SELECT (secret_hash) ON tokens')",
    "SELECT grant_edge('svc_test_edge')",
    "SELECT fold_traffic(1)",
    "CREATE TABLE public.mine (id int)",
    "SET ROLE pg_write_server_files",
    "SELECT pg_read_file('/etc/passwd')",
];

async fn texts(world: &World, sql: &str) -> Vec<String> {
    let mut connection = PgConnection::connect(world.database.as_str()).await.unwrap();
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
}

#[tokio::test]
async fn an_edges_role_writes_nothing_and_reads_no_secrets_but_its_own() {
    let world = World::start().await;
    let writable = format!(
        "SELECT oid::regclass::text FROM pg_class
         WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
           AND (has_table_privilege('{EDGE_ROLE}', oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
                OR has_any_column_privilege('{EDGE_ROLE}', oid, 'INSERT, UPDATE, REFERENCES'))"
    );
    assert_eq!(texts(&world, &writable).await, Vec::<String>::new());
    let secrets = format!(
        "SELECT attrelid::regclass || '.' || attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
         WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') AND attnum > 0 AND NOT attisdropped
           AND attname ~ 'sealed|secret|hash|token(_id)?$|salt|mail|login|vat' AND has_column_privilege('{EDGE_ROLE}', attrelid, attnum, 'SELECT')
         ORDER BY 1"
    );
    assert_eq!(texts(&world, &secrets).await, READ);
    let functions = format!(
        "SELECT DISTINCT proname::text FROM pg_proc
         WHERE pronamespace = 'public'::regnamespace AND has_function_privilege('{EDGE_ROLE}', oid, 'EXECUTE') ORDER BY 1"
    );
    assert_eq!(texts(&world, &functions).await, CALLED);

    let mut edge = PgConnection::connect(world.edge_database().as_str()).await.unwrap();
    for sql in TRIED {
        let refused = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut edge).await.unwrap_err();
        let code = refused.as_database_error().and_then(DatabaseError::code).unwrap_or_default().into_owned();
        assert_eq!(code, "42501", "{sql}: {refused}");
    }
    // A name in a schema of one's own does not get into what runs with the owner's rights.
    let shadow = "CREATE TEMPORARY TABLE settled_edges (edge_id text PRIMARY KEY, settled_at timestamptz);
                  SELECT note_settled_edges('{shadowed}', now())";
    sqlx::raw_sql(shadow).execute(&mut edge).await.unwrap();
    assert_eq!(world.sql_number("SELECT count(*) FROM settled_edges WHERE edge_id = 'shadowed'").await, 1);
}

#[tokio::test]
async fn what_edges_may_do_follows_the_lists_at_the_next_migration() {
    let world = World::start().await;
    let reads = async || {
        let mut edge = PgConnection::connect(world.edge_database().as_str()).await.unwrap();
        sqlx::raw_sql("SELECT name FROM orgs").execute(&mut edge).await.is_ok()
    };
    assert!(!reads().await);
    world.sql("INSERT INTO edge_grants (what) VALUES ('SELECT (name) ON orgs')").await;
    world.admin_prints(&["migrate"]).await;
    assert!(reads().await);
    // A migration that replaces a function takes back that it runs with its owner's rights, and one that makes it anew lets everybody
    // call it.
    world
        .sql(
            "DELETE FROM edge_grants WHERE what = 'SELECT (name) ON orgs';
             DROP FUNCTION visitor_salt(date, bytea);
             CREATE FUNCTION visitor_salt(of_day date, proposed bytea) RETURNS bytea LANGUAGE sql AS
                 'INSERT INTO visitor_salts (day, salt) VALUES (of_day, proposed) RETURNING salt'",
        )
        .await;
    world.admin_prints(&["migrate"]).await;
    assert!(!reads().await);
    let mut edge = PgConnection::connect(world.edge_database().as_str()).await.unwrap();
    let salt = "SELECT visitor_salt('2020-01-01', decode(repeat('00', 32), 'hex'))";
    sqlx::raw_sql(salt).execute(&mut edge).await.unwrap();

    // Whoever may do more than an edge is not let be one.
    let owner = world.sql_text("SELECT current_user::text").await;
    let refused = world.operate(&["grant-edge", &owner]).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&format!("the role {owner} is SUPERUSER")), "{said}");
}

#[tokio::test]
async fn a_role_that_may_do_more_than_an_edge_is_refused_with_what_takes_it_away() {
    let world = World::builder().own_postgres().start().await;
    world.sql("CREATE ROLE staff; GRANT pg_read_all_data, pg_execute_server_program TO staff").await;
    for (attributes, granted, said, remedy) in [
        ("BYPASSRLS", "", "is BYPASSRLS", "ALTER ROLE mighty NOBYPASSRLS"),
        ("CREATEROLE REPLICATION", "", "is CREATEROLE, REPLICATION", "ALTER ROLE mighty NOCREATEROLE NOREPLICATION"),
        (
            "",
            "GRANT pg_write_all_data TO mighty",
            "belongs to pg_write_all_data",
            "REVOKE pg_write_all_data FROM mighty",
        ),
        (
            "",
            "GRANT pg_signal_backend TO mighty",
            "belongs to pg_signal_backend",
            "REVOKE pg_signal_backend FROM mighty",
        ),
        ("", "GRANT staff TO mighty", "belongs to staff", "REVOKE staff FROM mighty"),
    ] {
        world.sql(&format!("CREATE ROLE mighty LOGIN {attributes}; {granted}")).await;
        let refused = world.operate(&["grant-edge", "mighty"]).await;
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && words.contains(said) && words.contains(&format!("`{remedy}`")), "{words}");
        world.sql(remedy).await;
        world.admin_prints(&["grant-edge", "mighty"]).await;
        // Given to it later, it is found by the doctor.
        world.sql(&format!("ALTER ROLE mighty {attributes}; {granted}")).await;
        let report = world.operate(&["doctor"]).await;
        assert!(String::from_utf8_lossy(&report.stdout).contains(&format!("`{remedy}`")));
        world.sql("DROP OWNED BY mighty; DROP ROLE mighty; DELETE FROM edge_roles WHERE role_name = 'mighty'").await;
    }
}

#[tokio::test]
async fn a_password_of_edges_never_reaches_postgres() {
    let world = World::builder().own_postgres().start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let log_in = async |password: &str| {
        let mut url = world.database.clone();
        url.set_username("fresh").unwrap();
        url.set_password(Some(password)).unwrap();
        let mut edge = PgConnection::connect(url.as_str()).await?;
        sqlx::raw_sql("SELECT last_seq FROM route_counter").execute(&mut edge).await
    };
    let made_up = world.admin_prints(&["grant-edge", "fresh"]).await;
    log_in(made_up.trim()).await.unwrap();
    // Not only in letters that need no preparation.
    let own = "pass\u{f6}rd \u{2168} of its own";
    std::fs::write(&file, own).unwrap();
    assert_eq!(world.admin_prints(&["grant-edge", "fresh", "--password-file", file.to_str().unwrap()]).await, "");
    log_in(own).await.unwrap();
    let kept = world.sql_text("SELECT rolpassword FROM pg_authid WHERE rolname = 'fresh'").await;
    assert!(kept.starts_with("SCRAM-SHA-256$4096:"), "{kept}");
}

#[tokio::test]
async fn a_right_that_an_edge_lacks_is_said() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &Site::page("x")).await.url;
    world.sql(&format!("REVOKE ALL ON ALL ROUTINES IN SCHEMA public FROM {EDGE_ROLE}")).await;
    world.edge().get(&url).await;
    let said = async |words: &str| {
        eventually(BACKGROUND, words, async || world.edge().process.log().contains(words)).await;
    };
    said("permission denied for function append_traffic").await;
    said("run `admin grant-edge ROLE`").await;
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", world.redis_port)).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = Cmd::new();
    // It can announce nothing any more, heartbeats included.
    command.arg(&["ACL", "SETUSER", EDGE_USER, "clearselectors"]);
    command.query_async::<Value>(&mut redis).await.unwrap();
    said("`admin redis-acl` prints the rules").await;
}

#[tokio::test]
async fn a_database_that_was_restored_without_rights_grants_them_anew() {
    let mut world = World::start().await;
    let restored = world.restore_beside(&world.dump_to_file().await).await;
    let mut owner = PgConnection::connect(restored.url.as_str()).await.unwrap();
    let bare = format!(
        "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {EDGE_ROLE};
         REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM {EDGE_ROLE};
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC;
         REVOKE ALL ON SCHEMA public FROM {EDGE_ROLE}"
    );
    sqlx::raw_sql(AssertSqlSafe(bare)).execute(&mut owner).await.unwrap();
    world.move_admin_to(&restored.url).await;
    let mut edge = PgConnection::connect(world.edge_database().as_str()).await.unwrap();
    let reads = "SELECT last_seq, epoch FROM route_counter; SELECT seq FROM find_gateway_key('')";
    sqlx::raw_sql(reads).execute(&mut edge).await.unwrap();
    sqlx::raw_sql("SELECT fold_traffic(1)").execute(&mut edge).await.unwrap_err();
    restored.remove().await;
}

#[tokio::test]
async fn an_edges_user_in_redis_announces_nothing_and_reaches_no_counters() {
    let world = World::start().await;
    world.user("ada").await.publish("engine", &Site::page("x")).await;
    let url = redis_url(&format!("redis://127.0.0.1:{}", world.redis_port));
    let mut edge = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    let change = r#"{"seq":1,"subject":"prj_0","hosts":[]}"#;
    let command = |words: &[&str]| {
        let mut command = Cmd::new();
        command.arg(words);
        command
    };
    for words in [
        &["PUBLISH", "svc:route-changes", change][..],
        &["EVAL", "return redis.call('PUBLISH', 'svc:route-changes', ARGV[1])", "0", change],
        &["EVAL", "return redis.call('FLUSHALL')", "0"],
        &["EVAL", "return redis.call('DEL', 'svc:count:api:{x}')", "0"],
        &["SUBSCRIBE", "svc:edge-acks"],
        &["PUBLISH", "svc:traffic", "{}"],
        &["SUBSCRIBE", "svc:edge-top:1"],
        &["SET", "svc:database-name", "mine"],
        &["EVAL", "return redis.call('SET', KEYS[1], 'mine')", "1", "svc:database-name"],
        &["HSET", "svc:reports:admin", "a", "b"],
        &["GET", "svc:count:api:{x}"],
        &["DEL", "svc:events"],
        &["XADD", "svc:events", "*", "a", "b"],
        &["FLUSHALL"],
        &["FLUSHDB"],
        &["SCRIPT", "FLUSH"],
        &["CONFIG", "GET", "requirepass"],
        &["KEYS", "*"],
        &["MONITOR"],
        &["ACL", "LIST"],
        &["SHUTDOWN"],
        &["REPLICAOF", "127.0.0.1", "1"],
    ] {
        let refused = command(words).query_async::<Value>(&mut edge).await.unwrap_err().to_string();
        assert!(["NOPERM", "permission", "can't"].iter().any(|word| refused.contains(word)), "{words:?}: {refused}");
    }
    command(&["PUBLISH", "svc:edge-acks", "{}"]).query_async::<i64>(&mut edge).await.unwrap();
    command(&["SET", "svc:ai:edge:{x}", "1"]).query_async::<Value>(&mut edge).await.unwrap();
    command(&["GET", "svc:database-name"]).query_async::<Value>(&mut edge).await.unwrap();
    command(&["PUBLISH", "svc:traffic:1", "x"]).query_async::<i64>(&mut edge).await.unwrap();
}

async fn as_edge(world: &World, name: &str, arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(program(name));
    command.args(arguments).envs(world.env_of_edges()).output().await.unwrap()
}

#[tokio::test]
async fn an_edges_key_file_opens_certificates_alone() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("x")).await;
    ada.put("/projects/engine/env/SECRET").json(&json!({ "value": "hidden" })).await.ok();

    let refused = MasterKey::load(world.edge_key()).unwrap_err().to_string();
    assert!(refused.contains("for edges alone"), "{refused}");
    let key = EdgeKey::load(world.edge_key()).unwrap();
    assert!(!key.holds_master_key());
    let mut owner = PgConnection::connect(world.database.as_str()).await.unwrap();
    let sealed: Vec<u8> = sqlx::query_scalar("SELECT sealed_value FROM env_vars").fetch_one(&mut owner).await.unwrap();
    let project = world.sql_text("SELECT project_id FROM env_vars").await;
    for identity in [format!("{project}/SECRET"), format!("{project}\0SECRET"), project] {
        assert!(key.open_certificate_key(identity.as_bytes(), &sealed).is_err());
    }
    let (id, sealed): (String, Vec<u8>) =
        sqlx::query_as("SELECT id, sealed_key FROM certificates").fetch_one(&mut owner).await.unwrap();
    assert!(key.open_certificate_key(id.as_bytes(), &sealed).unwrap().starts_with(b"-----BEGIN"));

    let tried: [(&str, &[&str]); 9] = [
        ("admin", &["issue-token", "--login", "eve"]),
        ("admin", &["suspend", "engine", "--reason", "abuse"]),
        ("admin", &["migrate"]),
        ("admin", &["grant-edge", EDGE_ROLE]),
        ("certs", &["rotate-key"]),
        ("certs", &["rotate-key", "--prepare"]),
        ("certs", &["edge-key", "/nonexistent/edge.key"]),
        ("certs", &["list"]),
        ("certs", &["renew", "--all"]),
    ];
    for (name, arguments) in tried {
        let output = as_edge(&world, name, arguments).await;
        assert!(!output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "x");
}

#[tokio::test]
async fn an_edge_only_reads_in_the_store() {
    let mut world = World::builder().bucket().start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("one")).await;
    world.edge().get(&site.url).await.assert_body(200, "one");
    world.restart_edge(0).await;
    world.edge().get(&site.url).await.assert_body(200, "one");
    ada.deploy("engine", &Site::page("two")).await;
    world.edge().get(&site.url).await.assert_body(200, "two");
    // Some of them: an edge that is killed takes along what it had counted within the last moment.
    let visits = "SELECT (SELECT count(*) FROM traffic_recent) + (SELECT count(*) FROM traffic_hours)";
    eventually(Duration::from_secs(20), "visits are counted", async || world.sql_number(visits).await > 0).await;
    assert_eq!(world.bucket().forbidden(), Vec::<String>::new());

    // What the documented policy allows is what the bucket of this test allows.
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/s3/edge-policy.json");
    let policy: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(policy).unwrap()).unwrap();
    let actions: Vec<&serde_json::Value> =
        policy["Statement"].as_array().unwrap().iter().map(|statement| &statement["Action"]).collect();
    assert_eq!(actions, [&json!("s3:GetObject"), &json!("s3:ListBucket")]);
}

/// The allowance that a request of the address leaves to it, as admin sees the request with this proof.
async fn left(client: &Actor, path: &str, address: &str, proof: &str) -> u16 {
    let request = client.post(path).header("x-forwarded-for", address).header(edge_proof::HEADER, proof);
    request.await.header("x-ratelimit-remaining").parse().unwrap()
}

#[tokio::test]
async fn a_proof_is_of_one_request_and_the_former_one_is_accepted_while_it_is_allowed() {
    for is_allowed in [false, true] {
        let world = World::builder().set("ADMIN__ACCEPT_FIXED_EDGE_PROOF", is_allowed).start().await;
        let client = world.nobody();
        let (address, host) = ("203.0.113.9", format!("api.svc.localhost:{}", world.admin_port));
        let handed = ForwardedRequest {
            method: "POST",
            path: "/auth/device",
            host: host.as_bytes(),
            client: address.as_bytes(),
            scheme: b"",
        };
        let key = EdgeKey::from_master_key(&MasterKey::load(World::master_key().await).unwrap());
        let proofs = key.proofs(&handed, Clock::system().now());
        let [fixed, proof] = &proofs[..] else { panic!("{proofs:?}") };
        // Each address has an allowance of ten; whoever is not believed shares that of this machine.
        assert_eq!(left(&client, "/auth/device", "198.51.100.1", "").await, 9, "this machine");
        assert_eq!(left(&client, "/auth/device", address, proof).await, 9, "an address of its own");
        assert_eq!(left(&client, "/auth/device", "203.0.113.8", proof).await, 8, "another client than the proof's");
        let late = key.proofs(&handed, Clock::system().now() - Duration::from_mins(2)).pop().unwrap();
        assert_eq!(left(&client, "/auth/device", address, &late).await, 7, "too old");
        let with_former = left(&client, "/auth/device", "203.0.113.7", fixed).await;
        assert_eq!(with_former, if is_allowed { 9 } else { 6 }, "the proof of the version before");
    }
}

/// Runs `certs …` with key files of one's own, successfully.
async fn certs(world: &World, folder: &Path, arguments: &[&str]) {
    let mut command = tokio::process::Command::new(program("certs"));
    command.args(arguments).env("SVC__POSTGRES__URL", world.database.as_str());
    command.env("SVC__SECRETS__MASTER_KEY_FILE", folder.join("master.key"));
    command.env("SVC__SECRETS__EDGE_KEY_FILE", folder.join("edge.key")).current_dir(folder);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "certs {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn an_edges_key_file_follows_the_rotation_of_the_master_key() {
    let folder = tempfile::tempdir().unwrap();
    let (master, edge) = (folder.path().join("master.key"), folder.path().join("edge.key"));
    std::fs::copy(World::master_key().await, &master).unwrap();
    let text = secrets::master_key::KeyFile::parse(&std::fs::read_to_string(&master).unwrap()).unwrap().to_edge_text();
    std::fs::write(&edge, text).unwrap();
    let mut world = World::builder()
        .set("SECRETS__MASTER_KEY_FILE", master.display())
        .set_at_edge(0, "SECRETS__MASTER_KEY_FILE", "/nonexistent/master.key")
        .set_at_edge(0, "SECRETS__EDGE_KEY_FILE", edge.display())
        .start()
        .await;
    let site = world.user("ada").await.publish("engine", &Site::page("x")).await;
    for step in [&["rotate-key", "--prepare"][..], &["rotate-key"], &["rotate-key", "--finish"]] {
        certs(&world, folder.path(), step).await;
        assert!(!EdgeKey::load(&edge).unwrap().holds_master_key());
        // It knows nothing, so that it has to open the certificate's key.
        world.restart_edge(0).await;
        world.edge().get(&site.url).await.assert_body(200, "x");
    }
    assert_eq!(EdgeKey::load(&edge).unwrap().ids(), EdgeKey::load(&master).unwrap().ids());
    // A rotation that ended after it had written the one file, and before the other, goes on with that.
    let former = std::fs::read(&edge).unwrap();
    certs(&world, folder.path(), &["rotate-key"]).await;
    std::fs::write(&edge, former).unwrap();
    certs(&world, folder.path(), &["rotate-key"]).await;
    assert_eq!(EdgeKey::load(&edge).unwrap().ids(), EdgeKey::load(&master).unwrap().ids());
    // The master key's file is never taken for one that may be replaced.
    let mut command = tokio::process::Command::new(program("certs"));
    command.args(["edge-key"]).arg(&master).env("SVC__SECRETS__MASTER_KEY_FILE", &master).current_dir(folder.path());
    assert!(!command.output().await.unwrap().status.success());
    assert!(MasterKey::load(&master).is_ok());
}
