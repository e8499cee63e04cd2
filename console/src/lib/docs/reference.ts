// The API's description, as far as the reference shows it.

import { Problem } from '#lib/api/problem.ts';
import { resource, type Resource } from '#lib/store.svelte.ts';

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;
const PATH = '/openapi.json';

export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  description: string;
}

export interface Operation {
  /** Unique on the page, and the part of the address after `#`. */
  id: string;
  method: string;
  path: string;
  tag: string;
  summary: string;
  description: string;
  parameters: Parameter[];
  /** A body to begin with, when it takes one in JSON. */
  body: string | undefined;
  answers: { status: string; description: string }[];
}

export const reference = (): Resource<Operation[]> =>
  resource(PATH, async () => {
    const answer = await fetch(`/api${PATH}`);
    const body: unknown = await answer.json().catch(() => undefined);
    if (!answer.ok) throw Problem.of(answer, body);
    return operations(body);
  });

type Json = Record<string, unknown>;
const object = (value: unknown): Json => (typeof value === 'object' && value !== null ? (value as Json) : {});
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const list = (value: unknown): unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);

/** Every operation of an OpenAPI document, in its order. */
export function operations(document: unknown): Operation[] {
  const found: Operation[] = [];
  for (const [path, item] of Object.entries(object(object(document)['paths']))) {
    for (const method of METHODS) {
      const operation = object(object(item)[method]);
      if (Object.keys(operation).length === 0) continue;
      found.push({
        id: `${method}${path.replace(/[^a-z0-9]+/gi, '-')}`,
        method: method.toUpperCase(),
        path,
        tag: text(list(operation['tags'])[0]) || 'Other',
        summary: text(operation['summary']),
        description: text(operation['description']),
        parameters: list(operation['parameters']).map(parameter),
        body: example(document, operation),
        answers: Object.entries(object(operation['responses'])).map(([status, answer]) => ({
          status,
          description: text(object(answer)['description']),
        })),
      });
    }
  }
  return found;
}

function parameter(value: unknown): Parameter {
  const found = object(value);
  const place = text(found['in']);
  return {
    name: text(found['name']),
    in: place === 'path' || place === 'header' ? place : 'query',
    required: found['required'] === true,
    description: text(found['description']),
  };
}

function example(document: unknown, operation: Json): string | undefined {
  const content = object(object(object(operation['requestBody'])['content'])['application/json']);
  if (!content['schema']) return undefined;
  return JSON.stringify(sample(document, content['schema'], 0), null, 2);
}

/** A value of the schema's shape, to be filled in. */
function sample(document: unknown, schema: unknown, depth: number): unknown {
  const found = object(schema);
  if (depth > 4) return null;
  const reference = text(found['$ref']);
  if (reference) {
    const name = reference.split('/').pop() ?? '';
    return sample(document, object(object(object(document)['components'])['schemas'])[name], depth + 1);
  }
  const either = list(found['oneOf']).concat(list(found['anyOf']));
  if (either.length > 0) return sample(document, either[0], depth + 1);
  const all = list(found['allOf']);
  if (all.length > 0)
    return Object.assign({}, ...all.map((part) => object(sample(document, part, depth + 1))));
  const values = list(found['enum']);
  if (values.length > 0) return values[0];
  const type = list(found['type'])[0] ?? found['type'];
  if (type === 'object' || found['properties']) {
    const entries = Object.entries(object(found['properties']));
    return Object.fromEntries(entries.map(([key, value]) => [key, sample(document, value, depth + 1)]));
  }
  if (type === 'array') return [];
  if (type === 'integer' || type === 'number') return 0;
  if (type === 'boolean') return false;
  return type === 'string' ? '' : null;
}

/** The address of a call with its parameters, below `/api`. */
export function address(operation: Operation, values: Record<string, string>): string {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(values[name] ?? ''),
  );
  const query = new URLSearchParams();
  for (const { name, in: place } of operation.parameters) {
    const value = values[name];
    if (place === 'query' && value) query.set(name, value);
  }
  return query.size > 0 ? `${path}?${query}` : path;
}
