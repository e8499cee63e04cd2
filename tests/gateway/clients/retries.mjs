// openai-node at a gateway whose provider fails first, or half-way. What happened is printed.
import OpenAI from "openai";

const request = { model: "svc/gpt-oss-20b", messages: [{ role: "user", content: "hello" }] };
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY });
if (process.env.CASE === "first") {
  const began = performance.now();
  const completion = await client.chat.completions.create(request);
  const waited = (performance.now() - began) / 1000;
  console.log(JSON.stringify({ words: completion.choices[0].message.content, waited }));
} else {
  let words = "", error = null, message;
  try {
    for await (const chunk of await client.chat.completions.create({ ...request, stream: true }))
      words += chunk.choices[0]?.delta.content ?? "";
  } catch (thrown) {
    error = thrown.code ?? thrown.error?.code;
    message = thrown.message;
  }
  console.log(JSON.stringify({ words, error, message }));
}
