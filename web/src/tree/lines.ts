/** The lines of the tree that are open, in order. */
import { classOf } from '../classes.ts';
import type { Calls } from '../data/calls.ts';
import type { Region } from '../payload.ts';
import type { Item, Module, Tree } from './build.ts';

export type Line =
  | {
      readonly kind: 'module';
      readonly level: number;
      readonly key: string;
      readonly module: Module;
      readonly isOpen: boolean;
    }
  | { readonly kind: 'call'; readonly level: number; readonly key: string; readonly call: number }
  | {
      readonly kind: 'region';
      readonly level: number;
      readonly key: string;
      readonly region: number;
      readonly isOpen: boolean;
    }
  /** Over the lines of an open region: which side is which. */
  | { readonly kind: 'heads'; readonly level: number; readonly key: string }
  /** One line of an open region: a call of each side, where both still have one. */
  | {
      readonly kind: 'sides';
      readonly level: number;
      readonly key: string;
      readonly target: number | null;
      readonly golden: number | null;
    };

export const moduleKey = (module: Module) => `m${module.number}`;
export const regionKey = (region: number) => `r${region}`;

export function openLines(
  tree: Tree,
  calls: Calls,
  regions: readonly Region[],
  open: ReadonlySet<string>,
  hidesAgreeing: boolean,
): Line[] {
  const lines: Line[] = [];
  const isHidden = (call: number) => hidesAgreeing && classOf(calls.mark(call)).weight <= 2;
  // A stack of its own instead of recursion: paths come from files and may have any depth.
  const waiting: { items: readonly Item[]; next: number; level: number }[] = [
    { items: tree.root.items, next: 0, level: 1 },
  ];
  for (let top = waiting.at(-1); top; top = waiting.at(-1)) {
    const item = top.items[top.next];
    top.next += 1;
    if (!item) {
      waiting.pop();
    } else if (item.kind === 'call') {
      if (!isHidden(item.call)) lines.push({ kind: 'call', level: top.level, key: `c${item.call}`, call: item.call });
    } else if (item.kind === 'module') {
      if (hidesAgreeing && ![...item.module.marks.keys()].some((mark) => classOf(mark).weight > 2)) continue;
      const key = moduleKey(item.module);
      const isOpen = open.has(key);
      lines.push({ kind: 'module', level: top.level, key, module: item.module, isOpen });
      if (isOpen) waiting.push({ items: item.module.items, next: 0, level: top.level + 1 });
    } else {
      const key = regionKey(item.region);
      const isOpen = open.has(key);
      lines.push({ kind: 'region', level: top.level, key, region: item.region, isOpen });
      const region = regions[item.region];
      if (!isOpen || !region) continue;
      lines.push({ kind: 'heads', level: top.level + 1, key: `${key}.heads` });
      for (let at = 0; at < Math.max(region.target.length, region.golden.length); at += 1) {
        const [target, golden] = [region.target[at] ?? null, region.golden[at] ?? null];
        lines.push({ kind: 'sides', level: top.level + 1, key: `${key}.${at}`, target, golden });
      }
    }
  }
  return lines;
}
