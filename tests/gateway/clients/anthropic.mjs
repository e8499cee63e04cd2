// Anthropic's client for Node at the gateway: what its users do, and what it makes of errors.
import assert from "node:assert";
import Anthropic from "@anthropic-ai/sdk";

const model = "svc/gpt-oss-20b", max_tokens = 100;
const messages = [{ role: "user", content: "hello" }];
const weather = [{ role: "user", content: "What is the weather?" }];
const tools = [{ name: "get_weather", input_schema: { type: "object", properties: { city: { type: "string" } } } }];
const options = { baseURL: process.env.BASE_URL.replace(/\/v1$/, ""), apiKey: process.env.API_KEY };
const client = new Anthropic(options);

const fails = (client, status, type, fields) =>
  assert.rejects(client.messages.create({ model, max_tokens, messages, ...fields }), (error) => {
    assert.deepStrictEqual([error.status, error.type], [status, type]);
    assert.match(error.requestID, /^req_/);
    return true;
  });

const { data, request_id } = await client.messages.create({ model, max_tokens, messages }).withResponse();
assert.deepStrictEqual([data.model, data.stop_reason], [model, "end_turn"]);
assert.strictEqual(data.content[0].text, "Hello from the mock!");
assert(data.usage.input_tokens > 0 && data.usage.output_tokens > 0);
assert.match(request_id, /^req_/);

const stream = client.messages.stream({ model, max_tokens, messages });
assert.strictEqual(await stream.finalText(), "Hello from the mock!");
assert((await stream.finalMessage()).usage.input_tokens > 0);

const called = await client.messages.stream({ model, max_tokens, messages: weather, tools }).finalMessage();
const [call] = called.content;
assert.deepStrictEqual([called.stop_reason, call.name, call.input], ["tool_use", "get_weather", { city: "Zürich" }]);
const content = [{ type: "tool_result", tool_use_id: call.id, content: [{ type: "text", text: "sunny" }] },
  { type: "text", text: "hello" }];
const turns = [...weather, { role: "assistant", content: called.content }, { role: "user", content }];
const second = await client.messages.create({ model, max_tokens, messages: turns, tools });
assert.strictEqual(second.content[0].text, "Hello from the mock!");

const token = new Anthropic({ ...options, apiKey: null, authToken: process.env.API_KEY });
assert((await token.messages.countTokens({ model, messages })).input_tokens > 0);

await fails(client, 404, "not_found_error", { model: "claude-opus-5" });
await fails(client, 400, "invalid_request_error", { max_tokens: 4097 });
await fails(client, 413, "request_too_large", { system: "x".repeat(70_000) });
await fails(new Anthropic({ ...options, apiKey: process.env.CLI_TOKEN }), 401, "authentication_error");
console.log("all is well");
