// openai-node's Responses API at the gateway.
import assert from "node:assert";
import OpenAI from "openai";

const model = "svc/gpt-oss-20b";
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0 });
const tools = [{ type: "function", name: "get_weather", strict: false, parameters: {
  type: "object", properties: { city: { type: "string" } } } }];

const { data: whole, response } = await client.responses
  .create({ model, input: "hello", tools: [{ type: "web_search" }] }).withResponse();
assert.strictEqual(whole.output_text, "Hello from the mock!");
assert.strictEqual(response.headers.get("x-svc-warning"), "left out: web_search");
assert(whole.usage.total_tokens > 0);

let words = "";
for await (const event of await client.responses.create({ model, input: "hello", stream: true })) {
  if (event.type === "response.output_text.delta") words += event.delta;
}
assert.strictEqual(words, "Hello from the mock!");

// The helper checks each event against those before it.
const final = await client.responses.stream({ model, input: "hello" }).finalResponse();
assert.deepStrictEqual([final.output_text, final.status], ["Hello from the mock!", "completed"]);

const input = [{ role: "user", content: "What is the weather?" }];
const called = await client.responses.stream({ model, input, tools }).finalResponse();
const call = called.output.find((item) => item.type === "function_call");
assert.deepStrictEqual([call.name, JSON.parse(call.arguments)], ["get_weather", { city: "Zürich" }]);
input.push(...called.output, { type: "function_call_output", call_id: call.call_id, output: "Rain." }, { role: "user", content: "hello" });
assert.strictEqual((await client.responses.create({ model, input, tools })).output_text, "Hello from the mock!");

await assert.rejects(client.responses.create({ model, input: [{ type: "item_reference", id: "msg_1" }] }), (error) => {
  assert.deepStrictEqual([error.status, error.code, error.param], [400, "invalid_value", "input[0]"]);
  return true;
});
console.log("all is well");
