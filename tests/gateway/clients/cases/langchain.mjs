import { HumanMessage, ToolMessage } from "@langchain/core/messages";

const tools = [{ type: "function", function: { name: "get_weather", description: "The weather", parameters: PARAMETERS } }];
const used = (...messages) => sum(messages.map(({ usage_metadata: usage }) => [usage.input_tokens, usage.output_tokens]));
const called = (message) => said({ call: [message.tool_calls[0].name, message.tool_calls[0].args], usage: used(message) });
const whole = async (stream) => {
  let message;
  for await (const chunk of stream) message = message ? message.concat(chunk) : chunk;
  return message;
};
const plain = async ({ llm }, _, words = HELLO) => {
  const message = await llm.invoke(words);
  return said({ words: message.content, usage: used(message) });
};

await drive({
  plain,
  streamed: async ({ llm }) => {
    const message = await whole(await llm.stream(HELLO));
    return said({ words: message.content, usage: used(message) });
  },
  tools: async ({ llm }) => called(await llm.bindTools(tools).invoke(WEATHER)),
  streamed_tools: async ({ llm }) => called(await whole(await llm.bindTools(tools).stream(WEATHER))),
  turns: async ({ llm }) => {
    const messages = [new HumanMessage(WEATHER)], answers = [], words = [];
    for (let turn = 0; turn < 3; turn++) {
      const answer = await llm.bindTools(tools).invoke(messages);
      answers.push(answer);
      messages.push(answer, ...answer.tool_calls.map(({ id }) => new ToolMessage({ content: "sunny", tool_call_id: id })));
      if (!answer.tool_calls.length) messages.push(new HumanMessage(HELLO)), words.push(answer.content);
    }
    return said({ words: words.join(" "), usage: used(...answers) });
  },
  structured: async ({ llm }) => {
    const { parsed, raw } = await llm.withStructuredOutput(CITY, { name: "City", includeRaw: true }).invoke(DESCRIBE);
    return said({ value: parsed, usage: used(raw) });
  },
  cancelled: async ({ llm }) => {
    const leaving = new AbortController();
    for await (const chunk of await llm.stream(STORY, { signal: leaving.signal })) {
      if (chunk.content) {
        leaving.abort();
        return said({ words: chunk.content.trim() });
      }
    }
  },
  refused: (variables, model) => plain(variables, model, "Refuse this."),
  overflow: (variables, model) => plain(variables, model, "Overflow."),
  // Its own error of a prompt that is too long has the SDK's as its cause.
}, (thrown) => {
  const { status, code } = thrown.cause ?? thrown;
  return { status, code };
});
