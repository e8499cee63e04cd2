// openai-node at the gateway: what its users do, and what it makes of errors.
import assert from "node:assert";
import OpenAI from "openai";

const model = "svc/gpt-oss-20b";
const messages = [{ role: "user", content: "hello" }];
const weather = [{ role: "user", content: "What is the weather?" }];
const tools = [{ type: "function", function: { name: "get_weather", parameters: {
  type: "object", properties: { city: { type: "string" } } } } }];
const options = { baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY };
const client = new OpenAI(options);

const fails = (client, status, code, fields) =>
  assert.rejects(client.chat.completions.create({ model, messages, ...fields }), (error) => {
    assert.deepStrictEqual([error.status, error.code], [status, code]);
    assert.match(error.requestID, /^req_/);
    return true;
  });

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert(models.length === 8 && models.includes(model), models);
// It writes the slash as %2F.
assert.strictEqual((await client.models.retrieve("svc/mistral-small")).pricing.output, 45);

const completion = await client.chat.completions.create({ model, messages, max_tokens: 100 });
assert.strictEqual(completion.model, model);
assert.strictEqual(completion.choices[0].message.content, "Hello from the mock!");
assert(completion.usage.total_tokens > 0);

const { data, response, request_id } = await client.chat.completions.create({ model, messages }).withResponse();
assert(Number(response.headers.get("x-ratelimit-remaining-tokens")) > 0);
assert.match(request_id, /^req_/);
assert.strictEqual(data.choices[0].message.content, "Hello from the mock!");

let words = "", usage;
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
  assert.strictEqual(chunk.model, model);
  words += chunk.choices[0]?.delta.content ?? "";
  usage = chunk.usage;
}
assert.strictEqual(words, "Hello from the mock!");
assert(usage.total_tokens > 0);

const helper = client.chat.completions.stream({ model, messages: weather, tools });
const [call] = (await helper.finalMessage()).tool_calls;
assert.deepStrictEqual(JSON.parse(call.function.arguments), { city: "Zürich" });
assert((await helper.totalUsage()).total_tokens > 0);

await fails(client, 404, "model_not_found", { model: "gpt-4o" });
await fails(client, 400, "invalid_value", { max_tokens: 4097 });
await fails(client, 413, "request_too_large", { user: "x".repeat(70_000) });
await fails(new OpenAI({ ...options, apiKey: process.env.CLI_TOKEN }), 401, "invalid_api_key");
console.log("all is well");
