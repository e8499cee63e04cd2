//! A provider with a dialect whose models follow the prompt, with a ledger of the tokens that it has reported.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::{Provider, Script, choice, dialects::Dialect, event};

/// The number of words in the story that a model tells on request.
const STORY_WORDS: usize = 40;
/// The beginning of an agent's task: to write `made.txt` with a number of shell calls.
const TASK: &str = "Make made.txt in ";

/// The tokens that were reported for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    pub prompt: u64,
    pub completion: u64,
    /// Whether the request was for a story, which the client does not read to its end.
    pub is_story: bool,
}

/// The requests that a vendor has served and refused.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub served: Vec<Served>,
    /// The number of requests that were refused because the prompt says so.
    pub refused: usize,
    /// Why requests did not match the provider's dialect.
    pub unfit: Vec<String>,
}

/// A provider that follows the prompt.
pub struct Vendor {
    pub provider: Provider,
    ledger: Arc<Mutex<Ledger>>,
}

impl Vendor {
    /// Starts a provider that uses a dialect for requests and responses.
    pub async fn start(dialect: Dialect) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let kept = ledger.clone();
        let provider = Provider::start_answering(move |body| kept.lock().unwrap().answer(dialect, body)).await;
        Self { provider, ledger }
    }

    /// Returns whether it has begun a story since its ledger was last taken.
    pub fn tells_story(&self) -> bool {
        self.ledger.lock().unwrap().served.iter().any(|served| served.is_story)
    }

    /// Returns what it has served and refused since the last call.
    pub fn take_ledger(&self) -> Ledger {
        std::mem::take(&mut self.ledger.lock().unwrap())
    }
}

enum Reply {
    Say(String),
    Call(String, Value),
    Refuse,
    Overflow,
}

impl Ledger {
    fn answer(&mut self, dialect: Dialect, body: &Value) -> Script {
        if let Err(error) = dialect.judge(body) {
            self.unfit.push(error.clone());
            return dialect.refusal(&error);
        }
        let (reply, is_story) = reply(body);
        let (words, call) = match reply {
            Reply::Refuse => {
                self.refused += 1;
                return dialect.refusal("something is wrong with this");
            }
            Reply::Overflow => {
                self.refused += 1;
                return dialect.overflow();
            }
            Reply::Say(words) => (words, None),
            Reply::Call(name, arguments) => (String::new(), Some((name, arguments.to_string()))),
        };
        // Each request has a different number of tokens.
        let number = self.served.len() as u64;
        let served = Served { prompt: 100 + 3 * number, completion: 10 + number, is_story };
        self.served.push(served);
        let thoughts = if dialect.thinks(body) { "Let me think." } else { "" };
        let answer = VendorAnswer { dialect, thoughts, words, call, usage: usage(served) };
        let script = if body["stream"] == true { answer.streamed() } else { answer.whole() };
        // Slow enough for the client to disconnect in the middle.
        if is_story { script.slowly(Duration::from_millis(5)) } else { script }
    }
}

/// Returns the reply to the last prompt of a conversation, and whether it is a story.
fn reply(body: &Value) -> (Reply, bool) {
    let messages = body["messages"].as_array().unwrap();
    let is_asked = messages.last().is_some_and(|last| last["role"] == "user");
    let prompt_at = messages.iter().rposition(|message| message["role"] == "user").unwrap_or_default();
    let prompt = text_of(&messages[prompt_at]);
    let tools: Vec<&str> =
        body["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["function"]["name"].as_str()).collect();
    let say = |words: &str| (Reply::Say(words.to_owned()), false);
    let task =
        messages.iter().enumerate().rev().filter(|(_, message)| message["role"] == "user").find_map(|(at, message)| {
            let text = text_of(message);
            let count = text.split_once(TASK)?.1.split_once(' ')?.0.parse::<usize>().ok()?;
            Some((at, count))
        });
    if let Some((at, count)) = task {
        let done = messages[at..].iter().filter(|message| message["role"] == "tool").count();
        let shell =
            tools.iter().find_map(|tool| Some((*tool, shell(tool, &format!("echo step{} >> made.txt", done + 1))?)));
        return match shell {
            Some((name, arguments)) if done < count => (Reply::Call(name.to_owned(), arguments), false),
            Some(_) => say("All done."),
            // For an agent that has no tools and writes the files it is shown.
            None if tools.is_empty() => say("made.txt\n```\nstep1\n```"),
            None => say("Hello there."),
        };
    }
    if prompt.contains("Overflow.") {
        return (Reply::Overflow, false);
    }
    if prompt.contains("Refuse this.") {
        return (Reply::Refuse, false);
    }
    let first = tools.first().map(|tool| (*tool).to_owned());
    if is_asked && prompt.contains("Describe Paris.") {
        let city = json!({ "city": "Paris", "rivers": 1 });
        return match first {
            Some(tool) if body["response_format"].is_null() => (Reply::Call(tool, city), false),
            _ => say(&city.to_string()),
        };
    }
    if let Some(tool) = first.filter(|_| is_asked && prompt.contains("What is the weather in Paris?")) {
        return (Reply::Call(tool, json!({ "city": "Paris" })), false);
    }
    if prompt.contains("Tell a long story.") {
        let words: String =
            (0..STORY_WORDS).flat_map(|word| ["word".to_owned(), word.to_string(), " ".to_owned()]).collect();
        return (Reply::Say(words), true);
    }
    if is_asked { say("Hello there.") } else { say("It is sunny.") }
}

/// Returns a unique id, by which agents tell results apart.
fn call_id() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    format!("call{:05}", CALLS.fetch_add(1, Ordering::Relaxed))
}

/// Returns the arguments with which an agent's shell runs a command; `None` if the tool is not a shell.
fn shell(tool: &str, command: &str) -> Option<Value> {
    Some(match tool {
        "exec_command" => json!({ "cmd": command }),
        "Bash" | "bash" => json!({ "command": command, "description": "Writes a line" }),
        "run_shell_command" => json!({ "command": command, "is_background": false, "description": "Writes a line" }),
        "run_commands" => json!({ "commands": [command] }),
        _ => return None,
    })
}

/// Returns the text of a message, in one part or several.
pub fn text_of(message: &Value) -> String {
    let content = &message["content"];
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().map_or_else(|| parts.collect::<Vec<_>>().join("\n"), str::to_owned)
}

fn usage(served: Served) -> Value {
    let Served { prompt, completion, .. } = served;
    json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion })
}

/// A response in the provider's format.
struct VendorAnswer {
    dialect: Dialect,
    thoughts: &'static str,
    words: String,
    call: Option<(String, String)>,
    usage: Value,
}

impl VendorAnswer {
    fn reason(&self) -> &'static str {
        if self.call.is_some() { "tool_calls" } else { "stop" }
    }

    fn whole(self) -> Script {
        let reason = self.reason();
        let mut message = self.dialect.said(self.thoughts, &self.words);
        message["role"] = "assistant".into();
        if let Some((name, arguments)) = self.call {
            let function = json!({ "name": name, "arguments": arguments });
            message["tool_calls"] = json!([{ "id": call_id(), "type": "function", "function": function }]);
        }
        Script::json(&json!({
            "id": "cmpl-0001", "object": "chat.completion", "created": 1_700_000_000, "model": "upstream-name",
            "choices": [{ "index": 0, "message": message, "finish_reason": reason }], "usage": self.usage,
        }))
    }

    fn streamed(self) -> Script {
        let (reason, at_once) = (self.reason(), self.dialect.ends_in_one_frame());
        let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
        if !self.thoughts.is_empty() {
            deltas.push(self.dialect.said(self.thoughts, ""));
        }
        deltas.extend(self.words.split_inclusive(' ').map(|word| self.dialect.said("", word)));
        if let Some((name, arguments)) = self.call {
            let cut = if at_once { arguments.len() } else { arguments.len() / 2 };
            let (head, tail) = arguments.split_at(cut);
            let function = json!({ "name": name, "arguments": head });
            deltas.push(
                json!({ "tool_calls": [{ "index": 0, "id": call_id(), "type": "function", "function": function }] }),
            );
            if !tail.is_empty() {
                deltas.push(json!({ "tool_calls": [{ "index": 0, "function": { "arguments": tail } }] }));
            }
        }
        let frame = |delta: &Value, reason: Option<&str>, usage: &Value| event(&json!([choice(delta, reason)]), usage);
        let mut events: Vec<_> = deltas.iter().map(|delta| frame(delta, None, &Value::Null)).collect();
        if at_once {
            events.push(frame(&json!({ "content": "" }), Some(reason), &self.usage));
        } else {
            events.push(frame(&json!({}), Some(reason), &Value::Null));
            events.push(event(&json!([]), &self.usage));
        }
        events.push("data: [DONE]".to_owned());
        Script::events(&events)
    }
}
