//! Random prompts never have more tokens than are reserved, even by the worst possible tokenizer, which knows no words
//! and makes a token of each byte or run of white space. `prompts.jsonl` has requests for the tokenizers of all shipped
//! models.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

/// Counts the tokens of a text by the worst tokenizer.
fn tokens(text: &str) -> u64 {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\n');
    let follows = |at: usize| at > 0 && is_space(text.as_bytes()[at - 1]);
    text.bytes().enumerate().filter(|&(at, byte)| !is_space(byte) || !follows(at)).count() as u64
}

/// Generates text with many tokens for its length.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[0-9]{1,40}",
        "[0-9a-f]{1,40}",
        "[A-Za-z0-9+/]{4,60}={0,2}",
        "[\u{4e00}-\u{9fff}]{1,12}",
        "[\u{3041}-\u{30fa}\u{ac00}-\u{d7a3}]{1,12}",
        "([\u{1f300}-\u{1f64f}\u{1f900}-\u{1f9ff}]\u{fe0f}?\u{200d}?){1,8}",
        "([a-zA-Z][\u{300}-\u{36f}]{1,4}){1,8}",
        "[\u{958}-\u{95f}\u{1d15e}-\u{1d164}\u{fb1d}\u{fb2a}-\u{fb36}\u{2adc}\u{f43}]{1,12}",
        "[\u{1200}-\u{1248}\u{a000}-\u{a08c}\u{10330}-\u{1034a}]{1,12}",
        "[ \t\n\r,.:;\\\\\"'{}\\[\\]]{1,12}",
        "\\PC{1,12}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// Quotes a JSON string, in ASCII or unchanged.
fn quoted(text: &str, is_ascii: bool) -> String {
    let text = serde_json::Value::from(text).to_string();
    if !is_ascii {
        return text;
    }
    let mut units = [0; 2];
    let escaped = |letter: char| match letter {
        ' '..='~' => letter.to_string(),
        letter => {
            letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat()
        }
    };
    text.chars().map(escaped).collect()
}

/// JSON as written by a client, and as printed by a server that has parsed it.
#[derive(Debug, Clone)]
enum Json {
    Number { written: String, printed: String },
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

fn json_value() -> impl Strategy<Value = Json> {
    let same = |text: String| Json::Number { written: text.clone(), printed: text };
    let exponent = (1..10_u8, 1..23_u8).prop_map(|(digit, exponent)| {
        let written = format!("{digit}e{exponent}");
        let value: f64 = written.parse().unwrap();
        // As in Python.
        Json::Number { written, printed: format!("{value:?}").replace('e', "e+") }
    });
    let leaf = prop_oneof![
        3 => (0..100_u64).prop_map(move |number| same(number.to_string())),
        1 => any::<i64>().prop_map(move |number| same(number.to_string())),
        3 => exponent,
        1 => prop::sample::select(&["true", "null"][..]).prop_map(move |word| same(word.to_owned())),
        2 => text().prop_map(Json::Text),
    ];
    leaf.prop_recursive(5, 60, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Json::List),
            prop::collection::vec(("[a-zé]{0,3}", inner), 0..8).prop_map(Json::Object),
        ]
    })
}

impl Json {
    fn written(&self) -> String {
        match self {
            Self::Number { written, .. } => written.clone(),
            Self::Text(text) => quoted(text, false),
            Self::List(list) => format!("[{}]", list.iter().map(Self::written).collect::<Vec<_>>().join(",")),
            Self::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{}:{}", quoted(name, false), value.written()));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// Prints with spaces, or with each member on its own line.
    fn printed(&self, is_ascii: bool, indent: Option<usize>) -> String {
        let deeper = indent.map(|indent| indent + 4);
        let (brackets, members): (_, Vec<_>) = match self {
            Self::Number { printed, .. } => return printed.clone(),
            Self::Text(text) => return quoted(text, is_ascii),
            Self::List(list) => (["[", "]"], list.iter().map(|value| value.printed(is_ascii, deeper)).collect()),
            Self::Object(fields) => {
                let field = |(name, value): &(String, Self)| {
                    format!("{}: {}", quoted(name, is_ascii), value.printed(is_ascii, deeper))
                };
                (["{", "}"], fields.iter().map(field).collect())
            }
        };
        let line = |indent: Option<usize>| indent.map_or(String::new(), |indent| format!("\n{}", " ".repeat(indent)));
        if members.is_empty() {
            return brackets.concat();
        }
        let comma = if indent.is_some() { format!(",{}", line(deeper)) } else { ", ".to_owned() };
        [brackets[0], &line(deeper), &members.join(&comma), &line(indent), brackets[1]].concat()
    }
}

/// Returns the tokens reserved for the prompt of a request with this message and these fields.
fn reserved(message: &str, fields: &str) -> u64 {
    static MODELS: LazyLock<ServedModels> = LazyLock::new(|| models(&ProviderQuirks::default()));
    let body = format!(r#"{{"model":"svc/mistral-small","messages":[{{{message}}}]{fields}}}"#);
    validate(&Bytes::from(body), &MODELS, &RequestLimits::default()).unwrap().max_usage.prompt
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn words_have_no_more_tokens_than_are_reserved(text in text(), is_ascii in any::<bool>()) {
        let quoted = quoted(&text, is_ascii);
        for content in [quoted.clone(), format!(r#"[{{"type":"text","text":{quoted}}}]"#)] {
            let reserved = reserved(&format!(r#""role":"user","content":{content}"#), "");
            let tokens = tokens(&text) + limits::TEMPLATE_TOKENS;
            prop_assert!(tokens <= reserved, "{tokens}, {reserved} are reserved: {text:?}");
        }
    }

    #[test]
    fn json_has_no_more_tokens_than_are_reserved_however_it_is_printed(value in json_value()) {
        // Like the arguments of a function, and many results.
        let value = Json::Object(vec![("a".to_owned(), value)]);
        let written = value.written();
        let tool = format!(r#"[{{"type":"function","function":{{"name":"f","parameters":{written}}}}}]"#);
        let call = |arguments: &str| {
            format!(r#""role":"assistant","tool_calls":[{{"type":"function","function":{{"name":"f","arguments":{arguments}}}}}]"#)
        };
        for (message, fields) in [
            (r#""role":"user""#.to_owned(), format!(r#","tools":{tool}"#)),
            (r#""role":"user""#.to_owned(), format!(r#","functions":{tool}"#)),
            (format!(r#""role":"developer","tools":{tool}"#), String::new()),
            (call(&written), String::new()),
            (call(&quoted(&written, false)), String::new()),
            (call(&quoted(&written, true)), String::new()),
            (format!(r#""role":"tool","content":{}"#, quoted(&written, false)), String::new()),
        ] {
            let reserved = reserved(&message, &fields);
            let forms = [(false, None), (true, None), (false, Some(12)), (true, Some(12))];
            for (is_ascii, indent) in forms {
                let printed = value.printed(is_ascii, indent);
                let tokens = tokens(&printed);
                prop_assert!(tokens <= reserved, "{tokens}, {reserved} are reserved: {message}{fields}");
            }
        }
    }
}
