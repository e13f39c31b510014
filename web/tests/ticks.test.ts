import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logarithmicTicks } from '../src/chart/ticks.ts';

const values = (low: number, high: number) =>
  logarithmicTicks(Math.log10(low), Math.log10(high)).map((at) => Number((10 ** at).toPrecision(6)));

test('several decades have whole powers of ten', () => {
  assert.deepEqual(values(2e-9, 0.5), [1e-8, 1e-6, 1e-4, 0.01]);
});

test('few decades have 1, 2 and 5 of each', () => {
  assert.deepEqual(values(0.9, 60), [1, 2, 5, 10, 20, 50]);
});

test('a narrow range has round numbers, and never too few to read a value', () => {
  assert.deepEqual(values(2.6, 3.2), [2.6, 2.8, 3, 3.2]);
  for (const [low, high] of [
    [1, 1.01],
    [0.004, 0.0043],
    [123, 150],
    [1e-9, 1.9e-9],
    [7, 700],
  ] as const)
    assert.ok(values(low, high).length >= 2, `${low} to ${high}: ${values(low, high)}`);
});

test('a single value has one tick', () => {
  assert.deepEqual(logarithmicTicks(2, 2), [2]);
});
