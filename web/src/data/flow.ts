/** Who feeds whom, by call: the neighbours of a call and what no recorded call produced. */
import type { FlowSide } from '../payload.ts';

export interface FlowEdge {
  readonly from: number;
  readonly to: number;
  /** Entries at either end: `output.0`, `input.1`. */
  readonly out: string;
  readonly into: string;
}

export interface FlowOrigin {
  readonly to: number;
  readonly into: string;
  readonly name: string;
}

export class FlowIndex {
  readonly #side: FlowSide;
  readonly #into: Map<number, number[]>;
  readonly #out: Map<number, number[]>;
  readonly #origins: Map<number, number[]>;

  constructor(side: FlowSide) {
    this.#side = side;
    this.#into = numbersBy(side.to);
    this.#out = numbersBy(side.from);
    this.#origins = numbersBy(side.origins.to);
  }

  producers(call: number): FlowEdge[] {
    return (this.#into.get(call) ?? []).map((edge) => this.#edge(edge));
  }

  consumers(call: number): FlowEdge[] {
    return (this.#out.get(call) ?? []).map((edge) => this.#edge(edge));
  }

  origins(call: number): FlowOrigin[] {
    const { origins, names } = this.#side;
    return (this.#origins.get(call) ?? []).map((index) => ({
      to: call,
      into: names[origins.into[index] ?? -1] ?? '',
      name: names[origins.name[index] ?? -1] ?? '',
    }));
  }

  #edge(index: number): FlowEdge {
    const { from, to, out, into, names } = this.#side;
    return {
      from: from[index] ?? 0,
      to: to[index] ?? 0,
      out: names[out[index] ?? -1] ?? '',
      into: names[into[index] ?? -1] ?? '',
    };
  }
}

function numbersBy(keys: readonly number[]): Map<number, number[]> {
  const found = new Map<number, number[]>();
  keys.forEach((key, index) => {
    const list = found.get(key);
    if (list) list.push(index);
    else found.set(key, [index]);
  });
  return found;
}
