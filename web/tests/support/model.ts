/** A made-up comparison of two transformers, a run or two checkpoints, in the form of payload.ts. */
import type { Divergence, Flow, Heat, Manifest, Rank, Region, Trend } from '../../src/payload.ts';
import { type CallRecord, flowOf, makeCalls, OPS } from './model_calls.ts';
import { COLUMNS, detailOf, rowsOf } from './model_rows.ts';
import { wordsOf } from './words.ts';
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
  language?: 'en' | 'zh';
}

const LIBRARY_FRAMES = [1790, 1779, 253].map(
  (line) =>
    `File /env/lib/python3.11/site-packages/torch/nn/modules/module.py, line ${line}, in _wrapped_call_impl, f()`,
);

/** All parts of a page. */
export function modelParts(options: ModelOptions = {}): PageParts {
  const {
    ranks: rankCount = 1,
    steps = 1,
    moduleNames = [],
    chunkRows = 4096,
    kind = 'comparison',
    language = 'en',
  } = options;
  const noun = kind === 'tensors' ? 'parameter' : 'call';
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
      column('stack', (call) =>
        [
          `model.py:${48 + (call.row % 90)} forward: return x + self.down(x)`,
          ...LIBRARY_FRAMES,
          'train.py:12 main: loss = model(tokens)',
        ].join('\n'),
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
    language,
    noun,
    words: wordsOf(language === 'zh' ? 'chinese' : 'english', noun),
    target: 'runs/npu',
    golden: kind === 'run' ? null : 'runs/gpu',
    noise: null,
    style: 'native',
    error_label: kind === 'run' ? 'norm' : 'relative error',
    headline:
      kind === 'run'
        ? { answer: 'run', sentence: '1 of 3 steps has values that are not finite.', more: [] }
        : {
            answer: 'differ',
            sentence: 'Functional.gelu.2 returns a different result from matching inputs.',
            more: [],
          },
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
      {
        key: 'confidence',
        heading: 'Confidence',
        lines: [{ text: `${language === 'zh' ? '很高' : 'very high'} (0.98)`, verbatim: false }],
      },
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
              rank: infos.length - 1,
              call: info?.call ?? 0,
              entry: 'output.0',
              text: '3 elements are NaN.',
              code: '/home/me/project/src/model.py:48 forward: return x + self.down(self.gelu(self.up(x)))',
            },
            ...infos.map((_, rank) => ({
              kind: 'dead',
              severity: 'warn' as const,
              rank,
              call: 13,
              entry: null,
              text: 'All elements are zero.',
              code: null,
            })),
          ]
        : [],
    finding_count: kind === 'run' ? 1 + infos.length : 0,
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
