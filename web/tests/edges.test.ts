/** Results of unusual shape: nothing compared, a rank that could not be read, everything agrees, columns left out. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import type { Manifest } from '../src/payload.ts';
import { eventually, pageTests, shows } from './support/cases.ts';
import { modelParts, type ModelOptions } from './support/model.ts';
import { jsonPart, type PageParts } from './support/page_file.ts';

function changed(options: ModelOptions, change: (manifest: Manifest, parts: PageParts) => void): () => PageParts {
  return () => {
    const parts = modelParts(options);
    const manifest = JSON.parse(String(parts.get('manifest'))) as Manifest;
    change(manifest, parts);
    parts.set('manifest', jsonPart(manifest));
    return parts;
  };
}

describe('nothing was compared', () => {
  const test = pageTests(
    changed({ layers: 1 }, (manifest, parts) => {
      for (const name of parts.keys()) if (name !== 'manifest') parts.delete(name);
      Object.assign(manifest, { first: null, divergences: 0, classes: null, counts: { rows: 0 } });
      Object.assign(manifest.headline, { answer: 'inconclusive', sentence: 'Nothing could be paired.' });
      Object.assign(manifest.ranks[0] ?? {}, { calls: 0, rows: 0, has_flow: false, regions: 0, first_call: null });
    }),
  );

  test('the page says so and has no rows', async ({ page }) => {
    assert.equal(await page.locator('h1').innerText(), 'Nothing could be paired.');
    assert.match(await page.locator('.badge').innerText(), /INCONCLUSIVE/);
    assert.equal(await page.locator('[data-field="row-count"]').innerText(), '0 rows');
    assert.match(await page.locator('#call').innerText(), /No call is selected/);
    for (const view of ['error', 'tree', 'table']) {
      await page.locator(`[data-chart="${view}"], [data-view="${view}"]`).focus();
      for (const key of ['ArrowDown', 'ArrowRight', 'End', 'Enter', '+']) await page.keyboard.press(key);
    }
  });
});

describe('a rank could not be compared', () => {
  const test = pageTests(
    changed({ layers: 2, ranks: 2 }, (manifest) => {
      const error = 'rank1: dump.json ends in the middle of a call';
      Object.assign(manifest.ranks[1] ?? {}, {
        error,
        calls: 0,
        rows: 0,
        has_flow: false,
        regions: 0,
        first_call: null,
      });
    }),
  );

  test('it says why, and the others can be seen', async ({ page }) => {
    await page.locator('[data-field="rank"]').selectOption('rank1');
    await eventually(
      () => page.locator('#glance').innerText(),
      (text) => text.includes('ends in the middle of a call'),
      'the reason',
    );
    await page.locator('[data-field="rank"]').selectOption('rank0');
    await shows(page, 'Functional.gelu.1.forward');
    assert.equal(await page.getByRole('alert').count(), 0);
  });
});

describe('everything agrees', () => {
  const test = pageTests(
    changed({ layers: 2 }, (manifest) => {
      Object.assign(manifest, { first: null, divergences: 0, divergence_count: 0 });
      Object.assign(manifest.headline, { answer: 'agree', sentence: 'Everything was compared and agrees.' });
      Object.assign(manifest.ranks[0] ?? {}, { first_call: null });
    }),
  );

  test('no call is blamed, and the first one is selected', async ({ page }) => {
    assert.match(await page.locator('.badge').innerText(), /AGREE/);
    assert.equal(await page.locator('[data-field="first-divergence"]').count(), 0);
    await shows(page, 'Functional.embedding.0.forward');
    await page.keyboard.press('f');
    await shows(page, 'Functional.embedding.0.forward');
  });
});

describe('columns without values are left out', () => {
  const test = pageTests(
    changed({ layers: 2 }, (_, parts) => {
      for (const name of parts.keys()) {
        if (/^calls\/0\/(region|golden_stack|stack|code|expected)$|^rows\/0\/(3|15)\//.test(name)) parts.delete(name);
      }
    }),
  );

  test('their values are missing, and nothing else', async ({ page }) => {
    await shows(page, 'Functional.gelu.1.forward');
    await page.locator('[data-field="entry-panel"]').waitFor();
    assert.match(await page.locator('[data-view="table"]').innerText(), /diverged here/);
    assert.match(await page.locator('[data-field="stacks"]').innerText(), /golden\/model\.py/);
  });
});

describe('details that the server cannot make', () => {
  const test = pageTests(
    changed({ layers: 2 }, (manifest) => {
      manifest.details_on_demand = true;
    }),
  );

  test('the call is shown without them', async ({ page }) => {
    await page.locator('[data-list="producers"] button').first().click();
    await shows(page, 'Functional.linear.4.forward');
    await page.locator('[data-field="entry-panel"]').waitFor();
    assert.match(await page.locator('[data-field="entry-panel"]').innerText(), /rel_l2/);
  });
});
