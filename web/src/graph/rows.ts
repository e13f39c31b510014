import type { LayeredGraph } from './layout.ts';
import { neighbourLists } from './neighbour_lists.ts';

const SWEEPS = 6;

/** The vertical position of each node: near its neighbours, in the order of its layer, one row apart at least. */
export function assignRows(graph: LayeredGraph, order: readonly (readonly number[])[]): Float64Array {
  const { nodes, segments } = graph;
  const y = new Float64Array(nodes);
  for (const list of order) list.forEach((node, index) => (y[node] = index - (list.length - 1) / 2));
  const producers = neighbourLists(nodes, segments, 'producers');
  const consumers = neighbourLists(nodes, segments, 'consumers');
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const isForward = sweep % 2 === 0;
    const neighbours = isForward ? producers : consumers;
    for (let step = 0; step < order.length; step += 1) {
      const list = order[isForward ? step : order.length - 1 - step] ?? [];
      place(
        list,
        list.map((node) => neighbours.middle(node, y)),
        y,
      );
    }
  }
  return y;
}

/** Sets positions as near to the wished ones as the distance of one row allows: neighbours that collide form a block. */
function place(list: readonly number[], wished: readonly number[], y: Float64Array): void {
  const blocks: { sum: number; size: number }[] = [];
  for (let index = 0; index < list.length; index += 1) {
    // Relative to its index, each wish is comparable: a block has one offset for all its members.
    let block = { sum: (wished[index] ?? 0) - index, size: 1 };
    for (let last = blocks.at(-1); last && last.sum / last.size > block.sum / block.size; last = blocks.at(-1)) {
      blocks.pop();
      block = { sum: block.sum + last.sum, size: block.size + last.size };
    }
    blocks.push(block);
  }
  let index = 0;
  for (const { sum, size } of blocks) {
    for (let member = 0; member < size; member += 1, index += 1) {
      const node = list[index];
      if (node !== undefined) y[node] = sum / size + index;
    }
  }
}
