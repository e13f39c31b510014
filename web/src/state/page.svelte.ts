/** What the page shows: its data, the step and rank in view, and the selected call. */
import { Calls } from '../data/calls.ts';
import { FlowIndex } from '../data/flow.ts';
import { json, type Parts } from '../data/parts.ts';
import { Rows } from '../data/rows.ts';
import { type Flow, type Manifest, partName, type Region, type WordKey } from '../payload.ts';
import { counted } from '../text/number.ts';

/** Data of the step and rank in view. */
export interface RankView {
  readonly number: number;
  readonly calls: Calls;
  readonly rows: Rows;
  readonly regions: readonly Region[];
}

export type Side = 'target' | 'golden';

export class Page {
  /** Counts up when rows arrive that were asked for. */
  arrivals = $state(0);
  view = $state.raw<RankView | null>(null);
  call = $state<number | null>(null);
  /** Why the rank in view could not be read. */
  problem = $state<string | null>(null);
  readonly #views = new Map<number, RankView>();
  readonly #flows = new Map<string, Promise<FlowIndex | null>>();

  constructor(
    readonly parts: Parts,
    readonly manifest: Manifest,
  ) {}

  /** What one "call" of this page is. */
  get noun(): Manifest['noun'] {
    return this.manifest.noun;
  }

  /** Whether the page is about tensors that no call made, such as those of a checkpoint. */
  get isSaved(): boolean {
    return this.manifest.noun !== 'call';
  }

  /** A word of the first screen, in the language of the page. */
  say(key: WordKey, count: number | string = ''): string {
    const { words } = this.manifest;
    const text = typeof count === 'number' ? counted(count) : count;
    return words[key].replace('{count}', text);
  }

  /** What to look at first: the first divergence, or the gravest finding of a run. */
  get first(): { readonly rank: number; readonly call: number | null } | null {
    return this.manifest.first ?? this.manifest.findings[0] ?? null;
  }

  get rank() {
    return this.manifest.ranks[this.view?.number ?? 0];
  }

  /** Shows a step and rank, and selects a call of it. Without a call: its first divergence. */
  async open(rank: number, call?: number | null): Promise<void> {
    const info = this.manifest.ranks[rank];
    if (!info) return;
    try {
      const view = this.#views.get(rank) ?? (await this.#load(rank));
      this.view = view;
      this.problem = info.error;
      const wished = call ?? info.first_call ?? firstFinding(this.manifest, rank) ?? 0;
      this.call = wished < view.calls.length ? wished : null;
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    }
  }

  select(call: number | null): void {
    if (call === null || (call >= 0 && call < (this.view?.calls.length ?? 0))) this.call = call;
  }

  /** Keeps the selection when another step or rank comes into view, if it has a call of that name. */
  selectByName(name: string): void {
    const calls = this.view?.calls;
    if (!calls || name === '') return;
    for (let call = 0; call < calls.length; call += 1) {
      if (calls.text('name', call) === name) return this.select(call);
    }
  }

  /** The data flow of one side; null where none was recorded. */
  flow(rank: number, side: Side): Promise<FlowIndex | null> {
    if (!this.manifest.ranks[rank]?.has_flow) return Promise.resolve(null);
    const key = `${rank} ${side}`;
    let request = this.#flows.get(key);
    if (!request) {
      request = json<Flow>(this.parts, partName.flow(rank)).then((flow) => {
        const found = flow[side];
        return found ? new FlowIndex(found) : null;
      });
      this.#flows.set(key, request);
    }
    return request;
  }

  async #load(rank: number): Promise<RankView> {
    const info = this.manifest.ranks[rank];
    const regions = info?.regions ? json<Region[]>(this.parts, partName.regions(rank)) : Promise.resolve([]);
    const view = {
      number: rank,
      calls: await Calls.load(this.parts, this.manifest, rank),
      rows: new Rows(this.parts, this.manifest, rank, () => (this.arrivals += 1)),
      regions: await regions,
    };
    this.#views.set(rank, view);
    return view;
  }
}

function firstFinding(manifest: Manifest, rank: number): number | undefined {
  return manifest.findings.find((finding) => finding.rank === rank)?.call;
}
