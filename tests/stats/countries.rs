//! Countries, by a file that this test writes.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::{pipeline::ENTRIES, *};
use crate::BACKGROUND;

/// A value of the file's format.
enum Field<'f> {
    Text(&'f str),
    Number(u8, u32),
    Map(Vec<(&'f str, Field<'f>)>),
}

impl Field<'_> {
    fn encode(&self, into: &mut Vec<u8>) {
        let text = |text: &str, into: &mut Vec<u8>| {
            into.push(0x40 | u8::try_from(text.len()).unwrap());
            into.extend_from_slice(text.as_bytes());
        };
        match self {
            Self::Text(value) => text(value, into),
            Self::Number(kind, value) => {
                into.push(kind << 5 | 2);
                into.extend_from_slice(&u16::try_from(*value).unwrap().to_be_bytes());
            }
            Self::Map(fields) => {
                into.push(0xe0 | u8::try_from(fields.len()).unwrap());
                for (key, value) in fields {
                    text(key, into);
                    value.encode(into);
                }
            }
        }
    }
}

/// A file that knows the countries of these networks: a binary tree over the address's bits, then the records.
fn database(networks: &[(Ipv4Addr, u32, Field<'_>)]) -> Vec<u8> {
    const NOTHING: usize = usize::MAX;
    const RECORD: usize = 1 << 30;
    let (mut nodes, mut data) = (vec![[NOTHING; 2]], Vec::new());
    for (address, bits, record) in networks {
        let mut node = 0;
        for bit in 0..*bits {
            let side = usize::from(address.to_bits() >> (31 - bit) & 1 == 1);
            if bit + 1 == *bits {
                nodes[node][side] = RECORD + data.len();
            } else if nodes[node][side] == NOTHING {
                nodes[node][side] = nodes.len();
                nodes.push([NOTHING; 2]);
                node = nodes.len() - 1;
            } else {
                node = nodes[node][side];
            }
        }
        record.encode(&mut data);
    }
    let count = nodes.len();
    let mut file = Vec::new();
    for side in nodes.into_iter().flatten() {
        let value = match side {
            NOTHING => count,
            record if record >= RECORD => record - RECORD + count + 16,
            node => node,
        };
        file.extend_from_slice(&u32::try_from(value).unwrap().to_be_bytes()[1..]);
    }
    file.extend_from_slice(&[0; 16]);
    file.extend_from_slice(&data);
    file.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    let short = |number: usize| Field::Number(5, u32::try_from(number).unwrap());
    // The languages and the time of the file: an empty list, and a long number, which have types of their own.
    file.push(0xe9);
    for (key, value) in [
        ("binary_format_major_version", short(2)),
        ("binary_format_minor_version", short(0)),
        ("database_type", Field::Text("countries")),
        ("description", Field::Map(Vec::new())),
        ("ip_version", short(4)),
        ("node_count", Field::Number(6, u32::try_from(count).unwrap())),
        ("record_size", short(24)),
    ] {
        Field::Text(key).encode(&mut file);
        value.encode(&mut file);
    }
    Field::Text("languages").encode(&mut file);
    file.extend_from_slice(&[0, 4]);
    Field::Text("build_epoch").encode(&mut file);
    file.extend_from_slice(&[1, 2, 1]);
    file
}

#[tokio::test]
async fn countries_are_those_of_the_client_or_of_whoever_a_trusted_proxy_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("countries.mmdb");
    let nested = |code| Field::Map(vec![("country", Field::Map(vec![("iso_code", Field::Text(code))]))]);
    let flat = |code| Field::Map(vec![("country_code", Field::Text(code))]);
    let networks = [
        (Ipv4Addr::LOCALHOST, 32, nested("DE")),
        (Ipv4Addr::new(127, 0, 1, 0), 24, nested("NL")),
        (Ipv4Addr::new(198, 51, 100, 0), 24, flat("fr")),
        (Ipv4Addr::new(203, 0, 113, 0), 24, flat("nonsense")),
    ];
    std::fs::write(&file, database(&networks)).unwrap();
    let visited = Visited::start_with(&Site::page("home"), |builder| {
        builder.set("STATS__GEOIP_FILE", file.display()).set("EDGE__TRUSTED_PROXIES", "127.0.0.1/32")
    })
    .await;
    let edge = visited.world.edge();
    visited.visit("/", 4).await;
    for (address, times) in [("198.51.100.7", 3), ("203.0.113.9", 1), ("192.0.2.1", 1), ("2001:db8::1", 1)] {
        for _ in 0..times {
            edge.get(&visited.url).header("x-forwarded-for", address).await.assert_status(200);
        }
    }
    let live = visited.live_with(10).await;
    let countries: &Value = &live["top_countries"];
    assert_eq!(
        *countries,
        json!([
            { "country": "DE", "requests": 4 },
            { "country": "FR", "requests": 3 },
            { "country": "XX", "requests": 3 },
        ])
    );
    // Nobody's address is kept anywhere.
    for table in ["traffic_hours", "traffic_hour_entries", "traffic_edges"] {
        let rows = visited.world.sql_text(&format!("SELECT coalesce(json_agg(t)::text, '') FROM {table} AS t")).await;
        for address in ["198.51.100", "203.0.113", "192.0.2", "2001:db8", "127.0.0"] {
            assert!(!rows.contains(address), "{address} in {table}: {rows}");
        }
    }
}

#[tokio::test]
async fn a_newer_file_of_countries_is_read_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("countries.mmdb");
    let of = |code| {
        let record = Field::Map(vec![("country", Field::Map(vec![("iso_code", Field::Text(code))]))]);
        database(&[(Ipv4Addr::new(198, 51, 100, 0), 24, record)])
    };
    std::fs::write(&file, of("FR")).unwrap();
    let visited = Visited::start_with(&Site::page("home"), |builder| {
        builder.set("STATS__GEOIP_FILE", file.display()).set("EDGE__TRUSTED_PROXIES", "127.0.0.1/32")
    })
    .await;
    let edge = visited.world.edge();
    let is_counted_for = async |country: &str| {
        edge.get(&visited.url).header("x-forwarded-for", "198.51.100.7").await.assert_status(200);
        let counted = format!("SELECT count(*) FROM {ENTRIES} WHERE kind = 'country' AND key = '{country}'");
        visited.world.sql_number(&counted).await > 0
    };
    eventually(BACKGROUND, "the first file counts", async || is_counted_for("FR").await).await;
    std::fs::write(&file, "no database").unwrap();
    let is_said = async || edge.process.log().contains("the countries cannot be read again");
    eventually(BACKGROUND, "a file that is none is noticed", is_said).await;
    assert!(!is_counted_for("XX").await, "the last one stays");
    let newer = folder.path().join("newer.mmdb");
    std::fs::write(&newer, of("NL")).unwrap();
    std::fs::rename(newer, &file).unwrap();
    eventually(BACKGROUND, "the newer file counts", async || is_counted_for("NL").await).await;
}
