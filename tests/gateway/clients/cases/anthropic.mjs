const tools = [{ name: "get_weather", input_schema: PARAMETERS }];
const asked = (model, content, more = {}) => ({ model, max_tokens: 1000, messages: [{ role: "user", content }], ...more });
const used = (...messages) => sum(messages.map(({ usage }) => [
  usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0), usage.output_tokens]));
const text = ({ content }) => content.filter(({ type }) => type === "text").map(({ text }) => text).join("");
const calls = ({ content }) => content.filter(({ type }) => type === "tool_use");
const called = (message) => {
  const [{ name, input }] = calls(message);
  return said({ call: [name, input], usage: used(message) });
};
const plain = async ({ client }, model, words = HELLO) => {
  const message = await client.messages.create(asked(model, words));
  return said({ words: text(message), usage: used(message) });
};

await drive({
  plain,
  streamed: async ({ client }, model) => {
    let words = "";
    const stream = client.messages.stream(asked(model, HELLO)).on("text", (piece) => (words += piece));
    return said({ usage: used(await stream.finalMessage()), words });
  },
  tools: async ({ client }, model) => called(await client.messages.create(asked(model, WEATHER, { tools }))),
  streamed_tools: async ({ client }, model) =>
    called(await client.messages.stream(asked(model, WEATHER, { tools })).finalMessage()),
  turns: async ({ client }, model) => {
    const request = asked(model, WEATHER, { tools }), answers = [], words = [];
    for (let turn = 0; turn < 3; turn++) {
      const message = await client.messages.create(request);
      answers.push(message);
      const results = calls(message).map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "sunny" }));
      if (!results.length) words.push(text(message));
      request.messages.push({ role: "assistant", content: message.content },
        { role: "user", content: results.length ? results : HELLO });
    }
    return said({ words: words.join(" "), usage: used(...answers) });
  },
  structured: async ({ client }, model) => {
    const output_config = { format: { type: "json_schema", schema: CITY } };
    const message = await client.messages.create(asked(model, DESCRIBE, { output_config }));
    return said({ value: JSON.parse(text(message)), usage: used(message) });
  },
  cancelled: async ({ client }, model) => {
    const stream = await client.messages.create(asked(model, STORY, { stream: true }));
    for await (const event of stream) {
      if (event.delta?.type === "text_delta" && event.delta.text) {
        stream.controller.abort();
        return said({ words: event.delta.text.trim() });
      }
    }
  },
  refused: (variables, model) => plain(variables, model, "Refuse this."),
  overflow: (variables, model) => plain(variables, model, "Overflow."),
}, ({ status, error }) => ({ status, code: error.error.type, message: error.error.message }));
