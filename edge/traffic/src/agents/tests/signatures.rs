//! Signed requests of agents, and those that only look signed.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use db::stats::agents::AgentKey;
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};

use super::{super::signatures::*, *};

const KEY_ID: &str = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";
const CHATGPT: &str = "\"https://chatgpt.com\"";

struct Signer {
    pair: KeyPair,
    agents: AgentRegistry,
}

impl Signer {
    fn new() -> Self {
        let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let now = domain::Timestamp::from_unix_millis(1_800_000_000_000);
        let agents = AgentRegistry::new(Clock::from_fn(move || now));
        agents.keys.store(Arc::new(AgentKeys::from_rows(vec![AgentKey {
            key_id: KEY_ID.into(),
            agent: "ChatGPT Agent".into(),
            public_key: pair.der_bytes().to_vec(),
            expires_at: None,
        }])));
        Self { pair, agents }
    }

    /// Returns the fields of a signature over these lines, with these parameters.
    fn sign(&self, lines: &str, parameters: &str) -> [(&'static str, String); 2] {
        let base = format!("{lines}\"@signature-params\": {parameters}");
        let signature = BASE64_STANDARD.encode(self.pair.sign(base.as_bytes()).unwrap());
        [("signature-input", format!("sig1={parameters}")), ("signature", format!("sig1=:{signature}:"))]
    }

    fn judge(&self, signed: [(&'static str, String); 2], others: &[(&str, &str)]) -> ClientVerdict {
        let mut fields = headers(others);
        for (name, value) in signed {
            fields.insert(name, value.parse().unwrap());
        }
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let uri = Uri::from_static("/page?a=b");
        let claim = ClientClaim {
            method: &Method::GET,
            uri: &uri,
            host: "engine.example",
            headers: &fields,
            address,
            tls: true,
        };
        self.agents.judge(&claim, &ClientFields::from_headers(&fields))
    }
}

/// Returns the parameters of a signature that is valid except for the given `key_id`, times and tag.
fn parameters(parts: &str, key_id: &str, created: i64, expires: i64, tag: &str) -> String {
    format!(
        "({parts});created={created};expires={expires};keyid=\"{key_id}\";alg=\"ed25519\";nonce=\"a,b\";tag=\"{tag}\""
    )
}

fn good(parts: &str) -> String {
    parameters(parts, KEY_ID, 1_799_999_990, 1_800_000_050, "web-bot-auth")
}

const PARTS: &str = "\"@authority\" \"signature-agent\"";
const LINES: &str = "\"@authority\": engine.example\n\"signature-agent\": \"https://chatgpt.com\"\n";
const CHROME: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36";
const FIELDS: [(&str, &str); 3] = [("host", "engine.example"), ("signature-agent", CHATGPT), ("user-agent", CHROME)];

fn signer_of(judgement: ClientVerdict) -> Option<&'static str> {
    match judgement {
        ClientVerdict::Agent { agent, evidence: ClassEvidence::Signature } => Some(agent.name),
        _ => None,
    }
}

#[test]
fn a_signature_is_worth_more_than_a_name() {
    let signer = Signer::new();
    assert_eq!(signer_of(signer.judge(signer.sign(LINES, &good(PARTS)), &FIELDS)), Some("ChatGPT Agent"));
    // Other programs of the operator may sign with the same key.
    let as_bot = [FIELDS[0], FIELDS[1], ("user-agent", "GPTBot/1.2")];
    assert_eq!(signer_of(signer.judge(signer.sign(LINES, &good(PARTS)), &as_bot)), Some("GPTBot"));
    let as_another = [FIELDS[0], FIELDS[1], ("user-agent", "curl/8.10.1")];
    assert_eq!(signer_of(signer.judge(signer.sign(LINES, &good(PARTS)), &as_another)), Some("ChatGPT Agent"));
}

#[test]
fn more_parts_may_be_covered() {
    let signer = Signer::new();
    let parts = format!("\"@method\" {PARTS} \"@path\" \"@query\" \"user-agent\"");
    let lines = format!("\"@method\": GET\n{LINES}\"@path\": /page\n\"@query\": ?a=b\n\"user-agent\": {CHROME}\n");
    assert_eq!(signer_of(signer.judge(signer.sign(&lines, &good(&parts)), &FIELDS)), Some("ChatGPT Agent"));
    // Later drafts make the agent's field a dictionary.
    let parts = "\"@authority\" \"signature-agent\";key=\"sig1\"";
    let lines = "\"@authority\": engine.example\n\"signature-agent\";key=\"sig1\": \"https://chatgpt.com\"\n";
    let fields = [FIELDS[0], ("signature-agent", "sig1=\"https://chatgpt.com\""), FIELDS[2]];
    assert_eq!(signer_of(signer.judge(signer.sign(lines, &good(parts)), &fields)), Some("ChatGPT Agent"));
}

#[test]
fn what_does_not_hold_is_no_signature() {
    let signer = Signer::new();
    let with = |key_id, created, expires, tag| signer.sign(LINES, &parameters(PARTS, key_id, created, expires, tag));
    let (from, until, tag) = (1_799_999_990, 1_800_000_050, "web-bot-auth");
    let mut broken = signer.sign(LINES, &good(PARTS));
    broken[1].1 = "sig1=:AAAA:".into();
    let mut unlabelled = signer.sign(LINES, &good(PARTS));
    unlabelled[1].1 = unlabelled[1].1.replace("sig1", "sig2");
    for (what, signed) in [
        ("another host", signer.sign(&LINES.replace("engine", "other"), &good(PARTS))),
        ("another key", with("unknown", from, until, tag)),
        ("over", with(KEY_ID, from, 1_800_000_000, tag)),
        ("not yet", with(KEY_ID, 1_800_000_100, 1_800_000_200, tag)),
        ("for too long", with(KEY_ID, from, 1_800_100_000, tag)),
        ("another purpose", with(KEY_ID, from, until, "other")),
        (
            "without the host",
            signer.sign("\"signature-agent\": \"https://chatgpt.com\"\n", &good("\"signature-agent\"")),
        ),
        ("without the agent", signer.sign("\"@authority\": engine.example\n", &good("\"@authority\""))),
        ("no signature", broken),
        ("another label", unlabelled),
    ] {
        let judgement = signer.judge(signed, &FIELDS);
        assert_eq!(judgement, ClientVerdict::Automation, "{what}: a Chrome without its fields");
    }
    for input in ["", "sig1", "sig1=(", "sig1=()", "sig1=(\"", "sig1=\"@authority\";keyid=\"x\"", "=;=,=("] {
        let signed = [("signature-input", input.to_owned()), ("signature", "sig1=:AAAA:".to_owned())];
        assert_eq!(signer_of(signer.judge(signed, &FIELDS)), None, "{input}");
    }
}

#[test]
fn there_are_so_many_verifications_in_a_second() {
    let verifications = VerificationLimit::default();
    let at = |millis: i64| domain::Timestamp::from_unix_millis(1_800_000_000_000 + millis);
    for second in 0..2 {
        let taken = (0..2 * limits::SIGNATURES_PER_SECOND).filter(|_| verifications.take(at(second * 1_000 + 5)));
        assert_eq!(taken.count() as u64, limits::SIGNATURES_PER_SECOND);
    }
}
