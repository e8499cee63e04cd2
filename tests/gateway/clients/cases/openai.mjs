const tools = [{ type: "function", function: { name: "get_weather", parameters: PARAMETERS } }];
const user = (content) => ({ role: "user", content });
const used = (...completions) => sum(completions.map(({ usage }) => [usage.prompt_tokens, usage.completion_tokens]));
const call = (completion) => {
  const [{ function: { name, arguments: text } }] = completion.choices[0].message.tool_calls;
  return [name, JSON.parse(text)];
};
const plain = async ({ client }, model, words = HELLO) => {
  const completion = await client.chat.completions.create({ model, messages: [user(words)] });
  return said({ words: completion.choices[0].message.content, usage: used(completion) });
};

await drive({
  plain,
  streamed: async ({ client }, model) => {
    let words = "", last;
    for await (const chunk of await client.chat.completions.create({ model, messages: [user(HELLO)], stream: true })) {
      words += chunk.choices[0]?.delta.content ?? "";
      last = chunk;
    }
    return said({ words, usage: used(last) });
  },
  tools: async ({ client }, model) => {
    const completion = await client.chat.completions.create({ model, messages: [user(WEATHER)], tools });
    return said({ call: call(completion), usage: used(completion) });
  },
  streamed_tools: async ({ client }, model) => {
    const stream = client.chat.completions.stream({ model, messages: [user(WEATHER)], tools });
    const completion = await stream.finalChatCompletion();
    return said({ call: call(completion), usage: used({ usage: await stream.totalUsage() }) });
  },
  turns: async ({ client }, model) => {
    const messages = [user(WEATHER)], completions = [], words = [];
    for (let turn = 0; turn < 3; turn++) {
      const completion = await client.chat.completions.create({ model, messages, tools });
      const { message } = completion.choices[0];
      completions.push(completion);
      messages.push(message, ...(message.tool_calls ?? []).map(({ id }) => ({ role: "tool", tool_call_id: id, content: "sunny" })));
      if (!message.tool_calls?.length) messages.push(user(HELLO)), words.push(message.content);
    }
    return said({ words: words.join(" "), usage: used(...completions) });
  },
  structured: async ({ client }, model) => {
    const response_format = { type: "json_schema", json_schema: { name: "City", strict: true, schema: CITY } };
    const completion = await client.chat.completions.parse({ model, messages: [user(DESCRIBE)], response_format });
    return said({ value: JSON.parse(completion.choices[0].message.content), usage: used(completion) });
  },
  cancelled: async ({ client }, model) => {
    const stream = await client.chat.completions.create({ model, messages: [user(STORY)], stream: true });
    for await (const chunk of stream) {
      const words = chunk.choices[0]?.delta.content;
      if (words) {
        stream.controller.abort();
        return said({ words: words.trim() });
      }
    }
  },
  refused: (variables, model) => plain(variables, model, "Refuse this."),
  overflow: (variables, model) => plain(variables, model, "Overflow."),
}, ({ status, code }) => ({ status, code }));
