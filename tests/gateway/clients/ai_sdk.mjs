// The Vercel AI SDK at the gateway: what its users do, and what it makes of errors.
import assert from "node:assert";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";

const provider = (apiKey) => createOpenAICompatible({ name: "svc", baseURL: process.env.BASE_URL, apiKey });
const svc = provider(process.env.API_KEY);
const model = svc("svc/gpt-oss-20b");

const whole = await generateText({ model, prompt: "hello", maxOutputTokens: 100 });
assert.strictEqual(whole.text, "Hello from the mock!");
assert(whole.usage.totalTokens > 0);
assert.strictEqual(whole.response.modelId, "svc/gpt-oss-20b");

const stream = streamText({ model, prompt: "hello" });
let words = "";
for await (const word of stream.textStream) words += word;
assert.strictEqual(words, "Hello from the mock!");
assert((await stream.usage).totalTokens > 0);
assert.strictEqual(await stream.finishReason, "stop");

const tools = { get_weather: tool({ inputSchema: jsonSchema({
  type: "object", properties: { city: { type: "string" } } }) }) };
for (const result of [
  await generateText({ model, prompt: "What is the weather?", tools }),
  streamText({ model, prompt: "What is the weather?", tools }),
]) {
  const [call] = await result.toolCalls;
  assert.deepStrictEqual([call.toolName, call.input], ["get_weather", { city: "Zürich" }]);
}

const fails = (model, status, code) =>
  assert.rejects(generateText({ model, prompt: "hello" }), (error) => {
    assert.deepStrictEqual([error.statusCode, JSON.parse(error.responseBody).error.code], [status, code]);
    return true;
  });
await fails(svc("gpt-4o"), 404, "model_not_found");
await fails(provider(process.env.CLI_TOKEN)("svc/gpt-oss-20b"), 401, "invalid_api_key");
console.log("all is well");
