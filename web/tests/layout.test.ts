import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Edge, layOut } from '../src/graph/layout.ts';

const chain = (count: number): Edge[] => Array.from({ length: count - 1 }, (_, at) => ({ from: at, to: at + 1 }));

test('producers are to the left of consumers', () => {
  const edges = [
    { from: 0, to: 1 },
    { from: 0, to: 2 },
    { from: 1, to: 3 },
    { from: 2, to: 3 },
    { from: 0, to: 3 },
  ];
  const { x, layers, bends } = layOut(4, edges);
  assert.deepEqual([...x], [0, 1, 1, 2]);
  assert.equal(layers, 3);
  assert.equal(bends[4]?.length, 2, 'the edge that crosses a layer has one bend');
});

test('a weight is next to the call that uses it', () => {
  const { x } = layOut(5, [
    { from: 0, to: 1 },
    { from: 1, to: 2 },
    { from: 2, to: 4 },
    { from: 3, to: 4 },
  ]);
  assert.equal(x[3], 2);
});

test('an edge against the order of execution does not break the layers', () => {
  const { x, bends } = layOut(3, [...chain(3), { from: 2, to: 0 }, { from: 1, to: 1 }]);
  assert.deepEqual([...x], [0, 1, 2]);
  assert.equal(bends[2]?.[0], 1);
  assert.equal(bends[3]?.length, 0);
});

test('no two nodes of a layer are at the same place', () => {
  const edges: Edge[] = [];
  for (let to = 1; to < 300; to += 1) {
    edges.push({ from: (to * 7) % to, to });
    edges.push({ from: (to * 13) % to, to });
  }
  const { x, y } = layOut(300, edges);
  const rows = new Map<number, number[]>();
  x.forEach((layer, node) => rows.set(layer, [...(rows.get(layer) ?? []), y[node] ?? 0]));
  for (const list of rows.values()) {
    list.sort((a, b) => a - b);
    list.slice(1).forEach((at, index) => assert.ok(at - (list[index] ?? 0) >= 1 - 1e-9));
  }
});

test('a straight chain is drawn straight', () => {
  const { y } = layOut(40, chain(40));
  assert.ok(y.every((row) => row === 0));
});

for (const count of [2_000, 100_000]) {
  test(`a chain of ${count} calls with an edge from its first to its last`, () => {
    const start = performance.now();
    const { x, layers } = layOut(count, [...chain(count), { from: 0, to: count - 1 }]);
    console.log(`layout of ${count} nodes: ${(performance.now() - start).toFixed(0)} ms`);
    assert.equal(layers, count);
    assert.equal(x[count - 1], count - 1);
  });
}
