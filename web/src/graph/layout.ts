/**
 * Places the calls of a data flow in layers from left to right: producers before consumers.
 *
 * The layered algorithm is the usual one: layers by longest path, bends for edges that cross layers, order within a
 * layer by barycentres, then positions. Every step is a loop over arrays, so a chain of any length can be placed.
 */
import { assignLayers } from './layers.ts';
import { orderWithinLayers } from './order.ts';
import { assignRows } from './rows.ts';

export interface Edge {
  readonly from: number;
  readonly to: number;
}

/** Where everything is, in units of layers (x) and rows (y). */
export interface Layout {
  readonly x: Float64Array;
  readonly y: Float64Array;
  /** For each edge the points between its ends, as x and y in turn. */
  readonly bends: readonly Float64Array[];
  readonly layers: number;
  readonly top: number;
  readonly bottom: number;
}

/** A graph without cycles: node numbers in execution order, every edge from a lower to a higher number. */
export interface LayeredGraph {
  readonly nodes: number;
  readonly layer: Int32Array;
  readonly segments: readonly Edge[];
}

/** More bends than this would cost more time than they add to the drawing. */
const MAX_BENDS = 50_000;

/**
 * Places `count` nodes, numbered in execution order. An edge against that order is placed as if it were reversed.
 */
export function layOut(count: number, edges: readonly Edge[]): Layout {
  const forward = edges.map(({ from, to }) => (from <= to ? { from, to } : { from: to, to: from }));
  const proper = forward.filter(({ from, to }) => from !== to);
  const layer = assignLayers(count, proper);

  let crossed = 0;
  for (const { from, to } of proper) crossed += (layer[to] ?? 0) - (layer[from] ?? 0) - 1;
  const bendsAllowed = crossed <= MAX_BENDS;
  const total = count + (bendsAllowed ? crossed : 0);
  const layers = new Int32Array(total);
  layers.set(layer);
  const segments: Edge[] = [];
  const bendNodes: number[][] = [];
  let next = count;
  for (const { from, to } of forward) {
    const through: number[] = [];
    if (from !== to) {
      let previous = from;
      const last = layer[to] ?? 0;
      if (bendsAllowed) {
        for (let at = (layer[from] ?? 0) + 1; at < last; at += 1) {
          layers[next] = at;
          through.push(next);
          segments.push({ from: previous, to: next });
          previous = next;
          next += 1;
        }
        segments.push({ from: previous, to });
      } else if (last - (layer[from] ?? 0) === 1) segments.push({ from, to });
    }
    bendNodes.push(through);
  }

  const graph: LayeredGraph = { nodes: total, layer: layers, segments };
  const order = orderWithinLayers(graph);
  const y = assignRows(graph, order);
  const bends = bendNodes.map((through, index) => {
    const isReversed = (edges[index]?.from ?? 0) > (edges[index]?.to ?? 0);
    const ordered = isReversed ? through.toReversed() : through;
    return Float64Array.from(ordered.flatMap((node) => [layers[node] ?? 0, y[node] ?? 0]));
  });
  let top = 0;
  let bottom = 0;
  for (let node = 0; node < total; node += 1) {
    top = Math.min(top, y[node] ?? 0);
    bottom = Math.max(bottom, y[node] ?? 0);
  }
  return { x: Float64Array.from(layer), y: y.slice(0, count), bends, layers: order.length, top, bottom };
}
