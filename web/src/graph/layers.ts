import type { Edge } from './layout.ts';

/**
 * The layer of each node: one more than the last of its producers. A node without producers is moved to the layer
 * before its first consumer, so that a weight is next to the call that uses it.
 */
export function assignLayers(count: number, edges: readonly Edge[]): Int32Array {
  const layer = new Int32Array(count);
  const hasProducer = new Uint8Array(count);
  // In execution order, all edges into a node are handled before those out of it.
  const byStart = edges.toSorted((a, b) => a.from - b.from);
  for (const { from, to } of byStart) {
    hasProducer[to] = 1;
    layer[to] = Math.max(layer[to] ?? 0, (layer[from] ?? 0) + 1);
  }
  const firstConsumer = new Int32Array(count).fill(-1);
  for (const { from, to } of byStart) {
    const at = layer[to] ?? 0;
    const known = firstConsumer[from] ?? -1;
    if (known < 0 || at < known) firstConsumer[from] = at;
  }
  for (let node = 0; node < count; node += 1) {
    const consumer = firstConsumer[node] ?? -1;
    if (!hasProducer[node] && consumer > 0) layer[node] = consumer - 1;
  }
  return layer;
}
