// openai-node at the gateway: embeddings and completions of prompts, with models of several providers.
import assert from "node:assert";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY });
const embedders = JSON.parse(process.env.EMBEDDERS), fillers = JSON.parse(process.env.FILLERS);

for (const model of embedders) {
  // It asks for base64 by itself, and decodes whatever comes.
  for (const extra of [{}, { encoding_format: "float" }]) {
    const answer = await client.embeddings.create({ model, input: ["a", "b"], user: "u", ...extra });
    assert.strictEqual(answer.usage.prompt_tokens, 6);
    assert.deepStrictEqual(answer.data.map((one) => Array.from(one.embedding)),
      [[0, -0.25, -0.25, -0.25], [1, -0.25, -0.25, -0.25]]);
  }
  assert.strictEqual((await client.embeddings.create({ model, input: "a", dimensions: 8 })).data[0].embedding.length, 8);
}

for (const model of fillers) {
  const request = { model, prompt: "def f(n):\n    ", suffix: "\n\nprint(f(2))", max_tokens: 32 };
  const answer = await client.completions.create(request);
  assert.deepStrictEqual([answer.object, answer.model, answer.choices[0].text], ["text_completion", model, "return n - 1"]);
  assert.strictEqual(answer.usage.total_tokens, 8);
  let text = "", usage;
  for await (const chunk of await client.completions.create({ ...request, stream: true })) {
    assert.strictEqual(chunk.object, "text_completion");
    text += chunk.choices.map((choice) => choice.text).join("");
    usage = chunk.usage ?? usage;
  }
  assert.deepStrictEqual([text, usage.total_tokens], ["return n - 1", 8]);
}

console.log("all is well");
