//! What a server says is printed, and a terminal obeys control characters.

use std::process::{Command, Stdio};

use axum::{Router, http::StatusCode, response::IntoResponse as _};
use serde_json::json;

use crate::world::process::program;

/// Sets the window's title and the clipboard, clears the screen, repaints the line, and says it in one C1 character.
const HOSTILE: &str =
    "\u{1b}]0;title\u{7}\u{1b}]52;c;cm0gLXJmIH4=\u{7}\u{1b}[2J\u{1b}[1;1H\rfake\u{8}\u{9b}31m\u{202e}end";

/// A server whose every word is hostile. Returns its address.
async fn hostile_server() -> String {
    let project = json!({
        "id": "prj_0123456789abcdefghij", "name": "engine", "org": null, "url": format!("https://x.example/{HOSTILE}"),
        "active_deployment_id": null, "expires_at": null, "created_at": "2026-01-01T00:00:00Z",
    });
    let device = json!({
        "device_code": "code", "user_code": format!("AB{HOSTILE}"), "verification_uri": format!("file:///{HOSTILE}"),
        "verification_uri_complete": null, "expires_in": 1, "interval": 1,
    });
    let refused = json!({ "error": { "code": HOSTILE, "message": format!("No. {HOSTILE}") } });
    let answer = |status: StatusCode, body: serde_json::Value| {
        let text = body.to_string();
        axum::routing::any(
            move || async move { (status, [("content-type", "application/json")], text).into_response() },
        )
    };
    let router = Router::new()
        .route("/projects", answer(StatusCode::OK, json!({ "projects": [project], "next_cursor": null })))
        .route("/auth/device", answer(StatusCode::OK, device))
        .fallback_service(answer(StatusCode::FORBIDDEN, refused));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// What `svc` prints, on stdout and stderr.
async fn printed(api: &str, args: &str, terminal: bool) -> String {
    let home = tempfile::tempdir().unwrap();
    let svc = format!("{} {args}", program("svc").display());
    let mut command = Command::new("timeout");
    command.arg("60");
    if terminal {
        command.args(["script", "--quiet", "--command", &svc, "/dev/null"]);
    } else {
        command.args(["sh", "-c", &svc]);
    }
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home.path()).env("TERM", "xterm");
    command.env("SVC_API_URL", api).env("SVC_TOKEN", format!("svc_{}", "A".repeat(43)));
    command.current_dir(home.path()).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn a_server_does_not_steer_the_terminal() {
    let api = hostile_server().await;
    for args in ["projects", "whoami", "login --no-browser", "--json projects", "--json whoami"] {
        for terminal in [false, true] {
            let text = printed(&api, args, terminal).await;
            assert!(text.contains("end"), "svc {args} did not print the server's words: {text:?}");
            // On a terminal svc draws colours and a spinner of its own, and lines end with \r\n.
            for bad in ["\u{1b}]", "\u{7}", "\u{1b}[2J", "\u{1b}[1;1H", "\u{8}", "\u{9b}", "\u{202e}", "\rfake"] {
                assert!(!text.contains(bad), "svc {args} printed {bad:?}: {text:?}");
            }
            assert!(terminal || !text.contains('\u{1b}'), "svc {args} without a terminal: {text:?}");
        }
    }
}
