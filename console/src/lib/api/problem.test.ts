import { expect, test } from 'vitest';
import { Problem } from './problem.ts';

test('nobody is told to read a header', () => {
  const body = {
    error: {
      code: 'rate_limit_exceeded',
      message: 'Too many requests; wait as long as Retry-After says, then go on.',
    },
  };
  const refused = (seconds: string) =>
    Problem.of(new Response(null, { status: 429, headers: { 'Retry-After': seconds } }), body).message;
  expect(refused('40')).toBe('The server is busy. Try again in 40 seconds.');
  expect(refused('600')).toBe('The server is busy. Try again in 10 minutes.');
  expect(refused('1')).toBe('The server is busy. Try again in a moment.');
});

test('an answer of whatever form says what it can', () => {
  expect(Problem.of(new Response(null, { status: 502 }), undefined).message).toContain('502');
});
