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
      Object.assign(manifest.headline, {
        answer: 'agree',
        sentence: 'The two runs agree.',
        more: ['Compared: 12 calls, without any difference.'],
      });
      Object.assign(manifest.ranks[0] ?? {}, { first_call: null });
    }),
  );

  test('no call is blamed, and the first one is selected', async ({ page }) => {
    assert.match(await page.locator('.badge').innerText(), /AGREE/);
    assert.equal(await page.locator('h1').innerText(), 'The two runs agree.');
    assert.match(
      await page.locator('[data-field="cause"]').innerText(),
      /^Compared: 12 calls, without any difference\.$/,
    );
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

describe('two programs that part', () => {
  const SENTENCE =
    'The two programs make different calls. They compute the same up to Tensor.transpose.7, and no longer at Functional.linear.9. 6 calls of the target and 2 calls of the golden lie between.';
  const test = pageTests(
    changed({ layers: 2 }, (manifest) => {
      Object.assign(manifest.headline, { sentence: SENTENCE, more: ['Most calls could not be judged.'] });
      const line = (text: string) => ({ text, verbatim: false });
      manifest.sections = [
        { key: 'what_broke', heading: 'What broke', lines: [line('Most calls could not be judged.'), line(SENTENCE)] },
        {
          key: 'between_in_target',
          heading: 'Between, in the target',
          lines: [line('  Tensor.add.1  /a/b/model.py:3 f: x'), line('* Tensor.mul.2  /a/b/model.py:4 f: <b>y</b>')],
        },
        { key: 'between_in_golden', heading: 'Between, in the golden', lines: [line('no call')] },
        {
          key: 'confidence',
          heading: 'Confidence',
          lines: [line('very high (1.00) that the difference arises between; low (0.41) that Tensor.mul.2 makes it')],
        },
      ];
    }),
  );

  test('the calls between are on the first screen, for both sides', async ({ page }) => {
    assert.equal(
      await page.locator('h1').innerText(),
      'The two programs make different calls. They compute the same up to Tensor.transpose.7, and no longer at Functional.linear.9.',
    );
    assert.match(
      await page.locator('[data-field="cause"]').innerText(),
      /^6 calls of the target[^]*Most calls could not be judged\.$/,
    );
    const between = page.locator('[data-field="between"]');
    assert.match(
      await between.innerText(),
      /Tensor\.add\.1\s+…\/b\/model\.py:3 f: x[^]*<b>y<\/b>[^]*in the golden\s+no call/,
    );
    assert.match(await between.locator('.look').innerText(), /^\*\u00a0Tensor\.mul\.2/);
    const card = await page.locator('[data-field="first-divergence"]').innerText();
    assert.match(card, /Confidence: very high \(1\.00\) that the difference arises between; low \(0\.41\)/);
    assert.equal(await page.locator('.meter').count(), 0);
  });
});
