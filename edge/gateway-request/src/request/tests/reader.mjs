// Reads a request in each line as JavaScript does, and prints what it takes it for.
import { readFileSync } from "node:fs";

const taken = (body) => {
  const parts = body.messages.flatMap((message) => (Array.isArray(message.content) ? message.content : []));
  const types = parts.map((part) => part.type);
  const counted = (all) => Object.fromEntries([...new Set(all)].map((one) => [one, all.filter((other) => other === one).length]));
  return {
    model: body.model,
    completion: Math.max(body.max_tokens ?? 0, body.max_completion_tokens ?? 0) * (body.n ?? 1),
    stream: body.stream === true,
    usage: body.stream === true && body.stream_options?.include_usage === true,
    store: body.store ?? false,
    tools: (body.tools ?? []).filter((tool) => (tool.type ?? "function") === "function").length,
    parts: counted(types),
    images: types.filter((type) => type === "image_url").length,
  };
};

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  console.log(JSON.stringify([taken(JSON.parse(line))]));
}
