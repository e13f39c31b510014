/** A made-up comparison of two transformers: calls, rows, flow and details in the form of payload.ts. */
import type {
  CallDetail,
  Column,
  Divergence,
  Flow,
  FlowSide,
  Heat,
  Manifest,
  Rank,
  Region,
  Trend,
} from '../../src/payload.ts';
import { columnPart, jsonPart, type PageParts, type Value } from './page_file.ts';

export interface ModelOptions {
  layers?: number;
  ranks?: number;
  steps?: number;
  /** Names of modules to use instead of numbers, for hostile ones. */
  moduleNames?: readonly string[];
  /** At least so many rows. */
  rows?: number;
  chunkRows?: number;
  kind?: 'comparison' | 'run' | 'tensors';
}

interface CallRecord {
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

const OPS = [
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

const NAMES = [
  'call',
  'entry',
  'verdict',
  'why',
  'class',
  'expected',
  'target_name',
  'golden_name',
  'target_dtype',
  'golden_dtype',
  'target_shape',
  'golden_shape',
  'cosine',
  'rel_l2',
  'max_abs',
  'max_ulp',
  'target_max',
  'target_min',
  'target_mean',
  'target_norm',
  'golden_max',
  'golden_min',
  'golden_mean',
  'golden_norm',
  'module',
  'code',
];
const SHOWN = new Set(['call', 'entry', 'verdict', 'expected', 'rel_l2', 'max_abs', 'cosine', 'max_ulp']);
const TEXT = new Set([
  'call',
  'entry',
  'verdict',
  'why',
  'class',
  'target_name',
  'golden_name',
  'target_dtype',
  'golden_dtype',
  'target_shape',
  'golden_shape',
  'module',
  'code',
]);

export const COLUMNS: Column[] = NAMES.map((name) => ({
  name,
  meaning: name === 'rel_l2' ? "Euclidean distance over the golden's norm" : '',
  type: TEXT.has(name) ? 'text' : 'number',
  shown: SHOWN.has(name),
}));

/** Numbers that are the same in every run of the tests. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function makeCalls(layers: number, faulty: number | null, modules: readonly string[], seed: number): CallRecord[] {
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

function flowOf(calls: readonly CallRecord[], side: 'target' | 'golden'): FlowSide {
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

function rowsOf(calls: readonly CallRecord[]): Map<string, Value[]> {
  const rows = new Map<string, Value[]>(NAMES.map((name) => [name, []]));
  const random = randomNumbers(7);
  for (const call of calls) {
    call.row = rows.get('call')?.length ?? 0;
    const entries = call.side === 'both' ? ['input.0', 'input.1', 'output.0'] : ['output.0'];
    entries.forEach((entry, position) => {
      const isResult = entry === 'output.0';
      const error = isResult ? call.error : call.class === 'inherited' ? (call.error ?? 0) * 0.8 : 0;
      const norm = 10 + random() * 90;
      const one = call.side === 'both';
      const values: Record<string, Value> = {
        call: call.name,
        entry,
        class: call.class,
        verdict: !one ? `only in ${call.side}` : isResult ? call.class : (error ?? 0) > 1e-5 ? 'inherited' : 'equal',
        why: isResult && call.class === 'diverged here' ? 'its inputs agree, its output does not' : null,
        expected: isResult ? call.expected : null,
        target_name: call.side === 'golden' ? null : `${call.name}.${entry}`,
        golden_name: call.side === 'target' ? null : `${call.name}.${entry}`,
        target_dtype: 'float32',
        golden_dtype: 'float32',
        target_shape: '[8, 16, 32]',
        golden_shape: '[8, 16, 32]',
        cosine: one ? 1 - (error ?? 0) ** 2 : null,
        rel_l2: one ? error : null,
        max_abs: one ? (error ?? 0) * 0.8 : null,
        max_ulp: one ? Math.round((error ?? 0) * 1e7) : null,
        target_max: 3 + random(),
        target_min: -3 - random(),
        target_mean: random() / 10,
        target_norm: norm,
        golden_max: 3 + random(),
        golden_min: -3 - random(),
        golden_mean: random() / 10,
        golden_norm: norm * (1 + (error ?? 0)),
        module: position === 0 ? call.path : null,
        code:
          position === 0
            ? `model.py:${48 + (call.row % 90)} forward: return x + self.down(self.gelu(self.up(x)))`
            : null,
      };
      for (const name of NAMES) rows.get(name)?.push(values[name] ?? null);
    });
  }
  return rows;
}

function histogramOf(shift: number): number[] {
  return Array.from({ length: 40 }, (_, bin) => Math.round(4096 * Math.exp(-(((bin - 20 - shift) / 6) ** 2))));
}

function detailOf(call: CallRecord, isPair: boolean): CallDetail {
  return {
    problems: [],
    entries: ['input.0', 'output.0'].map((entry, position) => ({
      entry,
      row: call.row + position * 2,
      target: {
        name: `${call.name}.${entry}`,
        dtype: 'float32',
        shape: [8, 16, 32],
        value: null,
        source: 'Functional.linear.4.forward.output.0',
        stats: { max: 3.2, min: -0.17, mean: 0.41, norm: 55.1, nan: 0, pos_inf: 0, neg_inf: 0, zeros: 12 },
        digest: 'a1b2c3d4',
      },
      golden: !isPair
        ? null
        : {
            name: `${call.name}.${entry}`,
            dtype: 'float32',
            shape: [8, 16, 32],
            value: null,
            source: null,
            stats: { max: 3.19, min: -0.17, mean: 0.408, norm: 54.9, nan: 0, pos_inf: 0, neg_inf: 0, zeros: 12 },
            digest: 'a1b2c3d5',
          },
      histogram: { min: -0.2, max: 3.2, target: histogramOf(position), golden: isPair ? histogramOf(0) : null },
      magnitudes: {
        from: -12,
        target: histogramOf(1).slice(8, 24),
        golden: isPair ? histogramOf(0).slice(8, 24) : null,
      },
      errors: position === 0 ? null : { from: -24, counts: histogramOf(-4).slice(0, 20), zero: 210, not_finite: 0 },
      worst:
        position === 0 || !isPair
          ? []
          : [
              { index: [3, 7, 21], target: 1.7190001, golden: 1.7164, abs: 0.00255, rel: 0.00149 },
              { index: [0, 2, 5], target: 'NaN', golden: 0.25, abs: 'NaN', rel: null },
            ],
      sampled: position === 0 ? null : [1048576, 16777216],
    })),
  };
}

/** All parts of a page. */
export function modelParts(options: ModelOptions = {}): PageParts {
  const { ranks: rankCount = 1, steps = 1, moduleNames = [], chunkRows = 4096, kind = 'comparison' } = options;
  const layers = options.rows ? Math.ceil(options.rows / (OPS.length * 6)) + 1 : (options.layers ?? 4);
  const parts: PageParts = new Map();
  const infos: Rank[] = [];
  const divergences: Divergence[] = [];
  const heat: Heat = {
    bins: [],
    worst: [],
    words: ['diverged here', 'different program', 'inherited', 'noise', 'equal'],
    error: [],
    call: [],
  };
  const faulty = Math.min(2, layers - 1);
  for (let step = 0; step < steps; step += 1) {
    for (let rank = 0; rank < rankCount; rank += 1) {
      const number = infos.length;
      const calls = makeCalls(layers, rank % 2 === 0 ? faulty : null, moduleNames, 11 + number);
      const rows = rowsOf(calls);
      const count = rows.get('call')?.length ?? 0;
      const first = calls.findIndex((call) => call.class === 'diverged here');
      const classes: Record<string, number> = {};
      for (const call of calls) classes[call.class] = (classes[call.class] ?? 0) + 1;
      const regions: Region[] = [];
      const inRegion = calls.flatMap((call, at) => (call.region === 0 ? [at] : []));
      if (inRegion.length > 0 && kind === 'comparison') {
        const at = inRegion[0] ?? 0;
        regions.push({
          inputs: [at - 1],
          outputs: [at + 3],
          target: inRegion.filter((one) => calls[one]?.side === 'target'),
          golden: inRegion.filter((one) => calls[one]?.side === 'golden'),
          text: 'A different route to the same result.',
        });
      }
      infos.push({
        label: rankCount * steps > 1 ? `step${step} rank${rank}` : '',
        step: steps > 1 ? step : rankCount > 1 ? 0 : null,
        rank: rankCount > 1 ? `rank${rank}` : '',
        error: null,
        rows: count,
        calls: calls.length,
        counts: { rows: count, passed: count - 20, failed: 20 },
        classes: kind === 'comparison' ? classes : null,
        has_flow: kind !== 'tensors',
        regions: regions.length,
        first_call: kind === 'comparison' && first >= 0 ? first : null,
        notes: [],
      });
      const column = (field: string, value: (call: CallRecord, at: number) => Value) =>
        parts.set(`calls/${number}/${field}`, columnPart(calls.map(value)));
      column('name', (call) => call.name);
      column('pass', (call) => call.pass);
      column('op', (call) => call.op);
      column('path', (call) => call.path);
      column('row', (call) => call.row);
      column('rows', (call) => (call.side === 'both' ? 3 : 1));
      column('verdict', (call) => (call.class === 'equal' || call.class === 'noise' ? 'pass' : 'fail'));
      column('code', (call) => `model.py:${48 + (call.row % 90)} forward`);
      column(
        'stack',
        (call) =>
          `model.py:${48 + (call.row % 90)} forward: return x + self.down(x)\ntrain.py:12 main: loss = model(tokens)`,
      );
      column('detail', (_, at) => (at === first || kind !== 'comparison' ? 1 : 0));
      if (kind === 'run') {
        column('norm', (_, at) => 10 + (at % 17) * 3);
        column('max_abs', (_, at) => 1 + (at % 5));
        column('nan', (_, at) => (at === first ? 3 : 0));
        column('inf', () => 0);
        column('zeros', (_, at) => (at % 13 === 0 ? 1 : 0.1));
        column('finding', (_, at) => (at === first ? 'not finite' : at % 13 === 0 ? 'dead' : null));
      } else {
        column('golden', (call) => (call.side === 'target' ? null : call.name));
        column('side', (call) => call.side);
        column('class', (call) => call.class);
        column('error', (call) => call.error);
        column('expected', (call) => call.expected);
        column('golden_code', (call) => `golden/model.py:${48 + (call.row % 90)} forward`);
        column('golden_stack', () => null);
        column('region', (call) => call.region);
      }
      if (kind !== 'tensors')
        parts.set(
          `flow/${number}`,
          jsonPart({
            target: flowOf(calls, 'target'),
            golden: kind === 'run' ? null : flowOf(calls, 'golden'),
          } satisfies Flow),
        );
      if (regions.length > 0) parts.set(`regions/${number}`, jsonPart(regions));
      COLUMNS.forEach(({ name }, at) => {
        const values = rows.get(name) ?? [];
        for (let chunk = 0; chunk * chunkRows < count; chunk += 1)
          parts.set(
            `rows/${number}/${at}/${chunk}`,
            columnPart(values.slice(chunk * chunkRows, (chunk + 1) * chunkRows)),
          );
      });
      const detailed = kind === 'comparison' ? [first] : calls.map((_, at) => at);
      for (const at of detailed)
        if (calls[at]) parts.set(`detail/${number}/${at}`, jsonPart(detailOf(calls[at], kind !== 'run')));
      if (first >= 0)
        divergences.push({
          rank: number,
          call: first,
          row: (calls[first]?.row ?? 0) + 2,
          name: calls[first]?.name ?? '',
          module: calls[first]?.path ?? null,
          code: 'model.py:48 forward',
          entry: 'output.0',
          kind: 'diverged here',
          why: 'its inputs agree, its output does not',
          confidence: 0.98,
          error: 0.00327,
          expected: 9.13e-7,
          downstream: 137,
        });
      heat.bins = calls.map((call) => ({ name: call.name, count: 1 }));
      heat.worst.push(calls.map((call) => heat.words.indexOf(call.class)));
      heat.error.push(calls.map((call) => call.error));
      heat.call.push(calls.map((_, at) => at));
    }
  }
  const info = divergences[0];
  const isComparison = kind === 'comparison';
  const manifest: Manifest = {
    schema: 'ulpscope.page/1',
    ulpscope: '0.0.0',
    kind,
    language: 'en',
    target: 'runs/npu',
    golden: kind === 'run' ? null : 'runs/gpu',
    noise: null,
    style: 'native',
    error_label: kind === 'run' ? 'norm' : 'relative error',
    headline:
      kind === 'run'
        ? { answer: 'run', sentence: '1 of 3 steps has values that are not finite.' }
        : { answer: 'differ', sentence: 'Functional.gelu.2 returns a different result from matching inputs.' },
    sections: [
      {
        key: 'what_broke',
        heading: 'What broke',
        lines: [{ text: 'Functional.gelu.2 returns a different result from matching inputs.', verbatim: false }],
      },
      {
        key: 'how_large',
        heading: 'How large',
        lines: [
          { text: 'Relative distance 0.00327, largest error 0.00255.', verbatim: false },
          { text: 'That is 3,580 × what rounding and the inputs allow (9.13e-07).', verbatim: false },
        ],
      },
      { key: 'downstream', heading: 'Downstream', lines: [{ text: '137 calls inherit the error.', verbatim: false }] },
      { key: 'confidence', heading: 'Confidence', lines: [{ text: 'very high (0.98)', verbatim: false }] },
      {
        key: 'next',
        heading: 'Next',
        lines: [
          { text: 'See which elements differ, and by how much:', verbatim: false },
          {
            text: 'ulpscope diff runs/npu:Functional.gelu.2.forward.output.0 runs/gpu:Functional.gelu.2.forward.output.0',
            verbatim: true,
          },
        ],
      },
    ],
    first:
      isComparison && info
        ? {
            ...info,
            golden: info.name,
            code: 'model.py:48 forward: return x + self.down(self.gelu(self.up(x)))',
            golden_code: null,
            direction: 'forward',
            inputs: 0,
            proof: null,
          }
        : null,
    divergences: isComparison ? divergences.length : 0,
    divergence_count: divergences.length,
    findings:
      kind === 'run'
        ? [
            {
              kind: 'not finite',
              severity: 'bad',
              rank: 0,
              call: info?.call ?? 0,
              entry: 'output.0',
              text: '3 elements are NaN.',
            },
            { kind: 'dead', severity: 'warn', rank: 0, call: 13, entry: null, text: 'All elements are zero.' },
          ]
        : [],
    finding_count: kind === 'run' ? 2 : 0,
    counts: { rows: infos.reduce((sum, one) => sum + one.rows, 0), passed: 900, failed: 100 },
    classes: isComparison
      ? infos.reduce<Record<string, number>>((sum, one) => {
          for (const [name, value] of Object.entries(one.classes ?? {})) sum[name] = (sum[name] ?? 0) + value;
          return sum;
        }, {})
      : null,
    ranks: infos,
    columns: COLUMNS,
    chunk_rows: chunkRows,
    heat: infos.length > 1,
    trends: steps > 1 ? [{ key: 'error', title: 'Relative error by step', log: true, series: 2 }] : [],
    notes: ['The noise floor was estimated from the calls of this run.'],
    details_on_demand: false,
    missing_details: 'Values are included for the calls most likely to be looked at.',
    view_command: 'ulpscope view result',
  };
  parts.set('manifest', jsonPart(manifest));
  if (manifest.divergences > 0) parts.set('divergences', jsonPart(divergences));
  if (manifest.heat) parts.set('heat', jsonPart(heat));
  if (steps > 1) {
    const numbers = Array.from({ length: steps }, (_, step) => step);
    const trend: Trend = {
      steps: numbers,
      series: ['layers.2.mlp', 'embed'].map((name, at) => ({
        name,
        rank: '',
        values: numbers.map((step) => (at === 0 ? 1e-3 * 1.3 ** step : 1e-7)),
        ranks: numbers.map((step) => step * rankCount),
        calls: numbers.map(() => 1),
      })),
    };
    parts.set('trends/error', jsonPart(trend));
  }
  return parts;
}
