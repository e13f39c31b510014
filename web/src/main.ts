import 'uplot/dist/uPlot.min.css';
import './style/tokens.css';
import './style/base.css';
import './style/print.css';
import { flushSync, mount } from 'svelte';
import App from './App.svelte';
import { nameClasses } from './classes.ts';
import { json, partsOf } from './data/parts.ts';
import { type Manifest, partName } from './payload.ts';
import { addressed } from './state/address.svelte.ts';
import { Page } from './state/page.svelte.ts';

async function start(): Promise<void> {
  const parts = partsOf(document);
  const manifest = await json<Manifest>(parts, partName.manifest);
  if (manifest.schema !== 'ulpscope.page/1')
    throw new Error(`this page cannot show data of the kind "${String(manifest.schema)}"`);
  document.documentElement.lang = manifest.language;
  document.title = `Ulpscope: ${manifest.golden === null ? manifest.target : `${manifest.target} against ${manifest.golden}`}`;
  nameClasses(manifest.words.classes);
  const page = new Page(parts, manifest);
  const wished = addressed(location.hash);
  await page.open(wished?.rank ?? page.first?.rank ?? 0, wished ? undefined : page.first?.call);
  if (wished) page.selectByName(wished.call);
  document.getElementById('static')?.remove();
  const target = document.getElementById('page');
  if (target) mount(App, { target, props: { page } });
  flushSync();
  // The mark of a page that is painted, for the test of its speed.
  requestAnimationFrame(() => setTimeout(() => performance.mark('page-shown')));
}

start().catch((error: unknown) => {
  // The first screen stays, as plain html, for whoever cannot have more.
  const message = document.createElement('p');
  message.setAttribute('role', 'alert');
  message.style.cssText = 'margin: 16px; font: 14px system-ui, sans-serif';
  message.textContent = `This page cannot be shown in full: ${error instanceof Error ? error.message : String(error)}`;
  document.body.prepend(message);
});
