import type { LayeredGraph } from './layout.ts';
import { neighbourLists } from './neighbour_lists.ts';

const SWEEPS = 8;

/** The nodes of each layer from top to bottom, with few crossings: each node goes to the middle of its neighbours. */
export function orderWithinLayers(graph: LayeredGraph): number[][] {
  const { nodes, layer, segments } = graph;
  const order: number[][] = [];
  for (let node = 0; node < nodes; node += 1) {
    const at = layer[node] ?? 0;
    while (order.length <= at) order.push([]);
    order[at]?.push(node);
  }
  const producers = neighbourLists(nodes, segments, 'producers');
  const consumers = neighbourLists(nodes, segments, 'consumers');
  const position = new Float64Array(nodes);
  const number = (list: readonly number[]) => list.forEach((node, index) => (position[node] = index));
  order.forEach(number);

  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const isForward = sweep % 2 === 0;
    const neighbours = isForward ? producers : consumers;
    for (let step = 0; step < order.length; step += 1) {
      const list = order[isForward ? step : order.length - 1 - step];
      if (!list || list.length < 2) continue;
      const middle = new Map(list.map((node) => [node, neighbours.middle(node, position)]));
      list.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0) || (position[a] ?? 0) - (position[b] ?? 0));
      number(list);
    }
  }
  return order;
}
