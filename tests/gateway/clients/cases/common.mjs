// Asks each model for each case, and prints a line of JSON for each: what the client made of the answer. `configured` has the
// configuration that the document shows, for a model. A driver calls `drive` with its cases, functions of that configuration and of the
// model which return `said(…)`.
const HELLO = "Say hello.";
const WEATHER = "What is the weather in Paris?";
const DESCRIBE = "Describe Paris.";
const STORY = "Tell a long story.";
const PARAMETERS = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const CITY = { type: "object", properties: { city: { type: "string" }, rivers: { type: "integer" } }, required: ["city", "rivers"],
  additionalProperties: false };

// What a case comes to; `usage` is the tokens of the prompts and of the answers, of all its requests together.
const said = ({ words = "", call = null, usage = null, value = null }) => ({ words, call, usage, value });
const sum = (pairs) => pairs.reduce(([a, b], [c, d]) => [a + c, b + d]);

const drive = async (cases, fault) => {
  for (const model of process.env.MODELS.split(" ")) {
    const variables = configured(model);
    for (const [name, ask] of Object.entries(cases)) {
      let result;
      try {
        result = await ask(variables, model);
      } catch (thrown) {
        result = { error: { class: thrown.constructor.name, ...fault(thrown) } };
      }
      console.log(JSON.stringify({ model, case: name, ...result }));
    }
  }
};
