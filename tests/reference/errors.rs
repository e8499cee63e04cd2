//! `docs/reference/errors.md`: the codes of the API and of the AI gateway, and the exit codes of `svc`.

use std::fmt::Write as _;

use crate::{cell, hold, read, source};

const HEAD: &str = "# Error codes

An error has a stable code, which programs act on, and a sentence for people that says what to do. This page is written by
`SVC_WRITE_DOCS=1 cargo test -p reference`, which fails when it is not current.

## API

`{\"error\": {\"code\": \"…\", \"message\": \"…\"}}`. The header `X-Request-Id` finds the cause in the operator's log.

| code | status | meaning |
|---|--:|---|
";

const GATEWAY: &str = "
## AI gateway

`{\"error\": {\"message\": \"…\", \"type\": \"…\", \"param\": \"…\", \"code\": \"…\"}}`, as OpenAI's errors are. At `/v1/messages` the same codes stand
in Anthropic's form.

| code | status | type | meaning |
|---|--:|---|---|
";

const CLIENT: &str = "
## Exit codes of `svc`

| code | meaning |
|--:|---|
";

/// The number of a status, by the name that the crate `http` has for it.
fn status(name: &str) -> u16 {
    match name {
        "BAD_REQUEST" => 400,
        "UNAUTHORIZED" => 401,
        "PAYMENT_REQUIRED" => 402,
        "FORBIDDEN" => 403,
        "NOT_FOUND" => 404,
        "METHOD_NOT_ALLOWED" => 405,
        "NOT_ACCEPTABLE" => 406,
        "REQUEST_TIMEOUT" => 408,
        "CONFLICT" => 409,
        "GONE" => 410,
        "PAYLOAD_TOO_LARGE" => 413,
        "UNSUPPORTED_MEDIA_TYPE" => 415,
        "MISDIRECTED_REQUEST" => 421,
        "UNPROCESSABLE_ENTITY" => 422,
        "TOO_MANY_REQUESTS" => 429,
        "REQUEST_HEADER_FIELDS_TOO_LARGE" => 431,
        "INTERNAL_SERVER_ERROR" => 500,
        "BAD_GATEWAY" => 502,
        "SERVICE_UNAVAILABLE" => 503,
        "GATEWAY_TIMEOUT" => 504,
        "INSUFFICIENT_STORAGE" => 507,
        other => panic!("name the status of {other} here"),
    }
}

/// The rows of a macro's table in a source: the words of each code, and what stands behind its `=`.
fn rows(file: &str, begin: &str) -> Vec<(String, Vec<String>)> {
    let text = read(file);
    let table = text.split_once(&format!("\n{begin} {{\n")).unwrap_or_else(|| panic!("{file} has no {begin}")).1;
    let table = table.split_once("\n}\n").unwrap().0;
    let items = source::items(table).into_iter();
    let rows: Vec<_> = items
        .map(|item| {
            let (_, values) = item.code.split_once('=').unwrap();
            let values = values.split(',').map(|value| value.trim().trim_matches('"').to_owned()).collect();
            (cell(&item.words), values)
        })
        .collect();
    assert!(rows.len() > 15, "{file}: {} codes", rows.len());
    rows
}

#[test]
fn the_page_of_error_codes_is_current() {
    let mut page = HEAD.to_owned();
    for (words, values) in rows("admin/http/src/error.rs", "codes!") {
        writeln!(page, "| `{}` | {} | {words} |", values[1], status(&values[0])).unwrap();
    }
    page.push_str(GATEWAY);
    for (words, values) in rows("edge/openai/src/error_code.rs", "error_codes!") {
        writeln!(page, "| `{}` | {} | `{}` | {words} |", values[0], status(&values[1]), values[2]).unwrap();
    }
    page.push_str(CLIENT);
    let args = read("cli/src/args.rs");
    let codes = args.split_once("Exit codes:\n").unwrap().1.split_once("\";").unwrap().0;
    // Two columns: a digit, two spaces, words, and so on.
    let mut exits = Vec::new();
    for line in codes.lines() {
        let starts: Vec<usize> = line
            .char_indices()
            .filter(|&(at, letter)| {
                letter.is_ascii_digit() && line[at + 1..].starts_with("  ") && line[..at].ends_with("  ")
            })
            .map(|(at, _)| at)
            .collect();
        for (n, &start) in starts.iter().enumerate() {
            let end = starts.get(n + 1).copied().unwrap_or(line.len());
            exits.push((line[start..=start].to_owned(), line[start + 1..end].trim().to_owned()));
        }
    }
    exits.sort();
    assert!(exits.len() >= 8, "{exits:?}");
    for (code, meaning) in exits {
        writeln!(page, "| {code} | {} |", cell(&meaning)).unwrap();
    }
    hold("errors.md", &page);
}
