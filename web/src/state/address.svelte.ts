/** The selection as the fragment of the address, so that a link to a page can point at a call: `#rank=1&call=…`. */
import type { Page } from './page.svelte.ts';

export function addressed(fragment: string): { rank: number; call: string } | null {
  const fields = new URLSearchParams(fragment.replace(/^#/, ''));
  const call = fields.get('call');
  return call === null ? null : { rank: Number(fields.get('rank') ?? 0) || 0, call };
}

/** Follows the selection; must be called while a component is set up. */
export function keepAddress(page: Page): void {
  $effect(() => {
    if (page.view === null || page.call === null) return;
    const fields = new URLSearchParams();
    if (page.view.number > 0) fields.set('rank', String(page.view.number));
    fields.set('call', page.view.calls.text('name', page.call));
    const isDefault = page.view.number === (page.first?.rank ?? 0) && page.call === (page.rank?.first_call ?? 0);
    if (isDefault && location.hash === '') return;
    history.replaceState(null, '', `#${fields}`);
  });
}
