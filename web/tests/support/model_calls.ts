/** The calls of a made-up transformer, and who feeds whom. */
import type { FlowSide } from '../../src/payload.ts';

export interface CallRecord {
  name: string;
  op: string;
  path: string;
  pass: string;
  class: string;
  error: number | null;
  expected: number | null;
  side: 'both' | 'target' | 'golden';
  region: number | null;
  inputs: number[];
  parameters: string[];
  row: number;
}

export const OPS = [
  'layer_norm',
  'linear',
  'scaled_dot_product_attention',
  'add',
  'layer_norm',
  'linear',
  'gelu',
  'linear',
  'add',
];

/** Numbers that are the same in every run of the tests. */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function makeCalls(
  layers: number,
  faulty: number | null,
  modules: readonly string[],
  seed: number,
): CallRecord[] {
  const random = randomNumbers(seed);
  const calls: CallRecord[] = [];
  const push = (name: string, op: string, path: string, pass: string, inputs: number[], parameters: string[] = []) => {
    const at = calls.length;
    const inherited = inputs.some((input) => ['inherited', 'diverged here'].includes(calls[input]?.class ?? ''));
    const noise = random() < 0.25 ? 0 : 10 ** (-7.4 + random());
    const expected = 10 ** (-6.2 + random() * 0.4);
    calls.push({
      name,
      op,
      path,
      pass,
      inputs,
      parameters,
      side: 'both',
      region: null,
      row: 0,
      class: inherited ? 'inherited' : noise === 0 ? 'equal' : 'noise',
      error: inherited ? 10 ** (-3 + random() * 0.8) : noise,
      expected: inherited ? 10 ** (-2 + random() * 0.3) : expected,
    });
    return at;
  };
  let last = push('Functional.embedding.0.forward', 'embedding', 'embed', 'forward', [], ['parameter:embed.weight']);
  const counts = new Map<string, number>();
  const numbered = (op: string) => {
    const number = counts.get(op) ?? 0;
    counts.set(op, number + 1);
    return number;
  };
  for (let layer = 0; layer < layers; layer += 1) {
    const path = `layers.${modules[layer] ?? layer}`;
    const start = last;
    OPS.forEach((op, position) => {
      const inner = position < 4 ? 'attention' : 'mlp';
      const inputs = op === 'add' ? [last, position === 3 ? start : last - 3] : [last];
      const parameters = op === 'linear' ? [`parameter:${path}.${inner}.weight`] : [];
      last = push(`Functional.${op}.${numbered(op)}.forward`, op, `${path}.${inner}`, 'forward', inputs, parameters);
      if (layer === faulty && op === 'gelu') {
        Object.assign(calls[last] as CallRecord, { class: 'diverged here', error: 0.00327, expected: 9.13e-7 });
      }
    });
    if (layer === 1) {
      for (const [side, op] of [
        ['target', 'chunk'],
        ['target', 'mul'],
        ['golden', 'glu'],
      ] as const) {
        const at = push(`Tensor.${op}.${numbered(op)}.forward`, op, `${path}.mlp`, 'forward', [last]);
        Object.assign(calls[at] as CallRecord, {
          side,
          // The two programs have modules with different names.
          path: side === 'golden' ? `decoder.${layer}` : `${path}.mlp`,
          region: 0,
          class: 'different program',
          error: null,
          expected: null,
        });
      }
    }
  }
  const forward = calls.length;
  last = push('Functional.cross_entropy.0.forward', 'cross_entropy', '', 'forward', [last]);
  for (let call = forward - 1; call >= 0; call -= 1) {
    const source = calls[call];
    if (!source || source.side !== 'both') continue;
    last = push(source.name.replace('.forward', '.backward'), source.op, source.path, 'backward', [last]);
  }
  return calls;
}

export function flowOf(calls: readonly CallRecord[], side: 'target' | 'golden'): FlowSide {
  const names: string[] = ['output.0', 'input.0', 'input.1'];
  const flow: FlowSide = { from: [], to: [], out: [], into: [], names, origins: { to: [], into: [], name: [] } };
  calls.forEach((call, at) => {
    if (call.side !== 'both' && call.side !== side) return;
    call.inputs.forEach((input, position) => {
      flow.from.push(input);
      flow.to.push(at);
      flow.out.push(0);
      flow.into.push(1 + Math.min(position, 1));
    });
    for (const parameter of call.parameters) {
      names.push(parameter);
      flow.origins.to.push(at);
      flow.origins.into.push(2);
      flow.origins.name.push(names.length - 1);
    }
  });
  return flow;
}
