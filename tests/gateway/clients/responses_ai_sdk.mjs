// The Vercel AI SDK's provider for OpenAI, which asks for responses, at the gateway.
import assert from "node:assert";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

const openai = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY });
const model = openai.responses("svc/gpt-oss-20b");
const providerOptions = { openai: { store: false } };

const whole = await generateText({ model, providerOptions, prompt: "hello", maxOutputTokens: 100 });
assert.strictEqual(whole.text, "Hello from the mock!");
assert(whole.usage.totalTokens > 0);

const stream = streamText({ model, providerOptions, prompt: "hello" });
let words = "";
for await (const word of stream.textStream) words += word;
assert.strictEqual(words, "Hello from the mock!");
assert((await stream.usage).totalTokens > 0);
assert.strictEqual(await stream.finishReason, "stop");

// Two turns: the second has what came back.
const cities = [];
const tools = { get_weather: tool({
  inputSchema: jsonSchema({ type: "object", properties: { city: { type: "string" } } }),
  execute: ({ city }) => { cities.push(city); return "Rain."; } }) };
for (const result of [
  await generateText({ model, providerOptions, prompt: "What is the weather?", tools }),
  streamText({ model, providerOptions, prompt: "What is the weather?", tools }),
]) {
  const [call] = await result.toolCalls;
  assert.deepStrictEqual([call.toolName, call.input], ["get_weather", { city: "Zürich" }]);
}
const turns = await generateText({ model, providerOptions, prompt: "What is the weather?", tools, stopWhen: stepCountIs(2) });
assert.strictEqual(turns.steps.length, 2);
assert(cities.length >= 3 && cities.every((city) => city === "Zürich"), cities);
console.log("all is well");
