// The Vercel AI SDK, in the versions that SDK and PROVIDER name, at a gateway whose provider streams in odd ways. What came of each
// stream is printed.
const { streamText } = await import(process.env.SDK);
const { createOpenAICompatible } = await import(process.env.PROVIDER);

const svc = createOpenAICompatible({ name: "svc", baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, includeUsage: true });
const codeOf = (error) => (error.responseBody ? JSON.parse(error.responseBody).error.code : String(error.message ?? error));
const heard = [];
for (let count = Number(process.env.COUNT); count > 0; count--) {
  let words = "", tokens = null, error = null;
  const result = streamText({ model: svc("svc/gpt-oss-20b"), prompt: "hello", maxRetries: 0, onError() {} });
  try {
    for await (const part of result.fullStream) {
      if (part.type === "text-delta") words += part.text;
      if (part.type === "finish") tokens = part.totalUsage.outputTokens;
      if (part.type === "error") error ??= codeOf(part.error);
    }
  } catch (thrown) {
    error ??= codeOf(thrown);
  }
  heard.push({ words, tokens, error });
}
console.log(JSON.stringify({ heard }));
