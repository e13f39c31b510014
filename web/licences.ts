import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The licences of the packages whose code is in the page, as their authors ask for, for a comment of html. */
export function licencesOf(modules: Iterable<string>): string {
  const folders = new Set<string>();
  for (const module of modules) {
    const [folder] = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(module.replaceAll('\\', '/')) ?? [];
    if (folder) folders.add(folder);
  }
  const texts = [...folders].sort().map((folder) => {
    const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length);
    const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    if (!file) throw new Error(`${name} has no licence: its code must not be in the page`);
    return `This page contains code of ${name}:\n\n${readFileSync(join(folder, file), 'utf8').trim()}`;
  });
  // Two hyphens could end the comment.
  return texts.join('\n\n').replaceAll('--', '- -');
}
