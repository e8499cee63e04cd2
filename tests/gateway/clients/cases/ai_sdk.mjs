import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";

const tools = { get_weather: tool({ inputSchema: jsonSchema(PARAMETERS), execute: () => "sunny" }) };
const used = ({ inputTokens, outputTokens }) => [inputTokens, outputTokens];
const call = ([{ toolName, input }]) => [toolName, input];
const plain = async ({ model, providerOptions }, _, prompt = HELLO) => {
  const { text, usage } = await generateText({ model, providerOptions, prompt });
  return said({ words: text, usage: used(usage) });
};

await drive({
  plain,
  streamed: async ({ model, providerOptions }) => {
    const stream = streamText({ model, providerOptions, prompt: HELLO });
    let words = "";
    for await (const word of stream.textStream) words += word;
    return said({ words, usage: used(await stream.usage) });
  },
  tools: async ({ model, providerOptions }) => {
    const { toolCalls, usage } = await generateText({ model, providerOptions, prompt: WEATHER, tools });
    return said({ call: call(toolCalls), usage: used(usage) });
  },
  streamed_tools: async ({ model, providerOptions }) => {
    const stream = streamText({ model, providerOptions, prompt: WEATHER, tools });
    return said({ call: call(await stream.toolCalls), usage: used(await stream.usage) });
  },
  turns: async ({ model, providerOptions }) => {
    const messages = [{ role: "user", content: WEATHER }];
    const first = await generateText({ model, providerOptions, messages, tools, stopWhen: stepCountIs(2) });
    messages.push(...first.response.messages, { role: "user", content: HELLO });
    const second = await generateText({ model, providerOptions, messages, tools });
    const usage = sum([...first.steps, ...second.steps].map(({ usage }) => used(usage)));
    return said({ words: `${first.text} ${second.text}`, usage });
  },
  structured: async ({ model, providerOptions }) => {
    const output = Output.object({ schema: jsonSchema(CITY) });
    const result = await generateText({ model, providerOptions, prompt: DESCRIBE, output, experimental_output: output });
    return said({ value: JSON.parse(result.text), usage: used(result.usage) });
  },
  cancelled: async ({ model, providerOptions }) => {
    const leaving = new AbortController();
    const stream = streamText({ model, providerOptions, prompt: STORY, abortSignal: leaving.signal, onError() {} });
    for await (const part of stream.fullStream) {
      if (part.type === "text-delta" && part.text) {
        leaving.abort();
        return said({ words: part.text.trim() });
      }
    }
  },
  refused: (variables, model) => plain(variables, model, "Refuse this."),
  overflow: (variables, model) => plain(variables, model, "Overflow."),
}, ({ statusCode, responseBody }) => ({ status: statusCode, code: JSON.parse(responseBody).error.code }));
