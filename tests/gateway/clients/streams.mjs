// openai-node, in the version that SDK names, at a gateway whose provider streams in odd ways. What came of each stream is printed.
const { default: OpenAI } = await import(process.env.SDK);

const request = { model: "svc/gpt-oss-20b", messages: [{ role: "user", content: "hello" }], stream: true };
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0 });
const heard = [];
for (let count = Number(process.env.COUNT); count > 0; count--) {
  let words = "", tokens = null, error = null;
  try {
    for await (const chunk of await client.chat.completions.create(request)) {
      words += chunk.choices[0]?.delta.content ?? "";
      tokens = chunk.usage?.completion_tokens ?? tokens;
    }
  } catch (thrown) {
    error = thrown.code ?? thrown.error?.code ?? String(thrown);
  }
  heard.push({ words, tokens, error });
}
console.log(JSON.stringify({ heard }));
