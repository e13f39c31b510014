/** Modules, their calls, and regions in which the two programs differ, as a tree. */
import { classOf } from '../classes.ts';
import type { Calls } from '../data/calls.ts';
import type { Region } from '../payload.ts';

export type Item =
  | { readonly kind: 'module'; readonly module: Module }
  | { readonly kind: 'call'; readonly call: number }
  | { readonly kind: 'region'; readonly region: number };

export interface Module {
  readonly number: number;
  readonly name: string;
  readonly path: string;
  readonly parent: Module | null;
  readonly items: Item[];
  /** Calls in it and below it, by mark. */
  readonly marks: Map<string, number>;
  calls: number;
}

export interface Tree {
  readonly root: Module;
  readonly modules: readonly Module[];
  /** Where each call is: the module that it was made in, or the one that its region is shown in. */
  readonly moduleOf: readonly Module[];
}

export function buildTree(calls: Calls, regions: readonly Region[]): Tree {
  const root = newModule(0, '', '', null);
  const modules = [root];
  const byPath = new Map<string, Module>([['', root]]);
  const moduleOf: Module[] = [];
  const moduleOfRegion = new Map<number, Module>();

  const moduleAt = (path: string): Module => {
    const known = byPath.get(path);
    if (known) return known;
    // Outwards to the first module that is known, then inwards again.
    const missing: string[] = [];
    let outer = path;
    while (!byPath.has(outer)) {
      missing.push(outer);
      const dot = outer.lastIndexOf('.');
      outer = dot < 0 ? '' : outer.slice(0, dot);
    }
    let module = byPath.get(outer) ?? root;
    for (const one of missing.toReversed()) {
      const name = module.path === '' ? one : one.slice(module.path.length + 1);
      const inner = newModule(modules.length, name, one, module);
      module.items.push({ kind: 'module', module: inner });
      modules.push(inner);
      byPath.set(one, inner);
      module = inner;
    }
    return module;
  };

  for (let call = 0; call < calls.length; call += 1) {
    const module = moduleAt(calls.text('path', call));
    const region = calls.number('region', call);
    if (Number.isNaN(region) || !regions[region]) {
      moduleOf.push(module);
      module.items.push({ kind: 'call', call });
    } else {
      // The two sides of a region are in modules with different names: it is shown where its first call is.
      const shownIn = moduleOfRegion.get(region) ?? module;
      if (!moduleOfRegion.has(region)) module.items.push({ kind: 'region', region });
      moduleOfRegion.set(region, shownIn);
      moduleOf.push(shownIn);
    }
    const mark = calls.mark(call);
    for (let outer: Module | null = module; outer; outer = outer.parent) {
      outer.calls += 1;
      outer.marks.set(mark, (outer.marks.get(mark) ?? 0) + 1);
    }
  }
  return { root, modules, moduleOf };
}

/** The mark in a module that needs most attention. */
export function gravest(module: Module): string {
  let found = '';
  for (const mark of module.marks.keys()) if (classOf(mark).weight > classOf(found).weight) found = mark;
  return found;
}

/** Marks that need attention, gravest first, with the number of calls. */
export function graveMarks(module: Module): [string, number][] {
  return [...module.marks]
    .filter(([mark]) => classOf(mark).weight >= 5)
    .sort(([a], [b]) => classOf(b).weight - classOf(a).weight);
}

function newModule(number: number, name: string, path: string, parent: Module | null): Module {
  return { number, name, path, parent, items: [], marks: new Map(), calls: 0 };
}
