import type { Edge } from './layout.ts';

/** The neighbours of every node on one side, in one array. */
export interface NeighbourLists {
  /** The mean position of the neighbours of a node; its own where it has none. */
  middle(node: number, position: Float64Array): number;
  count(node: number): number;
}

export function neighbourLists(nodes: number, edges: readonly Edge[], side: 'producers' | 'consumers'): NeighbourLists {
  const start = new Int32Array(nodes + 1);
  const own = (edge: Edge) => (side === 'producers' ? edge.to : edge.from);
  const other = (edge: Edge) => (side === 'producers' ? edge.from : edge.to);
  for (const edge of edges) start[own(edge) + 1] = (start[own(edge) + 1] ?? 0) + 1;
  for (let node = 0; node < nodes; node += 1) start[node + 1] = (start[node + 1] ?? 0) + (start[node] ?? 0);
  const filled = start.slice();
  const list = new Int32Array(edges.length);
  for (const edge of edges) {
    const place = filled[own(edge)] ?? 0;
    list[place] = other(edge);
    filled[own(edge)] = place + 1;
  }
  return {
    count: (node) => (start[node + 1] ?? 0) - (start[node] ?? 0),
    middle(node, position) {
      const from = start[node] ?? 0;
      const to = start[node + 1] ?? 0;
      if (from === to) return position[node] ?? 0;
      let sum = 0;
      for (let at = from; at < to; at += 1) sum += position[list[at] ?? 0] ?? 0;
      return sum / (to - from);
    },
  };
}
