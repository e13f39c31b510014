/** The calls around one: who fed it, who consumes its results, up to a distance. */
import type { FlowIndex } from '../data/flow.ts';
import { type Edge, layOut, type Layout } from './layout.ts';

export interface Node {
  /** A call, or null for what no recorded call produced. */
  readonly call: number | null;
  /** The name of a parameter, a buffer or another origin. */
  readonly origin: string | null;
  /** Neighbours that are not drawn. */
  hiddenProducers: number;
  hiddenConsumers: number;
}

export interface Neighbourhood {
  readonly nodes: readonly Node[];
  readonly edges: readonly Edge[];
  readonly layout: Layout;
  /** The node of the call in the middle. */
  readonly centre: number;
}

/** More than this cannot be read; what is left out is counted at its neighbours. */
const MAX_NODES = 160;

export function neighbourhoodOf(flow: FlowIndex, centre: number, distance: number): Neighbourhood {
  const calls = around(flow, centre, distance);
  const order = [...calls].sort((a, b) => a - b);
  const nodes: Node[] = [];
  const edges: Edge[] = [];
  const origins = new Map<number, { name: string; node: number }[]>();
  const numberOf = new Map<number, number>();
  // Origins come before the calls that use them, so that every edge leads forward.
  for (const call of order) {
    const own: { name: string; node: number }[] = [];
    for (const { name } of call === centre ? flow.origins(call) : []) {
      if (nodes.length >= 2 * MAX_NODES || own.some((one) => one.name === name)) continue;
      own.push({ name, node: nodes.length });
      nodes.push({ call: null, origin: name, hiddenProducers: 0, hiddenConsumers: 0 });
    }
    origins.set(call, own);
    numberOf.set(call, nodes.length);
    nodes.push({ call, origin: null, hiddenProducers: 0, hiddenConsumers: 0 });
  }
  for (const call of order) {
    const to = numberOf.get(call) ?? 0;
    const node = nodes[to];
    for (const { node: from } of origins.get(call) ?? []) edges.push({ from, to });
    const producers = new Set(flow.producers(call).map((edge) => edge.from));
    for (const producer of producers) {
      const from = numberOf.get(producer);
      if (from !== undefined) edges.push({ from, to });
      else if (node) node.hiddenProducers += 1;
    }
    const consumers = new Set(flow.consumers(call).map((edge) => edge.to));
    if (node) for (const consumer of consumers) if (!numberOf.has(consumer)) node.hiddenConsumers += 1;
  }
  return { nodes, edges, layout: layOut(nodes.length, edges), centre: numberOf.get(centre) ?? 0 };
}

/** Breadth first in both directions, so that the nearest are kept when there are too many. */
function around(flow: FlowIndex, centre: number, distance: number): Set<number> {
  const found = new Set([centre]);
  let border = [centre];
  for (let step = 0; step < distance && border.length > 0; step += 1) {
    const next: number[] = [];
    for (const call of border) {
      const neighbours = [
        ...flow.producers(call).map((edge) => edge.from),
        ...flow.consumers(call).map((edge) => edge.to),
      ];
      for (const one of neighbours) {
        if (found.size >= MAX_NODES) return found;
        if (found.has(one)) continue;
        found.add(one);
        next.push(one);
      }
    }
    border = next;
  }
  return found;
}
