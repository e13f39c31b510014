// The data of a page, as `crates/page` writes it. docs/design/page.md explains it; a change here is a change there.
//
// A page reads named parts. Each is one block of raw deflate (`DecompressionStream("deflate-raw")`):
//
//   in a file     <script type="text/plain" data-part="manifest">BASE64</script>
//   from a server <meta name="ulpscope-parts" content="parts/">, then GET parts/NAME
//
// Both hold the same bytes. Text of a part is UTF-8. Every text comes from files of others: show it as text, never as HTML.

/** Names of parts. `rank` is a number in `manifest.ranks`, `column` one in `manifest.columns`, `call` one of the rank's calls. */
export const partName = {
  manifest: "manifest",
  /** JSON: `Divergence[]`; only if `manifest.divergences` > 0. */
  divergences: "divergences",
  /** JSON: `Heat`; only if `manifest.heat`. */
  heat: "heat",
  /** Column: one chunk of a column of rows, `manifest.chunk_rows` rows each. If it is not there, all its values are missing. */
  rows: (rank: number, column: number, chunk: number) => `rows/${rank}/${column}/${chunk}`,
  /** Column: all calls of a rank. If it is not there, all its values are missing. */
  calls: (rank: number, field: CallField) => `calls/${rank}/${field}`,
  /** JSON: `Flow`; only if `rank.has_flow`. */
  flow: (rank: number) => `flow/${rank}`,
  /** JSON: `Region[]`; only if `rank.regions` > 0. */
  regions: (rank: number) => `regions/${rank}`,
  /** JSON: `CallDetail`; in a file only if the column `detail` has 1 for the call. */
  detail: (rank: number, call: number) => `detail/${rank}/${call}`,
  /** JSON: `Trend`; one for each of `manifest.trends`. */
  trend: (key: string) => `trends/${key}`,
} as const;

// ---------------------------------------------------------------- columns

/**
 * A column as bytes, after inflating:
 *
 *   byte 0      kind: 0 dictionary, 1 float64, 2 float32
 *   byte 1      1 if a bitmap of present values follows (else all are present)
 *   bytes 2, 3  zero
 *   bytes 4..8  number of values, u32 little-endian
 *   bitmap      ceil(n / 8) bytes, value i is bit (i & 7) of byte (i >> 3); only if byte 1 is 1
 *   values      kind 1 and 2: n little-endian numbers whose bytes are transposed: first byte 0 of all numbers, then byte 1 of
 *               all, … (missing values are 0); kind 0: JSON of `Dictionary`, and there is no bitmap
 *
 * The kind of a column may differ from chunk to chunk and from rank to rank.
 */
export enum ColumnKind {
  Dictionary = 0,
  Float64 = 1,
  Float32 = 2,
}

/** Value i is `values[codes[i]]`. `null` is a missing value. Numbers that are not finite are "NaN", "Infinity", "-Infinity". */
export interface Dictionary {
  values: (string | number | null)[];
  codes: number[];
}

// ---------------------------------------------------------------- manifest

export interface Manifest {
  schema: "ulpscope.page/1";
  /** Version of the writer. */
  ulpscope: string;
  kind: PageKind;
  /** What one "call" of the page is: a call, a parameter of a checkpoint, or a tensor. */
  noun: 'call' | 'parameter' | 'tensor';
  /** The words of the first screen, in the language of the page. */
  words: Words;
  /** Language of the sentences and of the first screen: "en" or "zh". Names of fields stay English. */
  language: string;
  /** What was compared or recorded. `golden` is null in a page of one run. */
  target: string;
  golden: string | null;
  noise: string | null;
  /** "native", or the name of an older tool whose rule judged the rows. */
  style: string;
  headline: Headline;
  /** The explanation, as `ulpscope explain` prints it. */
  sections: Section[];
  first: FirstDivergence | null;
  /** How many divergences the part `divergences` lists. */
  divergences: number;
  divergence_count: number;
  /** Findings of a page of one run; empty in others. */
  findings: Finding[];
  finding_count: number;
  /** Rows by verdict over all ranks; only what occurs. */
  counts: Counts;
  /** Calls by class over all ranks; null if calls have no classes. */
  classes: Record<string, number> | null;
  /** Steps and ranks, in order. */
  ranks: Rank[];
  columns: Column[];
  /** What the column `error` of calls holds: "relative error", or "1 - cosine" in an older tool's style; "norm" of a run. */
  error_label: string;
  /** Rows in a chunk of a column; the last one may be shorter. */
  chunk_rows: number;
  /** Whether the part `heat` is there: several ranks or several steps. */
  heat: boolean;
  trends: TrendInfo[];
  /** What to know of how it was done, problems included. */
  notes: string[];
  /** Whether details of any call can be requested (server, and the dumps are there). */
  details_on_demand: boolean;
  /** Why calls lack details or stacks; null if nothing is missing. Shown where a detail would be. */
  missing_details: string | null;
  /** The command that shows all details. */
  view_command: string | null;
}

/** Words of the first screen, about what the page is about. `{count}` stands for a count. */
export const wordKeys = [
  'agree', 'differ', 'inconclusive', 'one_run', 'target', 'golden', 'run', 'step', 'rank', 'part', 'not_compared',
  'first_divergence', 'first_failing', 'forward_pass', 'backward_pass', 'in_golden', 'place', 'module', 'code',
  'golden_code', 'entry', 'why', 'relative_errors', 'found', 'allowed', 'inputs', 'times_allowed', 'confidence',
  'very_high', 'high', 'moderate', 'low', 'inherits', 'inherit', 'replay', 'wrong_in', 'explanation', 'by_class',
  'introduced', 'introduce', 'fails', 'fail_many', 'differs_one', 'differ_many', 'finding', 'findings', 'show_all',
  'show_fewer', 'listed', 'glance', 'model', 'chosen', 'every_row', 'every_entry',
  'noise_floor', 'forward', 'backward', 'in_order', 'drag', 'whole_run', 'first_finding',
] as const;
export type WordKey = (typeof wordKeys)[number];
export type Words = Record<WordKey | 'noun' | 'nouns', string> & {
  /** Classes and findings, by their English names. */
  classes: Record<string, { name: string; meaning: string }>;
};

/** "tensors": two checkpoints or folders of tensors; each "call" is one tensor. "run": a single dump. */
export type PageKind = "comparison" | "tensors" | "run";

export interface Headline {
  answer: "agree" | "differ" | "inconclusive" | "run";
  /** The verdict in one sentence. */
  sentence: string;
  /** What belongs to it: other causes; of an agreement, how much was compared. */
  more: string[];
}

export interface Section {
  /** what_broke, where, how_large, downstream, confidence, other_divergences, compared, tolerance, limitations, next, rule; others may come. */
  key: string;
  heading: string;
  lines: { text: string; /** A command or code: to copy, monospace. */ verbatim: boolean }[];
}

export interface FirstDivergence {
  rank: number;
  /** Number of the call in its rank; null if its row was not found. */
  call: number | null;
  row: number | null;
  name: string;
  golden: string | null;
  module: string | null;
  code: string | null;
  golden_code: string | null;
  entry: string;
  /** "diverged here", "origin differs", "non-finite born here", "different program", "failed". */
  kind: string;
  why: string;
  direction: "forward" | "backward";
  /** 0 to 1. */
  confidence: number;
  /** Relative errors: found; what rounding and the inputs allow; the largest of the inputs. */
  error: NumberOrText | null;
  expected: NumberOrText | null;
  inputs: NumberOrText | null;
  /** Calls that inherited it. */
  downstream: number;
  proof: { verdict: string; wrong_side: string | null; why: string | null } | null;
}

/** Finite numbers are numbers; others the strings "NaN", "Infinity", "-Infinity". */
export type NumberOrText = number | string;

/** Of the part `divergences`: the same fields without code, and why it is one. */
export interface Divergence {
  rank: number;
  call: number | null;
  row: number | null;
  name: string;
  module: string | null;
  code: string | null;
  entry: string;
  kind: string;
  why: string;
  confidence: number;
  error: NumberOrText | null;
  expected: NumberOrText | null;
  downstream: number;
}

/** What a single run shows. */
export interface Finding {
  /** "not finite", "dead", "saturated", "large values", "no gradient", "overflow near". Others may come. */
  kind: string;
  severity: "bad" | "warn";
  rank: number;
  call: number;
  entry: string | null;
  text: string;
  /** The line of the user's code that makes the call, or null. */
  code: string | null;
}

export interface Counts {
  rows: number;
  passed?: number;
  warned?: number;
  failed?: number;
  not_compared?: number;
}

export interface Rank {
  /** For people: "step0 rank1", "" if there is only one. */
  label: string;
  step: number | null;
  /** Name of the rank's folder, "" if there is none. */
  rank: string;
  /** Why it could not be compared; then it has no rows and calls. */
  error: string | null;
  rows: number;
  calls: number;
  counts: Counts;
  classes: Record<string, number> | null;
  has_flow: boolean;
  regions: number;
  /** The call that diverged first in this rank; null if none did. */
  first_call: number | null;
  notes: string[];
}

export interface Column {
  name: string;
  /** What it means, for a tooltip; "" if unknown (columns of older tools). */
  meaning: string;
  /** How it is mostly shown; values of the other type may occur. */
  type: "text" | "number";
  /** Whether the table shows it at first. */
  shown: boolean;
}

// ---------------------------------------------------------------- calls

/**
 * Columns of calls. All kinds of page have the first group.
 *
 * name      text    the call, by its name in the target, or in the golden if the target lacks it
 * pass      text    "forward", "backward", "parameters_grad", "saved"
 * op        text    short name of the operation: "linear", "Linear"
 * path      text    dotted path of the module in which it was made, its own path for a call of a module; "" at the top.
 *                   Of tensors: the dotted name without its last segment
 * row       number  its first row;  rows: number of its rows
 * verdict   text    the worst of its rows: "pass", "not compared", "warn", "fail"
 * code      text    line of the user's code, or null;  stack: all frames, innermost first, lines joined by "\n"
 * detail    number  1 if the part `detail` exists
 *
 * comparison and tensors:
 * golden    text    its name in the golden, or null
 * side      text    "both", "target", "golden"
 * class     text    one of the classes, or null
 * error     number  error of the row that shows most (rel_l2; where only statistics were recorded, the difference of the norms
 *                   over the golden's, which is a lower bound); Infinity where one side is not finite
 * expected  number  what rounding and the inputs allow there (the noise floor); missing where it was not judged
 * golden_code, golden_stack
 * region    number  the region it belongs to; missing for most
 *
 * run:
 * norm, max_abs  number  of its first output;  nan, inf: counts over its outputs
 * zeros          number  share of zeros in its first output, 0 to 1; missing where it was not recorded
 * finding        text    the kind of its worst finding, or null
 */
export type CallField =
  | "name" | "pass" | "op" | "path" | "row" | "rows" | "verdict" | "code" | "stack" | "detail"
  | "golden" | "side" | "class" | "error" | "expected" | "golden_code" | "golden_stack" | "region"
  | "norm" | "max_abs" | "nan" | "inf" | "zeros" | "finding";

/** Classes in the order of their gravity, gravest first. */
export const classes = [
  "non-finite born here",
  "diverged here",
  "origin differs",
  "different program",
  "inherited",
  "not comparable",
  "noise",
  "equal",
] as const;

/**
 * Who feeds whom, in each dump. Numbers are calls of the rank (rows of the columns above). Edge i leads from call `from[i]`,
 * its entry `names[out[i]]` ("output.0"), to call `to[i]`, its entry `names[into[i]]` ("input.1").
 */
export interface FlowSide {
  from: number[];
  to: number[];
  out: number[];
  into: number[];
  names: string[];
  /** What no recorded call produced: "parameter:fc.weight", "buffer:bn.running_mean", "outside". */
  origins: { to: number[]; into: number[]; name: number[] };
}
export interface Flow {
  target: FlowSide;
  /** null in a page of one run. */
  golden: FlowSide | null;
}

/** A part in which the two programs differ, and which is compared as a whole. Numbers are calls of the rank. */
export interface Region {
  /** Paired calls that feed it, and that consume its results. */
  inputs: number[];
  outputs: number[];
  /** The calls of each side in it, in order of execution. */
  target: number[];
  golden: number[];
  /** A sentence on what became of it; null if there is none. */
  text: string | null;
}

// ---------------------------------------------------------------- details of a call

export interface CallDetail {
  entries: EntryDetail[];
  /** What could not be read. */
  problems: string[];
}

export interface EntryDetail {
  /** "input.0", "parameter.weight", "output.0", "parameter_grad.weight" */
  entry: string;
  /** Its row; null if it has none. */
  row: number | null;
  target: EntrySide | null;
  golden: EntrySide | null;
  /** Values of each side in equal bins from `min` to `max`; null without elements. */
  histogram: { min: number; max: number; target: number[] | null; golden: number[] | null } | null;
  /** Values by power of two: bin i counts 2^(from+i) ≤ |x| < 2^(from+i+1). */
  magnitudes: { from: number; target: number[] | null; golden: number[] | null } | null;
  /** Absolute errors by power of two, likewise; `zero` counts equal elements. */
  errors: { from: number; counts: number[]; zero: number; not_finite: number } | null;
  /** The elements that differ most. */
  worst: { index: number[]; target: NumberOrText; golden: NumberOrText; abs: NumberOrText; rel: NumberOrText | null }[];
  /** Elements that were looked at and all, if not all were. */
  sampled: [number, number] | null;
}

export interface EntrySide {
  name: string;
  /** dtype of a tensor, type of a plain value. */
  dtype: string;
  shape: number[] | null;
  /** Text of a plain value; null for a tensor. */
  value: string | null;
  /** Where it comes from, as the dump says; null if it does not. */
  source: string | null;
  /** max, min, mean, norm, nan, pos_inf, neg_inf, zeros, subnormals, finite_max, finite_min: measured, or as recorded. */
  stats: Record<string, NumberOrText>;
  digest: string | null;
}

// ---------------------------------------------------------------- ranks and steps together

/** Ranks by calls. Neighbouring calls share a bin if there are many. */
export interface Heat {
  bins: { name: string; /** Calls of the first rank that has them, for the label. */ count: number }[];
  /** For each rank of `manifest.ranks`: the worst class (comparison) or finding (run) in each bin, as an index in `words`; -1 if it has no such call. */
  worst: number[][];
  words: string[];
  /** Likewise the largest error (comparison) or norm (run); null where there is none, -1 for not finite. */
  error: (number | null)[][];
  /** Likewise the call to select; null if there is none. */
  call: (number | null)[][];
}

export interface TrendInfo {
  key: string;
  /** "Relative error by step", "Norm of gradients", … */
  title: string;
  log: boolean;
  series: number;
}

export interface Trend {
  steps: number[];
  /** `values[i]` belongs to `steps[i]`. `call` is its number in that step's rank, to select it. */
  series: { name: string; rank: string; values: (NumberOrText | null)[]; ranks: (number | null)[]; calls: (number | null)[] }[];
}
